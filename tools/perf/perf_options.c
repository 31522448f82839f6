/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-perf's command line; see perf_options.h. */
#include "perf_options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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
    for (uint64_t bytes = from; bytes <= to; bytes *= 2)
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

static bool ranks_read(const char *text, void *to)
{
    (void)to;
    return strcmp(text, "2") == 0 || !usage("-n %s: there are always 2 ranks", text);
}

static bool sizes_read(const char *text, void *to)
{
    return sizes_parse(to, text) ||
           !usage("--sizes %s: wants bytes from 1 as A:B or A,B,C, at most %d of them",
                  text, PERF_SIZES_MAX);
}

static bool transport_read(const char *text, void *to)
{
    ((struct perf_options *)to)->transport = text;
    return transport_is_known(text) ||
           !usage("--transport %s: wants auto, shm, ucx or ofi", text);
}

static bool memory_read(const char *text, void *to)
{
    return memory_parse(text, ((struct perf_options *)to)->memory) ||
           !usage("--memory %s: wants host, cuda, or two of them as cuda:host", text);
}

#define AT(member) .offset = offsetof(struct perf_options, member)
static const struct tool_option rows[] = {
    {"ranks", 'n', TOOL_OTHER, .read = ranks_read},
    {"sizes", 's', TOOL_OTHER, .read = sizes_read},
    {"iters", 'i', TOOL_NUMBER, AT(iters), 1, 1000000000},
    {"warmup", 'w', TOOL_NUMBER, AT(warmup), 0, 1000000000},
    {"window", 'O', TOOL_COUNT, AT(window), 1, WINDOW_MAX},
    {"transport", 0, TOOL_OTHER, .read = transport_read},
    {"memory", 'm', TOOL_OTHER, .read = memory_read},
    {"background", 0, TOOL_BYTES, AT(background_bytes), 64 << 10, BYTES_MAX},
    {"every", 0, TOOL_NUMBER, AT(every_ms), 1, 3600000},
    {"fifo", 0, TOOL_FLAG, AT(fifo)},
    {"json", 'j', TOOL_TEXT, AT(json)},
};
#undef AT

static int kind_take(int argc, char **argv, struct perf_options *options)
{
    static const char *const names[] = {"pingpong", "bandwidth", "preempt"};
    if (optind >= argc)
        return usage("what is to be measured: pingpong, bandwidth or preempt?");
    if (optind + 1 < argc)
        return usage("what is '%s'?", argv[optind + 1]);
    for (int kind = 0; kind <= PERF_PREEMPT; kind++)
        if (strcmp(argv[optind], names[kind]) == 0) {
            options->kind = (enum perf_kind)kind;
            return 0;
        }
    return usage("'%s' is none of pingpong, bandwidth and preempt", argv[optind]);
}

int perf_options_read(int argc, char **argv, struct perf_options *options_p)
{
    static const struct tool tool = {.name = "tryst-perf",
                                     .help = help,
                                     .rows = rows,
                                     .rows_count = sizeof rows / sizeof *rows};
    struct perf_options options = {.warmup = UINT64_MAX,
                                   .window = WINDOW_DEFAULT,
                                   .background_bytes = 1ull << 30,
                                   .every_ms = 50};
    const enum tool_next next = tool_options_read(&tool, argc, argv, &options);
    if (next != TOOL_GO)
        return next == TOOL_DONE ? -1 : 2;
    int status = kind_take(argc, argv, &options);
    if (status)
        return status;
    if (!options.sizes_count)
        sizes_parse(&options, options.kind == PERF_PREEMPT ? "4K,64K,1M" : "8:64M");
    *options_p = options;
    return 0;
}
