/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's bootstrap server against peers without the token, and against members that
 * send garbage. The server must never crash, never wait for one of them, and must end
 * once all are gone and the time-out has passed.
 *
 * The input is a script over a few connections. The script can request a valid HELLO or
 * PROOF, since no fuzzer guesses a MAC. The clock is a fake one. The server runs in this
 * thread. */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "rendezvous/bootstrap/session/bootstrap_server.h"
#include "support/fake_clock.h"

enum { PEERS = 6, COMMANDS_MAX = 100, RANKS = 3, RUN_MAX = 6000 };

static const char token_text[] = "a token for the fuzzer";

struct peer {
    int fd; /* -1: not connected */
    struct bootstrap_wire_greeting hello;
    struct bootstrap_wire_greeting challenge;
};

struct play {
    struct fuzz_input input;
    struct clock_fake clock;
    struct server *server;
    int listener;
    struct sockaddr_un address;
    socklen_t address_bytes;
    struct peer peers[PEERS]; /* the first one is rank 0 */
    bool ended;
};

static void turns(struct play *play, int count)
{
    for (int i = 0; i < count && !play->ended; i++)
        play->ended = !server_progress(play->server, false);
}

/* ---- actions of a peer ------------------------------------------------------------- */

static void peer_connect(struct play *play, struct peer *peer)
{
    if (peer->fd >= 0)
        return;
    peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FUZZ_CHECK(peer->fd >= 0);
    FUZZ_CHECK(
        connect(peer->fd, (struct sockaddr *)&play->address, play->address_bytes) == 0);
    turns(play, 1);
}

