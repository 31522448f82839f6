/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types; see dtype.h.
 */
#include "dtype.h"

const struct dtype dtypes[DTYPES] = {
    [TRYST_DTYPE_INVALID] = {"invalid", 0}, [TRYST_DTYPE_U8] = {"u8", 1},
    [TRYST_DTYPE_I8] = {"i8", 1},           [TRYST_DTYPE_I32] = {"i32", 4},
    [TRYST_DTYPE_I64] = {"i64", 8},         [TRYST_DTYPE_F16] = {"f16", 2},
    [TRYST_DTYPE_BF16] = {"bf16", 2},       [TRYST_DTYPE_F32] = {"f32", 4},
    [TRYST_DTYPE_F64] = {"f64", 8},         [TRYST_DTYPE_U16] = {"u16", 2},
    [TRYST_DTYPE_I16] = {"i16", 2},         [TRYST_DTYPE_U32] = {"u32", 4},
    [TRYST_DTYPE_U64] = {"u64", 8},
};

size_t tryst_dtype_bytes(tryst_dtype dtype)
{
    return dtype_bytes(dtype);
}

const char *tryst_dtype_name(tryst_dtype dtype)
{
    return (unsigned)dtype < DTYPES ? dtypes[dtype].name : "invalid";
}
