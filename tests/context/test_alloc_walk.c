/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of a short run fails once, one per try.
 *
 * Idea: one script calls nearly all functions that a rank can call. A try is one run of
 * the script in which allocation n of one rank fails. The failure must become a status: a
 * call returns TRYST_E_NOMEM and, if the call can be repeated, then works; or operations
 * end with an error. The rank then leaves, and the other rank is notified. Nothing stays
 * allocated or open.
 *
 * Each try has its own processes, so a crash, a leak or a hang is reported with its n.
 *
 * Usage: context_alloc_walk self|shm|ucx|ofi [every]: one rank with itself, or two
 * ranks. With `every` only every so many allocations fail; TRYST_TEST_SEED chooses the
 * first. */
#include "support/child.h"
#include "support/descriptors.h"
#include "support/patience.h"
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tryst/coll.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/clock.h"

enum { SMALL = 200, LARGE = 200000, SMALLS = 6, RANKS_MAX = 2, OPS_MAX = 48 };
enum { COLLS = 6, COLL_LARGE = LARGE / sizeof(float), COLL_SMALL = 100 };
/* A rank that waits longer than this hangs, however busy the machine is. */
#define PATIENCE_NS (40 * NS_PER_S)
enum { TRY_S = 120 };

static const char *mode = "self";
static uint64_t every = 1;
static int size = 1;

/* The report of a rank to the test, in memory that both share. */
struct outcome {
    uint64_t allocations; /* allocations that the script has attempted */
    bool came_to_pass;    /* true if the planned failure occurred */
    bool noticed;         /* true if a call or an operation of this rank failed */
    /* all operations of the rank have ended, or the rank gave up before */
    _Atomic(bool) waited;
};
static struct outcome *outcomes;

/* ---- one rank ---------------------------------------------------------------------- */

struct pending {
    tryst_op *op;
    tryst_status wanted; /* status in a run without a failure */
};

struct script {
    int rank;
    int peer;
    uint64_t fail_at; /* number of this rank's allocation that fails; 0: none */
    bool planned;     /* true if an allocation of any rank fails in this try */
    int listen_fd;
    /* socket of rank 0's bootstrap, which takes the socket over if its open gets that
     * far */
    int server_fd;
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *steps[2];
    struct pending ops[OPS_MAX];
    int ops_count;
    tryst_mem *own_mem, *mem;
    /* LARGE bytes each; `own` has twice as many */
    char *own, *large_in, *alloc_in;
    float *colls[COLLS]; /* COLL_LARGE elements each */
    char small[SMALLS][2][SMALL];
    _Atomic(int) callbacks, callbacks_wanted;
    char error[1024]; /* error text of an operation */
};

static _Noreturn void die(struct script *script, const char *what, tryst_status status)
{
    alloc_fail_off();
    dprintf(2, "rank %d: %s: %s %s\n", script->rank, what, tryst_status_name(status),
            *script->error ? script->error : tryst_last_error());
    if (script->ctx)
        tryst_dump(script->ctx, 2);
    _exit(1);
}

static void log_line(void *arg, tryst_log_level level, const char *line)
{
    (void)arg, (void)level;
    if (getenv("TRYST_TEST_LOG"))
        dprintf(2, "%s\n", line);
}

/* True if the call worked. On this rank the failed allocation must give TRYST_E_NOMEM;
 * its consequences, here and on the other rank, must have statuses of the bands peer,
 * group and context. */
static bool worked(struct script *script, tryst_status status, const char *what)
{
    if (status == TRYST_OK)
        return true;
    /* a rank that gives up the bootstrap sends its status to the others */
    bool want = status == TRYST_E_NOMEM && (script->fail_at || !script->group);
    outcomes[script->rank].noticed = true;
    if (!script->planned || (!want && (status < 200 || status == TRYST_E_SYSTEM)))
        die(script, what, status);
    return false;
}

/* Repeat a call once after TRYST_E_NOMEM: the failed call must have changed nothing. */
#define WORKED_AGAIN(script, call, what) \
    (worked(script, call, what) || worked(script, call, what " again"))

