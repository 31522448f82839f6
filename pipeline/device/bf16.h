/* SPDX-License-Identifier: Apache-2.0 */
/* bfloat16: the upper half of a float, rounded to nearest, ties to even, as hardware
 * does.
 *
 * The reference (C) and the kernels (CUDA C++) include this file, so both round alike. */
#ifndef TRYST_PIPELINE_DEVICE_BF16_H
#define TRYST_PIPELINE_DEVICE_BF16_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define BF16_CALL __host__ __device__ static inline
#else
#define BF16_CALL static inline
#endif

typedef struct bf16 {
    uint16_t bits;
} bf16;

BF16_CALL float bf16_to_float(bf16 value)
{
    uint32_t bits = (uint32_t)value.bits << 16;
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

BF16_CALL bf16 bf16_from_float(float number)
{
    uint32_t bits;
    bf16 value;
    memcpy(&bits, &number, sizeof(bits));
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        bits |= 0x00400000u; /* a NaN must stay one when its lower half is dropped */
    } else {
        bits += 0x7fffu + ((bits >> 16) & 1u);
    }
    value.bits = (uint16_t)(bits >> 16);
    return value;
}

#endif
