/* SPDX-License-Identifier: Apache-2.0 */
/* Two to six ranks run random collectives, and one of them is killed at a random moment.
 * The manual (tryst/coll.h) is the reference. A collective that was under way ends with
 * TRYST_OK and the right bytes, or with TRYST_E_PEER and the dead rank, within 2 s; one
 * that is submitted later ends so at once. No element beside a tensor, or of an input, is
 * ever written. The group can be closed, and leaves no
 * descriptor and no thread behind. TRYST_TEST_KILLS sets the number of kills. A rank that
 * is stopped and continued makes nothing fail. Where ranks give parts up (by a deadline,
 * also while another rank is stopped, or by a cancel), all ranks end with the sum or with
 * that cause and that rank, and the collectives after it are whole. */
#include "twins.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "coll_net.h"
#include "support/asleep.h"
#include "support/patience.h"
#include "support/unit.h"

enum { RANKS_LEAST = 2, RANKS_MAX = 6, ROUNDS = 10, AFTER = 3, AT_ONCE = 4 };
enum { GUARD = 64 }; /* elements on both sides of a tensor */
enum { COUNT_MAX = 1 << 19, AWAY_MS = 1000, STOP_MS = 1500, SAMPLES_MAX = 1 << 16 };
enum { GIVE_UP_US = 20000 }; /* a part is given up within this time */
#define NS_PER_MS       UINT64_C(1000000)
#define UNDER_WAY_NS    (2000 * NS_PER_MS)
#define AT_ONCE_NS      (500 * NS_PER_MS)
#define VICTIM_DELAY_NS (500 * NS_PER_MS)

/* What happens to the victim: it is killed; it is stopped for a while; the same, and all
 * ranks give up some of their parts. */
enum harm { HARM_KILL, HARM_STOP, HARM_GIVE_UP };

/* How a rank gives up a part. */
enum way { WAY_NONE, WAY_DEADLINE, WAY_CANCEL, WAYS };

/* The state that all ranks of one run share. */
struct run {
    uint64_t seed;
    /* away: the rank that makes no call for AWAY_MS when the victim dies; -1: none */
    int victim, away;
    enum harm harm;
    _Atomic(uint32_t) counter, living;
    _Atomic(uint32_t) given_up; /* parts, by all ranks */
    _Atomic(int32_t) victim_pid;
    _Atomic(uint64_t) killed_ns;
    _Atomic(uint32_t) under_way_count, at_once_count;
    uint64_t under_way[SAMPLES_MAX], at_once[SAMPLES_MAX];
};

struct part {
    tryst_coll_kind kind;
    uint64_t count;
    int root;
    enum way way;                   /* how this rank gives it up, */
    uint64_t give_up_ns;            /* and after what time */
    int64_t *data;                  /* between guards */
    int64_t *in;                    /* between guards, of an all-reduce; NULL: in place */
    tryst_mem *mem;                 /* peers map `data`; NULL: plain memory */
    struct twin data_twin, in_twin; /* with the guards */
    tryst_op *op;
    uint64_t begin_ns, end_ns;
    /* Before the submission an earlier operation of this rank had failed, and its own
     * connection to the victim had ended. */
    bool knew;
};

/* ---- collectives, the same on all ranks -------------------------------------------- */

/* How `rank` gives up a part. Every sixteenth part of a rank has a way. */
static enum way way_draw(const struct run *run, int rank, int round, int index,
                         uint64_t *ns_p)
{
    uint64_t random =
        ((run->seed * 64 + (uint64_t)round) * 64 + (uint64_t)index) * 64 + (uint64_t)rank;
    for (int i = 0; i < 8; i++)
        harness_random(&random);
    uint64_t us = harness_random(&random) % GIVE_UP_US >> harness_random(&random) % 12;
    *ns_p = (us + 1) * 1000;
    if (run->harm != HARM_GIVE_UP || round >= ROUNDS || harness_random(&random) % 16)
        return WAY_NONE;
    return (enum way)(1 + harness_random(&random) % (WAYS - 1));
}

