/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that hang in various ways, for test_live.sh. Usage: live_rank <folder> <how>
 *
 * A rank writes its pid to <folder>/rank.<N> just before it hangs. With "page:<what>" the
 * process is no rank: it holds a page that is torn, damaged or foreign. An alarm ends
 * processes that the test leaves. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tryst/coll.h>
#include <tryst/live.h>
#include <tryst/tryst.h>

enum { WATCHDOG_S = 90 };

static const char *folder;
static tryst_ctx *ctx;
static tryst_group *group;
static int me;

static void ready(void)
{
    char path[512];
    char done[sizeof path + 8];
    snprintf(path, sizeof path, "%s/rank.%d", folder, me);
    snprintf(done, sizeof done, "%s.tmp", path);
    FILE *file = fopen(done, "w");
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0 ||
        rename(done, path) != 0)
        exit(1);
}

/* Wait until rank `rank` hangs. */
static void await(int rank)
{
    char path[512];
    snprintf(path, sizeof path, "%s/rank.%d", folder, rank);
    while (access(path, F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static tryst_step *step_open(uint64_t id)
{
    tryst_step *step;
    if (tryst_step_open(group, id, &step) != TRYST_OK)
        exit(1);
    return step;
}

static tryst_op *post(tryst_step *step, bool send, int peer, const char *edge,
                      size_t bytes)
{
    static char small[8]; /* never read */
    char key[TRYST_KEY_MAX + 1];
    tryst_op *op;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = bytes > sizeof small ? calloc(1, bytes) : small,
                           .count = bytes,
                           .dtype = TRYST_DTYPE_U8};
    if (tryst_key_build(group, send ? me : peer, send ? peer : me, edge, 0, 0, key,
                        sizeof key) != TRYST_OK ||
        (send ? tryst_send(step, key, &tensor, NULL, &op)
              : tryst_recv(step, key, &tensor, NULL, &op)) != TRYST_OK)
        exit(1);
    return op;
}

static void hang_in(tryst_op *op)
{
    ready();
    exit(tryst_wait(op, TRYST_FOREVER) != TRYST_OK);
}

static void hang_outside(void)
{
    ready();
    for (;;)
        pause();
}

/* ---- ways to hang ------------------------------------------------------------------ */

/* Rank 1 waits for a tensor that rank 0 never sends; rank 0 hangs outside the library,
 * right after a submission. */
static void never(void)
{
    tryst_step *step = step_open(1);
    if (me == 1)
        hang_in(post(step, false, 0, "act", 8));
    post(step, false, 1, "late", 8);
    hang_outside();
}

/* Start an all-reduce of `count` elements under the name `name`. */
static tryst_op *all_reduce(tryst_step *step, const char *name, size_t count)
{
    tryst_op *op;
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = calloc(count, sizeof(float)),
                           .count = count,
                           .dtype = TRYST_DTYPE_F32};
    if (tryst_allreduce(step, name, NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op) !=
        TRYST_OK)
        exit(1);
    return op;
}

static tryst_op *gradient(tryst_step *step, size_t count)
{
    return all_reduce(step, "gradient", count);
}

/* Ranks 0 and 1 have started 9 all-reduces, and wait for one of them, or for all (-1);
 * rank 2 is outside, and has joined none. */
static void several_wait(int waited)
{
    tryst_step *step = step_open(1);
    tryst_op *ops[9];
    char name[32];
    if (me == 2)
        hang_outside();
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "gradient%d", i);
        ops[i] = all_reduce(step, name, 64);
    }
    if (waited >= 0)
        hang_in(ops[waited]);
    ready();
    exit(tryst_wait_all(ops, 9, TRYST_FOREVER) != TRYST_OK);
}

static void several(void)
{
    several_wait(8);
}

static void several_middle(void)
{
    several_wait(5);
}

static void several_all(void)
{
    several_wait(-1);
}

/* Ranks 0 and 1 wait in an all-reduce for rank 2, which is outside and has not joined. */
static void collective(void)
{
    tryst_step *step = step_open(1);
    if (me == 2)
        hang_outside();
    hang_in(gradient(step, 64));
}

