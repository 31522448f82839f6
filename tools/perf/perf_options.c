/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tryst-perf's command line; see perf_options.h. */
#include "perf_options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <tryst/tryst.h>

#include "tools/launch/launcher.h"
#include "tools/options.h"

/* The default window is the one that tests/perf/compare.sh gives to tag_bw of
 * ucx_perftest. */
enum { WINDOW_DEFAULT = 32, WINDOW_MAX = 4096 };
/* of sched */
enum { STEPS_DEFAULT = 5, STEPS_WARMUP = 2 };
#define BYTES_MAX  (1ull << 40)
#define DTYPES     "u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64"
#define REDUCTIONS "sum prod min max avg premul and or xor"

static const char help[] =
    "Usage: tryst-perf KIND [options]\n"
    "\n"
    "Measures between ranks that tryst-perf starts here (-n), or that tryst-run,\n"
    "mpirun, srun or torchrun started, or that TRYST_RANK and TRYST_SIZE describe.\n"
    "\n"
    "Two ranks, by prepared key:\n"
    "  pingpong             one tensor there and back: time for one way\n"
    "  bandwidth            many tensors one way, some outstanding at any time\n"
    "  preempt              an urgent tensor again and again behind large ones\n"
    "Any number of ranks, one collective at a time:\n"
    "  allreduce            the reduction of all tensors, at every rank\n"
    "  reduce               the reduction of all tensors, at --root\n"
    "  broadcast            the tensor of --root, at every rank\n"
    "  allgather            the tensors of all ranks, at every rank\n"
    "  reducescatter        a block of the reduction at each rank\n"
    "  alltoall             a block from each rank to each\n"
    "  barrier              no bytes\n"
    "  preempt --op allreduce\n"
    "                       an urgent all-reduce again and again under large ones\n"
    "  sched                see tryst-perf sched --help\n"
    "\n"
    "All kinds:\n"
    "  -n, --ranks N        ranks to start here (2)\n"
    "  -s, --sizes A:B      bytes of a tensor, of all blocks: A, 2A ... B; or A,B,C\n"
    "                       (pairs 8:64M, preempt 4K,64K,1M; collectives 4:64M, preempt\n"
    "                       1M; K, M, G are powers of 1024)\n"
    "  -f, --factor N       from one size of A:B to the next (2)\n"
    "  -i, --iterations N   operations measured for each size (pairs 10000 small\n"
    "                       ones, fewer large ones; collectives as many as fit in 1 s,\n"
    "                       10 to 10000; preempt 100); also --iters\n"
    "  -w, --warmup N       operations before those (pairs a tenth, at least 10;\n"
    "                       collectives and preempt 5)\n"
    "      --transport NAME\n"
    "                       auto, shm, ucx, ofi (TRYST_TRANSPORT, else auto)\n"
    "  -j, --json FILE|-    write the figures as JSON (- is stdout, without the table)\n"
    "  -h, --help           print this; or --version\n"
    "Pairs:\n"
    "  -m, --memory KIND    where tensors lie: host or cuda (device 0), or KIND:KIND\n"
    "                       for rank 0's and rank 1's (host)\n"
    "  -O, --window N       bandwidth: transfers outstanding (32)\n"
    "Collectives:\n"
    "  -d, --dtype TYPE     u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 (f32)\n"
    "  -o, --op OP          sum prod min max avg premul and or xor (sum)\n"
    "  -r, --root RANK      reduce, broadcast (0)\n"
    "  -m, --memory KIND    plain, mapped (of tryst_mem_alloc), cuda (device 0) (plain)\n"
    "      --inplace        the input is where the result will be\n"
    "  -c, --check          compare each result, to the last bit, with one that is\n"
    "                       computed; a barrier before each operation\n"
    "      --explain        show where the time of each edge went; not barrier\n"
    "  -p, --priority N     of all operations, smaller is more urgent; or background\n"
    "Preempt:\n"
    "      --background B   bytes of each tensor of the background; with --op allreduce\n"
    "                       of the two together (1G)\n"
    "      --every MS       milliseconds between urgent operations (50)\n"
    "      --fifo           first come, first served (TRYST_SCHED=fifo), to compare\n"
    "\n"
    "Pairs: seconds are the median, p99 the 99th percentile; bandwidth: from one\n"
    "completion to the next, averaged over a window; preempt: from the submission of\n"
    "the urgent send to its completion, beside a bound: the window at the\n"
    "background's rate, and the urgent tensor alone.\n"
    "\n"
    "Collectives: from a rank's submission to its completion; the slowest rank of\n"
    "each iteration counts; no barrier is between them. Bandwidths as in\n"
    "nccl-tests: alg is size / median; bus is that times 2(n-1)/n for allreduce,\n"
    "(n-1)/n for allgather, reducescatter, alltoall, else 1. bound, where\n"
    "the rates of links are known: the least time of these payload bytes over\n"
    "all trees; ratio: median / bound. Headers of TCP over Ethernet make it 1514/1448.\n"
    "\n"
    "preempt --op allreduce: bound is the time alone, and at each hop of the longest\n"
    "path between root and leaf the windows of the sending host / its rate.\n"
    "\n"
    "Each rank started here is bound to a processor, if there are as many.\n"
    "\n"
    "Exit status: 0 done, 1 failed or a result is wrong, 2 wrong command line.\n";