static void fill(void *data, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)data)[i] = (unsigned char)(i * 7 + (size_t)seed);
}

static void check_filled(struct script *script, const void *data, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)data)[i] != (unsigned char)(i * 7 + (size_t)seed))
            die(script, "wrong bytes came", TRYST_OK);
}

static tryst_status config_make(struct script *script, tryst_config **config_p)
{
    char rank[16], all[16], address[64], fd[16];
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    getsockname(script->listen_fd, (struct sockaddr *)&at, &bytes);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    snprintf(rank, sizeof rank, "%d", script->rank);
    snprintf(all, sizeof all, "%d", size);
    snprintf(fd, sizeof fd, "%d", script->server_fd);
    const char *const pairs[][2] = {{"transport", mode},
                                    {"trace", "1"},
                                    {"log_level", "debug"},
                                    {"rank", rank},
                                    {"size", all},
                                    {"bootstrap", address},
                                    {"token", "a token of the tests"},
                                    {"bootstrap_fd", fd}};
    tryst_config *config = NULL;
    tryst_status status = tryst_config_open(&config);
    for (size_t i = 0; i < COUNT_OF(pairs) && status == TRYST_OK; i++)
        status = tryst_config_set(config, pairs[i][0], pairs[i][1]);
    if (status == TRYST_OK)
        *config_p = config;
    else
        tryst_config_close(config);
    return status;
}

static bool context_open(struct script *script)
{
    tryst_config *config = NULL;
    if (!WORKED_AGAIN(script, config_make(script, &config), "configuration"))
        return false;
    tryst_open_params params = {
        .struct_size = sizeof params, .config = config, .log_fn = log_line};
    bool opened = WORKED_AGAIN(script, tryst_open(&params, &script->ctx), "tryst_open");
    tryst_config_close(config);
    return opened;
}

/* Open the group. The other rank may never come, so the time-out is short if a failure is
 * planned. (If it is too short on a busy machine, the try only checks less.) */
static bool group_open(struct script *script)
{
    tryst_group_params params = {.struct_size = sizeof params,
                                 .timeout_ns =
                                     script->planned ? NS_PER_S / 4 : PATIENCE_NS};
    return worked(script, tryst_group_open(script->ctx, &params, &script->group),
                  "tryst_group_open");
}

static bool memory_open(struct script *script)
{
    void *own = NULL;
    if (!WORKED_AGAIN(script,
                      tryst_mem_alloc(script->ctx, (size_t)2 * LARGE, TRYST_MEMORY_HOST,
                                      0, &own, &script->own_mem),
                      "tryst_mem_alloc") ||
        !WORKED_AGAIN(script,
                      tryst_mem_register(script->ctx, script->large_in, LARGE,
                                         TRYST_MEMORY_HOST, 0, &script->mem),
                      "tryst_mem_register"))
        return false;
    script->own = own;
    fill(own, (size_t)2 * LARGE, script->rank);
    return true;
}

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct script *script = arg;
    (void)op, (void)status;
    atomic_fetch_add(&script->callbacks, 1);
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    struct script *script = arg;
    if (tensor->count != LARGE)
        return TRYST_E_MISMATCH;
    tensor->data = script->alloc_in;
    return TRYST_OK;
}

struct wish {
    const char *edge;
    bool send;
    int step;
    void *data;
    size_t bytes;
    tryst_op_params params;
    tryst_status wanted;
};

