/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of opening a group of 4,096 ranks on one of them, by the caller's all-gather.
 * No traffic flows, so the measured cost is the library's. Prints milliseconds of
 * processor time (the least of five, since other processes only add to it) and bytes of
 * heap per rank; exceeding the bounds is a failure. The other ranks are imitated: eight
 * on each host, each with its own process and prefix. */
#include "support/unit.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include "core/os/clock.h"
#include "rendezvous/bootstrap/roster/roster_gather.h"
#include "rendezvous/bootstrap/session/bootstrap_wire.h"
#include "support/child.h"

enum { RANKS = 4096, RANKS_PER_HOST = 8, TIMES = 5 };
/* bytes that a rank announces of its plan (context/group_plan.c) */
enum { PLAN_BYTES = 16 };
/* The bound holds because the common data of a host's ranks is stored once, and a peer
 * gets its memory with its first operation. */
enum { BYTES_PER_RANK_MAX = 224, MS_MAX = 50 };

static void member_forge(void *all, const void *mine, int rank)
{
    struct bootstrap_wire_member *member = (struct bootstrap_wire_member *)all + rank;
    memcpy(member, mine, sizeof *member);
    member->rank = (uint32_t)rank;
}

static void entry_forge(void *all, const void *mine, int rank)
{
    struct roster_entry *entry = (struct roster_entry *)all + rank;
    memcpy(entry, mine, sizeof *entry);
    entry->incarnation += (uint64_t)rank;
    entry->host.process_id += (uint64_t)rank;
    entry->host.host_id += (uint64_t)rank / RANKS_PER_HOST;
    snprintf(entry->device_prefix, sizeof entry->device_prefix,
             "/job:worker/replica:0/task:%d", rank);
}

static int gather(void *arg, const void *mine, void *all, size_t bytes)
{
    (void)arg;
    for (int rank = 0; rank < RANKS; rank++) {
        if (bytes == sizeof(struct bootstrap_wire_member))
            member_forge(all, mine, rank);
        else if (bytes == sizeof(struct roster_entry))
            entry_forge(all, mine, rank);
        else if (bytes == PLAN_BYTES) /* all plans are equal */
            memcpy((char *)all + (size_t)rank * bytes, mine, bytes);
        else
            return 1;
    }
    return 0;
}

static uint64_t processor_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

static void test_open(void **state)
{
    tryst_group_params params = {
        .struct_size = sizeof params, .allgather = gather, .rank = 0, .size = RANKS};
    uint64_t least_ns = UINT64_MAX;
    size_t bytes = 0;
    tryst_ctx *ctx;
    assert_int_equal(tryst_open(NULL, &ctx), TRYST_OK);
    for (int i = 0; i < TIMES; i++) {
        tryst_group *group;
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        uint64_t begin_ns = processor_ns();
        assert_int_equal(tryst_group_open(ctx, &params, &group), TRYST_OK);
        uint64_t took_ns = processor_ns() - begin_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
        bytes = (mallinfo2().uordblks + mallinfo2().hblkhd - before) / RANKS;
        assert_int_equal(tryst_group_size(group), RANKS);
        tryst_group_close(group);
        tryst_close(ctx);
        assert_int_equal(tryst_open(NULL, &ctx), TRYST_OK);
    }
    tryst_close(ctx);
    print_message("%d ranks: %.1f ms, %zu bytes of heap a rank\n", RANKS,
                  (double)least_ns / 1e6, bytes);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    assert_true(least_ns < MS_MAX * NS_PER_MS);
    assert_true(bytes <= BYTES_PER_RANK_MAX);
#endif
}

/* The random bytes of the C library, which fail while `random_fails` is set. */
static bool random_fails;
ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
    if (!random_fails)
        return syscall(SYS_getrandom, to, bytes, flags);
    errno = ENOSYS;
    return -1;
}

/* Without random bytes no context opens, neither then nor later: the secret of the tables
 * is drawn once. */
static void random_bytes_lack(void)
{
    tryst_ctx *ctx;
    random_fails = true;
    if (tryst_open(NULL, &ctx) != TRYST_E_SYSTEM ||
        !strstr(tryst_last_error(), "cannot get random bytes: Function not implemented"))
        _exit(1);
    random_fails = false;
    _exit(tryst_open(NULL, &ctx) == TRYST_E_SYSTEM ? 0 : 2);
}

static void no_context_opens_without_random_bytes(void **state)
{
    int status;
    pid_t child = child_fork();
    if (child == 0)
        random_bytes_lack();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_context_opens_without_random_bytes),
        cmocka_unit_test(test_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