static const char help_sched[] =
    "Usage: tryst-perf sched --profile FILE [-n RANKS] [options]\n"
    "  or:  tryst-perf sched --profile FILE --simulate --gbit G [options]\n"
    "\n"
    "Replays a training step with known durations, a profile (tryst/profile.h has the\n"
    "format), and compares orders of its operations with the optimum. Over ranks, which\n"
    "tryst-perf starts or which are there (tryst-perf --help), each action is a timed\n"
    "wait and each operation an all-reduce of as many bytes.\n"
    "\n"
    "      --profile FILE|-\n"
    "                       the profile as JSON; with %r in FILE those of all ranks,\n"
    "                       merged: of each operation the slowest rank counts\n"
    "      --bucket B       bytes of a bucket, the first one 1M at most (25M)\n"
    "  -j, --json FILE|-    write the figures as JSON (- is stdout, without the table)\n"
    "      --draw FILE.svg  draw a step under each order to one scale of time; over\n"
    "                       ranks: the last step of rank 0, beside the best order in\n"
    "                       virtual time\n"
    "      --report FILE.html\n"
    "                       write a page with these figures, the order of the\n"
    "                       operations and the same picture, to zoom\n"
    "  -h, --help           print this; or --version\n"
    "Over ranks:\n"
    "  -n, --ranks N        ranks to start here (2)\n"
    "  -i, --iterations N   steps measured for each policy (5); also --iters\n"
    "  -w, --warmup N       steps before those (2)\n"
    "      --transport NAME\n"
    "                       auto, shm, ucx, ofi (TRYST_TRANSPORT, else auto)\n"
    "In virtual time, without ranks:\n"
    "      --simulate       needs --gbit\n"
    "      --gbit G         rate of the network, Gbit/s (10^9 bits)\n"
    "      --latency US     from an operation's last byte to its end, microseconds (0)\n"
    "\n"
    "Policies and orders:\n"
    "  fifo                 the operation that was ready first (TRYST_SCHED=fifo)\n"
    "  buckets              joined in the order in which they are ready, then as fifo;\n"
    "                       no action that needs one begins before all have ended\n"
    "  priority             the one with the longest way to the end of the step; over\n"
    "                       ranks with windows that bound nothing, in virtual time\n"
    "                       without interruption\n"
    "  ours, preempt        the same with the default windows; in virtual time it\n"
    "                       interrupts others\n"
    "\n"
    "A step takes from the end of the step before to its own end, without a barrier\n"
    "between; the median over steps, and of each the slowest rank, counts. gap: the\n"
    "distance to the optimum, a lower bound over all orders, at the rate of all\n"
    "operations at once, measured in the same run, or at the bound of the plan.\n"
    "possible gain: the part of the step under fifo that the optimum saves, both in\n"
    "virtual time. simulated: in virtual time, at the measured rate and latency.\n"
    "\n"
    "Exit status: 0 done, 1 it failed, or the profile is wrong, 2 the command line is\n"
    "wrong.\n";

