/* SPDX-License-Identifier: Apache-2.0 */
/* Two honest ranks exchange checked traffic, and a third rank is hostile: it runs the
 * real library, and what leaves it is changed at random (hostile.h).
 *
 * Judged: all operations of the honest pair end with TRYST_OK and the right bytes within
 * WAIT_NS; their operations with the hostile rank end, with any status; no error names
 * the other honest rank; the memory of an honest rank stays below MEMORY_MAX_KIB; no rank
 * crashes, the hostile one included, since the answers of its peers to what it did not
 * send are as hostile to it.
 *
 * A run is one seed: 3 processes, STEPS steps. TRYST_TEST_SEED is the first seed, and
 * TRYST_TEST_COUNT the number of seeds from there on. The times differ from run to run,
 * so a seed repeats what is drawn, but not always the failure.
 *
 * test_toll runs each seed without faults and with them, and compares the time that the
 * honest pair takes for its operations. */
#include "../harness.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>
#include <unistd.h>

#include "hostile.h"
#include "support/patience.h"
#include "support/unit.h"

enum {
    RANKS = 3,
    HOSTILE_RANK = 2,
    STEPS = 6,
    ITEMS = 8, /* tensors of an ordered pair of ranks in a step */
    PAIRS = RANKS * (RANKS - 1),
    OPS_MAX = STEPS * (2 * PAIRS * ITEMS + 3),
    SUM_LARGE = 50000, /* elements of a large all-reduce */
    REGISTERED_BYTES = 4 << 20,
    LOG_BYTES = 1 << 17,
    STATUSES_MAX = 512,
    PROGRESS_EACH = 50, /* runs after which the count is printed */
    TOLLS_MAX = 1000
};
#define WAIT_NS        (UINT64_C(10) * 1000000000)
#define MEMORY_MAX_KIB (256 * 1024)

enum ending { ENDING_LEAVE, ENDING_EXIT, ENDING_KILL, ENDINGS };

/* What all ranks draw alike from the seed. */
struct plan {
    uint64_t seed;
    bool faults;          /* false: the third rank is honest too */
    bool from_the_start;  /* the faults begin before the first contact */
    enum ending ending;   /* how the hostile rank ends */
    unsigned ending_step; /* when it ends; STEPS: behind the honest ranks */
    unsigned linger_ms;   /* time that a step gives the hostile rank's operations */
    bool closes_early;    /* honest ranks close steps with operations pending */
};

struct hostile_run {
    struct plan plan;
    _Atomic(uint32_t) entered, finished;
    _Atomic(uint32_t) step[RANKS];
    _Atomic(uint64_t) statuses[STATUSES_MAX]; /* of operations with the hostile rank */
    _Atomic(uint64_t) kinds[HOSTILE_KINDS_COUNT];
    _Atomic(uint64_t) pair_ns;    /* time of the honest pair's operations, both ranks */
    _Atomic(uint64_t) memory_kib; /* most of all honest ranks and runs */
    _Atomic(uint32_t) log_used[RANKS];
    char log[RANKS][LOG_BYTES];
};

/* One operation of this rank. */
struct item {
    tryst_op *op; /* NULL: not submitted, or released */
    bool mutual;  /* with the other honest rank alone */
    bool is_recv;
    bool is_sum;
    unsigned step;
    int peer;
    uint64_t number; /* what the bytes are made from */
    void *data;
    size_t bytes;
};

struct rank_run {
    struct harness_rank *rank;
    struct hostile_run *run;
    const struct plan *plan;
    struct random random; /* of this rank: order and times */
    tryst_step *steps[STEPS];
    tryst_subgroup *pair; /* NULL at the hostile rank */
    tryst_mem *mem;       /* registered memory that some of the sends lie in */
    uint8_t *registered;
    size_t registered_used;
    struct item items[OPS_MAX];
    int count;
};

static const char *program;

/* ---- the plan --------------------------------------------------------------------- */

static struct plan plan_draw(uint64_t seed, bool faults)
{
    struct random random;
    random_seed(&random, seed * 3);
    return (struct plan){.seed = seed,
                         .faults = faults,
                         .from_the_start = random_range(&random, 4) == 0,
                         .ending = (enum ending)random_range(&random, ENDINGS),
                         .ending_step = (unsigned)random_range(&random, 3 * STEPS),
                         .linger_ms = (unsigned)random_range(&random, 12),
                         .closes_early = random_range(&random, 3) == 0};
}

