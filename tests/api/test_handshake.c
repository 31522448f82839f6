/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that do not fit together: an older library, a setting that differs and must be
 * equal, or a topology of another number of ranks. Every rank gets the status and a text
 * that names the difference, the values and the ranks.
 *
 * The caller's all-gather imitates an older peer: it changes the blob of one rank. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, BLOB_MAX = 64 * 1024 };

struct meeting {
    _Atomic(uint32_t) given;
    _Atomic(uint32_t) turns; /* number of all-gathers that have ended */
    /* rank 2 has the wire version before the current one */
    bool old;
    /* the blobs of a turn are read until the next turn has ended */
    char blobs[2][RANKS][BLOB_MAX];
};

/* Lower the wire version of a rank's entry, which begins with wire version and byte order
 * (rendezvous/bootstrap/roster/roster.h). */
static void version_lower(char *blob, size_t bytes)
{
    uint32_t words[2];
    if (bytes < sizeof words)
        return;
    memcpy(words, blob, sizeof words);
    words[0] -= words[1] == 0x01020304;
    memcpy(blob, words, sizeof words);
}

static int meeting_gather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct harness_rank *rank = arg;
    struct meeting *meeting = rank->arg;
    uint32_t turn = atomic_load(&meeting->turns);
    char(*blobs)[BLOB_MAX] = meeting->blobs[turn % 2];
    char *blob = blobs[rank->rank];
    CHECK(bytes <= BLOB_MAX);
    memcpy(blob, mine, bytes);
    if (meeting->old && rank->rank == 2)
        version_lower(blob, bytes);
    if (atomic_fetch_add(&meeting->given, 1) + 1 == RANKS * (turn + 1))
        atomic_store(&meeting->turns, turn + 1);
    while (atomic_load(&meeting->turns) == turn)
        harness_sleep_ms(1);
    for (int i = 0; i < RANKS; i++)
        memcpy((char *)all + (size_t)i * bytes, blobs[i], bytes);
    return 0;
}

static void text_expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        harness_fail(__FILE__, __LINE__, "\"%s\" does not contain \"%s\"", text, part);
}

/* Return the wire version that the text gives a rank: "rank 2 has wire version 4", or
 * "rank 0 has 5". */
static unsigned long version_of(const char *text, int rank)
{
    char speaks[32];
    snprintf(speaks, sizeof speaks, "rank %d has ", rank);
    const char *at = strstr(text, speaks);
    if (!at)
        harness_fail(__FILE__, __LINE__, "\"%s\" does not contain \"%s\"", text, speaks);
    at += strlen(speaks);
    return strtoul(at + strcspn(at, "0123456789"), NULL, 10);
}

static tryst_ctx *context_open(const struct harness_rank *rank)
{
    tryst_ctx *ctx;
    tryst_config *config = harness_config(rank);
    tryst_open_params params = {
        .struct_size = sizeof params, .config = config, .log_fn = rank->params->log_fn};
    CHECK_STATUS(tryst_open(&params, &ctx), TRYST_OK);
    tryst_config_close(config);
    return ctx;
}

static void log_line(void *arg, tryst_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line; /* the expected text is logged as well */
}

static void old_main(struct harness_rank *rank)
{
    tryst_group *group = NULL;
    tryst_ctx *ctx = context_open(rank);
    tryst_group_params params = {.struct_size = sizeof params,
                                 .allgather = meeting_gather,
                                 .allgather_arg = rank,
                                 .rank = rank->rank,
                                 .size = rank->size};
    CHECK_STATUS(tryst_group_open(ctx, &params, &group), TRYST_E_HANDSHAKE);
    text_expect(tryst_last_error(), "rank 2 has");
    text_expect(tryst_last_error(), "has wire version");
    CHECK_EQ(version_of(tryst_last_error(), 2) + 1,
             version_of(tryst_last_error(), rank->rank == 2 ? 0 : rank->rank));
    text_expect(tryst_last_error(), "install one version of tryst on all hosts");
    tryst_close(ctx);
}

static void setting_main(struct harness_rank *rank)
{
    tryst_group *group = NULL;
    if (rank->rank == 1)
        setenv("TRYST_WANTS_MAX", "77", 1);
    tryst_ctx *ctx = context_open(rank);
    tryst_group_params params = {.struct_size = sizeof params};
    CHECK_STATUS(tryst_group_open(ctx, &params, &group), TRYST_E_HANDSHAKE);
    text_expect(tryst_last_error(), "TRYST_WANTS_MAX must be equal on all ranks");
    text_expect(tryst_last_error(), "256 on rank 0");
    text_expect(tryst_last_error(), "77 on rank 1");
    tryst_close(ctx);
}

/* The words describe an imaginary cluster of two ranks. */
static void topology_main(struct harness_rank *rank)
{
    tryst_group *group = NULL;
    if (rank->rank == 0)
        setenv("TRYST_TOPOLOGY", "node:2 gpu:1 nvlink:450GB nic:1x50GB", 1);
    tryst_ctx *ctx = context_open(rank);
    tryst_group_params params = {.struct_size = sizeof params};
    CHECK_STATUS(tryst_group_open(ctx, &params, &group), TRYST_E_GROUP);
    text_expect(tryst_last_error(), "TRYST_TOPOLOGY of rank 0 has 2 ranks");
    text_expect(tryst_last_error(), "the group has 3");
    tryst_close(ctx);
}

static void run(void (*main_fn)(struct harness_rank *rank), bool old)
{
    struct meeting *meeting = harness_share(sizeof *meeting);
    meeting->old = old;
    struct harness_params params = {.size = RANKS,
                                    .main = main_fn,
                                    .arg = meeting,
                                    .no_group = true,
                                    .log_fn = log_line};
    int failed = harness_run(&params);
    harness_unshare(meeting, sizeof *meeting);
    assert_int_equal(failed, 0);
}

static void test_old_peer(void **state)
{
    run(old_main, true);
}

static void test_setting(void **state)
{
    run(setting_main, false);
}

static void test_topology(void **state)
{
    run(topology_main, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_peer),
        cmocka_unit_test(test_setting),
        cmocka_unit_test(test_topology),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
