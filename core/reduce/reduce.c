/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of a kernel; see reduce.h.
 *
 * reduce_loops.h is compiled once for each set of instructions (loops_*.c), and the first
 * variant that the processor supports is used. Each call chooses anew by libgcc's feature
 * bits, so this file keeps no state; a caller gets the kernel once for an operation, not
 * for each slice.
 */
#include "reduce_variant.h"

static bool base_usable(void)
{
    return true;
}

#if defined(__x86_64__)
static bool avx2_usable(void)
{
    __builtin_cpu_init();
#if defined(__clang__) /* has no test for f16c, which every processor with AVX2 has */
    return __builtin_cpu_supports("avx2");
#else
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
}

static bool avx512_usable(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const struct reduce_variant reduce_variants[REDUCE_VARIANTS] = {
#if defined(__x86_64__)
    {"avx512", avx512_usable, &reduce_table_avx512},
    {"avx2", avx2_usable, &reduce_table_avx2},
#endif
    {"base", base_usable, &reduce_table_base},
};

const struct reduce_kernel *reduce_kernel_get(tryst_dtype dtype, tryst_reduce_op op)
{
    const struct reduce_variant *variant = reduce_variants;
    if ((unsigned)dtype >= REDUCE_DTYPES || (unsigned)op >= REDUCE_OPS)
        return NULL;
    while (!variant->usable())
        variant++;
    const struct reduce_kernel *kernel = &(*variant->table)[dtype][op];
    return kernel->reduce ? kernel : NULL;
}

const char *reduce_op_name(tryst_reduce_op op)
{
    static const char *const names[REDUCE_OPS] = {
        [TRYST_REDUCE_INVALID] = "invalid",
        [TRYST_REDUCE_SUM] = "sum",
        [TRYST_REDUCE_PRODUCT] = "product",
        [TRYST_REDUCE_MIN] = "min",
        [TRYST_REDUCE_MAX] = "max",
        [TRYST_REDUCE_AVERAGE] = "average",
        [TRYST_REDUCE_PREMULTIPLIED_SUM] = "premultiplied sum",
        [TRYST_REDUCE_AND] = "and",
        [TRYST_REDUCE_OR] = "or",
        [TRYST_REDUCE_XOR] = "xor",
    };
    return names[(unsigned)op < REDUCE_OPS ? op : TRYST_REDUCE_INVALID];
}
