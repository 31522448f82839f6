/* SPDX-License-Identifier: Apache-2.0 */
/* Peers from outside the job, and members that break the protocol. Outsiders learn
 * nothing and cost nothing, and the ranks come together all the same. A member that
 * breaks the protocol is named. */
#include "bootstrap_job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "core/os/random.h"
#include "rendezvous/bootstrap/session/bootstrap_auth.h"
#include "rendezvous/bootstrap/session/bootstrap_wire.h"
#include "support/fake_clock.h"
#include "support/patience.h"

#define PATIENCE_MS 10000

static const struct bootstrap_token token = {JOB_TOKEN, sizeof JOB_TOKEN - 1};

/* ---- a peer that speaks the protocol by hand --------------------------------------- */

struct peer {
    int fd;
    struct bootstrap_wire_greeting hello;
    struct bootstrap_wire_greeting challenge;
    struct bootstrap_wire_proof proof;
    struct bootstrap_wire_verdict verdict;
};

static int peer_connect(const struct job *job)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port =
                                 htons((uint16_t)atoi(strchr(job->address, ':') + 1))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Read until `bytes` have come or the other end closes; return how many came. */
static size_t peer_read(int fd, void *data, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
        ssize_t came = recv(fd, (char *)data + got, bytes - got, 0);
        if (came <= 0)
            break;
        got += (size_t)came;
    }
    return got;
}

static void peer_send(int fd, const void *data, size_t bytes)
{
    /* The server may have closed already; that is an answer too. */
    ssize_t sent = send(fd, data, bytes, MSG_NOSIGNAL);
    (void)sent;
}

static void peer_greet(struct peer *peer, const struct job *job, uint32_t version)
{
    peer->fd = peer_connect(job);
    peer->hello = (struct bootstrap_wire_greeting){.magic = BOOTSTRAP_WIRE_MAGIC,
                                                   .version = version};
    memset(peer->hello.nonce, 7, sizeof peer->hello.nonce);
    peer_send(peer->fd, &peer->hello, sizeof peer->hello);
    assert_int_equal(peer_read(peer->fd, &peer->challenge, sizeof peer->challenge),
                     sizeof peer->challenge);
}

static void proof_make(struct peer *peer, enum bootstrap_role role, int rank, int size)
{
    peer->proof = (struct bootstrap_wire_proof){
        .rank = (uint32_t)rank, .size = (uint32_t)size, .pid = 1, .host = "by hand"};
    bootstrap_mac(&token, role, &peer->proof, NULL, peer->hello.nonce,
                  peer->challenge.nonce, peer->proof.mac);
}

static uint32_t peer_prove(struct peer *peer)
{
    peer_send(peer->fd, &peer->proof, sizeof peer->proof);
    assert_int_equal(peer_read(peer->fd, &peer->verdict, sizeof peer->verdict),
                     sizeof peer->verdict);
    return peer->verdict.code;
}

static void peer_join(struct peer *peer, const struct job *job, int rank)
{
    peer_greet(peer, job, BOOTSTRAP_WIRE_VERSION);
    proof_make(peer, BOOTSTRAP_ROLE_CLIENT, rank, job->size);
    assert_int_equal(peer_prove(peer), BOOTSTRAP_VERDICT_OK);
}

/* Check that no more bytes come and the connection is closed, after `PATIENCE_MS` at
 * most. */
static void peer_expect_closed(int fd)
{
    char byte;
    assert_int_equal(peer_read(fd, &byte, 1), 0);
}

/* ---- a job that waits for its last rank while the test attacks its server ---------- */

static void job_begin(struct job *job, int size)
{
    job_init(job, size, AF_INET);
    for (int rank = 0; rank < size - 1; rank++)
        pthread_create(&job->ranks[rank].thread, NULL, job_rank_main, &job->ranks[rank]);
}

static void job_finish(struct job *job)
{
    int last = job->size - 1;
    pthread_create(&job->ranks[last].thread, NULL, job_rank_main, &job->ranks[last]);
    job_join(job);
    job_expect(job, TRYST_OK, NULL);
}