/* Rank 1 is in step 2; rank 0 is still in step 1, and computes. */
static void behind(void)
{
    step_open(1);
    if (me == 1)
        hang_in(post(step_open(2), false, 0, "act", 8));
    ready();
    for (volatile unsigned i = 0;; i++)
        ;
}

static void stopped(void)
{
    tryst_step *step = step_open(1);
    if (me == 1)
        hang_in(post(step, false, 0, "act", 8));
    ready();
    kill(getpid(), SIGSTOP);
    hang_outside();
}

static void mutual(void)
{
    hang_in(post(step_open(1), false, 1 - me, me ? "down" : "up", 8));
}

/* Rank 2 waits for rank 1, rank 1 for rank 0, and rank 0 sleeps in a kernel call. */
static void chain(void)
{
    int ends[2];
    char byte;
    tryst_step *step = step_open(1);
    if (me == 2)
        hang_in(post(step, false, 1, "second", 8));
    if (me == 1) {
        await(2);
        hang_in(post(step, false, 0, "first", 8));
    }
    if (pipe(ends) != 0)
        exit(1);
    ready();
    (void)!read(ends[0], &byte, 1);
    hang_outside();
}

/* Rank 0 sends tensors that rank 1 does not receive: a small one (it has left already),
 * then a large one. */
