/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tryst-perf's command line; see perf_options.h. */
#include "perf_options.h"

#include <getopt.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>

#include "perf_help.h"
#include "perf_host.h"
#include "tools/launch/launcher.h"
#include "tools/options.h"

/* The default window is the one that tests/perf/compare.sh gives to tag_bw of
 * ucx_perftest. */
enum { WINDOW_DEFAULT = 32, WINDOW_MAX = 4096 };
/* of sched */
enum { STEPS_DEFAULT = 5, STEPS_WARMUP = 2 };
#define BYTES_MAX  PERF_BYTES_MAX
#define DTYPES     "u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64"
#define REDUCTIONS "sum prod min max avg premul and or xor"
#define DAY_NS     86400000000000ull

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

static bool time_read(const char *text, void *to)
{
    uint64_t *ns = &((struct perf_options *)to)->time_ns;
    return (tool_time_parse(text, ns) && *ns >= 1000000 && *ns <= DAY_NS) ||
           !usage("--time %s: must be a time from 1ms to 24h, as 10s or 500ms", text);
}

/* Parse a processor or a range of them at *text_p, which moves behind it. */
static bool core_range_parse(const char **text_p, unsigned long *first_p,
                             unsigned long *last_p)
{
    char *end;
    if (**text_p < '0' || **text_p > '9')
        return false;
    *first_p = *last_p = strtoul(*text_p, &end, 10);
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        *last_p = strtoul(end + 1, &end, 10);
    *text_p = end;
    return *first_p <= *last_p && *last_p < CPU_SETSIZE;
}

static bool cores_parse(const char *text, struct perf_options *options)
{
    unsigned long core, last;
    options->cores_count = 0;
    for (;; text++) {
        if (!core_range_parse(&text, &core, &last))
            return false;
        for (; core <= last; core++) {
            if (options->cores_count == PERF_CORES_MAX)
                return false;
            options->cores[options->cores_count++] = (short)core;
        }
        if (*text != ',')
            return !*text;
    }
}

static bool cores_read(const char *text, void *to)
{
    return cores_parse(text, to) ||
           !usage("--cores %s: must be processors, at most %d, as 0,2,8-11", text,
                  PERF_CORES_MAX);
}