/* ---- without the token ------------------------------------------------------------- */

static void silent_connections_do_no_harm(void **state)
{
    struct job job;
    int fds[200];
    uint64_t began_ns = clock_monotonic_ns();
    job_begin(&job, 4);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = peer_connect(&job);
    job_finish(&job);
    assert_true(clock_monotonic_ns() - began_ns < patience_ns(10 * NS_PER_S));
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        close(fds[i]);
}

/* Of 200 connections that greet and then send nothing, the server keeps at most 64 + size
 * and allocates no more memory for them. */
static void half_open_connections_are_bounded(void **state)
{
    struct job job;
    struct peer peers[200];
    size_t open_count = 0;
    job_begin(&job, 4);
    peer_greet(&peers[0], &job, BOOTSTRAP_WIRE_VERSION);
    /* all three ranks have joined, and have sent what they request */
    job_settle(&job, 3);
    uint64_t live = alloc_live_count(), seen = alloc_seen_count();
    for (size_t i = 1; i < COUNT_OF(peers); i++)
        peer_greet(&peers[i], &job, BOOTSTRAP_WIRE_VERSION);
    assert_int_equal(alloc_live_count(), live);
    assert_int_equal(alloc_seen_count(), seen);
    for (size_t i = 0; i < COUNT_OF(peers); i++) {
        struct pollfd poll_fd = {.fd = peers[i].fd, .events = POLLIN};
        bool is_open = poll(&poll_fd, 1, 0) == 0;
        open_count += is_open;
        /* The server closes the oldest connections first. */
        if (i >= COUNT_OF(peers) - 64)
            assert_true(is_open);
    }
    assert_true(open_count <= 64 + 4);
    job_finish(&job);
    for (size_t i = 0; i < COUNT_OF(peers); i++)
        close(peers[i].fd);
}

static void half_open_connections_end_in_time(void **state)
{
    struct job job;
    struct clock_fake fake;
    struct peer peer;
    clock_fake_init(&fake, 1);
    job_init(&job, 2, AF_INET);
    job.ranks[0].params.clock = &fake.clock;
    pthread_create(&job.ranks[0].thread, NULL, job_rank_main, &job.ranks[0]);
    int silent = peer_connect(&job);
    peer_greet(&peer, &job, BOOTSTRAP_WIRE_VERSION);
    clock_fake_advance(&fake, 4900 * NS_PER_MS);
    usleep(100000);
    struct pollfd polls[2] = {{.fd = silent, .events = POLLIN},
                              {.fd = peer.fd, .events = POLLIN}};
    assert_int_equal(poll(polls, 2, 0), 0);
    clock_fake_advance(&fake, 200 * NS_PER_MS);
    peer_expect_closed(silent);
    peer_expect_closed(peer.fd);
    close(silent);
    close(peer.fd);
    job_finish(&job);
}

/* A peer without the token receives a nonce, a version and a refusal, but no MAC from the
 * server. */
static void stranger_learns_nothing(void **state)
{
    static const uint8_t zeros[BOOTSTRAP_MAC_BYTES];
    struct job job;
    struct peer peer;
    job_begin(&job, 2);
    for (int attempt = 0; attempt < 3; attempt++) {
        peer_greet(&peer, &job, BOOTSTRAP_WIRE_VERSION);
        proof_make(&peer, BOOTSTRAP_ROLE_CLIENT, attempt == 2 ? 77 : 1, attempt ? 9 : 2);
        peer.proof.mac[attempt] ^= 1;
        assert_int_equal(peer_prove(&peer), BOOTSTRAP_VERDICT_DENIED);
        assert_memory_equal(peer.verdict.mac, zeros, sizeof zeros);
        shutdown(peer.fd, SHUT_WR);
        peer_expect_closed(peer.fd);
        close(peer.fd);
    }
    job_finish(&job);
}