static void unreceived(size_t bytes)
{
    tryst_step *step = step_open(1);
    if (me == 0)
        hang_in(post(step, true, 1, "grad", bytes));
    ready();
    for (;;) { /* alive, and receives nothing */
        tryst_progress(ctx);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}
static void small(void)
{
    unreceived(8);
}
static void large(void)
{
    unreceived(1 << 20);
}

/* Rank 0 sends two tensors larger than a window; rank 1 has posted both receives and
 * makes no progress. */
static void full(void)
{
    enum { BYTES = 64 << 20 };
    tryst_step *step = step_open(1);
    if (me == 1) {
        (void)post(step, false, 0, "first", BYTES);
        (void)post(step, false, 0, "second", BYTES);
        tryst_peer_info info = {.struct_size = sizeof info, .bytes_received = 0};
        while (tryst_group_peer(group, 0, &info) == TRYST_OK && !info.bytes_received)
            tryst_progress(ctx);
        hang_outside();
    }
    (void)post(step, true, 1, "first", BYTES);
    hang_in(post(step, true, 1, "second", BYTES));
}

/* Rank 0 waits for the second tensor of a key; rank 1 has posted the first one alone, and
 * hangs outside. */
static void second(void)
{
    enum { BYTES = 1 << 20 };
    tryst_step *step = step_open(1);
    if (me == 0) {
        (void)post(step, false, 1, "act", BYTES);
        hang_in(post(step, false, 1, "act", BYTES));
    }
    (void)post(step, true, 0, "act", BYTES);
    hang_outside();
}

/* Like never(), for a test that kills rank 0. */
static void killed(void)
{
    tryst_step *step = step_open(1);
    if (me == 1)
        hang_in(post(step, false, 0, "act", 8));
    hang_outside();
}

/* Each of three ranks waits for the next one. */
static void circle(void)
{
    hang_in(post(step_open(1), false, (me + 1) % 3, "round", 8));
}

/* Rank 1 sleeps in an event loop of the host, outside the library. */
static void armed(void)
{
    tryst_step *step = step_open(1);
    if (me == 0)
        hang_outside();
    post(step, false, 0, "act", 8);
    ready();
    for (;;) {
        struct pollfd ready_fd = {.fd = tryst_event_fd(ctx), .events = POLLIN};
        if (tryst_arm(ctx) == TRYST_OK)
            poll(&ready_fd, 1, -1);
        while (tryst_progress(ctx) > 0)
            ;
    }
}

/* Rank 1 has a progress thread (TRYST_PROGRESS_THREAD), but its own thread never
 * sends. */
static void thread(void)
{
    tryst_step *step = step_open(1);
    if (me == 1)
        hang_outside();
    hang_in(post(step, false, 1, "act", 8));
}

/* Both sides are posted, but frames of rank 0 are lost (TRYST_FAULT). */
static void met(void)
{
    tryst_step *step = step_open(1);
    tryst_op *first = post(step, me == 0, 1 - me, "first", 8);
    if (tryst_wait(first, TRYST_FOREVER) != TRYST_OK)
        exit(1);
    hang_in(post(step, me == 0, 1 - me, "second", 8));
}

static void hang(void *arg, tryst_op *op, tryst_status status)
{
    (void)arg;
    (void)op;
    (void)status;
    hang_outside();
}

/* Rank 0 hangs in a callback, from inside tryst_progress. */
static void callback(void)
{
    char key[TRYST_KEY_MAX + 1], byte;
    tryst_step *step = step_open(1);
    tryst_tensor tensor = {
        .struct_size = sizeof tensor, .data = &byte, .count = 1, .dtype = TRYST_DTYPE_U8};
    tryst_op_params params = {.struct_size = sizeof params, .callback = hang};
    if (me == 1) {
        post(step, true, 0, "go", 1);
        hang_in(post(step, false, 0, "act", 8));
    }
    if (tryst_key_build(group, 1, 0, "go", 0, 0, key, sizeof key) != TRYST_OK ||
        tryst_recv(step, key, &tensor, &params, NULL) != TRYST_OK)
        exit(1);
    for (;;)
        tryst_progress(ctx);
}

/* Like never(), but rank 0 has forked a worker (as data loaders do), which writes its pid
 * to rank.2. */
static void worker(void)
{
    tryst_step *step = step_open(1);
    if (me == 1)
        hang_in(post(step, false, 0, "act", 8));
    if (fork() == 0) {
        alarm(WATCHDOG_S);
        me = 2;
        hang_outside();
    }
    hang_outside();
}

/* No hang: both ranks send and receive repeatedly, and wait for each receive. */
static void busy(void)
{
    for (uint64_t id = 1;; id++) {
        tryst_step *step = step_open(id);
        tryst_op *ops[2] = {post(step, true, 1 - me, me ? "down" : "up", 8),
                            post(step, false, 1 - me, me ? "up" : "down", 8)};
        if (tryst_wait(ops[1], TRYST_FOREVER) != TRYST_OK ||
            tryst_wait(ops[0], TRYST_FOREVER) != TRYST_OK)
            exit(1);
        tryst_op_release(ops[0]);
        tryst_op_release(ops[1]);
        tryst_step_close(step, NULL);
        if (id == 100)
            ready();
    }
}

/* Progress all operations of the rank until `op` is done. */
static void serve(tryst_op *op)
{
    while (tryst_op_test(op) == TRYST_IN_PROGRESS)
        tryst_progress(ctx);
}

/* No hang: like busy(), from a loop that progresses all operations; each rank also has an
 * open receive without a sender, as servers have. */
static void serving(void)
{
    post(step_open(0), false, 1 - me, me ? "call" : "answer", 8);
    for (uint64_t id = 1;; id++) {
        tryst_step *step = step_open(id);
        tryst_op *ops[2] = {post(step, true, 1 - me, me ? "down" : "up", 8),
                            post(step, false, 1 - me, me ? "up" : "down", 8)};
        for (int i = 0; i < 2; i++) {
            serve(ops[i]);
            tryst_op_release(ops[i]);
        }
        tryst_step_close(step, NULL);
        if (id == 100)
            ready();
    }
}

/* Deadlock in two such loops. */
static void stuck_serving(void)
{
    tryst_op *op = post(step_open(1), false, 1 - me, me ? "down" : "up", 8);
    ready();
    serve(op);
}

/* No hang: messages both ways and an all-reduce, with a trace in
 * <folder>/trace.<rank>. */
static void traced(void)
{
    tryst_step *step = step_open(1);
    char path[512];
    tryst_op *ops[41];
    for (int i = 0; i < 20; i++) {
        char edge[16];
        snprintf(edge, sizeof edge, "edge%d", i);
        ops[2 * i] = post(step, true, 1 - me, edge, i % 2 ? 100000 : 8);
        ops[2 * i + 1] = post(step, false, 1 - me, edge, i % 2 ? 100000 : 8);
    }
    ops[40] = gradient(step, 100000);
    if (tryst_wait_all(ops, 41, TRYST_FOREVER) != TRYST_OK)
        exit(1);
    snprintf(path, sizeof path, "%s/trace.%d", folder, me);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || tryst_trace_write(ctx, fd) != TRYST_OK)
        exit(1);
    tryst_step_close(step, NULL);
    tryst_group_close(group);
    tryst_close(ctx);
    exit(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"never", never},
    {"behind", behind},
    {"stopped", stopped},
    {"mutual", mutual},
    {"chain", chain},
    {"small", small},
    {"large", large},
    {"killed", killed},
    {"full", full},
    {"circle", circle},
    {"armed", armed},
    {"collective", collective},
    {"thread", thread},
    {"met", met},
    {"traced", traced},
    {"callback", callback},
    {"worker", worker},
    {"busy", busy},
    {"serving", serving},
    {"stuck_serving", stuck_serving},
    {"second", second},
    {"several", several},
    {"several_middle", several_middle},
    {"several_all", several_all},
};

