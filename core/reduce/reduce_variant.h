/* SPDX-License-Identifier: Apache-2.0 */
/** @file reduce_variant.h
 *  The kernels for each set of instructions, from which reduce.c chooses. Private to
 *  core/reduce and its tests.
 */
#ifndef TRYST_CORE_REDUCE_REDUCE_VARIANT_H
#define TRYST_CORE_REDUCE_REDUCE_VARIANT_H

#include <stdbool.h>

#include "core/reduce/reduce.h"

enum {
    REDUCE_DTYPES = TRYST_DTYPE_U64 + 1,
    REDUCE_OPS = TRYST_REDUCE_XOR + 1,
#if defined(__x86_64__)
    REDUCE_VARIANTS = 3
#else
    REDUCE_VARIANTS = 1
#endif
};

/** A row for each dtype and a column for each operation; `reduce` is NULL where the
 *  manual does not allow the pair. */
typedef struct reduce_kernel reduce_table[REDUCE_DTYPES][REDUCE_OPS];

struct reduce_variant {
    const char *name;
    /** True if the processor and the system support the instructions. */
    bool (*usable)(void);
    const reduce_table *table;
};

/** The variants, fastest first; the last one runs on every processor. */
extern const struct reduce_variant reduce_variants[REDUCE_VARIANTS];

extern const reduce_table reduce_table_base;
#if defined(__x86_64__)
extern const reduce_table reduce_table_avx2, reduce_table_avx512;
#endif

#endif