static void part_draw(struct part *part, const struct run *run, int size, int round,
                      int index)
{
    static const uint64_t counts[] = {0, 1, 7, 500, 4099, 40000, 131072, COUNT_MAX};
    uint64_t random =
        (run->seed * 64 + (uint64_t)round) * 64 + (uint64_t)index * 2654435761u + 1;
    for (int i = 0; i < 8; i++)
        harness_random(&random);
    part->kind = (tryst_coll_kind)(1 + harness_random(&random) % 4);
    part->count = counts[harness_random(&random) % COUNT_OF(counts)];
    part->root = (int)(harness_random(&random) % (uint64_t)size);
}

static size_t room_bytes(uint64_t count)
{
    return (count + 2 * GUARD) * sizeof(int64_t);
}

/* With TRYST_TEST_DEVICE half of the tensors are on a device; half of all are late. */
static void twins_place(struct harness_rank *rank, struct part *part, int i)
{
    size_t bytes = room_bytes(COUNT_MAX);
    int at = i + rank->rank;
    bool asked = rank->gpu, late = asked && (at / 2) % 2;
    twin_place(&part->data_twin, rank, part->data - GUARD, bytes,
               asked && at % 2 ? i / 2 : -1, ROOM_POOL, late);
    if (part->in)
        twin_place(&part->in_twin, rank, part->in - GUARD, bytes,
                   asked && at % 2 == 0 ? i % 2 : -1, ROOM_STRANGE, late);
    if (harness_setting("TRYST_TEST_AWAIT", 0))
        part->data_twin.awaiting = i % GPU_AWAITING;
}

/* Of each two parts one has memory that peers map, and of each four two have an input
 * of their own. */
static void parts_open(struct harness_rank *rank, struct part *parts)
{
    size_t bytes = room_bytes(COUNT_MAX);
    for (int i = 0; i < AT_ONCE; i++) {
        void *room = NULL;
        void *in = i / 2 ? malloc(bytes) : NULL;
        parts[i] = (struct part){0};
        if (i % 2)
            CHECK_STATUS(tryst_mem_alloc(rank->ctx, bytes, TRYST_MEMORY_HOST, 0, &room,
                                         &parts[i].mem),
                         TRYST_OK);
        parts[i].data = (int64_t *)(room ? room : malloc(bytes)) + GUARD;
        if (in)
            parts[i].in = (int64_t *)in + GUARD;
        twins_place(rank, &parts[i], i);
    }
}

static void parts_close(struct part *parts)
{
    for (int i = 0; i < AT_ONCE; i++) {
        twin_close(&parts[i].data_twin);
        twin_close(&parts[i].in_twin);
        if (parts[i].in)
            free(parts[i].in - GUARD);
        if (parts[i].mem)
            tryst_mem_release(parts[i].mem);
        else
            free(parts[i].data - GUARD);
    }
}

static int64_t element_of(int rank, int64_t index)
{
    return rank * INT64_C(1000003) + index;
}

/* Write this rank's elements and the guards, or check that all of them are unchanged. */
static void room_visit(int rank, int64_t *data, uint64_t count, bool fill, bool all)
{
    for (int64_t i = -GUARD; i < (int64_t)count + GUARD; i++) {
        bool is_guard = i < 0 || i >= (int64_t)count;
        int64_t value = is_guard ? INT64_C(-0x1111) : element_of(rank, i);
        if (fill)
            data[i] = value;
        else if ((is_guard || all) && data[i] != value)
            harness_fail(__FILE__, __LINE__, "element %lld of %llu was written",
                         (long long)i, (unsigned long long)count);
    }
}

static void on_end(void *arg, tryst_op *op, tryst_status status)
{
    struct part *part = arg;
    (void)op, (void)status;
    part->end_ns = harness_now_ns();
}