/* ---- invalid pages ----------------------------------------------------------------- */

static void page_make(const char *what)
{
    enum { PEERS = 2, OPS = 4, ROOM = 512 };
    size_t bytes = ROOM + PEERS * sizeof(struct tryst_live_peer) +
                   OPS * sizeof(struct tryst_live_op);
    int fd = memfd_create(TRYST_LIVE_NAME "0", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        exit(1);
    char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        exit(1);
    if (strcmp(what, "unsealed") != 0)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    struct tryst_live_header header = {
        .magic = strcmp(what, "young") == 0 ? 0 : TRYST_LIVE_MAGIC,
        .layout = TRYST_LIVE_LAYOUT + (strcmp(what, "layout") == 0),
        .header_bytes = sizeof header,
        .version = "9.8.7",
        .peers_offset = ROOM,
        .peers_count = PEERS,
        .peer_bytes = sizeof(struct tryst_live_peer),
        .ops_offset = ROOM + PEERS * sizeof(struct tryst_live_peer),
        .ops_count = strcmp(what, "damaged") == 0 ? 1000000 : OPS,
        .op_bytes = sizeof(struct tryst_live_op),
        .page_bytes = bytes,
        .pid = strcmp(what, "copy") == 0 ? 1 : getpid(),
        .size = PEERS,
        .phase = TRYST_LIVE_OPEN,
        .session = 5,
        .pending = 2};
    memcpy(page, &header, sizeof header);
    struct tryst_live_op *ops = (void *)(page + header.ops_offset);
    ops[0] = (struct tryst_live_op){.begun = 5,
                                    .ended = 5,
                                    .kind = TRYST_LIVE_RECV,
                                    .state = TRYST_LIVE_POSTED,
                                    .peer = 1,
                                    .key_bytes = 3,
                                    .key = "whole"};
    /* killed while writing, and full of invalid values */
    ops[1] = (struct tryst_live_op){.begun = 7,
                                    .ended = 6,
                                    .kind = 200,
                                    .state = 77,
                                    .peer = -123456,
                                    .key_bytes = UINT64_MAX,
                                    .since_ns = UINT64_MAX,
                                    .done_bytes = UINT64_MAX,
                                    .key = "half\033[31m"};
    ready();
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    folder = argv[1];
    alarm(WATCHDOG_S);
    if (strncmp(argv[2], "page:", 5) == 0)
        page_make(argv[2] + 5);
    if (tryst_open(NULL, &ctx) != TRYST_OK)
        return 1;
    if (strcmp(argv[2], "gather") == 0) {
        me = atoi(getenv("TRYST_RANK"));
        ready();
        if (me == 1)
            for (;;)
                pause();
    }
    if (tryst_group_open(ctx, NULL, &group) != TRYST_OK)
        return 1;
    me = tryst_group_rank(group);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[2]) == 0)
            ways[i].run();
    return 2;
}