/* The identity of the job is for ranks that have proved the token. */
static void stranger_learns_no_job(void **state)
{
    static const char zeros[BOOTSTRAP_JOB_BYTES];
    struct job job;
    struct peer peer;
    job_init(&job, 2, AF_INET);
    job.ranks[0].params.job = job.ranks[1].params.job = "TRYST_JOB=7";
    pthread_create(&job.ranks[0].thread, NULL, job_rank_main, &job.ranks[0]);
    for (int denied = 0; denied < 2; denied++) {
        peer_greet(&peer, &job, BOOTSTRAP_WIRE_VERSION);
        proof_make(&peer, BOOTSTRAP_ROLE_CLIENT, 1, 2);
        peer.proof.mac[0] ^= (uint8_t)denied;
        assert_int_equal(peer_prove(&peer),
                         denied ? BOOTSTRAP_VERDICT_DENIED : BOOTSTRAP_VERDICT_JOB);
        if (denied)
            assert_memory_equal(peer.verdict.job, zeros, sizeof zeros);
        else
            assert_string_equal(peer.verdict.job, "TRYST_JOB=7");
        close(peer.fd);
    }
    job_finish(&job);
}

/* A proof that was good on one connection must fail on another, as must a proof of the
 * other role. */
static void proofs_do_not_replay(void **state)
{
    struct job job;
    struct peer first, second;
    job_begin(&job, 2);
    peer_greet(&first, &job, BOOTSTRAP_WIRE_VERSION);
    proof_make(&first, BOOTSTRAP_ROLE_CLIENT, 1, 2);
    peer_greet(&second, &job, BOOTSTRAP_WIRE_VERSION);
    assert_memory_not_equal(first.challenge.nonce, second.challenge.nonce,
                            BOOTSTRAP_NONCE_BYTES);
    second.proof = first.proof; /* the same client nonce and the same proof */
    assert_int_equal(peer_prove(&second), BOOTSTRAP_VERDICT_DENIED);
    close(second.fd);
    close(first.fd);
    peer_greet(&second, &job, BOOTSTRAP_WIRE_VERSION);
    proof_make(&second, BOOTSTRAP_ROLE_SERVER, 1, 2);
    assert_int_equal(peer_prove(&second), BOOTSTRAP_VERDICT_DENIED);
    close(second.fd);
    job_finish(&job);
}

/* A change in any field that the MAC covers must be denied. */
static void changed_proofs_are_denied(void **state)
{
    struct job job;
    struct peer peer;
    job_begin(&job, 2);
    for (size_t at = 0; at < sizeof peer.proof; at++) {
        struct bootstrap_wire_proof good;
        if (at >= offsetof(struct bootstrap_wire_proof, reserved) &&
            at < offsetof(struct bootstrap_wire_proof, host))
            continue;
        peer_greet(&peer, &job, BOOTSTRAP_WIRE_VERSION);
        proof_make(&peer, BOOTSTRAP_ROLE_CLIENT, 1, 2);
        good = peer.proof;
        ((uint8_t *)&peer.proof)[at] ^= 0x40;
        assert_memory_not_equal(&good, &peer.proof, sizeof good);
        assert_int_equal(peer_prove(&peer), BOOTSTRAP_VERDICT_DENIED);
        close(peer.fd);
    }
    job_finish(&job);
}

static void cut_off_at_every_byte(void **state)
{
    struct job job;
    struct peer peer;
    job_begin(&job, 2);
    for (size_t bytes = 0; bytes < sizeof peer.hello; bytes++) {
        int fd = peer_connect(&job);
        peer.hello = (struct bootstrap_wire_greeting){.magic = BOOTSTRAP_WIRE_MAGIC,
                                                      .version = BOOTSTRAP_WIRE_VERSION};
        peer_send(fd, &peer.hello, bytes);
        close(fd);
    }
    for (size_t bytes = 0; bytes < sizeof peer.proof; bytes++) {
        peer_greet(&peer, &job, BOOTSTRAP_WIRE_VERSION);
        proof_make(&peer, BOOTSTRAP_ROLE_CLIENT, 1, 2);
        peer_send(peer.fd, &peer.proof, bytes);
        close(peer.fd);
    }
    job_finish(&job);
}