/* Return the bytes of tensor `number`; both ends draw them from it. */
static size_t bytes_of(const struct plan *plan, uint64_t number)
{
    struct random random;
    random_seed(&random, plan->seed * 1000003 + number);
    switch (random_range(&random, 8)) {
    case 0: return 0;
    case 1:
    case 2: return 8;
    case 3: return 1 + random_range(&random, 4096);
    case 4: return 4097 + random_range(&random, 4096);
    case 5:
    case 6: return 1 + random_range(&random, 200000);
    default: return 1 + random_range(&random, 1 << 20);
    }
}

static uint64_t number_of(unsigned step, int src, int dst, int item)
{
    return (((uint64_t)step * RANKS + (uint64_t)src) * RANKS + (uint64_t)dst) * ITEMS +
           (uint64_t)item;
}

/* ---- logs ------------------------------------------------------------------------- */

static struct hostile_run *logging;
static int logging_rank;

/* Keep the line for the report of a failure. */
static void on_log(void *arg, tryst_log_level level, const char *line)
{
    size_t bytes = strlen(line) + 1;
    (void)arg;
    (void)level;
    uint32_t at = atomic_fetch_add(&logging->log_used[logging_rank], (uint32_t)bytes);
    if (at + bytes > LOG_BYTES)
        return;
    memcpy(logging->log[logging_rank] + at, line, bytes - 1);
    logging->log[logging_rank][at + bytes - 1] = '\n';
}

static void logs_print(const struct hostile_run *run)
{
    for (int i = 0; i < RANKS; i++) {
        uint32_t bytes = atomic_load(&run->log_used[i]);
        bytes = bytes < LOG_BYTES ? bytes : LOG_BYTES;
        print_error("--- log of rank %d\n%.*s", i, (int)bytes, run->log[i]);
    }
}

/* ---- operations ------------------------------------------------------------------- */

static uint64_t below(struct rank_run *self, uint64_t limit)
{
    return random_range(&self->random, limit);
}

static struct item *item_add(struct rank_run *self, unsigned step, int peer, size_t bytes)
{
    CHECK(self->count < OPS_MAX);
    struct item *item = &self->items[self->count++];
    bool honest = self->rank->rank != HOSTILE_RANK && peer != HOSTILE_RANK;
    *item = (struct item){.mutual = honest, .step = step, .peer = peer, .bytes = bytes};
    return item;
}

/* Return memory for a send: a third lies in registered memory while that lasts. */
static void *send_memory(struct rank_run *self, size_t bytes)
{
    if (!self->mem &&
        tryst_mem_alloc(self->rank->ctx, REGISTERED_BYTES, TRYST_MEMORY_HOST, 0,
                        (void **)&self->registered, &self->mem) != TRYST_OK)
        return malloc(bytes + 1);
    if (below(self, 3) || bytes >= REGISTERED_BYTES - self->registered_used)
        return malloc(bytes + 1);
    void *data = self->registered + self->registered_used;
    self->registered_used += (bytes + 63) & ~(size_t)63;
    return data;
}

static bool is_registered(const struct rank_run *self, const void *data)
{
    const uint8_t *at = data;
    return self->mem && at >= self->registered &&
           at < self->registered + REGISTERED_BYTES;
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    struct item *item = arg;
    if (tensor->count != item->bytes || tensor->dtype != TRYST_DTYPE_U8) {
        CHECK(!item->mutual);
        return TRYST_E_UNSUPPORTED;
    }
    tensor->data = item->data;
    return TRYST_OK;
}

/* Submit one end of tensor `n` from `src` to `dst`. */
static void tensor_submit(struct rank_run *self, unsigned step, int src, int dst, int n)
{
    uint64_t number = number_of(step, src, dst, n);
    size_t bytes = bytes_of(self->plan, number);
    bool is_recv = dst == self->rank->rank;
    struct item *item = item_add(self, step, is_recv ? src : dst, bytes);
    char edge[24];
    item->is_recv = is_recv;
    item->number = number;
    item->data = is_recv ? calloc(1, bytes + 1) : send_memory(self, bytes);
    CHECK(item->data);
    if (!is_recv)
        harness_fill(item->data, bytes, number);
    tryst_tensor tensor = harness_tensor(item->data, bytes);
    tryst_op_params params = {.struct_size = sizeof params};
    if (below(self, 2)) {
        params.flags = below(self, 8) ? TRYST_OP_PRIORITY : TRYST_OP_BACKGROUND;
        int32_t priority = (int32_t)below(self, 100) - 50;
        params.priority = params.flags & TRYST_OP_PRIORITY ? priority : 0;
    }
    if (!item->mutual && below(self, 4) == 0)
        params.deadline_ns = 1000000 + below(self, 30000000);
    if (is_recv && below(self, 5) == 0) {
        params.alloc = on_alloc;
        params.alloc_arg = item;
    }
    snprintf(edge, sizeof edge, "e%d", n / 2); /* two tensors of each key */
    struct harness_key key = harness_key(self->rank, src, dst, edge);
    tryst_status status =
        is_recv ? tryst_recv(self->steps[step], key.text, params.alloc ? NULL : &tensor,
                             &params, &item->op)
                : tryst_send(self->steps[step], key.text, &tensor, &params, &item->op);
    if (status != TRYST_OK && item->mutual)
        harness_fail(__FILE__, __LINE__, "submission: %s", tryst_last_error());
    if (status != TRYST_OK)
        item->op = NULL;
}

