/* SPDX-License-Identifier: Apache-2.0 */
/* The element types against the manual: numbers, names, sizes. */
#include "support/unit.h"

#include <string.h>

#include "rendezvous/op/dtype.h"

static const struct {
    tryst_dtype dtype;
    int number; /* part of the ABI and of the wire format */
    const char *name;
    size_t bytes;
} rows[] = {
    {TRYST_DTYPE_INVALID, 0, "invalid", 0}, {TRYST_DTYPE_U8, 1, "u8", 1},
    {TRYST_DTYPE_I8, 2, "i8", 1},           {TRYST_DTYPE_I32, 3, "i32", 4},
    {TRYST_DTYPE_I64, 4, "i64", 8},         {TRYST_DTYPE_F16, 5, "f16", 2},
    {TRYST_DTYPE_BF16, 6, "bf16", 2},       {TRYST_DTYPE_F32, 7, "f32", 4},
    {TRYST_DTYPE_F64, 8, "f64", 8},         {TRYST_DTYPE_U16, 9, "u16", 2},
    {TRYST_DTYPE_I16, 10, "i16", 2},        {TRYST_DTYPE_U32, 11, "u32", 4},
    {TRYST_DTYPE_U64, 12, "u64", 8},
};

static void each_has_its_number_name_and_size(void **state)
{
    assert_int_equal(COUNT_OF(rows), DTYPES);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(rows[i].dtype, rows[i].number);
        assert_string_equal(tryst_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(tryst_dtype_bytes(rows[i].dtype), rows[i].bytes);
        assert_in_range(rows[i].bytes, 0, DTYPE_BYTES_MAX);
    }
}

static void other_numbers_are_invalid(void **state)
{
    static const int others[] = {-1, DTYPES, 99, 255, 256};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_string_equal(tryst_dtype_name((tryst_dtype)others[i]), "invalid");
        assert_int_equal(tryst_dtype_bytes((tryst_dtype)others[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_number_name_and_size),
        cmocka_unit_test(other_numbers_are_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
