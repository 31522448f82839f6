/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of collectives after the manual (tryst_reduce_op), in plain serial C.
 *
 * Idea: every float is held in a double, which is exact for each dtype, and narrowed
 * after each operation by the definition of rounding. The reference does not use the
 * plan. Therefore a result of integers, of MIN and MAX, or of two ranks is compared bit
 * by bit; one of three or four ranks must be one of the 3 or 15 binary trees of
 * additions, the same for each cache line; and every result lies within the bound of
 * Higham (Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2): |error|
 * <= gamma(n-1) * sum |x|. */
#ifndef TRYST_TESTS_API_COLL_REFERENCE_H
#define TRYST_TESTS_API_COLL_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <tryst/tryst.h>

enum { REFERENCE_RANKS_MAX = 8, REFERENCE_TREES_MAX = 15, REFERENCE_LINE = 64 };

/** How the inputs of an item are drawn. */
enum reference_values {
    REFERENCE_MODERATE, /**< no overflow, but many roundings */
    /** Integers of all sizes; NaN, infinity, -0, subnormal and huge floats. */
    REFERENCE_ANY_BITS,
};

struct reference {
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    int size; /**< ranks of the group */
    enum reference_values values;
    uint64_t seed;
    double factors[REFERENCE_RANKS_MAX]; /**< of a premultiplied sum, by rank */
};

bool reference_is_float(tryst_dtype dtype);
/** True if the manual allows `reduce` for `dtype`. */
bool reference_allows(tryst_dtype dtype, tryst_reduce_op reduce);

/** Return the bits of element `index` of the input of `rank`. */
uint64_t reference_draw(const struct reference *reference, int rank, uint64_t index);

/** The trees of additions that are still possible for one cache line. */
struct reference_line {
    uint32_t trees; /**< bit i is set: tree i explains all elements of the line so far */
};
void reference_line_begin(struct reference_line *line);
/** Return NULL if `got` is a legal result of element `index` over all ranks, else the
 *  reason why not. If `thorough`, also search for a tree of additions that gives
 *  `got`. */
const char *reference_fault(const struct reference *reference, uint64_t index,
                            uint64_t got, bool thorough, struct reference_line *line);

#endif