static void sum_submit(struct rank_run *self, unsigned step, bool of_pair, size_t count)
{
    struct item *item = item_add(self, step, 1 - self->rank->rank, 8 * count);
    char name[24];
    item->is_sum = true;
    item->mutual = of_pair;
    item->data = calloc(count, 8);
    CHECK(item->data);
    for (size_t i = 0; i < count; i++)
        ((int64_t *)item->data)[i] = (int64_t)i + self->rank->rank;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = item->data,
                           .count = count,
                           .dtype = TRYST_DTYPE_I64};
    tryst_op_params params = {.struct_size = sizeof params,
                              .subgroup = of_pair ? self->pair : NULL};
    snprintf(name, sizeof name, "sum%zu", count);
    tryst_status status = tryst_allreduce(self->steps[step], name, NULL, &tensor,
                                          TRYST_REDUCE_SUM, &params, &item->op);
    if (status != TRYST_OK && of_pair)
        harness_fail(__FILE__, __LINE__, "all-reduce: %s", tryst_last_error());
    if (status != TRYST_OK)
        item->op = NULL;
}

/* Submit this rank's part of a step: the tensors of each pair of ranks in a random
 * order of pairs (the numbers of a key count up), and the sums. */
static void step_submit(struct rank_run *self, unsigned step)
{
    int me = self->rank->rank, first = (int)below(self, RANKS);
    bool recvs_first = below(self, 2);
    self->steps[step] = harness_step(self->rank, 1 + step);
    for (int n = 0; n < ITEMS; n++)
        for (int i = 0; i < RANKS; i++) {
            int other = (first + i) % RANKS;
            for (int way = 0; other != me && way < 2; way++)
                if ((way == 0) == recvs_first)
                    tensor_submit(self, step, other, me, n);
                else
                    tensor_submit(self, step, me, other, n);
        }
    if (me != HOSTILE_RANK) {
        sum_submit(self, step, true, 1);
        sum_submit(self, step, true, SUM_LARGE);
    }
    if (step % 2)
        sum_submit(self, step, false, 64);
}

/* ---- judging ---------------------------------------------------------------------- */

static const char *item_text(const struct item *item)
{
    static char text[96];
    snprintf(text, sizeof text, "%s %d of step %u (tensor %llu, %zu bytes)",
             item->is_sum    ? "all-reduce with rank"
             : item->is_recv ? "receive from rank"
                             : "send to rank",
             item->peer, item->step, (unsigned long long)item->number, item->bytes);
    return text;
}

static void bytes_check(const struct item *item)
{
    if (item->is_sum) {
        const int64_t *sums = item->data;
        for (size_t i = 0; i < item->bytes / 8; i++)
            if (sums[i] != 2 * (int64_t)i + 1)
                harness_fail(__FILE__, __LINE__, "%s: element %zu is wrong",
                             item_text(item), i);
        return;
    }
    size_t wrong = item->is_recv ? harness_mismatch(item->data, item->bytes, item->number)
                                 : SIZE_MAX;
    if (wrong != SIZE_MAX)
        harness_fail(__FILE__, __LINE__, "%s: byte %zu is wrong", item_text(item), wrong);
}

/* Judge an operation that has ended: one of the honest pair, or one with the hostile
 * rank. There an error names the other honest rank at most for an abort or a collective,
 * of which the hostile rank may report any origin (README.md, "What is trusted"). */
