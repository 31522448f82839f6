/* SPDX-License-Identifier: Apache-2.0 */
/** @file flow_shape.h
 *  The parameters of a collective on which both ends of a tree edge must agree. A
 *  flow_shape is sent unchanged in declarations of names, in WANT and OFFER, and in a
 *  DONE of TRYST_E_MISMATCH, and is compared bytewise.
 */
#ifndef TRYST_RENDEZVOUS_MATCH_FLOW_SHAPE_H
#define TRYST_RENDEZVOUS_MATCH_FLOW_SHAPE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct flow_shape {
    uint64_t count;
    int32_t root;
    uint8_t operation, dtype, op, reserved;
};
static_assert(sizeof(struct flow_shape) == 16, "travels");

/** True if both shapes are equal, or both are NULL. */
static inline bool flow_shapes_equal(const struct flow_shape *a,
                                     const struct flow_shape *b)
{
    return a && b ? memcmp(a, b, sizeof *a) == 0 : a == b;
}

#endif
