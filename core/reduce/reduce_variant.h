/* SPDX-License-Identifier: Apache-2.0 */
/** @file reduce_variant.h
 *  The kernels compiled for one set of instructions, of which reduce.c chooses. Private
 *  to core/reduce and its tests.
 */
#ifndef CORE_REDUCE_VARIANT_H
#define CORE_REDUCE_VARIANT_H

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

/** A row for each dtype, a column for each operation; without `reduce`: not allowed. */
typedef struct reduce_kernel reduce_table[REDUCE_DTYPES][REDUCE_OPS];

struct reduce_variant {
    const char *name;
    bool (*usable)(void); /**< the processor and the system have the instructions */
    const reduce_table *table;
};

/** Fastest first; the last one runs on every processor. */
extern const struct reduce_variant reduce_variants[REDUCE_VARIANTS];

extern const reduce_table reduce_table_base;
#if defined(__x86_64__)
extern const reduce_table reduce_table_avx2, reduce_table_avx512;
#endif

#endif