static void part_start(struct harness_rank *rank, tryst_step *step, struct part *part,
                       int index)
{
    tryst_op_params params = {.struct_size = sizeof params,
                              .callback = on_end,
                              .arg = part,
                              .deadline_ns =
                                  part->way == WAY_DEADLINE ? part->give_up_ns : 0};
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = part->data,
                           .count = part->count,
                           .dtype = TRYST_DTYPE_I64};
    tryst_tensor in = tensor;
    in.data = part->in;
    twin_tensor(&part->data_twin, false, &tensor);
    twin_tensor(&part->in_twin, false, &in);
    char name[16];
    tryst_status status = TRYST_OK;
    bool is_root = part->root == rank->rank;
    snprintf(name, sizeof name, "c%d", index);
    room_visit(rank->rank, part->data, part->count, true, true);
    if (part->in)
        room_visit(rank->rank, part->in, part->count, true, true);
    twin_begin(&part->data_twin, room_bytes(part->count));
    twin_begin(&part->in_twin, part->in ? room_bytes(part->count) : 0);
    part->begin_ns = harness_now_ns();
    if (part->kind == TRYST_COLL_ALLREDUCE)
        status = tryst_allreduce(step, name, part->in ? &in : NULL, &tensor,
                                 TRYST_REDUCE_SUM, &params, &part->op);
    else if (part->kind == TRYST_COLL_REDUCE)
        status =
            tryst_reduce(step, name, is_root ? NULL : &tensor, is_root ? &tensor : NULL,
                         TRYST_REDUCE_SUM, part->root, &params, &part->op);
    else if (part->kind == TRYST_COLL_BROADCAST)
        status = tryst_broadcast(step, name, &tensor, part->root, &params, &part->op);
    else
        status = tryst_barrier(step, name, &params, &part->op);
    if (status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    twin_await(&part->data_twin, part->op);
}

/* ---- the judge --------------------------------------------------------------------- */

static void data_check(const struct harness_rank *rank, const struct part *part)
{
    int64_t size = rank->size, factor = 1, base = rank->rank;
    if (part->kind == TRYST_COLL_BARRIER)
        return;
    if (part->kind == TRYST_COLL_BROADCAST) {
        base = part->root;
    } else if (part->kind == TRYST_COLL_ALLREDUCE || part->root == rank->rank) {
        base = size * (size - 1) / 2;
        factor = size;
    }
    for (uint64_t i = 0; i < part->count; i++)
        if (part->data[i] != base * INT64_C(1000003) + factor * (int64_t)i)
            harness_fail(__FILE__, __LINE__, "wrong element %llu of %llu",
                         (unsigned long long)i, (unsigned long long)part->count);
}

static void sample_add(uint64_t *samples, _Atomic(uint32_t) *count, uint64_t ns)
{
    uint32_t at = atomic_fetch_add(count, 1);
    if (at < SAMPLES_MAX)
        samples[at] = ns;
}

static void delay_check(struct harness_rank *rank, const struct part *part)
{
    struct run *run = rank->arg;
    uint64_t killed_ns = atomic_load(&run->killed_ns);
    uint64_t from_ns = killed_ns > part->begin_ns ? killed_ns : part->begin_ns;
    uint64_t ns = part->end_ns > from_ns ? part->end_ns - from_ns : 0;
    uint64_t most_ns = part->knew ? AT_ONCE_NS : UNDER_WAY_NS;
    /* A rank outside the library delays its own parts, and those that depend on data
     * through this rank alone. */
    if (run->away >= 0)
        most_ns += AWAY_MS * NS_PER_MS;
    if (ns > patience_ns(most_ns))
        harness_fail(__FILE__, __LINE__,
                     "kind %d of %llu elements ended %llu ms after the death (%s)",
                     part->kind, (unsigned long long)part->count,
                     (unsigned long long)(ns / NS_PER_MS),
                     part->knew ? "submitted later" : "under way");
    if (part->knew)
        sample_add(run->at_once, &run->at_once_count, ns);
    else
        sample_add(run->under_way, &run->under_way_count, ns);
}

