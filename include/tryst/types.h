/* SPDX-License-Identifier: Apache-2.0 */
/** @file types.h
 *  The handles and plain types that every public header shares. Library: libtryst.
 */
#ifndef TRYST_TYPES_H
#define TRYST_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <tryst/status.h>

#if defined(__GNUC__)
#define TRYST_API                      __attribute__((visibility("default")))
#define TRYST_PRINTF(format_at, first) __attribute__((format(printf, format_at, first)))
#else
#define TRYST_API
#define TRYST_PRINTF(format_at, first)
#endif

#ifdef __cplusplus
#define TRYST_BEGIN_DECLS extern "C" {
#define TRYST_END_DECLS   }
#else
#define TRYST_BEGIN_DECLS
#define TRYST_END_DECLS
#endif

/** A context: configuration, transports, registered memory, progress, trace. */
typedef struct tryst_ctx tryst_ctx;
/** Ordered ranks that came together, each with a device prefix and an incarnation. */
typedef struct tryst_group tryst_group;
/** A scope for keys inside a group (one training step, usually). */
typedef struct tryst_step tryst_step;
/** One asynchronous operation. */
typedef struct tryst_op tryst_op;
/** A view of some ranks of a group, for collectives (tryst/coll.h). */
typedef struct tryst_subgroup tryst_subgroup;
/** A key that was parsed once, for hot loops. */
typedef struct tryst_key tryst_key;
/** A registered (or library-allocated) region of memory. */
typedef struct tryst_mem tryst_mem;
/** A set of configuration values, not yet tied to a context. */
typedef struct tryst_config tryst_config;

/** Element types. 0 is invalid on purpose: a zeroed tensor is an error. Integers are in
 *  two's complement, floating-point numbers in the formats of IEEE 754 (bf16: the upper
 *  half of an f32), all in the machine's byte order. */
typedef enum tryst_dtype {
    TRYST_DTYPE_INVALID = 0,
    TRYST_DTYPE_U8 = 1,
    TRYST_DTYPE_I8 = 2,
    TRYST_DTYPE_I32 = 3,
    TRYST_DTYPE_I64 = 4,
    TRYST_DTYPE_F16 = 5,
    TRYST_DTYPE_BF16 = 6,
    TRYST_DTYPE_F32 = 7,
    TRYST_DTYPE_F64 = 8,
    TRYST_DTYPE_U16 = 9,
    TRYST_DTYPE_I16 = 10,
    TRYST_DTYPE_U32 = 11,
    TRYST_DTYPE_U64 = 12
} tryst_dtype;

/** How a collective combines the elements of all ranks.
 *
 *  op                     dtypes          result, of the elements x0 to x(n-1) of n ranks
 *  ..._SUM                all             x0 + x1 + ...
 *  ..._PRODUCT            all             x0 * x1 * ...
 *  ..._MIN, ..._MAX       all             the least, the greatest
 *  ..._AVERAGE            all             (x0 + x1 + ...) / n
 *  ..._PREMULTIPLIED_SUM  floating point  factor0 * x0 + factor1 * x1 + ...
 *  ..._AND, _OR, _XOR     integers        bit by bit
 *
 *  Integers: sums and products wrap around at the width of their dtype (two's
 *  complement), signed ones too. An average divides such a sum by n and drops the
 *  fraction (-7 / 2 is -3): the sum must fit the dtype for the average to be right.
 *
 *  Floating point: each operation is rounded to the nearest value, ties to even,
 *  whatever rounding mode the calling thread has; subnormal numbers are kept, never
 *  flushed to zero; a product and a sum are never fused. f16 and bf16 are widened to f32
 *  (exact), combined there, and rounded back after each operation, so a result does not
 *  depend on how many elements arrive together. The order of operations is the plan's
 *  and fixed: results are the same on all ranks and in all runs.
 *  - The average of f16, bf16 and f32 divides in f32, of f64 in f64. Its sum is of the
 *    dtype and can overflow to infinity.
 *  - A factor multiplies before the first addition and is rounded apart from it: in f32
 *    for f16, bf16 and f32 (the factor is rounded to f32 first), in f64 for f64.
 *  - MIN and MAX: a NaN of any rank makes the result NaN; -0 is less than +0.
 *  - A NaN that an operation yields is one value, the positive quiet NaN without payload
 *    (f16 0x7e00, bf16 0x7fc0, f32 0x7fc00000, f64 0x7ff8000000000000), whatever NaN
 *    went in: hosts and GPUs agree. In a group of one rank no operation takes place for
 *    SUM, PRODUCT, MIN, MAX and AVERAGE: its elements are copied as they are. */
