/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of collectives after the manual (tryst_reduce_op), in plain serial C.
 *
 * Idea: every float is held in a double, which is exact for each dtype, and narrowed after each operation by
 * the definition of rounding. The plan is not known here. So a result of integers, of MIN and MAX, or of two
 * ranks is compared bit by bit; one of three or four ranks must be one of the 3 or 15 binary trees of
 * additions, the same for each cache line; and every result lies within the bound of Higham (Accuracy and Stability of
 * Numerical Algorithms, 2nd ed., section 4.2): |error| <= gamma(n-1) * sum |x|. */
#ifndef TRYST_TESTS_API_COLL_REFERENCE_H
#define TRYST_TESTS_API_COLL_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <tryst/tryst.h>

enum { REFERENCE_RANKS_MAX = 8, REFERENCE_TREES_MAX = 15, REFERENCE_LINE = 64 };

/* What the elements of an item are like. */
enum reference_values {
    REFERENCE_MODERATE, /* no overflow, many roundings */
    REFERENCE_ANY_BITS, /* integers of all sizes; NaN, infinity, -0, subnormal and huge floats */
};

struct reference {
    tryst_dtype dtype;
    tryst_reduce_op reduce;
    int size; /* ranks */
    enum reference_values values;
    uint64_t seed;
    double factors[REFERENCE_RANKS_MAX]; /* premultiplied sum */
};

bool reference_is_float(tryst_dtype dtype);
/* True if the manual has `reduce` for `dtype`. */
bool reference_allows(tryst_dtype dtype, tryst_reduce_op reduce);

/* The bits of element `index` of `rank`'s input. */
uint64_t reference_draw(const struct reference *reference, int rank, uint64_t index);

/* One element's inputs, on the way to a judgement. */
struct reference_line {
    uint32_t trees; /* bit set: those that explain all elements of the line until now */
};
void reference_line_begin(struct reference_line *line);
/* NULL: `got` is a legal result of element `index` of all ranks. Else what is wrong. `thorough`: search for
 * a tree of additions too. */
const char *reference_fault(const struct reference *reference, uint64_t index,
                            uint64_t got, bool thorough, struct reference_line *line);

#endif