/* Fail unless the rank that `error` names gave this part up in the way of `status`. */
static void give_up_check(struct harness_rank *rank, int round, int index,
                          tryst_status status, const tryst_error *error)
{
    struct run *run = rank->arg;
    uint64_t ns;
    enum way way = error->origin_rank < 0
                       ? WAY_NONE
                       : way_draw(run, error->origin_rank, round, index, &ns);
    if (status == TRYST_E_DEADLINE ? way != WAY_DEADLINE
                                   : status != TRYST_E_CANCELED || way != WAY_CANCEL)
        harness_fail(__FILE__, __LINE__, "round %d, part %d: %s of rank %d: %s", round,
                     index, tryst_status_name(status), error->origin_rank, error->text);
    atomic_fetch_add(&run->given_up, 1);
}

/* True if the part failed. Fail unless the outcome is one that the manual allows. */
static bool part_judge(struct harness_rank *rank, struct part *part, int round, int index)
{
    const struct run *run = rank->arg;
    tryst_error error = {.struct_size = sizeof error, .text = ""};
    tryst_status status = tryst_wait(part->op, TRYST_FOREVER);
    (void)tryst_op_error(part->op, &error);
    bool died = atomic_load(&run->killed_ns) != 0;
    twin_pull(&part->data_twin);
    twin_pull(&part->in_twin);
    room_visit(rank->rank, part->data, part->count, false, false);
    if (part->in)
        room_visit(rank->rank, part->in, part->count, false, true);
    if (status == TRYST_OK) {
        data_check(rank, part);
    } else if (run->harm == HARM_GIVE_UP) {
        give_up_check(rank, round, index, status, &error);
    } else if (status != TRYST_E_PEER || !died || error.origin_rank != run->victim) {
        harness_fail(__FILE__, __LINE__, "kind %d of %llu elements: %s of rank %d: %s",
                     part->kind, (unsigned long long)part->count,
                     tryst_status_name(status), error.origin_rank, error.text);
    } else {
        delay_check(rank, part);
    }
    if (part->knew)
        CHECK_STATUS(status, TRYST_E_PEER);
    tryst_op_release(part->op);
    return status != TRYST_OK;
}

/* ---- the victim -------------------------------------------------------------------- */

static void *killer_main(void *arg)
{
    struct run *run = arg;
    uint64_t random = run->seed * 77 + 5;
    for (int i = 0; i < 16; i++)
        harness_random(&random);
    uint64_t after_ns = harness_random(&random) % VICTIM_DELAY_NS;
    after_ns >>= harness_random(&random) % 12; /* most delays are short, as a round is */
    struct timespec time = {.tv_nsec = (long)after_ns};
    nanosleep(&time, NULL);
    atomic_store(&run->killed_ns, harness_now_ns());
    raise(SIGKILL);
    return NULL;
}

static void killer_start(struct run *run)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, killer_main, run) == 0);
}

/* Fork a process that stops the victim and continues it after STOP_MS. */
static void stopper_start(const struct run *run)
{
    pid_t victim = atomic_load(&run->victim_pid);
    if (fork() != 0)
        return;
    kill(victim, SIGSTOP);
    harness_sleep_ms(STOP_MS);
    kill(victim, SIGCONT);
    _exit(0);
}

/* ---- a rank ------------------------------------------------------------------------ */

static int rounds_draw(const struct run *run)
{
    uint64_t random = run->seed + 11;
    for (int i = 0; i < 8; i++)
        harness_random(&random);
    return (int)(harness_random(&random) % ROUNDS);
}

static bool victim_is_gone(const struct harness_rank *rank)
{
    const struct run *run = rank->arg;
    tryst_peer_info info = {.struct_size = sizeof info};
    CHECK_STATUS(tryst_group_peer(rank->group, run->victim, &info), TRYST_OK);
    return !info.alive;
}

/* Run one round: several collectives at once, in another order on each rank. True if one
 * failed. */
