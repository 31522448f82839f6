/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of AVX2, with f16 converted by F16C: vectors of 32 bytes; see reduce_loops.h.
 */
#include <immintrin.h>

#include "reduce_element.h"

#define HALF_LANES 8
typedef __m256 half_vector;

static inline half_vector half_load(const void *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(from));
}

static inline void half_store(void *to, half_vector value)
{
    half_vector nan = _mm256_castsi256_ps(_mm256_set1_epi32(F32_NAN));
    value = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    _mm_storeu_si128(to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

static inline half_vector half_spread(float value)
{
    return _mm256_set1_ps(value);
}

#define REDUCE_TABLE reduce_table_avx2
#include "reduce_loops.h"