static void item_judge(struct rank_run *self, struct item *item, tryst_status status)
{
    int me = self->rank->rank;
    tryst_error error = {.struct_size = sizeof error, .origin_rank = -1, .text = ""};
    if (status != TRYST_OK)
        (void)tryst_op_error(item->op, &error);
    if (item->mutual && status != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s ended with %s: %s", item_text(item),
                     tryst_status_name(status), error.text);
    if (item->mutual)
        bytes_check(item);
    else if (status > 0 && status < STATUSES_MAX && me != HOSTILE_RANK)
        atomic_fetch_add(&self->run->statuses[status], 1);
    else if (me != HOSTILE_RANK)
        atomic_fetch_add(&self->run->statuses[0], 1);
    bool hearsay = item->is_sum || status == TRYST_E_ABORTED;
    if (me != HOSTILE_RANK && error.origin_rank == 1 - me && !hearsay)
        harness_fail(__FILE__, __LINE__, "%s names rank %d as the cause: %s: %s",
                     item_text(item), error.origin_rank, tryst_status_name(status),
                     error.text);
    tryst_op_release(item->op);
    item->op = NULL;
}

/* Judge what has ended; return how many operations of the kind have not. */
static int items_poll(struct rank_run *self, bool mutual)
{
    int left = 0;
    for (int i = 0; i < self->count; i++) {
        struct item *item = &self->items[i];
        if (!item->op)
            continue;
        tryst_status status = tryst_op_test(item->op);
        if (status != TRYST_IN_PROGRESS)
            item_judge(self, item, status);
        else
            left += item->mutual == mutual;
    }
    return left;
}

/* Progress until all operations of the kind have ended. */
static void items_wait(struct rank_run *self, bool mutual)
{
    struct patience patience = patience_begin();
    while (items_poll(self, mutual)) {
        tryst_progress(self->rank->ctx);
        if (patience_spent_ns(&patience) < WAIT_NS)
            continue;
        for (int i = 0; i < self->count; i++)
            if (self->items[i].op && self->items[i].mutual == mutual)
                harness_fail(__FILE__, __LINE__, "%s has not ended",
                             item_text(&self->items[i]));
    }
}

static void progress_for(struct rank_run *self, unsigned ms)
{
    uint64_t until_ns = harness_now_ns() + (uint64_t)ms * 1000000;
    do
        tryst_progress(self->rank->ctx);
    while (harness_now_ns() < until_ns);
}

/* Return the most memory that this process has had, in KiB. */
static uint64_t memory_peak_kib(void)
{
    uint64_t kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoull(line + 6, NULL, 10);
    if (file)
        (void)fclose(file);
    return kib;
}

static void memory_judge(struct rank_run *self)
{
    uint64_t kib = memory_peak_kib(), most = atomic_load(&self->run->memory_kib);
    while (kib > most &&
           !atomic_compare_exchange_weak(&self->run->memory_kib, &most, kib))
        continue;
    if (!harness_is_sanitized() && kib > MEMORY_MAX_KIB)
        harness_fail(__FILE__, __LINE__, "the rank has used %llu KiB of memory",
                     (unsigned long long)kib);
}

static void other_judge(struct rank_run *self)
{
    tryst_peer_info info = {.struct_size = sizeof info};
    CHECK_STATUS(tryst_group_peer(self->rank->group, 1 - self->rank->rank, &info),
                 TRYST_OK);
    CHECK(info.alive);
}

/* ---- the honest ranks ------------------------------------------------------------- */

static void enter(struct rank_run *self)
{
    atomic_fetch_add(&self->run->entered, 1);
    while (atomic_load(&self->run->entered) < RANKS) {
        tryst_progress(self->rank->ctx);
        harness_sleep_ms(1);
    }
}

static void step_end(struct rank_run *self, unsigned step)
{
    if (self->steps[step])
        CHECK_STATUS(tryst_step_close(self->steps[step], NULL), TRYST_OK);
    self->steps[step] = NULL;
}

/* Wait for the other honest rank, which may need this one's answers: until both have
 * been here `times` times. */
static void honest_meet(struct rank_run *self, uint32_t times)
{
    struct patience patience = patience_begin();
    atomic_fetch_add(&self->run->finished, 1);
    while (atomic_load(&self->run->finished) < 2 * times) {
        tryst_progress(self->rank->ctx);
        items_poll(self, true);
        if (patience_spent_ns(&patience) > 2 * WAIT_NS)
            harness_fail(__FILE__, __LINE__, "the other honest rank does not end");
    }
}