static void peer_close(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

static void peer_send(struct peer *peer, const void *data, size_t bytes)
{
    if (peer->fd >= 0)
        (void)!send(peer->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Read everything that has arrived; the last `bytes` of it end up at the end of
 * `data_p`. */
static void peer_drain(struct peer *peer, void *data_p, size_t bytes)
{
    uint8_t room[4096];
    ssize_t got;
    while (peer->fd >= 0 && (got = recv(peer->fd, room, sizeof room, MSG_DONTWAIT)) > 0)
        if ((size_t)got == bytes)
            memcpy(data_p, room, bytes);
}

static void peer_greet(struct play *play, struct peer *peer)
{
    peer->hello = (struct bootstrap_wire_greeting){.magic = BOOTSTRAP_WIRE_MAGIC,
                                                   .version = BOOTSTRAP_WIRE_VERSION};
    peer_drain(peer, NULL, 0);
    peer_send(peer, &peer->hello, sizeof peer->hello);
    turns(play, 2);
    peer_drain(peer, &peer->challenge, sizeof peer->challenge);
}

static void peer_prove(struct play *play, struct peer *peer)
{
    static const struct bootstrap_token token = {token_text, sizeof token_text - 1};
    struct bootstrap_wire_proof proof = {.rank = fuzz_byte(&play->input) % (RANKS + 1u),
                                         .size = RANKS,
                                         .pid = 1,
                                         .host = "fuzz",
                                         .job = "fuzz's"};
    uint8_t what = fuzz_byte(&play->input) % 16;
    proof.size += what == 15;
    proof.job[0] += what == 14;
    bootstrap_mac(&token, BOOTSTRAP_ROLE_CLIENT, &proof, NULL, peer->hello.nonce,
                  peer->challenge.nonce, proof.mac);
    peer_send(peer, &proof, sizeof proof);
    turns(play, 2);
}

/* Send a member's request, with up to three bytes of its head changed. */
static void peer_request(struct play *play, struct peer *peer)
{
    struct fuzz_input *input = &play->input;
    uint8_t what = fuzz_byte(input);
    size_t bytes;
    size_t wanted = what & 128 ? fuzz_byte(input) * (size_t)24 : fuzz_byte(input);
    uint8_t *run = fuzz_run(input, wanted, RUN_MAX, &bytes);
    struct bootstrap_wire_frame frame = {.type = 1 + what % 8u,
                                         .sequence = what / 8 % 2,
                                         .timeout_ns = NS_PER_S,
                                         .patience_ns = NS_PER_S,
                                         .bytes = bytes};
    uint8_t head[sizeof frame];
    memcpy(head, &frame, sizeof frame);
    for (int changes = fuzz_byte(input) % 4; changes > 0; changes--) {
        uint8_t at = fuzz_byte(input) % sizeof head;
        head[at] ^= fuzz_byte(input);
    }
    peer_send(peer, head, sizeof head);
    peer_send(peer, run, bytes);
    free(run);
    turns(play, 3);
}

static void peer_babble(struct play *play, struct peer *peer)
{
    size_t bytes;
    uint8_t *run = fuzz_run(&play->input, fuzz_byte(&play->input), RUN_MAX, &bytes);
    peer_send(peer, run, bytes);
    free(run);
    turns(play, 2);
}

static void command(struct play *play)
{
    uint8_t what = fuzz_byte(&play->input);
    struct peer *peer = &play->peers[what / 8 % PEERS];
    switch (what % 8) {
    case 0: peer_connect(play, peer); break;
    case 1: peer_greet(play, peer); break;
    case 2: peer_prove(play, peer); break;
    case 3: peer_babble(play, peer); break;
    case 4: peer_close(peer); break;
    case 5:
        clock_fake_advance(&play->clock, fuzz_byte(&play->input) * 50 * NS_PER_MS);
        turns(play, 1);
        break;
    case 6: peer_drain(peer, NULL, 0); break;
    default: peer_request(play, peer); break;
    }
}

/* ---- one session ------------------------------------------------------------------- */

static void play_begin(struct play *play)
{
    const struct bootstrap_params params = {.rank = 0,
                                            .size = RANKS,
                                            .address = "fuzz:1",
                                            .job = "fuzz's",
                                            .token = token_text,
                                            .token_bytes = sizeof token_text - 1,
                                            .timeout_ns = 10 * NS_PER_S,
                                            .clock = &play->clock.clock};
    struct bootstrap_listeners listeners = {.count = 1};
    struct err err = ERR_INIT;
    int own[2];
    clock_fake_init(&play->clock, NS_PER_S);
    for (int i = 0; i < PEERS; i++)
        play->peers[i].fd = -1;
    play->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    play->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    play->address_bytes = sizeof play->address;
    FUZZ_CHECK(play->listener >= 0);
    /* no name given: the kernel chooses one */
    FUZZ_CHECK(bind(play->listener, (struct sockaddr *)&play->address,
                    sizeof(sa_family_t)) == 0);
    FUZZ_CHECK(getsockname(play->listener, (struct sockaddr *)&play->address,
                           &play->address_bytes) == 0);
    FUZZ_CHECK(listen(play->listener, 64) == 0);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, own) ==
               0);
    play->peers[0].fd = own[0];
    listeners.fds[0] = play->listener;
    FUZZ_CHECK(server_open(&params, &listeners, own[1], &err, &play->server) == TRYST_OK);
}

/* Disconnect all, rank 0 too: the server must end, at the latest after the time-out. */
static void play_end(struct play *play)
{
    for (int i = PEERS - 1; i >= 0; i--)
        peer_close(&play->peers[i]);
    for (int i = 0; i < 10 && !play->ended; i++) {
        turns(play, 20);
        clock_fake_advance(&play->clock, 5 * NS_PER_S);
    }
    FUZZ_CHECK(play->ended);
    server_close(play->server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct play play;
    struct err err = ERR_INIT;
    FUZZ_CHECK(bootstrap_auth_init(&err) == TRYST_OK);
    uint64_t live = alloc_live_count();
    play = (struct play){.input = {data, bytes}};
    play_begin(&play);
    for (int i = 0; i < COMMANDS_MAX && play.input.bytes && !play.ended; i++)
        command(&play);
    play_end(&play);
    FUZZ_CHECK(alloc_live_count() == live);
    return 0;
}