static bool submit(struct script *script, const struct wish *wish, bool prepared)
{
    char text[TRYST_KEY_MAX + 1];
    int src = wish->send ? script->rank : script->peer;
    int dst = wish->send ? script->peer : script->rank;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = wish->data,
                           .count = wish->bytes,
                           .dtype = TRYST_DTYPE_U8,
                           .mem = wish->data == script->large_in ? script->mem : NULL};
    const tryst_tensor *given = wish->params.alloc ? NULL : &tensor;
    tryst_step *step = script->steps[wish->step];
    tryst_op *op = NULL;
    tryst_key *key = NULL;
    tryst_op_params params = wish->params;
    params.struct_size = sizeof params;
    if (tryst_key_build(script->group, src, dst, wish->edge, 0, 0, text, sizeof text))
        die(script, "tryst_key_build", TRYST_OK);
    bool ok;
    if (prepared) {
        if (!WORKED_AGAIN(script, tryst_key_prepare(script->group, text, &key),
                          "tryst_key_prepare"))
            return false;
        ok = wish->send
                 ? WORKED_AGAIN(script, tryst_send_key(step, key, given, &params, &op),
                                "tryst_send_key")
                 : WORKED_AGAIN(script, tryst_recv_key(step, key, given, &params, &op),
                                "tryst_recv_key");
        tryst_key_release(key);
    } else {
        ok = wish->send
                 ? WORKED_AGAIN(script, tryst_send(step, text, given, &params, &op),
                                "tryst_send")
                 : WORKED_AGAIN(script, tryst_recv(step, text, given, &params, &op),
                                "tryst_recv");
    }
    if (!ok)
        return false;
    atomic_fetch_add(&script->callbacks_wanted, wish->params.callback != NULL);
    script->ops[script->ops_count++] = (struct pending){op, wish->wanted};
    return true;
}

/* Submit a small tensor each way with priority, two of them by prepared key and one with
 * a callback. */
static bool submit_smalls(struct script *script)
{
    static const char *const edges[SMALLS] = {"s0", "s1", "s2", "s3", "s4", "s5"};
    for (int i = 0; i < SMALLS; i++) {
        struct wish wish = {.edge = edges[i],
                            .bytes = SMALL,
                            .params = {.flags = TRYST_OP_PRIORITY, .priority = -i}};
        if (i == 3) {
            wish.params.callback = on_done;
            wish.params.arg = script;
        }
        fill(script->small[i][0], SMALL, script->rank + i);
        for (int way = 0; way < 2; way++) {
            wish.send = way == (i + script->rank) % 2;
            wish.data = script->small[i][wish.send ? 0 : 1];
            if (!submit(script, &wish, i >= 4))
                return false;
        }
    }
    return true;
}

static bool submit_all(struct script *script)
{
    tryst_op_params alloc = {.alloc = on_alloc, .alloc_arg = script};
    tryst_op_params urgent = {.flags = TRYST_OP_PRIORITY, .priority = -9};
    const struct wish wishes[] = {
        {"large", true, 0, script->own, LARGE, urgent, TRYST_OK},
        {"large", false, 0, script->large_in, LARGE, {0}, TRYST_OK},
        {"shape", false, 0, NULL, 0, alloc, TRYST_OK},
        {"shape", true, 0, script->own + LARGE, LARGE, {0}, TRYST_OK},
        {"dead", true, 0, NULL, 10, {.flags = TRYST_OP_DEAD}, TRYST_E_DEAD},
        {"dead", false, 0, script->small[0][1], 10, {0}, TRYST_E_DEAD},
        {"unlike", true, 0, script->small[0][0], 10, {0}, TRYST_E_MISMATCH},
        {"unlike", false, 0, script->small[0][1], 11, {0}, TRYST_E_MISMATCH},
        {"late",
         false,
         0,
         script->small[0][1],
         9,
         {.deadline_ns = 5000000},
         TRYST_E_DEADLINE},
        {"aborted", false, 1, script->alloc_in, LARGE, {0}, TRYST_E_ABORTED},
        {"aborted", true, 1, script->own, SMALL, {0}, TRYST_E_ABORTED},
    };
    /* the memory of "dead" and "unlike" is not written; the small tensors that are
     * checked have their own memory */
    for (size_t i = 0; i < COUNT_OF(wishes); i++)
        if (!submit(script, &wishes[i], false))
            return false;
    struct wish canceled = {"canceled", false,           0, script->alloc_in, SMALL,
                            {0},        TRYST_E_CANCELED};
    if (!submit(script, &canceled, false))
        return false;
    tryst_status status = tryst_op_cancel(script->ops[script->ops_count - 1].op);
    return worked(script, status, "tryst_op_cancel");
}