typedef enum tryst_reduce_op {
    TRYST_REDUCE_INVALID = 0,
    TRYST_REDUCE_SUM = 1,
    TRYST_REDUCE_PRODUCT = 2,
    TRYST_REDUCE_MIN = 3,
    TRYST_REDUCE_MAX = 4,
    TRYST_REDUCE_AVERAGE = 5,
    TRYST_REDUCE_PREMULTIPLIED_SUM = 6,
    TRYST_REDUCE_AND = 7,
    TRYST_REDUCE_OR = 8,
    TRYST_REDUCE_XOR = 9
} tryst_reduce_op;

/** Where a tensor's bytes are. Later kinds are added at the end; host is the default. */
typedef enum tryst_memory_kind {
    TRYST_MEMORY_HOST = 0,
    /** memory of an NVIDIA GPU; `device` is the driver's ordinal */
    TRYST_MEMORY_CUDA = 1
} tryst_memory_kind;

/** Log levels; a context writes lines at or below its level (warnings unless set). */
typedef enum tryst_log_level {
    TRYST_LOG_DEFAULT = 0,
    TRYST_LOG_ERROR = 1,
    TRYST_LOG_WARN = 2,
    TRYST_LOG_INFO = 3,
    TRYST_LOG_DEBUG = 4,
    TRYST_LOG_TRACE = 5
} tryst_log_level;

/** A tensor: `count` elements of `dtype`, contiguous at `data`.
 *
 *  `data` may be NULL where count is 0. `mem` is optional: the registration that covers
 *  the bytes (tryst_mem_register, tryst_mem_alloc); without it the library finds one or
 *  copies. `ready_event` (device memory only, else NULL; tensors of collectives: see
 *  coll.h) is an event of that device, a CUevent for TRYST_MEMORY_CUDA: before it has
 *  passed the library neither reads a send's bytes nor writes a receive's. The library
 *  polls the event without blocking, and may use it until the operation is complete: keep
 *  it until completion. */
typedef struct tryst_tensor {
    size_t struct_size; /**< sizeof(tryst_tensor) */
    void *data;
    uint64_t count; /**< elements, not bytes */
    tryst_dtype dtype;
    tryst_memory_kind memory;
    int32_t device; /**< device ordinal of a device memory kind or event, else 0 */
    int32_t reserved;
    tryst_mem *mem;
    void *ready_event;
} tryst_tensor;

/** The error of an operation or a step, and its origin. Strings are the library's and
 *  valid until the operation is released (or the step closed). */
typedef struct tryst_error {
    size_t struct_size;
    tryst_status status;        /**< what this operation reports */
    tryst_status origin_status; /**< what the origin reported first */
    int32_t origin_rank;        /**< rank where the failure began, -1 where unknown */
    int32_t reserved;
    uint64_t step;    /**< step id, UINT64_MAX where none */
    const char *key;  /**< the whole key, "" where none */
    const char *text; /**< one sentence: what, where, why, what to do */
} tryst_error;

TRYST_BEGIN_DECLS

/** Return why this thread's last failed call failed: argument, value and what is allowed;
 *  of a wait or a test that returned the failure of an operation, the operation's text
 *  (tryst_op_error). Steps and engines have their own texts. A call that succeeds does
 *  not change the text.
 *
 *  Owns:    the text is this thread's until its next call that fails. Never NULL; ""
 *           while no call of this thread has failed.
 *  Thread:  any. Never blocks. */
TRYST_API const char *tryst_last_error(void);

/** Set the text of tryst_last_error and return `status`. For libraries built on Tryst
 *  that refuse calls of their own, as libtryst_topology does. `format` is printf's;
 *  65,535 bytes are kept.
 *
 *  Thread:  any. Never blocks. */
TRYST_API tryst_status tryst_last_error_set(tryst_status status, const char *format, ...)
    TRYST_PRINTF(2, 3);

TRYST_END_DECLS

#endif
