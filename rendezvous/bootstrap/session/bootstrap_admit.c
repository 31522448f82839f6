/* SPDX-License-Identifier: Apache-2.0 */
/* Admission to the bootstrap session.
 *
 * One idea: nothing from a connection is trusted, and it receives nothing secret, before
 * its MAC has been checked. After that it belongs to the job, and a contradiction
 * (another size, a rank that is taken) is the job's failure and is reported to all.
 * Invariant: an unproved connection costs its slot and, once, one HMAC. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap_admit.h"
#include "bootstrap_serve.h"
#include "bootstrap_server.h"
#include "bootstrap_text.h"
#include "core/os/random.h"
#include "core/text/text.h"

/* Note a refused connection, for the sentence that names missing ranks: one of them may
 * have opened it. */
static void refused_note(struct server *server, const struct conn *conn, const char *why)
{
    char peer[BOOTSTRAP_PEER_TEXT_BYTES];
    server->refused_count++;
    snprintf(server->refused, sizeof server->refused, "%.60s %s",
             bootstrap_peer_text(&conn->peer, peer), why);
    if (server->refused_count == 1)
        LOG_WARN(server->log, "bootstrap: refused a connection: %s", server->refused);
}

void admit_hello(struct server *server, struct conn *conn)
{
    struct bootstrap_wire_greeting hello;
    struct bootstrap_wire_greeting challenge = {.magic = BOOTSTRAP_WIRE_MAGIC,
                                                .version = BOOTSTRAP_WIRE_VERSION};
    bool is_hello = bootstrap_greeting_decode(conn->in, &hello);
    if (!is_hello || random_secret(challenge.nonce, sizeof challenge.nonce) != TRYST_OK) {
        refused_note(server, conn,
                     is_hello ? "got no challenge: rank 0 has no random bytes"
                              : "sent no bootstrap HELLO");
        conn_close(conn);
        return;
    }
    bool same = hello.version == BOOTSTRAP_WIRE_VERSION;
    if (!same) {
        char why[64];
        snprintf(why, sizeof why, "has bootstrap version %u, this rank has %u",
                 hello.version, BOOTSTRAP_WIRE_VERSION);
        refused_note(server, conn, why);
    }
    memcpy(conn->client_nonce, hello.nonce, sizeof conn->client_nonce);
    memcpy(conn->server_nonce, challenge.nonce, sizeof conn->server_nonce);
    conn_write(server, conn, &challenge, sizeof challenge, NULL, 0,
               same ? CONN_PROOF : CONN_LINGER);
}

static bool proof_holds(const struct server *server, const struct conn *conn,
                        const struct bootstrap_wire_proof *proof)
{
    uint8_t mac[BOOTSTRAP_MAC_BYTES];
    bootstrap_mac(&server->token, BOOTSTRAP_ROLE_CLIENT, proof, NULL, conn->client_nonce,
                  conn->server_nonce, mac);
    return bootstrap_mac_equal(mac, proof->mac);
}

static void verdict_write(struct server *server, struct conn *conn,
                          const struct bootstrap_wire_proof *proof,
                          enum bootstrap_verdict code, enum conn_state after)
{
    static const char no_job[BOOTSTRAP_JOB_BYTES];
    struct bootstrap_wire_verdict verdict = {.code = code};
    const char *job = code == BOOTSTRAP_VERDICT_DENIED ? no_job : server->job;
    memcpy(verdict.job, job, sizeof verdict.job);
    if (code != BOOTSTRAP_VERDICT_DENIED)
        bootstrap_mac(&server->token, BOOTSTRAP_ROLE_SERVER, proof, &verdict,
                      conn->client_nonce, conn->server_nonce, verdict.mac);
    conn_write(server, conn, &verdict, offsetof(struct bootstrap_wire_verdict, job), job,
               sizeof verdict.job, after);
}

static void host_copy(char host_p[BOOTSTRAP_HOST_BYTES], const char *host)
{
    text_escape(host, strnlen(host, BOOTSTRAP_HOST_BYTES - 1), host_p,
                BOOTSTRAP_HOST_BYTES);
}