static void noise_does_no_harm(void **state)
{
    struct job job;
    struct random random;
    uint8_t noise[600];
    random_seed(&random, unit_seed());
    job_begin(&job, 3);
    for (int i = 0; i < 300; i++) {
        struct peer peer;
        size_t bytes = (size_t)random_range(&random, sizeof noise);
        for (size_t at = 0; at < bytes; at++)
            noise[at] = (uint8_t)random_u64(&random);
        if (i % 2) {
            peer_greet(&peer, &job, BOOTSTRAP_WIRE_VERSION);
        } else {
            peer.fd = peer_connect(&job);
        }
        peer_send(peer.fd, noise, bytes);
        close(peer.fd);
    }
    job_finish(&job);
}

static void another_version_is_told_ours(void **state)
{
    struct job job;
    struct peer peer;
    job_init(&job, 2, AF_INET);
    job.ranks[0].params.timeout_ns = 500 * NS_PER_MS;
    job.ranks[1].absent = true;
    job_start(&job);
    peer_greet(&peer, &job, 99);
    assert_int_equal(peer.challenge.version, BOOTSTRAP_WIRE_VERSION);
    shutdown(peer.fd, SHUT_WR);
    peer_expect_closed(peer.fd);
    close(peer.fd);
    job_join(&job);
    job_expect(&job, TRYST_E_BOOTSTRAP, "has bootstrap version 99, this rank has 3");
}

/* ---- members that misbehave -------------------------------------------------------- */

struct misdeed {
    const char *name;
    struct bootstrap_wire_frame frame;
    size_t payload_bytes; /* zeros that follow the frame */
    bool twice;
};

static void misdeed_is_named(const struct misdeed *misdeed)
{
    struct job job;
    struct peer peer;
    uint8_t zeros[8192] = {0};
    /* With a fourth rank that never comes, nothing can be complete before the second
     * request. */
    job_init(&job, misdeed->twice ? 4 : 3, AF_INET);
    for (int rank = 2; rank < job.size; rank++)
        job.ranks[rank].absent = true;
    job_start(&job);
    peer_join(&peer, &job, 2);
    for (int i = 0; i <= misdeed->twice; i++) {
        peer_send(peer.fd, &misdeed->frame, sizeof misdeed->frame);
        peer_send(peer.fd, zeros, misdeed->payload_bytes);
    }
    /* The offender receives the error too; the ranks then end without waiting for it. */
    struct bootstrap_wire_frame told;
    assert_int_equal(peer_read(peer.fd, &told, sizeof told), sizeof told);
    assert_int_equal(told.type, BOOTSTRAP_FRAME_FAILED);
    close(peer.fd);
    for (int rank = 0; rank < 2; rank++) {
        pthread_join(job.ranks[rank].thread, NULL);
        if (job.ranks[rank].status != TRYST_E_PROTOCOL)
            print_error("%s: %d %s\n", misdeed->name, job.ranks[rank].status,
                        job.ranks[rank].err.text);
        assert_int_equal(job.ranks[rank].status, TRYST_E_PROTOCOL);
        assert_non_null(strstr(job.ranks[rank].err.text, "rank 2 (pid 1 on by hand"));
    }
}

