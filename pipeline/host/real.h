/* SPDX-License-Identifier: Apache-2.0 */
/* The number type of the host stages: float in the library, double in the test that checks the
 * hand-written gradients against finite differences. Both builds compile the same sources, so
 * what is checked is what trains.
 *
 * Invariant: nothing here may let results depend on vector width or thread count; sums run over
 * a fixed number of lanes (kernels.c). */
#ifndef PIPELINE_REAL_H
#define PIPELINE_REAL_H

#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <tryst/types.h>

#include "pipeline/base/memory.h"

#ifdef PIPELINE_REAL_F64
typedef double real;
#define REAL_DTYPE TRYST_DTYPE_F64
#define real_gemm  cblas_dgemm
#define real_sqrt  sqrt
#define real_log   log
#else
typedef float real;
#define REAL_DTYPE TRYST_DTYPE_F32
#define real_gemm  cblas_sgemm
#define real_sqrt  sqrtf
#define real_log   logf
#endif

/* `count` rounded up so that what follows is aligned again. */
static inline uint64_t real_aligned(uint64_t count)
{
    const uint64_t unit = MEMORY_ALIGN_BYTES / sizeof(real);
    return (count + unit - 1) / unit * unit;
}

/* Hands out aligned runs of one buffer; with a NULL base it only counts. */
typedef struct real_carver {
    real *base;
    uint64_t used;
} real_carver;

static inline real *real_carve(real_carver *carver, uint64_t count)
{
    real *run = carver->base ? carver->base + carver->used : NULL;
    carver->used += real_aligned(count);
    return run;
}

#endif