#define AT(member) .offset = offsetof(struct perf_options, member)
static const struct tool_option rows[] = {
    {"ranks", 'n', TOOL_COUNT, AT(ranks), 1, LAUNCHER_RANKS_MAX},
    {"sizes", 's', TOOL_TEXT, AT(sizes_text)},
    {"begin", 'b', TOOL_BYTES, AT(begin_bytes), 1, BYTES_MAX},
    {"end", 'e', TOOL_BYTES, AT(end_bytes), 1, BYTES_MAX},
    {"factor", 'f', TOOL_NUMBER, AT(factor), 2, 1 << 30},
    {"iters", 0, TOOL_NUMBER, AT(iters), 1, 1000000000},
    {"iterations", 'i', TOOL_NUMBER, AT(iters), 1, 1000000000},
    {"time", 't', TOOL_OTHER, .read = time_read},
    {"warmup", 'w', TOOL_NUMBER, AT(warmup), 0, 1000000000},
    {"window", 'O', TOOL_COUNT, AT(window), 1, WINDOW_MAX},
    {"bidirectional", 0, TOOL_FLAG, AT(both_ways)},
    {"transport", 0, TOOL_WORD, AT(transport), .values = TOOL_TRANSPORTS},
    {"cores", 0, TOOL_OTHER, .read = cores_read},
    {"port", 0, TOOL_COUNT, AT(port), 1, UINT16_MAX},
    {"memory", 'm', TOOL_TEXT, AT(memory_text), .values = "host plain mapped cuda"},
    {"background", 0, TOOL_BYTES, AT(background_bytes), 64 << 10, BYTES_MAX},
    {"every", 0, TOOL_NUMBER, AT(every_ms), 1, 3600000},
    {"fifo", 0, TOOL_FLAG, AT(fifo)},
    {"json", 'j', TOOL_TEXT, AT(json)},
    {"csv", 0, TOOL_FLAG, AT(csv)},
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

/* The other side of a server has no more options than these: the server's hold. */
static const char *const of_client[] = {"transport", "cores", "json",
                                        "csv",       "port",  NULL};

/* Read "server", "server KIND", "KIND" or "HOST". */
static int kind_arg_read(int argc, char **argv, struct perf_options *options)
{
    options->serves = optind < argc && strcmp(argv[optind], "server") == 0;
    options->remote = options->serves;
    int at = optind + options->serves;
    if (at >= argc && !options->serves)
        return usage("nothing to measure; give one of %s", perf_kinds_names());
    if (at + 1 < argc)
        return usage("unexpected word '%s'", argv[at + 1]);
    const char *word = at < argc ? argv[at] : "pingpong";
    options->kind = perf_kind_find(word);
    if (options->serves && options->kind && !options->kind->ranks_even)
        return usage("server: must measure pingpong or bandwidth, not %s", word);
    if (options->kind)
        return 0;
    if (options->serves || !perf_host_is(word))
        return usage("cannot measure '%s', and no host has that name; give one of %s, or "
                     "server",
                     word, perf_kinds_names());
    options->remote = true;
    options->host = word;
    options->kind = perf_kind_find("pingpong"); /* until the server names one */
    return 0;
}

/* Options that exclude each other, or need a server. */
static bool pairs_of_options_check(const struct perf_options *options)
{
    const char *json = options->json;
    if (options->time_ns && options->iters)
        return !usage("--time and --iterations: give one of them");
    if (options->csv && options->explain)
        return !usage("--explain: has no columns of --csv; give --json FILE");
    if (options->csv && json && strcmp(json, "-") == 0)
        return !usage("--csv and --json -: only one can write to stdout");
    if (options->sizes_text && (options->begin_bytes || options->end_bytes))
        return !usage("--sizes: give it, or --begin and --end");
    if (options->port && !options->remote)
        return !usage("--port: is for server and for HOST");
    return !options->serves || options->ranks == 2 ||
           !usage("-n %d: a server measures between two ranks", options->ranks);
}

/* Turn --begin and --end into the text of --sizes; what is not given is the default's. */
static void sizes_text_make(struct perf_options *options, char *text, size_t capacity)
{
    const char *standard = options->kind->sizes;
    uint64_t begin = options->begin_bytes, end = options->end_bytes, first, last;
    char least[32];
    if (!standard || (!begin && !end))
        return;
    snprintf(least, sizeof least, "%.*s", (int)strcspn(standard, ":,"), standard);
    const char *colon = strrchr(standard, ':'), *comma = strrchr(standard, ',');
    const char *most = colon ? colon + 1 : comma ? comma + 1 : standard;
    if (!tool_bytes_parse(least, 1, BYTES_MAX, &first) ||
        !tool_bytes_parse(most, 1, BYTES_MAX, &last))
        return; /* not in this table */
    if (!begin)
        begin = end < first ? end : first;
    if (!end)
        end = begin > last ? begin : last;
    snprintf(text, capacity, "%llu:%llu", (unsigned long long)begin,
             (unsigned long long)end);
    options->sizes_text = text;
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
    if (options->begin_bytes && options->end_bytes &&
        options->begin_bytes > options->end_bytes)
        return !usage("--begin %llu: is more than --end %llu",
                      (unsigned long long)options->begin_bytes,
                      (unsigned long long)options->end_bytes);
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
    return !kind->ranks_even || options->ranks % 2 == 0 ||
           !usage("-n %d: %s takes an even number of ranks: rank i is paired with rank "
                  "i + N/2",
                  options->ranks, kind->name);
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
    if (strcmp(op, "allreduce") != 0 && strcmp(op, "all_reduce") != 0)
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
    static char sizes_text[64]; /* of --begin and --end */
    struct tool tool = {.name = "tryst-perf",
                        .help = perf_help(argc, argv),
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
    tool.allowed = options.host ? of_client : options.kind->options;
    optind = 0;
    if (tool_options_read(&tool, argc, argv, &options) != TOOL_GO ||
        !pairs_of_options_check(&options))
        return 2;
    sizes_text_make(&options, sizes_text, sizeof sizes_text);
    if (!ranks_check(&options) || !sizes_check(&options) || !memory_check(&options) ||
        !op_check(&options) || !profile_check(&options))
        return 2;
    options.order.json = options.json;
    options.order.transport = options.transport;
    options.order.steps = options.iters ? options.iters : STEPS_DEFAULT;
    options.order.warmup = options.warmup == UINT64_MAX ? STEPS_WARMUP : options.warmup;
    *options_p = options;
    return 0;
}
