/* SPDX-License-Identifier: Apache-2.0 */
/** @file reduce_reference.h
 *  Reductions element by element, as the manual words them: the kernels of core/reduce
 *  must give the same results, bit for bit.
 */
#ifndef TRYST_TESTS_CORE_REDUCE_REFERENCE_H
#define TRYST_TESTS_CORE_REDUCE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/reduce/reduce.h"

/** True if the manual allows `op` for `dtype`. */
bool reference_allows(tryst_dtype dtype, tryst_reduce_op op);
/** True if `op` also scales by a factor. */
bool reference_scales(tryst_reduce_op op);
/** Reduce or scale as the functions of struct reduce_kernel, in a thread that has IEEE
 *  754's default mode. */
void reference_reduce(tryst_dtype dtype, tryst_reduce_op op, void *dst, const void *a,
                      const void *b, size_t count);
void reference_scale(tryst_dtype dtype, tryst_reduce_op op, void *dst, const void *src,
                     size_t count, double factor);
/** Return the bits of the nearest f16 or bf16, ties to even, without the conversions of
 *  reduce_element.h. */
uint16_t reference_round(tryst_dtype dtype, float value);
/** Return the value of an f16 or bf16. */
double reference_value(tryst_dtype dtype, uint16_t bits);

#endif
