/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
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

typedef struct tryst_ctx tryst_ctx;
typedef struct tryst_group tryst_group;
typedef struct tryst_step tryst_step;
typedef struct tryst_op tryst_op;
typedef struct tryst_subgroup tryst_subgroup;
typedef struct tryst_key tryst_key;
typedef struct tryst_mem tryst_mem;
typedef struct tryst_config tryst_config;

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

typedef enum tryst_memory_kind {
    TRYST_MEMORY_HOST = 0,
    TRYST_MEMORY_CUDA = 1
} tryst_memory_kind;

typedef enum tryst_log_level {
    TRYST_LOG_DEFAULT = 0,
    TRYST_LOG_ERROR = 1,
    TRYST_LOG_WARN = 2,
    TRYST_LOG_INFO = 3,
    TRYST_LOG_DEBUG = 4,
    TRYST_LOG_TRACE = 5
} tryst_log_level;

typedef struct tryst_tensor {
    size_t struct_size;
    void *data;
    uint64_t count;
    tryst_dtype dtype;
    tryst_memory_kind memory;
    int32_t device;
    int32_t reserved;
    tryst_mem *mem;
    void *ready_event;
} tryst_tensor;

typedef struct tryst_error {
    size_t struct_size;
    tryst_status status;
    tryst_status origin_status;
    int32_t origin_rank;
    int32_t reserved;
    uint64_t step;
    const char *key;
    const char *text;
} tryst_error;

TRYST_BEGIN_DECLS

TRYST_API const char *tryst_last_error(void);

TRYST_API tryst_status tryst_last_error_set(tryst_status status, const char *format, ...)
    TRYST_PRINTF(2, 3);

TRYST_END_DECLS

#endif
