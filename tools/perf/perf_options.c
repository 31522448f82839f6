/* SPDX-License-Identifier: Apache-2.0 */
/* tryst-perf's command line; see perf_options.h. */
#include "perf_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As many transfers as ucx_perftest's tag_bw is given in tests/perf/compare.sh. */
enum { WINDOW_DEFAULT = 32, WINDOW_MAX = 4096 };
#define BYTES_MAX (1ull << 40)

static const char help[] =
    "usage: tryst-perf pingpong|bandwidth [options]\n"
    "\n"
    "Measures transfers by prepared key between two ranks of this machine, or between "
    "the\n"
    "two ranks that tryst-run, mpirun, srun or torchrun started.\n"
    "\n"
    "  pingpong             one tensor there and back: time for one way\n"
    "  bandwidth            many tensors one way, some outstanding at any time\n"
    "\n"
    "  -n, --ranks 2        ranks to start here (there are always 2)\n"
    "  -s, --sizes A:B      bytes of a tensor: A, 2A, 4A … B; or a list A,B,C\n"
    "                       (8:64M; K, M, G are powers of 1024)\n"
    "  -i, --iters N        transfers that count, of each size (by size: 10000 small\n"
    "                       ones, fewer large ones)\n"
    "  -w, --warmup N       transfers before those (a tenth, at least 10)\n"
    "  -O, --window N       bandwidth: transfers outstanding (32)\n"
    "      --transport NAME auto, shm, ucx, ofi (TRYST_TRANSPORT, else auto)\n"
    "  -m, --memory KIND    where tensors lie: host or cuda (device 0), or KIND:KIND "
    "for\n"
    "                       rank 0's and rank 1's (host)\n"
    "  -j, --json FILE|-    write the figures as JSON (- is stdout, without the table)\n"
    "  -h, --help           print this\n"
    "\n"
    "Seconds are the median over all transfers, p99 the 99th percentile; in bandwidth,\n"
    "seconds are the time from one completion to the next, averaged over a window.\n"
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

static bool number_parse(const char *text, uint64_t least, uint64_t most,
                         uint64_t *value_p)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value < least || value > most)
        return false;
    *value_p = value;
    return true;
}

/* "8", "64K", "16M", "1G"; powers of 1024. */
static bool bytes_parse(const char *text, uint64_t *bytes_p)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *text == '-')
        return false;
    if (*end) {
        const char *unit = strchr(units, *end);
        if (!unit || end[1])
            return false;
        int shift = 10 * (int)(unit - units + 1);
        if (value > BYTES_MAX >> shift)
            return false;
        value <<= shift;
    }
    if (value > BYTES_MAX)
        return false;
    *bytes_p = value;
    return true;
}

static bool size_add(struct perf_options *options, uint64_t bytes)
{
    if (bytes == 0 || options->sizes_count == PERF_SIZES_MAX)
        return false;
    options->sizes[options->sizes_count++] = bytes;
    return true;
}

static bool range_parse(struct perf_options *options, char *text, char *colon)
{
    uint64_t from, to;
    *colon = '\0';
    if (!bytes_parse(text, &from) || !bytes_parse(colon + 1, &to) || from == 0 ||
        from > to)
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
        if (!bytes_parse(item, &bytes) || !size_add(options, bytes))
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

static int option_take(int letter, const char *value, struct perf_options *options)
{
    uint64_t number;
    switch (letter) {
    case 'n':
        if (!number_parse(value, 2, 2, &number))
            return usage("-n %s: there are always 2 ranks", value);
        return 0;
    case 's':
        if (!sizes_parse(options, value))
            return usage(
                "--sizes %s: wants bytes from 1 as A:B or A,B,C, at most %d of them",
                value, PERF_SIZES_MAX);
        return 0;
    case 'i':
        if (!number_parse(value, 1, 1000000000, &options->iters))
            return usage("--iters %s: wants a whole number from 1", value);
        return 0;
    case 'w':
        if (!number_parse(value, 0, 1000000000, &options->warmup))
            return usage("--warmup %s: wants a whole number from 0", value);
        return 0;
    case 'O':
        if (!number_parse(value, 1, WINDOW_MAX, &number))
            return usage("--window %s: wants a whole number from 1 to %d", value,
                         WINDOW_MAX);
        options->window = (int)number;
        return 0;
    case 't':
        if (!transport_is_known(value))
            return usage("--transport %s: wants auto, shm, ucx or ofi", value);
        options->transport = value;
        return 0;
    case 'm':
        if (!memory_parse(value, options->memory))
            return usage("--memory %s: wants host, cuda, or two of them as cuda:host",
                         value);
        return 0;
    case 'j': options->json = value; return 0;
    case 'h': fputs(help, stdout); return -1;
    default: return 2; /* getopt has said why */
    }
}

static int kind_take(int argc, char **argv, struct perf_options *options)
{
    if (optind >= argc)
        return usage("what is to be measured: pingpong or bandwidth?");
    if (optind + 1 < argc)
        return usage("what is '%s'?", argv[optind + 1]);
    if (strcmp(argv[optind], "pingpong") == 0)
        options->kind = PERF_PINGPONG;
    else if (strcmp(argv[optind], "bandwidth") == 0)
        options->kind = PERF_BANDWIDTH;
    else
        return usage("'%s' is neither pingpong nor bandwidth", argv[optind]);
    return 0;
}

int perf_options_read(int argc, char **argv, struct perf_options *options_p)
{
    static const struct option longs[] = {{"ranks", required_argument, NULL, 'n'},
                                          {"sizes", required_argument, NULL, 's'},
                                          {"iters", required_argument, NULL, 'i'},
                                          {"warmup", required_argument, NULL, 'w'},
                                          {"window", required_argument, NULL, 'O'},
                                          {"transport", required_argument, NULL, 't'},
                                          {"memory", required_argument, NULL, 'm'},
                                          {"json", required_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct perf_options options = {.warmup = UINT64_MAX, .window = WINDOW_DEFAULT};
    int letter;
    while ((letter = getopt_long(argc, argv, "n:s:i:w:O:m:j:h", longs, NULL)) != -1) {
        int status = option_take(letter, optarg, &options);
        if (status)
            return status;
    }
    int status = kind_take(argc, argv, &options);
    if (status)
        return status;
    if (!options.sizes_count)
        sizes_parse(&options, "8:64M");
    *options_p = options;
    return 0;
}
