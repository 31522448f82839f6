/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-perf's command line; see perf_options.h. */
#include "perf_options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <tryst/tryst.h>

#include "tools/launch/launcher.h"
#include "tools/options.h"

/* As many transfers as ucx_perftest's tag_bw is given in tests/perf/compare.sh. */
enum { WINDOW_DEFAULT = 32, WINDOW_MAX = 4096 };
#define BYTES_MAX (1ull << 40)

static const char help[] =
    "usage: tryst-perf pingpong|bandwidth|preempt [options]\n"
    "\n"
    "Measures transfers by prepared key between two ranks of this machine, or between "
    "the\n"
    "two ranks that tryst-run, mpirun, srun or torchrun started.\n"
    "\n"
    "  pingpong             one tensor there and back: time for one way\n"
    "  bandwidth            many tensors one way, some outstanding at any time\n"
    "  preempt              an urgent tensor again and again while a large one of the\n"
    "                       background is on its way to the same rank: how long it "
    "takes\n"
    "\n"
    "  -n, --ranks 2        ranks to start here (there are always 2)\n"
    "  -s, --sizes A:B      bytes of a tensor: A, 2A, 4A … B; or a list A,B,C\n"
    "                       (8:64M; preempt 4K,64K,1M; K, M, G are powers of 1024)\n"
    "  -i, --iters N        transfers that count, of each size (by size: 10000 small\n"
    "                       ones, fewer large ones; preempt 100)\n"
    "  -w, --warmup N       transfers before those (a tenth, at least 10)\n"
    "  -O, --window N       bandwidth: transfers outstanding (32)\n"
    "      --background B   preempt: bytes of each tensor of the background (1G)\n"
    "      --every MS       preempt: an urgent one each so many milliseconds (50)\n"
    "      --fifo           first come, first served (TRYST_SCHED=fifo), to compare\n"
    "      --transport NAME auto, shm, ucx, ofi (TRYST_TRANSPORT, else auto)\n"
    "  -m, --memory KIND    where tensors lie: host or cuda (device 0), or KIND:KIND "
    "for\n"
    "                       rank 0's and rank 1's (host)\n"
    "  -j, --json FILE|-    write the figures as JSON (- is stdout, without the table)\n"
    "  -h, --help           print this\n"
    "\n"
    "Seconds are the median over all transfers, p99 the 99th percentile; in bandwidth,\n"
    "seconds are the time from one completion to the next, averaged over a window;\n"
    "in preempt, from the submission of the urgent send to its completion, beside a "
    "bound:\n"
    "the time that the window takes at the background's rate, and that of the urgent\n"
    "tensor alone.\n"
    "Ranks that are started here are bound to a processor each.\n"
    "Exit status: 0 done, 1 the measurement failed, 2 the command line is wrong.\n";

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
    for (uint64_t bytes = from; bytes <= to; bytes *= options->factor)
        if (!size_add(options, bytes))
            return false;
    return true;
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