static bool round_run(struct harness_rank *rank, tryst_step *step, struct part *parts,
                      int round, bool knew)
{
    const struct run *run = rank->arg;
    bool failed = false;
    for (int i = 0; i < AT_ONCE; i++) {
        int index = (i + rank->rank) % AT_ONCE;
        struct part *part = &parts[index];
        part->knew = knew && victim_is_gone(rank);
        part->way = way_draw(run, rank->rank, round, index, &part->give_up_ns);
        part_draw(part, run, rank->size, round, index);
        part_start(rank, step, &parts[index], index);
    }
    if (run->away == rank->rank && round == rounds_draw(run) && run->seed % 2)
        harness_sleep_ms(AWAY_MS);
    for (int i = 0; i < AT_ONCE; i++)
        if (parts[i].way == WAY_CANCEL) {
            (void)tryst_wait(parts[i].op, parts[i].give_up_ns);
            (void)tryst_op_cancel(parts[i].op);
        }
    for (int i = 0; i < AT_ONCE; i++)
        failed |= part_judge(rank, &parts[i], round, i);
    return failed;
}

/* Wait for all living ranks by a counter in shared memory, not by messages. */
static void living_meet(struct harness_rank *rank)
{
    struct run *run = rank->arg;
    atomic_fetch_add(&run->living, 1);
    while (atomic_load(&run->living) < (uint32_t)rank->size - 1) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
}

static void rounds_run(struct harness_rank *rank)
{
    struct run *run = rank->arg;
    struct part parts[AT_ONCE];
    int dies_in = rounds_draw(run);
    bool failed = false;
    parts_open(rank, parts);
    tryst_step *step = harness_step(rank, 1);
    CHECK(!round_run(rank, step, parts, ROUNDS + AFTER, false)); /* connects the ranks */
    harness_step_close(step);
    harness_barrier(rank, &run->counter);
    step = harness_step(rank, 2);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == dies_in && run->harm != HARM_KILL && rank->rank == 0)
            stopper_start(run);
        if (round == dies_in && run->harm == HARM_KILL && rank->rank == run->victim)
            killer_start(run);
        if (round == dies_in && run->away == rank->rank && run->seed % 2 == 0)
            harness_sleep_ms(AWAY_MS);
        failed |= round_run(rank, step, parts, round, failed && run->harm == HARM_KILL);
    }
    if (run->harm == HARM_STOP)
        CHECK(!failed);
    else if (run->harm == HARM_KILL && rank->rank == run->victim)
        pause();
    for (int i = 0; i < AFTER && run->harm != HARM_STOP; i++) {
        bool fails =
            round_run(rank, step, parts, ROUNDS + i, failed && run->harm == HARM_KILL);
        CHECK(!fails || run->harm == HARM_KILL);
        failed |= fails;
    }
    harness_step_close(step);
    if (run->harm == HARM_KILL) {
        CHECK(failed);
        living_meet(rank);
    }
    parts_close(parts);
}

/* Run two groups. The first loads modules and starts threads that stay until the process
 * ends. */
static void rank_main(struct harness_rank *rank)
{
    struct run *run = rank->arg;
    int awake, fds = 0, threads = 0;
    if (rank->rank == run->victim)
        atomic_store(&run->victim_pid, getpid());
    for (int turn = 0; turn < 2; turn++) {
        harness_open(rank);
        if (turn) {
            rounds_run(rank);
        } else {
            struct part parts[AT_ONCE];
            tryst_step *step = harness_step(rank, 1);
            parts_open(rank, parts);
            CHECK(!round_run(rank, step, parts, ROUNDS + AFTER, false));
            harness_step_close(step);
            harness_barrier(rank, &run->counter);
            parts_close(parts);
        }
        harness_close(rank);
        if (turn) {
            CHECK_EQ(harness_fds() <= fds ? fds : harness_fds(), fds);
            CHECK_EQ(threads_settle(threads) <= threads ? threads
                                                        : process_threads_count(&awake),
                     threads);
        }
        fds = harness_fds();
        threads = process_threads_count(&awake);
    }
}

