/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of AVX-512 (F, BW, DQ, VL): vectors of 64 bytes; see reduce_loops.h. AVX-512's
 * instructions for bf16 flush subnormal numbers to zero, so they are not used.
 */
#include <immintrin.h>

#include "reduce_element.h"

#define HALF_LANES 16
typedef __m512 half_vector;

static inline half_vector half_load(const void *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}

static inline void half_store(void *to, half_vector value)
{
    half_vector nan = _mm512_castsi512_ps(_mm512_set1_epi32(F32_NAN));
    __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    value = _mm512_mask_mov_ps(value, is_nan, nan);
    _mm256_storeu_si256(to, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

static inline half_vector half_spread(float value)
{
    return _mm512_set1_ps(value);
}

#define REDUCE_TABLE reduce_table_avx512
#include "reduce_loops.h"
