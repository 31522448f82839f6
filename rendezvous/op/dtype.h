/* SPDX-License-Identifier: Apache-2.0 */
/** @file dtype.h
 *  Element types: the table behind tryst_dtype_bytes and tryst_dtype_name (dtype.c), and
 *  an inline form of the first.
 */
#ifndef TRYST_RENDEZVOUS_OP_DTYPE_H
#define TRYST_RENDEZVOUS_OP_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "tryst/tryst.h"

enum { DTYPES = TRYST_DTYPE_U64 + 1, DTYPE_BYTES_MAX = 8 };

struct dtype {
    const char *name;
    uint8_t bytes; /**< size of an element; 0: not a type */
};
extern const struct dtype dtypes[DTYPES];

static inline size_t dtype_bytes(tryst_dtype dtype)
{
    return (unsigned)dtype < DTYPES ? dtypes[dtype].bytes : 0;
}

#endif
