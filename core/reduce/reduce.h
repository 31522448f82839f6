/* SPDX-License-Identifier: Apache-2.0 */
/** @file reduce.h
 *  Kernels that combine elements in host memory, by dtype and operation. Their results
 *  are those of the manual (tryst_reduce_op), bit for bit, on every processor.
 *
 *  A kernel neither allocates nor locks, takes any address (elements need no alignment)
 *  and any count, 0 too, and may run in any thread. It computes with IEEE 754's defaults
 *  whatever rounding mode and flush-to-zero mode the thread has, and restores the
 *  thread's mode.
 */
#ifndef TRYST_CORE_REDUCE_REDUCE_H
#define TRYST_CORE_REDUCE_REDUCE_H

#include <stddef.h>

#include "tryst/types.h"

struct reduce_kernel {
    /** Write to element i of `dst` the combination of element i of `a` and of `b`. `dst`
     *  may be `a`, `b` or both, but may not overlap them in another way. AVERAGE and
     *  PREMULTIPLIED_SUM add. */
    void (*reduce)(void *dst, const void *a, const void *b, size_t count);
    /** Write to element i of `dst` element i of `src`, divided by `factor` for AVERAGE (a
     *  whole number from 1 to 2^24), multiplied by `factor` for PREMULTIPLIED_SUM. `dst`
     *  may be `src`. NULL for other operations. */
    void (*scale)(void *dst, const void *src, size_t count, double factor);
};

/** Return the fastest kernel for this processor; NULL if `dtype` does not have the
 *  operation. Static. */
const struct reduce_kernel *reduce_kernel_get(tryst_dtype dtype, tryst_reduce_op op);

/** Return the name of an operation ("sum"); "invalid" for any other value. Static. */
const char *reduce_op_name(tryst_reduce_op op);

#endif
