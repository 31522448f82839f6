/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions compared with memory: bytes read and written per second by each kernel, in
 * buffers that fit into the second-level cache and in buffers that fit into no cache,
 * beside memcpy and a plain loop of additions (a = b + c in f64, as STREAM's add). The
 * kernel and that loop run in turn, and the ratio is the median over the turns, because
 * the speed of a shared machine changes from minute to minute.
 *
 *     perf_reduce [all]           each dtype and operation by the best variant
 *     perf_reduce all VARIANT     the same by another variant (avx512, avx2, base)
 *     perf_reduce smoke           a few short ones, as a test */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/reduce/reduce_variant.h"

enum { TURNS_MAX = 9, L2_BYTES_USUAL = 1 << 20, LARGE_BYTES = 64 << 20 };

static const struct {
    const char *name;
    unsigned bytes;
} dtypes[REDUCE_DTYPES] = {
    [TRYST_DTYPE_U8] = {"u8", 1},   [TRYST_DTYPE_I8] = {"i8", 1},
    [TRYST_DTYPE_I32] = {"i32", 4}, [TRYST_DTYPE_I64] = {"i64", 8},
    [TRYST_DTYPE_F16] = {"f16", 2}, [TRYST_DTYPE_BF16] = {"bf16", 2},
    [TRYST_DTYPE_F32] = {"f32", 4}, [TRYST_DTYPE_F64] = {"f64", 8},
    [TRYST_DTYPE_U16] = {"u16", 2}, [TRYST_DTYPE_I16] = {"i16", 2},
    [TRYST_DTYPE_U32] = {"u32", 4}, [TRYST_DTYPE_U64] = {"u64", 8},
};

static struct {
    int turns;
    double seconds; /* minimum duration of one measurement */
    char *a, *b, *dst;
    size_t sizes[2]; /* bytes of a buffer: in the cache, in memory */
} run;

/* The measured function: a kernel's reduce or scale, memcpy, the plain loop. */
struct work {
    enum { COPY, ADD, REDUCE, SCALE } kind;
    const struct reduce_kernel *kernel;
    unsigned width;
};

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

__attribute__((noinline)) static void add_plainly(double *dst, const double *a,
                                                  const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = a[i] + b[i];
}

static void work_once(const struct work *work, size_t bytes)
{
    switch (work->kind) {
    case COPY: memcpy(run.dst, run.a, bytes); break;
    case ADD:
        add_plainly((double *)(void *)run.dst, (double *)(void *)run.a,
                    (double *)(void *)run.b, bytes / sizeof(double));
        break;
    case REDUCE: work->kernel->reduce(run.dst, run.a, run.b, bytes / work->width); break;
    case SCALE: work->kernel->scale(run.dst, run.a, bytes / work->width, 3); break;
    }
    __asm__ volatile("" : : "r"(run.dst) : "memory");
}

/* Return GB/s, read and written. */
static double rate(const struct work *work, size_t bytes)
{
    double streams = work->kind == COPY || work->kind == SCALE ? 2 : 3;
    double begin = now(), end;
    long times = 0;
    do {
        for (int i = 0; i < 4; i++, times++)
            work_once(work, bytes);
        end = now();
    } while (end - begin < run.seconds);
    return streams * (double)bytes * (double)times / (end - begin) * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, (size_t)run.turns, sizeof *values, ascending);
    return values[run.turns / 2];
}

static void print_rates(const struct work *work)
{
    static const struct work plain = {.kind = ADD};
    for (int at = 0; at < 2; at++) {
        double rates[TURNS_MAX], ratios[TURNS_MAX];
        work_once(work, run.sizes[at]);
        for (int i = 0; i < run.turns; i++) {
            double beside = rate(&plain, run.sizes[at]);
            rates[i] = rate(work, run.sizes[at]);
            ratios[i] = rates[i] / beside;
        }
        printf(" | %.1f | %.2f", median(rates), median(ratios));
    }
    printf(" |\n");
}

