/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes elements of arrays as doubles; the arrays' type is known at run time
 * only. The reference kernels compute in fp64 and round each result once, so a difference
 * between a device's result and theirs is the device's error. */
#ifndef TRYST_PIPELINE_DEVICE_REFERENCE_NUMBER_H
#define TRYST_PIPELINE_DEVICE_REFERENCE_NUMBER_H

#include "pipeline/device/bf16.h"

#include <stddef.h>
#include <tryst/types.h>

static inline double number_get(const void *data, tryst_dtype dtype, size_t i)
{
    switch (dtype) {
    case TRYST_DTYPE_BF16: return (double)bf16_to_float(((const bf16 *)data)[i]);
    case TRYST_DTYPE_F64: return ((const double *)data)[i];
    default: return (double)((const float *)data)[i];
    }
}

static inline void number_put(void *data, tryst_dtype dtype, size_t i, double value)
{
    switch (dtype) {
    case TRYST_DTYPE_BF16: ((bf16 *)data)[i] = bf16_from_float((float)value); break;
    case TRYST_DTYPE_F64: ((double *)data)[i] = value; break;
    default: ((float *)data)[i] = (float)value; break;
    }
}

static inline void number_add(void *data, tryst_dtype dtype, size_t i, double value)
{
    number_put(data, dtype, i, number_get(data, dtype, i) + value);
}

#endif