/* Fail the session if two processes of the job contradict each other; true if they do. */
static bool contradicts(struct server *server, const struct conn *conn,
                        const struct bootstrap_wire_proof *proof)
{
    char host[BOOTSTRAP_HOST_BYTES], other[MEMBER_TEXT_BYTES],
        peer[BOOTSTRAP_PEER_TEXT_BYTES];
    host_copy(host, proof->host);
    bootstrap_peer_text(&conn->peer, peer);
    if (proof->size != (uint32_t)server->size) {
        serve_fail(server, TRYST_E_GROUP,
                   "rank %u (pid %u on %s, %s) belongs to a job of %u ranks, rank 0 to "
                   "one of %d; give all ranks the same TRYST_SIZE",
                   proof->rank, proof->pid, host, peer, proof->size, server->size);
        return true;
    }
    if (proof->rank >= (uint32_t)server->size) {
        serve_fail(server, TRYST_E_GROUP,
                   "pid %u on %s (%s) claims rank %u of a job of %d ranks; set its "
                   "TRYST_RANK to 0 to %d",
                   proof->pid, host, peer, proof->rank, server->size, server->size - 1);
        return true;
    }
    if (server->members[proof->rank].joined) {
        serve_fail(server, TRYST_E_GROUP,
                   "two processes claim one rank: %s and pid %u on %s (%s); give each a "
                   "different TRYST_RANK",
                   member_text(server, (int)proof->rank, other), proof->pid, host, peer);
        return true;
    }
    return false;
}

static void member_join(struct server *server, struct conn *conn, int rank, uint32_t pid,
                        const char *host)
{
    struct member *member = &server->members[rank];
    conn->rank = rank;
    member->joined = true;
    member->pid = pid;
    member->peer = conn->peer;
    host_copy(member->host, host);
    server->joined_count++;
    LOG_INFO(server->log, "bootstrap: rank %d of %d joined (pid %u on %s), %d so far",
             rank, server->size, pid, member->host, server->joined_count);
}

/* True if the rank has left this session in order, and connects for its next session
 * while this session waits for other ranks to leave. */
static bool comes_again(const struct server *server,
                        const struct bootstrap_wire_proof *proof)
{
    return proof->size == (uint32_t)server->size && proof->rank < proof->size &&
           server->members[proof->rank].left;
}

/* True if the rank belongs to another job; this session goes on. */
static bool is_of_another_job(struct server *server, const struct conn *conn,
                              const struct bootstrap_wire_proof *proof)
{
    char host[BOOTSTRAP_HOST_BYTES], why[352], theirs[BOOTSTRAP_JOB_TEXT_BYTES],
        mine[BOOTSTRAP_JOB_TEXT_BYTES];
    if (strcmp(proof->job, server->job) == 0)
        return false;
    host_copy(host, proof->host);
    snprintf(why, sizeof why,
             "is rank %u (pid %u on %s) of another job: %.96s there, %.96s here",
             proof->rank, proof->pid, host, job_text(proof->job, theirs),
             job_text(server->job, mine));
    refused_note(server, conn, why);
    return true;
}

void admit_proof(struct server *server, struct conn *conn)
{
    struct bootstrap_wire_proof proof;
    if (!bootstrap_proof_decode(conn->in, &proof) || !proof_holds(server, conn, &proof)) {
        refused_note(server, conn, "did not prove the token");
        verdict_write(server, conn, &proof, BOOTSTRAP_VERDICT_DENIED, CONN_LINGER);
        return;
    }
    if (is_of_another_job(server, conn, &proof)) {
        verdict_write(server, conn, &proof, BOOTSTRAP_VERDICT_JOB, CONN_LINGER);
        return;
    }
    if (comes_again(server, &proof) && server->failure.status == TRYST_OK) {
        verdict_write(server, conn, &proof, BOOTSTRAP_VERDICT_AGAIN, CONN_LINGER);
        return;
    }
    conn->proved = true;
    if (!contradicts(server, conn, &proof))
        member_join(server, conn, (int)proof.rank, proof.pid, proof.host);
    verdict_write(server, conn, &proof, BOOTSTRAP_VERDICT_OK, CONN_HEADER);
}

void admit_own(struct server *server, struct conn *conn)
{
    char host[BOOTSTRAP_HOST_BYTES];
    host_name_read("?", host);
    conn->state = CONN_HEADER;
    conn->proved = true;
    member_join(server, conn, 0, (uint32_t)getpid(), host);
}