static void broken_protocol_is_named(void **state)
{
    static const struct misdeed misdeeds[] = {
        {"unknown", {.type = 99}, 0, false},
        {"type 0", {.type = 0}, 0, false},
        {"reply as request", {.type = BOOTSTRAP_FRAME_RESULT}, 0, false},
        {"huge gather", {.type = BOOTSTRAP_FRAME_GATHER, .bytes = UINT64_MAX}, 0, false},
        {"large gather",
         {.type = BOOTSTRAP_FRAME_GATHER, .bytes = BOOTSTRAP_GATHER_MAX / 3 + 1},
         0,
         false},
        {"wrong turn",
         {.type = BOOTSTRAP_FRAME_GATHER, .sequence = 5, .bytes = 40},
         0,
         false},
        {"endless wait",
         {.type = BOOTSTRAP_FRAME_GATHER, .bytes = 40, .timeout_ns = UINT64_MAX},
         40,
         false},
        {"two at once",
         {.type = BOOTSTRAP_FRAME_GATHER, .bytes = 40, .timeout_ns = 5 * NS_PER_S},
         40,
         true},
        {"type 3, of an older version", {.type = 3, .bytes = 64}, 64, false},
        {"broadcast of another rank",
         {.type = BOOTSTRAP_FRAME_BROADCAST, .sequence = 1, .bytes = 8},
         8,
         false},
        {"huge broadcast",
         {.type = BOOTSTRAP_FRAME_BROADCAST, .bytes = BOOTSTRAP_GATHER_MAX + 1},
         0,
         false},
        {"talkative bye", {.type = BOOTSTRAP_FRAME_BYE, .bytes = 1}, 1, false},
        {"long abort", {.type = BOOTSTRAP_FRAME_ABORT, .bytes = 512}, 512, false},
    };
    for (size_t i = 0; i < COUNT_OF(misdeeds); i++)
        misdeed_is_named(&misdeeds[i]);
}

/* A proven member sends noise. The others must end with an error text. */
static void noise_of_a_member_ends_in_an_error(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 30; round++) {
        struct job job;
        struct peer peer;
        job_begin(&job, 3);
        peer_join(&peer, &job, 2);
        for (int i = 0; i < 20; i++) {
            struct bootstrap_wire_frame frame = {
                .type = (uint32_t)random_range(&random, 9),
                .status = (int32_t)random_range(&random, 400),
                .sequence = random_range(&random, 2),
                .timeout_ns = NS_PER_S,
                .bytes = random_range(&random, 100)};
            uint8_t payload[100];
            for (size_t at = 0; at < sizeof payload; at++)
                payload[at] = (uint8_t)random_u64(&random);
            peer_send(peer.fd, &frame, sizeof frame);
            peer_send(peer.fd, payload, (size_t)frame.bytes);
        }
        close(peer.fd);
        for (int rank = 0; rank < 2; rank++) {
            pthread_join(job.ranks[rank].thread, NULL);
            assert_int_not_equal(job.ranks[rank].status, TRYST_OK);
            assert_true(strlen(job.ranks[rank].err.text) > 10);
        }
    }
}

/* ---- servers from outside the job -------------------------------------------------- */

struct impostor {
    int listen_fd;
    uint32_t version;
    uint64_t magic;
    uint32_t code;
};

/* Accept one connection and answer as `arg` says, with random MACs. */
static void *impostor_main(void *arg)
{
    struct impostor *impostor = arg;
    struct bootstrap_wire_greeting hello;
    struct bootstrap_wire_proof proof;
    struct bootstrap_wire_greeting challenge = {.magic = impostor->magic,
                                                .version = impostor->version};
    struct bootstrap_wire_verdict verdict = {.code = impostor->code, .mac = {1, 2, 3}};
    int fd = accept(impostor->listen_fd, NULL, NULL);
    size_t got = peer_read(fd, &hello, sizeof hello);
    if (got == sizeof hello)
        peer_send(fd, &challenge, sizeof challenge);
    got = peer_read(fd, &proof, sizeof proof);
    if (got == sizeof proof)
        peer_send(fd, &verdict, sizeof verdict);
    peer_read(fd, &proof, 1);
    close(fd);
    return NULL;
}

