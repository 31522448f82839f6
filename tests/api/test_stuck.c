/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric that never frees its endpoints (TRYST_FAULT=stuck=1). Closing waits for the
 * time-out once, logs the reason and the peer, and leaves the memory that the fabric may
 * still touch. */
#include "harness.h"

#include "support/patience.h"
#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>

static char logged[4096];
/* keeps the context's memory reachable, so that the leak checker accepts it */
static tryst_ctx *kept;

static void log_keep(void *arg, tryst_log_level level, const char *line)
{
    size_t used = strlen(logged);
    if (level == TRYST_LOG_ERROR)
        snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

static void stuck_main(struct harness_rank *rank)
{
    static char out[100], in[100], never[100];
    int peer = rank->size - 1 - rank->rank;
    char text[64];
    harness_open(rank);
    kept = rank->ctx;
    tryst_step *step = harness_step(rank, 1);
    tryst_op *recv = harness_recv(rank, step, peer, "x", in, sizeof in);
    harness_end(harness_send(rank, step, peer, "x", out, sizeof out), TRYST_OK);
    harness_end(recv, TRYST_OK);
    tryst_op *pending = harness_recv(rank, step, peer, "never", never, sizeof never);
    harness_barrier(rank, rank->arg);
    uint64_t begin_ns = harness_now_ns();
    tryst_group_close(rank->group);
    uint64_t took_ms = (harness_now_ns() - begin_ns) / 1000000;
    CHECK(took_ms >= 9000); /* the close waited for the fabric */
    snprintf(text, sizeof text, "has not released the endpoint to rank %d (", peer);
    if (!strstr(logged, text))
        harness_fail(__FILE__, __LINE__, "the log lacks that line: %s", logged);
    size_t said = strlen(logged);
    CHECK(tryst_op_test(pending) != TRYST_OK);
    tryst_progress(rank->ctx); /* progress has no effect on the closed group */
    begin_ns = harness_now_ns();
    tryst_close(rank->ctx);
    took_ms = (harness_now_ns() - begin_ns) / 1000000;
    CHECK(took_ms < patience_ns(2000)); /* the close does not wait a second time */
    CHECK_EQ(strlen(logged), said);
    tryst_op_release(pending);
    harness_barrier(rank, rank->arg);
}

static void test_stuck(void **state)
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {.size = harness_has_processes() ? 2 : 1,
                                    .main = stuck_main,
                                    .arg = counter,
                                    .timeout_s = 60,
                                    .no_group = true,
                                    .log_fn = log_keep};
    int failed = harness_run(&params);
    harness_unshare(counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stuck)};
    return HARNESS_MAIN(argc, argv, tests);
}
