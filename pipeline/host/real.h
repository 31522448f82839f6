/* SPDX-License-Identifier: Apache-2.0 */
/* The number type of the host stages: float in the library, double in the test that
 * checks the hand-written gradients against finite differences. Both builds compile the
 * same sources, so the checked code is the code that trains.
 *
 * Invariant: no result depends on vector width or thread count; sums run over a fixed
 * number of lanes (real_row.h). */
#ifndef TRYST_PIPELINE_HOST_REAL_H
#define TRYST_PIPELINE_HOST_REAL_H

#include <cblas.h>
#include <math.h>
#include <stdint.h>

#ifdef PIPELINE_REAL_F64
typedef double real;
#define REAL_PRECISION TRYST_PRECISION_F64
#define real_gemm      cblas_dgemm
#define real_sqrt      sqrt
#define real_log       log
#else
typedef float real;
#define REAL_PRECISION TRYST_PRECISION_F32
#define real_gemm      cblas_sgemm
#define real_sqrt      sqrtf
#define real_log       logf
#endif

#endif
