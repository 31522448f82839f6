/* SPDX-License-Identifier: Apache-2.0 */
/* First contact of two ranks while one of them makes no call: it computes, is stopped at
 * any moment of the connection, or makes its first call after the other has left. The
 * idle rank's kernel still answers, so none of the library's time-outs may declare it
 * dead; a rank whose kernel is gone is dead.
 *
 * TRYST_TEST_MOMENTS: stops in one run (each takes four ranks). TRYST_TEST_ROUNDS: runs.
 * TRYST_TEST_SPAN_US: the stops of all runs are spread evenly over this time after the
 * first call. TRYST_TEST_STOP_MS: how long a stop lasts. */
#include "harness.h"

#include "support/unit.h"

#include <net/if.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 100000, AWAY_MS = 2300, MOMENTS_MAX = 15 };

/* Each time-out is shorter than the absence of a rank. */
static const char *const config[] = {"connect_timeout", "1s", "peer_timeout", "2s", NULL};

struct contact {
    _Atomic(uint32_t) counter, gone;
    _Atomic(pid_t) pids[HARNESS_RANKS_MAX];
    int late;
    uint64_t first_us, apart_us; /* the first stop, and the time between two stops */
};

/* Exchange both ways: eight bytes, which are sent eagerly, and bulk, which waits for its
 * receive. */
static void exchange(struct harness_rank *rank, tryst_step *step, int peer, char *data)
{
    tryst_op *ops[] = {
        harness_send(rank, step, peer, "small", data, 8),
        harness_recv(rank, step, peer, "small", data + 8, 8),
        harness_send(rank, step, peer, "large", data + 16, BYTES),
        harness_recv(rank, step, peer, "large", data + 16 + BYTES, BYTES),
    };
    for (int i = 0; i < 4; i++)
        harness_end(ops[i], TRYST_OK);
}

static char *buffers(void)
{
    char *data = calloc(2, BYTES + 8);
    CHECK(data);
    return data;
}

/* Rank 2 makes no call after it has opened its group; all other ranks connect to it. */
static void away_main(struct harness_rank *rank)
{
    char *data = buffers();
    tryst_step *step = harness_step(rank, 1);
    if (rank->rank == 2)
        harness_sleep_ms(AWAY_MS);
    for (int peer = 0; peer < rank->size; peer++)
        if (peer != rank->rank && (peer == 2 || rank->rank == 2))
            exchange(rank, step, peer, data);
    CHECK_EQ(harness_counter(rank->ctx, "peers_given_up"), 0);
    harness_step_close(step);
    harness_barrier(rank, &((struct contact *)rank->arg)->counter);
    free(data);
}

static uint32_t others_above(const struct harness_rank *rank)
{
    const struct contact *contact = rank->arg;
    return (uint32_t)(rank->size - 1 - rank->rank - (contact->late > rank->rank));
}

/* All other ranks leave, the last one first, before `late`, which has connected to none
 * of them, makes its first call. */
static void left_main(struct harness_rank *rank)
{
    struct contact *contact = rank->arg;
    harness_open(rank);
    if (rank->rank == contact->late) {
        char *data = buffers();
        while (atomic_load(&contact->gone) < (uint32_t)rank->size - 1)
            harness_sleep_ms(1);
        tryst_step *step = harness_step(rank, 1);
        for (int peer = 0; peer < rank->size; peer++) {
            tryst_error error = {.struct_size = sizeof error};
            if (peer == rank->rank)
                continue;
            tryst_op *op = harness_send(rank, step, peer, "late", data, BYTES);
            CHECK_STATUS(tryst_wait(op, TRYST_FOREVER), TRYST_E_LEFT);
            CHECK_STATUS(tryst_op_error(op, &error), TRYST_E_LEFT);
            if (!strstr(error.text, "has left the group"))
                harness_fail(__FILE__, __LINE__, "the text does not report the leave: %s",
                             error.text);
            tryst_op_release(op);
        }
        CHECK_EQ(harness_counter(rank->ctx, "peers_given_up"), 0);
        harness_step_close(step);
        free(data);
    }
    while (atomic_load(&contact->gone) < others_above(rank)) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
    harness_close(rank);
    atomic_fetch_add(&contact->gone, 1);
}

/* ---- in a lab: hosts that vanish --------------------------------------------------- */