static int usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int usage(const char *format, ...)
{
    va_list list;
    fputs("tryst-perf: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputs("; see tryst-perf --help\n", stderr);
    return 2;
}

static bool size_add(struct perf_options *options, uint64_t bytes)
{
    if (options->sizes_count == PERF_SIZES_MAX)
        return false;
    options->sizes[options->sizes_count++] = bytes;
    return true;
}

static bool range_parse(struct perf_options *options, char *text, char *colon)
{
    uint64_t from, to;
    *colon = '\0';
    if (!tool_bytes_parse(text, 1, BYTES_MAX, &from) ||
        !tool_bytes_parse(colon + 1, 1, BYTES_MAX, &to) || from > to)
        return false;
    for (;; from *= options->factor) {
        if (!size_add(options, from))
            return false;
        if (from > to / options->factor)
            return true;
    }
}

static bool sizes_parse(struct perf_options *options, const char *given)
{
    char text[512], *rest = text, *item, *colon;
    uint64_t bytes;
    if (strlen(given) >= sizeof text)
        return false;
    memcpy(text, given, strlen(given) + 1);
    options->sizes_count = 0;
    colon = strchr(text, ':');
    if (colon)
        return range_parse(options, text, colon);
    while ((item = strsep(&rest, ",")) != NULL)
        if (!tool_bytes_parse(item, 1, BYTES_MAX, &bytes) || !size_add(options, bytes))
            return false;
    return options->sizes_count > 0;
}

static bool kind_parse(const char *name, size_t length, tryst_memory_kind *kind_p)
{
    bool is_host = length == 4 && strncmp(name, "host", length) == 0;
    bool is_cuda = length == 4 && strncmp(name, "cuda", length) == 0;
    *kind_p = is_cuda ? TRYST_MEMORY_CUDA : TRYST_MEMORY_HOST;
    return is_host || is_cuda;
}

static bool memory_parse(const char *text, tryst_memory_kind memory[2])
{
    size_t first = strcspn(text, ":");
    const char *second = text[first] ? text + first + 1 : text;
    return kind_parse(text, first, &memory[0]) &&
           kind_parse(second, text[first] ? strlen(second) : first, &memory[1]);
}

static bool dtype_read(const char *text, void *to)
{
    for (int dtype = TRYST_DTYPE_U8; dtype <= TRYST_DTYPE_U64; dtype++)
        if (strcmp(text, tryst_dtype_name((tryst_dtype)dtype)) == 0) {
            ((struct perf_options *)to)->dtype = (tryst_dtype)dtype;
            return true;
        }
    return !usage("--dtype %s: must be one of " DTYPES, text);
}

/* Read --priority: a smaller number is more urgent. */
static bool priority_read(const char *text, void *to)
{
    tryst_op_params *params = &((struct perf_options *)to)->params;
    uint64_t number;
    bool below = *text == '-';
    if (strcmp(text, "background") == 0) {
        params->flags = TRYST_OP_BACKGROUND;
        return true;
    }
    if (!tool_number_parse(text + below, 0, INT32_MAX, &number))
        return !usage("--priority %s: must be a whole number of 32 bits or background",
                      text);
    params->flags = TRYST_OP_PRIORITY;
    params->priority = below ? -(int32_t)number : (int32_t)number;
    return true;
}

#define AT(member) .offset = offsetof(struct perf_options, member)
static const struct tool_option rows[] = {
    {"ranks", 'n', TOOL_COUNT, AT(ranks), 1, LAUNCHER_RANKS_MAX},
    {"sizes", 's', TOOL_TEXT, AT(sizes_text)},
    {"factor", 'f', TOOL_NUMBER, AT(factor), 2, 1 << 30},
    {"iters", 0, TOOL_NUMBER, AT(iters), 1, 1000000000},
    {"iterations", 'i', TOOL_NUMBER, AT(iters), 1, 1000000000},
    {"warmup", 'w', TOOL_NUMBER, AT(warmup), 0, 1000000000},
    {"window", 'O', TOOL_COUNT, AT(window), 1, WINDOW_MAX},
    {"transport", 0, TOOL_WORD, AT(transport), .values = TOOL_TRANSPORTS},
    {"memory", 'm', TOOL_TEXT, AT(memory_text), .values = "host plain mapped cuda"},
    {"background", 0, TOOL_BYTES, AT(background_bytes), 64 << 10, BYTES_MAX},
    {"every", 0, TOOL_NUMBER, AT(every_ms), 1, 3600000},
    {"fifo", 0, TOOL_FLAG, AT(fifo)},
    {"json", 'j', TOOL_TEXT, AT(json)},
    {"profile", 0, TOOL_TEXT, AT(order.path)},
    {"simulate", 0, TOOL_FLAG, AT(simulate)},
    {"bucket", 0, TOOL_BYTES, AT(order.bucket_bytes), 1, BYTES_MAX},
    {"gbit", 0, TOOL_RATE, AT(order.gbit_per_s)},
    {"latency", 0, TOOL_RATE, AT(order.latency_us)},
    {"draw", 0, TOOL_TEXT, AT(order.draw)},
    {"report", 0, TOOL_TEXT, AT(order.report)},
    {"dtype", 'd', TOOL_OTHER, .read = dtype_read, .values = DTYPES},
    {"op", 'o', TOOL_TEXT, AT(op_text), .values = REDUCTIONS " send allreduce"},
    {"root", 'r', TOOL_COUNT, AT(root), 0, INT32_MAX},
    {"inplace", 0, TOOL_FLAG, AT(inplace)},
    {"check", 'c', TOOL_FLAG, AT(check)},
    {"explain", 0, TOOL_FLAG, AT(explain)},
    {"priority", 'p', TOOL_OTHER, .read = priority_read, .values = "background"},
};
#undef AT

/* ---- options that depend on the kind ----------------------------------------------- */

static int kind_arg_read(int argc, char **argv, struct perf_options *options)
{
    if (optind >= argc)
        return usage("nothing to measure; give one of %s", perf_kinds_names());
    if (optind + 1 < argc)
        return usage("unexpected word '%s'", argv[optind + 1]);
    options->kind = perf_kind_find(argv[optind]);
    return options->kind ? 0
                         : usage("cannot measure '%s'; give one of %s", argv[optind],
                                 perf_kinds_names());
}

static bool sizes_check(struct perf_options *options)
{
    const char *given = options->sizes_text;
    uint64_t element = options->kind->coll ? tryst_dtype_bytes(options->dtype) : 1;
    bool has_blocks = options->kind->in_blocks || options->kind->out_blocks;
    if (!options->kind->sizes) {
        options->sizes_count = 1; /* one row, of no bytes */
        return true;
    }
    if (!sizes_parse(options, given ? given : options->kind->sizes))
        return !usage(
            "--sizes %s: must be bytes from 1 as A:B or A,B,C, at most %d of them", given,
            PERF_SIZES_MAX);
    int kept = 0;
    for (int i = 0; i < options->sizes_count; i++) {
        if (options->sizes[i] % element == 0 || has_blocks)
            options->sizes[kept++] = options->sizes[i];
        else if (given)
            return !usage("--sizes %s: %llu bytes are not whole elements of %s", given,
                          (unsigned long long)options->sizes[i],
                          tryst_dtype_name(options->dtype));
    }
    options->sizes_count = kept;
    return true;
}

static bool memory_check(struct perf_options *options)
{
    const char *text = options->memory_text;
    if (!text)
        return true;
    options->mapped = strcmp(text, "mapped") == 0;
    if (options->kind->coll && (options->mapped || strcmp(text, "plain") == 0))
        return true;
    if (options->kind->coll && strcmp(text, "cuda") != 0)
        return !usage("--memory %s: must be plain, mapped or cuda", text);
    if (options->kind->coll && options->check)
        return !usage("--check: must be used with host memory, not with --memory cuda");
    return memory_parse(text, options->memory) ||
           !usage("--memory %s: must be host, cuda, or two of them, as cuda:host", text);
}

static const char *const reduce_names[] = {
    [TRYST_REDUCE_SUM] = "sum",     [TRYST_REDUCE_PRODUCT] = "prod",
    [TRYST_REDUCE_MIN] = "min",     [TRYST_REDUCE_MAX] = "max",
    [TRYST_REDUCE_AVERAGE] = "avg", [TRYST_REDUCE_PREMULTIPLIED_SUM] = "premul",
    [TRYST_REDUCE_AND] = "and",     [TRYST_REDUCE_OR] = "or",
    [TRYST_REDUCE_XOR] = "xor"};

const char *perf_reduce_name(tryst_reduce_op reduce)
{
    return reduce_names[reduce];
}

static bool is_float(tryst_dtype dtype)
{
    return dtype == TRYST_DTYPE_F16 || dtype == TRYST_DTYPE_BF16 ||
           dtype == TRYST_DTYPE_F32 || dtype == TRYST_DTYPE_F64;
}

/* True if the reduction takes this dtype; the rules are those of tryst_reduce_op. */
static bool reduce_check(const struct perf_options *options)
{
    bool is_bits = options->reduce >= TRYST_REDUCE_AND;
    bool is_scaled = options->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM;
    const char *op = options->op_text;
    if (is_bits && is_float(options->dtype))
        return !usage("--op %s: must be used with a --dtype of whole numbers, not %s", op,
                      tryst_dtype_name(options->dtype));
    return !is_scaled || is_float(options->dtype) ||
           !usage("--op %s: must be used with a --dtype of floating point, not %s", op,
                  tryst_dtype_name(options->dtype));
}

static bool op_check(struct perf_options *options)
{
    const char *text = options->op_text;
    options->reduce = TRYST_REDUCE_SUM;
    if (!text || options->kind->preempts)
        return true;
    for (int op = TRYST_REDUCE_SUM; op <= TRYST_REDUCE_XOR; op++)
        if (strcmp(reduce_names[op], text) == 0) {
            options->reduce = (tryst_reduce_op)op;
            return reduce_check(options);
        }
    return !usage("--op %s: must be one of " REDUCTIONS, text);
}

static bool ranks_check(struct perf_options *options)
{
    const struct perf_kind *kind = options->kind;
    if (options->ranks < kind->ranks_least || options->ranks > kind->ranks_most)
        return !usage(kind->ranks_least == kind->ranks_most
                          ? "-n %d: %s takes exactly %d ranks"
                          : "-n %d: %s takes %d to %d ranks",
                      options->ranks, kind->name, kind->ranks_least, kind->ranks_most);
    return true;
}

/* Where other programs start the ranks, their number is unknown until the group is
 * open. */
bool perf_options_start_check(const struct perf_options *options)
{
    return !options->kind->has_root || options->root < options->ranks ||
           !usage("--root %d: must be a rank, 0 to %d", options->root,
                  options->ranks - 1);
}

/* Take preempt's --op: the operation that is urgent. */
static bool preempt_op_parse(struct perf_options *options)
{
    const char *op = options->op_text;
    if (!options->kind->preempts || !op || strcmp(op, "send") == 0)
        return true;
    if (strcmp(op, "allreduce") != 0)
        return !usage("--op %s: must be send or allreduce for preempt", op);
    options->kind = perf_kind_find("preempt --op allreduce");
    options->inplace = true;
    return true;
}

/* Take sched's --simulate: no rank is started. */
static void sched_kind_take(struct perf_options *options)
{
    if (options->kind->replays && options->simulate)
        options->kind = perf_kind_find("sched --simulate");
}

static bool profile_check(const struct perf_options *options)
{
    if (!options->kind->replays)
        return true;
    if (!options->order.path)
        return !usage("sched: must be given a profile, by --profile FILE");
    return !options->kind->simulates || options->order.gbit_per_s > 0 ||
           !usage("sched --simulate: must be given the rate of the network in Gbit/s, by "
                  "--gbit");
}

bool perf_options_load(struct perf_options *options)
{
    if (options->kind->replays)
        options->order.profile = order_profile_open(options->order.path);
    return !options->kind->replays || options->order.profile;
}

int perf_options_read(int argc, char **argv, struct perf_options *options_p)
{
    bool is_sched = argc > 1 && strcmp(argv[1], "sched") == 0;
    struct tool tool = {.name = "tryst-perf",
                        .help = is_sched ? help_sched : help,
                        .rows = rows,
                        .rows_count = sizeof rows / sizeof *rows,
                        .command = perf_kind_name};
    struct perf_options options = {.warmup = UINT64_MAX,
                                   .ranks = 2,
                                   .window = WINDOW_DEFAULT,
                                   .background_bytes = 1ull << 30,
                                   .every_ms = 50,
                                   .factor = 2,
                                   .dtype = TRYST_DTYPE_F32,
                                   .params = {.struct_size = sizeof options.params}};
    const struct perf_kind *of_table = argc == 3 ? perf_kind_find(argv[1]) : NULL;
    if (of_table && strcmp(argv[2], "--options") == 0) {
        tool.allowed = of_table->options;
        argc--, argv++;
    }
    enum tool_next next = tool_options_read(&tool, argc, argv, &options);
    if (next != TOOL_GO)
        return next == TOOL_DONE ? -1 : 2;
    if (kind_arg_read(argc, argv, &options) != 0 || !preempt_op_parse(&options))
        return 2;
    sched_kind_take(&options);
    /* Read the options again: the kind decides which options are allowed. */
    tool.allowed = options.kind->options;
    optind = 0;
    if (tool_options_read(&tool, argc, argv, &options) != TOOL_GO ||
        !ranks_check(&options) || !sizes_check(&options) || !memory_check(&options) ||
        !op_check(&options) || !profile_check(&options))
        return 2;
    options.order.json = options.json;
    options.order.transport = options.transport;
    options.order.steps = options.iters ? options.iters : STEPS_DEFAULT;
    options.order.warmup = options.warmup == UINT64_MAX ? STEPS_WARMUP : options.warmup;
    *options_p = options;
    return 0;
}