static void honest_main(struct rank_run *self)
{
    static const int32_t members[] = {0, 1};
    tryst_subgroup_params params = {
        .struct_size = sizeof params, .epoch = 1, .count = 2, .members = members};
    CHECK_STATUS(tryst_subgroup_open(self->rank->group, &params, &self->pair), TRYST_OK);
    enter(self);
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t begin_ns = harness_now_ns();
        step_submit(self, step);
        items_wait(self, true);
        atomic_fetch_add(&self->run->pair_ns, harness_now_ns() - begin_ns);
        progress_for(self, self->plan->linger_ms);
        if (self->plan->closes_early)
            step_end(self, step);
        atomic_store(&self->run->step[self->rank->rank], step + 1);
    }
    honest_meet(self, 1); /* the hostile rank ends now, if it has not before */
    items_wait(self, false);
    for (unsigned step = 0; step < STEPS; step++)
        step_end(self, step);
    other_judge(self);
    honest_meet(self, 2);
    tryst_subgroup_close(self->pair);
    memory_judge(self);
}

/* ---- the hostile rank ------------------------------------------------------------- */

/* End as drawn; rank_close leaves. */
static void hostile_end(const struct rank_run *self)
{
    enum ending ending = self->plan->ending;
    if (ending == ENDING_KILL)
        raise(SIGKILL);
    if (ending == ENDING_EXIT)
        _exit(0);
}

static bool honest_reached(struct rank_run *self, unsigned step)
{
    return atomic_load(&self->run->step[0]) > step &&
           atomic_load(&self->run->step[1]) > step;
}

static void hostile_main(struct rank_run *self)
{
    hostile_draw_run(self->plan->seed, !harness_over_fabric(), self->run->kinds);
    if (self->plan->faults && self->plan->from_the_start)
        hostile_start();
    enter(self);
    for (unsigned step = 0; step < STEPS && step < self->plan->ending_step; step++) {
        step_submit(self, step);
        while (!honest_reached(self, step)) {
            progress_for(self, 1);
            if (items_poll(self, false) < self->count / 2 && self->plan->faults)
                hostile_start();
        }
        if (below(self, 3) == 0)
            step_end(self, step);
    }
    while (self->plan->ending_step >= STEPS && atomic_load(&self->run->finished) < 2)
        progress_for(self, 1);
    hostile_end(self);
}

/* ---- a run ------------------------------------------------------------------------ */

static void rank_close(struct rank_run *self)
{
    tryst_group_close(self->rank->group); /* ends what is pending */
    self->rank->group = NULL;
    for (int i = 0; i < self->count; i++) {
        if (self->items[i].op)
            tryst_op_release(self->items[i].op);
        if (!is_registered(self, self->items[i].data))
            free(self->items[i].data);
    }
    tryst_mem_release(self->mem);
    harness_close(self->rank);
}

static void rank_main(struct harness_rank *rank)
{
    struct rank_run *self = calloc(1, sizeof *self);
    CHECK(self);
    self->rank = rank;
    self->run = rank->arg;
    self->plan = &self->run->plan;
    (void)signal(SIGSEGV, SIG_DFL); /* cmocka's handler hides where */
    logging = self->run;
    logging_rank = rank->rank;
    random_seed(&self->random, self->plan->seed * RANKS + (uint64_t)rank->rank);
    harness_open(rank);
    if (rank->rank == HOSTILE_RANK)
        hostile_main(self);
    else
        honest_main(self);
    rank_close(self);
    free(self);
}

/* Run one seed. Returns 0, or 1 if it failed. */
static int seed_run(struct hostile_run *run, uint64_t seed, bool faults)
{
    run->plan = plan_draw(seed, faults);
    atomic_store(&run->pair_ns, 0);
    atomic_store(&run->entered, 0);
    atomic_store(&run->finished, 0);
    for (int i = 0; i < RANKS; i++) {
        atomic_store(&run->step[i], 0);
        atomic_store(&run->log_used[i], 0);
    }
    struct harness_params params = {.size = RANKS,
                                    .main = rank_main,
                                    .arg = run,
                                    .no_group = true,
                                    .log_fn = on_log,
                                    .killed = HOSTILE_RANK,
                                    .timeout_s = 40};
    if (harness_run(&params) == 0)
        return 0;
    logs_print(run);
    print_error("repeat: TRYST_TEST_SEED=%llu TRYST_TEST_COUNT=1 %s %s\n",
                (unsigned long long)seed, program, harness_mode());
    return 1;
}