/* Take the host of this rank off the network. */
static void interfaces_down(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct if_nameindex *all = if_nameindex();
    CHECK(fd >= 0 && all);
    for (struct if_nameindex *one = all; one->if_index; one++) {
        struct ifreq request = {0};
        (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", one->if_name);
        if (strcmp(one->if_name, "lo") == 0)
            continue;
        CHECK(ioctl(fd, SIOCGIFFLAGS, &request) == 0);
        request.ifr_flags = (short)(request.ifr_flags & ~IFF_UP);
        CHECK(ioctl(fd, SIOCSIFFLAGS, &request) == 0);
    }
    if_freenameindex(all);
    close(fd);
}

/* Rank 2's host vanishes before any rank connects to it; rank 3's host vanishes after its
 * kernel has accepted everything that the others sent. Neither rank makes a call. The
 * others cannot reach rank 2, and declare rank 3 dead. */
static void vanish_main(struct harness_rank *rank)
{
    struct contact *contact = rank->arg;
    harness_open(rank);
    if (rank->rank == 2)
        interfaces_down();
    atomic_fetch_add(&contact->counter, 1);
    while (atomic_load(&contact->counter) < (uint32_t)rank->size)
        harness_sleep_ms(1);
    if (rank->rank >= 2) {
        harness_sleep_ms(500);
        if (rank->rank == 3)
            interfaces_down();
        while (atomic_load(&contact->gone) < 2)
            harness_sleep_ms(1);
        _exit(0); /* the context cannot reach any peer, so it is not closed */
    }
    char *data = buffers();
    tryst_step *step = harness_step(rank, 1);
    tryst_op *ops[] = {harness_send(rank, step, 2, "a", data, BYTES),
                       harness_send(rank, step, 3, "a", data, BYTES)};
    uint64_t begin_ns = harness_now_ns();
    exchange(rank, step, 1 - rank->rank, data);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(tryst_wait(ops[i], TRYST_FOREVER),
                     i ? TRYST_E_PEER : TRYST_E_UNREACHABLE);
        dprintf(2, "rank %d found rank %d gone after %llu ms\n", rank->rank, 2 + i,
                (unsigned long long)(harness_now_ns() - begin_ns) / 1000000);
        tryst_op_release(ops[i]);
    }
    atomic_fetch_add(&contact->gone, 1);
    harness_step_close(step);
    free(data);
    harness_close(rank);
}

/* ---- stopped ----------------------------------------------------------------------- */

/* Each stop takes four ranks: of the first two the lower one is stopped, of the other two
 * the higher one. The last rank of all stops them. */
static int victim_of(unsigned stop)
{
    return (int)(2 * stop + stop % 2);
}

static void sleep_until_us(uint64_t at_ns)
{
    uint64_t now_ns = harness_now_ns();
    if (now_ns < at_ns)
        usleep((useconds_t)((at_ns - now_ns) / 1000));
}

static void stop_all(struct contact *contact, unsigned moments)
{
    uint64_t begin_ns = harness_now_ns();
    uint64_t stopped_ns = harness_setting("TRYST_TEST_STOP_MS", AWAY_MS) * 1000000;
    for (int on = 0; on < 2; on++)
        for (unsigned i = 0; i < moments; i++) {
            uint64_t at_us = contact->first_us + i * contact->apart_us;
            sleep_until_us(begin_ns + at_us * 1000 + (on ? stopped_ns : 0));
            for (unsigned stop = 2 * i; stop < 2 * i + 2; stop++)
                CHECK(kill(contact->pids[victim_of(stop)], on ? SIGCONT : SIGSTOP) == 0);
        }
}

static void stopped_main(struct harness_rank *rank)
{
    struct contact *contact = rank->arg;
    unsigned moments = (unsigned)rank->size / 4;
    tryst_step *step = harness_step(rank, 1);
    atomic_store(&contact->pids[rank->rank], getpid());
    harness_barrier(rank, &contact->counter);
    if (rank->rank == rank->size - 1) {
        stop_all(contact, moments);
    } else {
        char *data = buffers();
        exchange(rank, step, rank->rank ^ 1, data);
        free(data);
    }
    CHECK_EQ(harness_counter(rank->ctx, "peers_given_up"), 0);
    harness_barrier(rank, &contact->counter);
    harness_step_close(step);
}

/* ---- tests ------------------------------------------------------------------------- */

static void run(void (*main)(struct harness_rank *), int size, const struct contact *plan,
                bool no_group)
{
    struct contact *contact = harness_share(sizeof *contact);
    struct harness_params params = {.size = size,
                                    .main = main,
                                    .arg = contact,
                                    .config = config,
                                    .no_group = no_group};
    params.timeout_s = 20 + (unsigned)harness_setting("TRYST_TEST_STOP_MS", 0) / 1000;
    contact->late = plan->late;
    contact->first_us = plan->first_us;
    contact->apart_us = plan->apart_us;
    int failed = harness_run(&params);
    harness_unshare(contact, sizeof *contact);
    assert_int_equal(failed, 0);
}

static void test_meet_away(void **state)
{
    run(away_main, 4, &(struct contact){0}, false);
}

static void test_meet_left(void **state)
{
    for (int late = 0; late < 3; late++)
        run(left_main, 3, &(struct contact){.late = late}, true);
}

static void test_vanish(void **state)
{
    if (!harness_in_lab()) {
        print_message(
            "skipped: needs the hosts of a lab, which can vanish (tests/netlab)\n");
        skip();
    }
    run(vanish_main, 4, &(struct contact){0}, true);
}

static void test_stopped(void **state)
{
    unsigned moments = (unsigned)harness_setting("TRYST_TEST_MOMENTS", 3);
    unsigned rounds = (unsigned)harness_setting("TRYST_TEST_ROUNDS", 1);
    unsigned span_us = (unsigned)harness_setting("TRYST_TEST_SPAN_US", 20000);
    assert_in_range(moments, 1, MOMENTS_MAX);
    for (unsigned i = 0; i < rounds; i++) {
        struct contact plan = {.first_us = (uint64_t)span_us * i / (rounds * moments),
                               .apart_us = span_us / moments};
        run(stopped_main, 4 * (int)moments + 1, &plan, false);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meet_away),
        cmocka_unit_test(test_meet_left),
        cmocka_unit_test(test_vanish),
        cmocka_unit_test(test_stopped),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