static bool transport_is_known(const char *name)
{
    return strcmp(name, "auto") == 0 || strcmp(name, "shm") == 0 ||
           strcmp(name, "ucx") == 0 || strcmp(name, "ofi") == 0;
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

static bool transport_read(const char *text, void *to)
{
    ((struct perf_options *)to)->transport = text;
    return transport_is_known(text) ||
           !usage("--transport %s: wants auto, shm, ucx or ofi", text);
}

static bool dtype_read(const char *text, void *to)
{
    for (int dtype = TRYST_DTYPE_U8; dtype <= TRYST_DTYPE_U64; dtype++)
        if (strcmp(text, tryst_dtype_name((tryst_dtype)dtype)) == 0) {
            ((struct perf_options *)to)->dtype = (tryst_dtype)dtype;
            return true;
        }
    return !usage(
        "--dtype %s: wants one of u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64", text);
}

/* A smaller number is more urgent. */
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
        return !usage("--priority %s: wants a whole number of 32 bits, or background",
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
    {"transport", 0, TOOL_OTHER, .read = transport_read},
    {"memory", 'm', TOOL_TEXT, AT(memory_text)},
    {"background", 0, TOOL_BYTES, AT(background_bytes), 64 << 10, BYTES_MAX},
    {"every", 0, TOOL_NUMBER, AT(every_ms), 1, 3600000},
    {"fifo", 0, TOOL_FLAG, AT(fifo)},
    {"json", 'j', TOOL_TEXT, AT(json)},
    {"dtype", 'd', TOOL_OTHER, .read = dtype_read},
    {"op", 'o', TOOL_TEXT, AT(op_text)},
    {"root", 'r', TOOL_COUNT, AT(root), 0, INT32_MAX},
    {"inplace", 0, TOOL_FLAG, AT(inplace)},
    {"check", 'c', TOOL_FLAG, AT(check)},
    {"priority", 'p', TOOL_OTHER, .read = priority_read},
};
#undef AT

/* ---- what the kind makes of them ------------------------------------------------------------ */

static int kind_take(int argc, char **argv, struct perf_options *options)
{
    if (optind >= argc)
        return usage("what is to be measured: one of %s", perf_kinds_names());
    if (optind + 1 < argc)
        return usage("what is '%s'?", argv[optind + 1]);
    options->kind = perf_kind_find(argv[optind]);
    return options->kind ? 0
                         : usage("'%s' is none of %s", argv[optind], perf_kinds_names());
}

static bool sizes_check(struct perf_options *options)
{
    const char *given = options->sizes_text;
    uint64_t element = options->kind->coll ? tryst_dtype_bytes(options->dtype) : 1;
    if (!options->kind->sizes) {
        options->sizes_count = 1; /* of no bytes */
        return true;
    }
    if (!sizes_parse(options, given ? given : options->kind->sizes))
        return !usage(
            "--sizes %s: wants bytes from 1 as A:B or A,B,C, at most %d of them", given,
            PERF_SIZES_MAX);
    int kept = 0;
    for (int i = 0; i < options->sizes_count; i++) {
        if (options->sizes[i] % element == 0)
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
    if (options->kind->coll)
        return options->mapped || strcmp(text, "plain") == 0 ||
               !usage("--memory %s: wants plain or mapped", text);
    return memory_parse(text, options->memory) ||
           !usage("--memory %s: wants host, cuda, or two of them as cuda:host", text);
}

static bool op_check(struct perf_options *options)
{
    static const char *const names[] = {NULL,  "sum",    "prod", "min", "max",
                                        "avg", "premul", "and",  "or",  "xor"};
    options->reduce = TRYST_REDUCE_SUM;
    if (!options->op_text)
        return true;
    for (int op = TRYST_REDUCE_SUM; op <= TRYST_REDUCE_XOR; op++)
        if (strcmp(names[op], options->op_text) == 0) {
            options->reduce = (tryst_reduce_op)op;
            return true;
        }
    return !usage("--op %s: wants one of sum prod min max avg premul and or xor",
                  options->op_text);
}

static bool ranks_check(struct perf_options *options)
{
    const struct perf_kind *kind = options->kind;
    return (options->ranks >= kind->ranks_least && options->ranks <= kind->ranks_most) ||
           !usage("-n %d: %s takes %d ranks", options->ranks, kind->name,
                  kind->ranks_least);
}

int perf_options_read(int argc, char **argv, struct perf_options *options_p)
{
    struct tool tool = {.name = "tryst-perf",
                        .help = help,
                        .rows = rows,
                        .rows_count = sizeof rows / sizeof *rows};
    struct perf_options options = {.warmup = UINT64_MAX,
                                   .ranks = 2,
                                   .window = WINDOW_DEFAULT,
                                   .background_bytes = 1ull << 30,
                                   .every_ms = 50,
                                   .factor = 2,
                                   .dtype = TRYST_DTYPE_F32,
                                   .params = {.struct_size = sizeof options.params}};
    enum tool_next next = tool_options_read(&tool, argc, argv, &options);
    if (next != TOOL_GO)
        return next == TOOL_DONE ? -1 : 2;
    if (kind_take(argc, argv, &options) != 0)
        return 2;
    /* Once more: which options it has is the kind's. */
    tool.allowed = options.kind->options;
    optind = 0;
    if (tool_options_read(&tool, argc, argv, &options) != TOOL_GO ||
        !ranks_check(&options) || !sizes_check(&options) || !memory_check(&options) ||
        !op_check(&options))
        return 2;
    *options_p = options;
    return 0;
}