static bool coll_submit(struct script *script, int at)
{
    static const char *const names[COLLS] = {"c0", "c1", "c2", "c3", "c4", "c5"};
    tryst_step *step = script->steps[0];
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = script->colls[at],
                           .count = at % 2 ? COLL_SMALL : COLL_LARGE,
                           .dtype = TRYST_DTYPE_F32};
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = TRYST_OP_PRIORITY,
                              .priority = at,
                              .deadline_ns = at == 1 ? 100 * NS_PER_S : 0};
    tryst_coll_params what = {.struct_size = sizeof what,
                              .kind = TRYST_COLL_ALLREDUCE,
                              .reduce = TRYST_REDUCE_SUM,
                              .count = tensor.count,
                              .dtype = tensor.dtype,
                              .name = names[at]};
    const tryst_tensor *in = script->rank == 0 ? NULL : &tensor;
    tryst_coll *coll = NULL;
    tryst_op *op = NULL;
    bool ok = true;
    for (uint64_t i = 0; i < tensor.count; i++)
        script->colls[at][i] = (float)(script->rank + 1);
    if (at < 2)
        ok = WORKED_AGAIN(script,
                          tryst_allreduce(step, names[at], NULL, &tensor,
                                          TRYST_REDUCE_SUM, &params, &op),
                          "tryst_allreduce");
    else if (at < 4)
        ok = WORKED_AGAIN(
            script,
            tryst_reduce(step, names[at], in, &tensor, TRYST_REDUCE_SUM, 0, &params, &op),
            "tryst_reduce");
    else
        ok = WORKED_AGAIN(script, tryst_coll_prepare(script->group, &what, &coll),
                          "tryst_coll_prepare") &&
             WORKED_AGAIN(script,
                          tryst_coll_start(step, coll, NULL, &tensor, &params, &op),
                          "tryst_coll_start");
    tryst_coll_release(coll);
    if (op)
        script->ops[script->ops_count++] = (struct pending){op, TRYST_OK};
    return ok;
}

static bool submit_colls(struct script *script)
{
    tryst_op *op = NULL;
    for (int i = 0; i < COLLS; i++)
        if (!coll_submit(script, i))
            return false;
    if (!WORKED_AGAIN(script, tryst_barrier(script->steps[0], "b", NULL, &op),
                      "tryst_barrier"))
        return false;
    script->ops[script->ops_count++] = (struct pending){op, TRYST_OK};
    return true;
}

static void colls_check(struct script *script)
{
    float sum = (float)(size * (size + 1)) / 2;
    for (int at = 0; at < COLLS; at++) {
        bool is_sum = script->rank == 0 || at < 2 || at > 3;
        float wanted = is_sum ? sum : (float)(script->rank + 1);
        for (size_t i = 0; i < (at % 2 ? COLL_SMALL : COLL_LARGE); i++)
            if (script->colls[at][i] != wanted)
                die(script, "a wrong sum", TRYST_OK);
    }
}

static void give_up(struct script *script)
{
    for (int i = 0; i < 2; i++)
        if (script->steps[i])
            tryst_step_abort(script->steps[i], TRYST_E_NOMEM, "the walk");
}

/* True if the operation ended with its wanted status. Fail if the operation does not
 * end. */
static bool op_end(struct script *script, struct pending *pending)
{
    tryst_error error = {.struct_size = sizeof error, .text = "", .key = ""};
    tryst_status status = tryst_wait(pending->op, PATIENCE_NS);
    bool good = status == pending->wanted;
    if (status == TRYST_E_TIMEOUT)
        die(script, "an operation hangs", status);
    if (status != tryst_op_error(pending->op, &error))
        die(script, "two statuses of one operation", status);
    if (!good && (!script->planned || status < 100)) {
        snprintf(script->error, sizeof script->error, "%s (%s)", error.text, error.key);
        die(script, "an operation ended with an unexpected status", status);
    }
    outcomes[script->rank].noticed |= !good;
    tryst_op_release(pending->op);
    return good;
}

static void ops_end(struct script *script, int count)
{
    bool all = true;
    for (int i = 0; i < count; i++)
        all = op_end(script, &script->ops[i]) && all;
    memmove(script->ops, script->ops + count,
            (size_t)(script->ops_count - count) * sizeof *script->ops);
    script->ops_count -= count;
    if (!all)
        give_up(script);
}