/* ---- runs -------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Milliseconds: median, 99th percentile, most. */
static void samples_print(const char *what, uint64_t *samples, size_t count)
{
    if (!count)
        return;
    qsort(samples, count, sizeof *samples, compare);
    print_message("%s: %zu operations, ms: median %.2f, p99 %.2f, most %.2f\n", what,
                  count, (double)samples[count / 2] / NS_PER_MS,
                  (double)samples[count * 99 / 100] / NS_PER_MS,
                  (double)samples[count - 1] / NS_PER_MS);
}

struct samples {
    uint64_t under_way[SAMPLES_MAX], at_once[SAMPLES_MAX];
    size_t under_way_count, at_once_count, given_up;
};

static void samples_gather(struct samples *all, const struct run *run)
{
    for (uint32_t i = 0; i < run->under_way_count && all->under_way_count < SAMPLES_MAX;
         i++)
        all->under_way[all->under_way_count++] = run->under_way[i];
    for (uint32_t i = 0; i < run->at_once_count && all->at_once_count < SAMPLES_MAX; i++)
        all->at_once[all->at_once_count++] = run->at_once[i];
}

static int run_once(uint64_t seed, enum harm harm, bool away, struct samples *all)
{
    char path[64];
    uint64_t random = seed * 6364136223846793005u + 1442695040888963407u;
    struct run *run = harness_share(sizeof *run);
    for (int i = 0; i < 8; i++)
        harness_random(&random);
    int size =
        RANKS_LEAST + (int)(harness_random(&random) % (RANKS_MAX - RANKS_LEAST + 1));
    int net = (int)(harness_random(&random) % NETS);
    run->seed = seed;
    run->victim = 1 + (int)(harness_random(&random) % (uint64_t)(size - 1));
    run->away = away ? run->victim - 1 : -1;
    run->harm = harm;
    coll_net_write((enum coll_net)net, size, path);
    const char *const config[] = {"topology", path, NULL};
    struct harness_params params = {.size = size,
                                    .main = rank_main,
                                    .opened = twins_open,
                                    .closing = twins_close,
                                    .arg = run,
                                    .no_group = true,
                                    .timeout_s = 40,
                                    .config = net ? config : NULL,
                                    .killed = harm == HARM_KILL ? run->victim
                                                                : HARNESS_NO_RANK};
    int failed = harness_run(&params);
    unlink(path);
    if (failed)
        print_error("%d ranks, network %d, victim %d: TRYST_TEST_SEED=%llu "
                    "TRYST_TEST_KILLS=1\n",
                    size, net, run->victim, (unsigned long long)seed);
    samples_gather(all, run);
    all->given_up += run->given_up;
    harness_unshare(run, sizeof *run);
    return failed;
}

static unsigned kills_count(unsigned least)
{
    const char *text = getenv("TRYST_TEST_KILLS");
    return text ? (unsigned)strtoul(text, NULL, 10) : least;
}

static void runs(unsigned count, enum harm harm, bool away)
{
    static struct samples all;
    unsigned failed = 0;
    uint64_t seed = unit_seed();
    all.under_way_count = all.at_once_count = all.given_up = 0;
    for (unsigned i = 0; i < count; i++)
        failed += run_once(seed + i, harm, away, &all) != 0;
    samples_print("under way", all.under_way, all.under_way_count);
    samples_print("submitted later", all.at_once, all.at_once_count);
    print_message("%u of %u runs failed; parts given up: %zu\n", failed, count,
                  all.given_up);
    assert_int_equal(failed, 0);
    assert_true(harm != HARM_GIVE_UP || all.given_up > 0);
}

static void test_kills(void **state)
{
    runs(kills_count(3), HARM_KILL, false);
}

static void test_kills_away(void **state)
{
    runs((kills_count(1) + 9) / 10, HARM_KILL, true);
}

static void test_stopped(void **state)
{
    runs((kills_count(1) + 9) / 10, HARM_STOP, false);
}

static void test_given_up(void **state)
{
    runs(kills_count(2), HARM_GIVE_UP, false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kills), cmocka_unit_test(test_kills_away),
        cmocka_unit_test(test_stopped), cmocka_unit_test(test_given_up)};
    return HARNESS_MAIN(argc, argv, tests);
}