static void impostors_are_found_out(void **state)
{
    static const struct {
        struct impostor impostor;
        tryst_status status;
        const char *text;
    } cases[] = {
        {{.magic = 1, .version = BOOTSTRAP_WIRE_VERSION},
         TRYST_E_HANDSHAKE,
         "not a Tryst bootstrap server"},
        {{.magic = BOOTSTRAP_WIRE_MAGIC, .version = 9},
         TRYST_E_HANDSHAKE,
         "has bootstrap version 9, this rank 1 has version 3"},
        {{.magic = BOOTSTRAP_WIRE_MAGIC,
          .version = BOOTSTRAP_WIRE_VERSION,
          .code = BOOTSTRAP_VERDICT_OK},
         TRYST_E_TOKEN,
         "does not have the job's token"},
        {{.magic = BOOTSTRAP_WIRE_MAGIC,
          .version = BOOTSTRAP_WIRE_VERSION,
          .code = BOOTSTRAP_VERDICT_AGAIN},
         TRYST_E_TOKEN,
         "does not have the job's token"},
        {{.magic = BOOTSTRAP_WIRE_MAGIC, .version = BOOTSTRAP_WIRE_VERSION, .code = 77},
         TRYST_E_PROTOCOL,
         "invalid verdict"},
        {{.magic = BOOTSTRAP_WIRE_MAGIC,
          .version = BOOTSTRAP_WIRE_VERSION,
          .code = BOOTSTRAP_VERDICT_DENIED},
         TRYST_E_TOKEN,
         "did not accept the token of rank 1"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct job job;
        struct impostor impostor = cases[i].impostor;
        pthread_t thread;
        job_init(&job, 2, AF_INET);
        job.ranks[0].absent = true;
        impostor.listen_fd = job.listen_fd;
        pthread_create(&thread, NULL, impostor_main, &impostor);
        job_run(&job);
        pthread_join(thread, NULL);
        job_expect(&job, cases[i].status, cases[i].text);
        close(job.listen_fd);
    }
}

/* ---- decoders ---------------------------------------------------------------------- */

static void decoders_bear_anything(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int i = 0; i < 200000; i++) {
        union {
            struct bootstrap_wire_frame frame;
            struct bootstrap_wire_proof proof;
            uint8_t bytes[ERR_TEXT_BYTES];
        } data;
        struct bootstrap_wire_frame frame;
        struct bootstrap_wire_proof proof;
        struct bootstrap_wire_verdict verdict;
        uint32_t size = 1 + (uint32_t)random_range(&random, 1000);
        size_t capacity = (size_t)random_range(&random, 1000);
        for (size_t at = 0; at < sizeof data.bytes; at += 8) {
            uint64_t word = random_u64(&random);
            memcpy(data.bytes + at, &word, 8);
        }
        if (i % 2)
            data.frame.type %= 9; /* the verdict's code too */
        if (i % 4 >= 2)
            data.frame.bytes %= 6000;
        if (i % 8 >= 4)
            data.frame.timeout_ns %= NS_PER_S;
        if (bootstrap_request_decode(&data, size, &frame)) {
            assert_true(frame.bytes * size <= BOOTSTRAP_GATHER_MAX ||
                        frame.type == BOOTSTRAP_FRAME_BROADCAST ||
                        frame.bytes < ERR_TEXT_BYTES);
            assert_true(frame.type >= 1 && frame.type <= 5 && frame.type != 3);
        }
        if (bootstrap_reply_decode(&data, capacity, &frame))
            assert_true(frame.bytes == capacity || frame.bytes < ERR_TEXT_BYTES);
        if (bootstrap_proof_decode(&data, &proof))
            assert_true(strlen(proof.host) < sizeof proof.host &&
                        strlen(proof.job) < sizeof proof.job);
        if (bootstrap_verdict_decode(&data, &verdict))
            assert_true(strlen(verdict.job) < sizeof verdict.job);
        tryst_status status = bootstrap_status_decode((int32_t)data.frame.status);
        assert_true(status >= 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections_do_no_harm),
        cmocka_unit_test(half_open_connections_are_bounded),
        cmocka_unit_test(half_open_connections_end_in_time),
        cmocka_unit_test(stranger_learns_nothing),
        cmocka_unit_test(stranger_learns_no_job),
        cmocka_unit_test(proofs_do_not_replay),
        cmocka_unit_test(changed_proofs_are_denied),
        cmocka_unit_test(cut_off_at_every_byte),
        cmocka_unit_test(noise_does_no_harm),
        cmocka_unit_test(another_version_is_told_ours),
        cmocka_unit_test(broken_protocol_is_named),
        cmocka_unit_test(noise_of_a_member_ends_in_an_error),
        cmocka_unit_test(impostors_are_found_out),
        cmocka_unit_test(decoders_bear_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