static void counts_print(struct hostile_run *run)
{
    print_message("struck:");
    for (int i = 0; i < HOSTILE_KINDS_COUNT; i++)
        print_message(" %s %llu", hostile_kind_names[i],
                      (unsigned long long)atomic_load(&run->kinds[i]));
    print_message("\nwith the hostile rank: OK %llu",
                  (unsigned long long)atomic_load(&run->statuses[0]));
    for (int i = 1; i < STATUSES_MAX; i++)
        if (atomic_load(&run->statuses[i]))
            print_message(", %s %llu", tryst_status_name((tryst_status)i),
                          (unsigned long long)atomic_load(&run->statuses[i]));
    print_message("\nmost memory of an honest rank: %llu KiB\n",
                  (unsigned long long)atomic_load(&run->memory_kib));
}

static void test_seeds(void **state)
{
    uint64_t seed = unit_seed(), count = harness_setting("TRYST_TEST_COUNT", 3);
    struct hostile_run *run = harness_share(sizeof *run);
    uint64_t failed = 0;
    for (uint64_t i = 0; i < count; i++) {
        failed += (uint64_t)seed_run(run, seed + i, true);
        if ((i + 1) % PROGRESS_EACH == 0)
            print_message("%llu of %llu runs, %llu failed\n", (unsigned long long)i + 1,
                          (unsigned long long)count, (unsigned long long)failed);
    }
    counts_print(run);
    harness_unshare(run, sizeof *run);
    assert_int_equal(failed, 0);
}

/* ---- the toll --------------------------------------------------------------------- */

/* What the faults of one seed cost the honest pair. */
struct toll {
    double share;   /* of its throughput that is left */
    uint32_t kinds; /* bit per kind that struck */
};

static int share_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Print the least and the median share, of the seeds in which a kind of the mask
 * struck. */
static void tolls_print(const struct toll *tolls, uint64_t count, const char *name,
                        uint32_t kinds)
{
    double shares[TOLLS_MAX];
    size_t struck = 0;
    for (uint64_t i = 0; i < count; i++)
        if (tolls[i].kinds & kinds)
            shares[struck++] = tolls[i].share;
    if (struck == 0)
        return;
    qsort(shares, struck, sizeof shares[0], share_compare);
    print_message("  %-12s %4zu seeds: median %.2f, least %.2f\n", name, struck,
                  shares[struck / 2], shares[0]);
}

/* Run a seed without faults and with them. */
static struct toll toll_measure(struct hostile_run *run, uint64_t seed,
                                uint64_t sums_ns[2])
{
    struct toll toll = {0};
    uint64_t before[HOSTILE_KINDS_COUNT], ns[2];
    for (int i = 0; i < HOSTILE_KINDS_COUNT; i++)
        before[i] = atomic_load(&run->kinds[i]);
    for (int faults = 0; faults < 2; faults++) {
        assert_int_equal(seed_run(run, seed, faults), 0);
        ns[faults] = atomic_load(&run->pair_ns);
        sums_ns[faults] += ns[faults];
    }
    for (int i = 0; i < HOSTILE_KINDS_COUNT; i++)
        if (atomic_load(&run->kinds[i]) > before[i])
            toll.kinds |= 1u << i;
    toll.share = (double)ns[0] / (double)ns[1];
    return toll;
}

/* The honest pair keeps at least half of its throughput. */
static void test_toll(void **state)
{
    uint64_t seed = unit_seed(), count = harness_setting("TRYST_TEST_COUNT", 3);
    struct hostile_run *run = harness_share(sizeof *run);
    struct toll tolls[TOLLS_MAX];
    uint64_t sums_ns[2] = {0};
    assert_true(count > 0 && count <= TOLLS_MAX);
    for (uint64_t i = 0; i < count; i++)
        tolls[i] = toll_measure(run, seed + i, sums_ns);
    harness_unshare(run, sizeof *run);
    double share = (double)sums_ns[0] / (double)sums_ns[1];
    print_message("share of the honest pair's throughput that is left: %.2f of all\n",
                  share);
    tolls_print(tolls, count, "any", UINT32_MAX);
    for (int i = 0; i < HOSTILE_KINDS_COUNT; i++)
        tolls_print(tolls, count, hostile_kind_names[i], 1u << i);
    assert_true(share >= 0.5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_toll),
    };
    program = argv[0];
    setenv("TRYST_MODULE_PATH", TEST_MODULE_PATH, 0);
    return HARNESS_MAIN(argc, argv, tests);
}