static void steps_run(struct script *script)
{
    int first = script->ops_count;
    bool submitted = submit_smalls(script) && submit_all(script) && submit_colls(script);
    if (!submitted)
        give_up(script);
    else if (script->rank == 0)
        worked(script, tryst_step_abort(script->steps[1], TRYST_E_IO, "a full disk"),
               "tryst_step_abort");
    ops_end(script, script->ops_count - first);
    if (outcomes[script->rank].noticed)
        return;
    for (int i = 1; i < SMALLS; i++)
        check_filled(script, script->small[i][1], SMALL, script->peer + i);
    check_filled(script, script->large_in, LARGE, script->peer);
    check_filled(script, script->alloc_in, LARGE, script->peer + (int)(LARGE % 256) * 7);
    colls_check(script);
    if (atomic_load(&script->callbacks) != atomic_load(&script->callbacks_wanted))
        die(script, "callbacks are missing", TRYST_OK);
}

/* Wait for the other ranks. An early close of the step would end their operations, also
 * cancelled ones. */
static void await_others(struct script *script)
{
    struct patience patience = patience_begin();
    atomic_store(&outcomes[script->rank].waited, true);
    while (!atomic_load(&outcomes[script->peer].waited)) {
        if (patience_spent_ns(&patience) > PATIENCE_NS)
            die(script, "the other rank hangs", TRYST_OK);
        tryst_progress(script->ctx);
        usleep(100);
    }
}

static void steps_close(struct script *script)
{
    await_others(script);
    for (int i = 0; i < 2 && script->steps[i]; i++) {
        tryst_op *op = NULL;
        if (WORKED_AGAIN(script, tryst_step_close(script->steps[i], &op),
                         "tryst_step_close"))
            script->ops[script->ops_count++] = (struct pending){op, TRYST_OK};
    }
    ops_end(script, script->ops_count);
}

static int visit_counter(void *arg, const char *name, uint64_t value)
{
    (void)arg, (void)name, (void)value;
    return 0;
}

static int visit_transport(void *arg, const tryst_transport_info *info)
{
    (void)arg, (void)info;
    return 0;
}

static void look(struct script *script)
{
    tryst_peer_info info = {.struct_size = sizeof info};
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    tryst_dump(script->ctx, fd);
    tryst_counter_visit(script->ctx, visit_counter, NULL);
    if (strcmp(mode, "ucx") == 0 || strcmp(mode, "ofi") == 0)
        tryst_transport_visit(script->ctx, visit_transport, NULL); /* loads modules */
    worked(script, tryst_group_peer(script->group, script->peer, &info),
           "tryst_group_peer");
    if (!worked(script, tryst_trace_write(script->ctx, fd), "tryst_trace_write"))
        worked(script, tryst_trace_write(script->ctx, fd), "tryst_trace_write again");
    close(fd);
}

static void script_run(struct script *script)
{
    if (!context_open(script) || !group_open(script))
        return;
    bool ready = memory_open(script);
    for (uint64_t i = 0; i < 2 && ready; i++)
        ready =
            WORKED_AGAIN(script, tryst_step_open(script->group, i + 1, &script->steps[i]),
                         "tryst_step_open");
    if (ready)
        steps_run(script);
    steps_close(script);
    look(script);
    tryst_mem_release(script->own_mem);
    tryst_mem_release(script->mem);
}

static void rank_main(struct script *script)
{
    struct outcome *outcome = &outcomes[script->rank];
    script->large_in = calloc(3, LARGE);
    script->alloc_in = script->large_in + LARGE;
    for (int i = 0; i < COLLS; i++)
        script->colls[i] = calloc(1, LARGE);
    int fds = descriptors_open(), listens = 0;
    socklen_t bytes = sizeof listens;
    script->server_fd = script->rank == 0 && size > 1 ? dup(script->listen_fd) : -1;
    uint64_t seen = alloc_seen_count();
    if (script->fail_at)
        alloc_fail_at(script->fail_at);
    script_run(script);
    atomic_store(&outcome->waited, true);
    tryst_group_close(script->group);
    tryst_close(script->ctx);
    script->ctx = NULL;
    outcome->came_to_pass = alloc_fail_off();
    outcome->allocations = alloc_seen_count() - seen;
    if (alloc_live_count())
        die(script, "memory is left", TRYST_OK);
    if (script->server_fd >= 0 &&
        getsockopt(script->server_fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0)
        close(script->server_fd);
    if (descriptors_open() != fds)
        die(script, "descriptors are left", TRYST_OK);
    for (int i = 0; i < COLLS; i++)
        free(script->colls[i]);
    free(script->large_in);
}

/* ---- tries ------------------------------------------------------------------------- */

static int loopback_listen(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, RANKS_MAX), 0);
    return fd;
}