static const char *name_of(tryst_reduce_op op, bool scale)
{
    return !scale                       ? reduce_op_name(op)
           : op == TRYST_REDUCE_AVERAGE ? "average's division"
                                        : "premultiplied sum's factor";
}

static void print_row(const struct reduce_variant *variant, int dtype, int op, bool scale)
{
    struct work work = {.kind = scale ? SCALE : REDUCE,
                        .kernel = &(*variant->table)[dtype][op],
                        .width = dtypes[dtype].bytes};
    if (scale ? !work.kernel->scale : !work.kernel->reduce)
        return;
    printf("| %s %s", dtypes[dtype].name, name_of((tryst_reduce_op)op, scale));
    print_rates(&work);
    (void)fflush(stdout);
}

/* The additions of AVERAGE and PREMULTIPLIED_SUM are those of SUM. */
static void print_dtype(const struct reduce_variant *variant, int dtype)
{
    for (int op = TRYST_REDUCE_SUM; op < REDUCE_OPS; op++) {
        bool scales = op == TRYST_REDUCE_AVERAGE || op == TRYST_REDUCE_PREMULTIPLIED_SUM;
        print_row(variant, dtype, op, scales);
    }
}

static const struct reduce_variant *variant_find(const char *name)
{
    for (int i = 0; i < REDUCE_VARIANTS; i++)
        if (reduce_variants[i].usable() &&
            (!name || strcmp(name, reduce_variants[i].name) == 0))
            return &reduce_variants[i];
    return NULL;
}

/* All values are 1 in every floating-point type, nearly, and no operation gets a
 * subnormal number. */
static bool buffers_open(void)
{
    size_t bytes = run.sizes[1];
    run.a = aligned_alloc(4096, bytes);
    run.b = aligned_alloc(4096, bytes);
    run.dst = aligned_alloc(4096, bytes);
    if (!run.a || !run.b || !run.dst)
        return false;
    memset(run.a, 0x3f, bytes);
    memset(run.b, 0x3f, bytes);
    memset(run.dst, 0, bytes);
    return true;
}

static void sizes_choose(bool smoke)
{
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    size_t cache = l2 > 0 ? (size_t)l2 : L2_BYTES_USUAL;
    run.turns = smoke ? 1 : TURNS_MAX;
    run.seconds = smoke ? 1e-4 : 5e-3;
    run.sizes[0] = cache / 6 / 4096 * 4096; /* three buffers fill half of the cache */
    run.sizes[1] = smoke ? 4 * run.sizes[0] : LARGE_BYTES;
}

int main(int argc, char **argv)
{
    static const struct work copy = {.kind = COPY}, add = {.kind = ADD};
    bool smoke = argc > 1 && strcmp(argv[1], "smoke") == 0;
    const struct reduce_variant *variant = variant_find(argc > 2 ? argv[2] : NULL);
    if (!variant) {
        (void)fprintf(stderr, "cannot run variant %s: this processor lacks it\n",
                      argv[2]);
        return 77;
    }
    sizes_choose(smoke);
    if (!buffers_open()) {
        (void)fprintf(stderr, "cannot allocate the buffers: out of memory\n");
        return 1;
    }
    printf("variant %s, buffers of %zu KiB and %zu MiB, medians of %d\n\n", variant->name,
           run.sizes[0] >> 10, run.sizes[1] >> 20, run.turns);
    printf("| kernel | cache, GB/s | of add | memory, GB/s | of add "
           "|\n|---|---|---|---|---|\n");
    printf("| memcpy");
    print_rates(&copy);
    printf("| add, plain loop");
    print_rates(&add);
    for (int dtype = 1; dtype < REDUCE_DTYPES; dtype++)
        if (!smoke || dtype == TRYST_DTYPE_F16 || dtype == TRYST_DTYPE_F32)
            print_dtype(variant, dtype);
    free(run.a);
    free(run.b);
    free(run.dst);
    return 0;
}