static pid_t rank_start(int rank, int failing, uint64_t nth, int listen_fd)
{
    pid_t pid = child_fork();
    if (pid != 0)
        return pid;
    alarm(TRY_S);
    struct script *script = calloc(1, sizeof *script);
    script->rank = rank;
    script->peer = size - 1 - rank;
    script->fail_at = rank == failing ? nth : 0;
    script->planned = nth != 0;
    script->listen_fd = listen_fd;
    rank_main(script);
    free(script);
    exit(0); /* not _exit: the leak checker runs at exit */
}

/* Run the script once; allocation `nth` of rank `failing` fails (0: none fails). */
static void try_run(int failing, uint64_t nth)
{
    pid_t pids[RANKS_MAX];
    int statuses[RANKS_MAX];
    bool bad = false;
    memset(outcomes, 0, RANKS_MAX * sizeof *outcomes);
    int listen_fd = loopback_listen();
    for (int i = 0; i < size; i++)
        pids[i] = rank_start(i, failing, nth, listen_fd);
    close(listen_fd);
    for (int i = 0; i < size; i++) {
        assert_int_equal(waitpid(pids[i], &statuses[i], 0), pids[i]);
        bad = bad || statuses[i] != 0;
    }
    for (int i = 0; i < size && bad; i++)
        print_error("allocation %llu of rank %d failed; rank %d ended with %s %d\n",
                    (unsigned long long)nth, failing, i,
                    WIFSIGNALED(statuses[i]) ? "signal" : "status",
                    WIFSIGNALED(statuses[i]) ? WTERMSIG(statuses[i])
                                             : WEXITSTATUS(statuses[i]));
    assert_false(bad);
}

static void walk(int failing)
{
    uint64_t tries = 0, noticed = 0, silent_ends = 0;
    uint64_t first = every > 1 ? unit_seed() % every + 1 : 1;
    uint64_t begin_ns = clock_monotonic_ns();
    try_run(failing, 0);
    uint64_t count = outcomes[failing].allocations;
    /* The number of allocations varies a little with the order in which the ranks
     * meet. */
    for (uint64_t nth = first; nth <= count || silent_ends < 3; nth += every) {
        try_run(failing, nth);
        tries += outcomes[failing].came_to_pass;
        silent_ends = outcomes[failing].came_to_pass ? 0 : silent_ends + 1;
        for (int i = 0; i < size; i++)
            noticed += outcomes[i].noticed;
    }
    print_message(
        "rank %d of %d (%s): %llu allocations, %llu made to fail, ranks noticed "
        "%llu times; %.1f s\n",
        failing, size, mode, (unsigned long long)count, (unsigned long long)tries,
        (unsigned long long)noticed, (double)(clock_monotonic_ns() - begin_ns) / 1e9);
    assert_true(tries >= count / every / 2);
    assert_true(noticed > 0);
}

static void walk_rank_0(void **state)
{
    walk(0);
}

static void walk_rank_1(void **state)
{
    if (size > 1)
        walk(1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walk_rank_0),
        cmocka_unit_test(walk_rank_1),
    };
    if (argc > 1)
        mode = argv[1];
    if (argc > 2)
        every = strtoull(argv[2], NULL, 0);
    size = strcmp(mode, "self") == 0 ? 1 : RANKS_MAX;
    every = every ? every : 1;
    outcomes = mmap(NULL, RANKS_MAX * sizeof *outcomes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return outcomes == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
