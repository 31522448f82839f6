/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that take a struct of another version, as a table: each row is a struct and a
 * call that reads or writes it. A program of an earlier version has a shorter struct, a
 * program of a later version a longer one.
 *
 * tests/build/sized.sh checks that the tables have a row for each struct of the public
 * headers. */
#ifndef TRYST_TESTS_SUPPORT_SIZED_TABLE_H
#define TRYST_TESTS_SUPPORT_SIZED_TABLE_H

#include "unit.h"

#include <string.h>
#include <tryst/sized.h>
#include <tryst/types.h>

struct sized_row {
    const char *name;
    size_t bytes;
    /** Shortest input with which the call ends as with the complete struct. */
    size_t least;
    /** Input: write a complete, valid struct. NULL: the row is of an output. */
    void (*fill)(void *sized);
    /** Make the call, and undo it. */
    tryst_status (*call)(void *sized);
    tryst_status expected;
};

#define SIZED_INPUT(type, last, fill, call, expected)                                \
    {                                                                                \
#type, sizeof(type), offsetof(type, last) + sizeof(((type *)0)->last), fill, \
            call, expected                                                           \
    }
#define SIZED_OUTPUT(type, call, expected)           \
    {                                                \
#type, sizeof(type), 0, NULL, call, expected \
    }

enum { SIZED_POISON = 0xaa, SIZED_ROOM = TRYST_SIZED_MAX + 64 };

/** Call with struct_size `size`, as a program of that version would: the bytes behind are
 *  not part of the struct. */
static inline tryst_status sized_input(const struct sized_row *row, size_t size,
                                       bool later_field)
{
    char *room = malloc(SIZED_ROOM);
    memset(room, 0, SIZED_ROOM);
    row->fill(room);
    *(size_t *)(void *)room = size;
    if (size < SIZED_ROOM)
        memset(room + (size < sizeof size ? sizeof size : size), SIZED_POISON,
               SIZED_ROOM - (size < sizeof size ? sizeof size : size));
    if (later_field)
        room[size - 1] = 1;
    tryst_status status = row->call(room);
    free(room);
    return status;
}

static inline void sized_check_input(const struct sized_row *row)
{
    static const size_t refused[] = {0, 1, 7, TRYST_SIZED_MAX + 8};
    size_t least = (row->least + 7) / 8 * 8;
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        assert_int_equal(sized_input(row, refused[i], false), TRYST_E_INVALID);
    for (size_t size = least; size <= row->bytes; size += 8)
        assert_int_equal(sized_input(row, size, false), row->expected);
    assert_int_equal(sized_input(row, row->bytes + 8, false), row->expected);
    assert_int_equal(sized_input(row, TRYST_SIZED_MAX, false), row->expected);
    assert_int_equal(sized_input(row, row->bytes + 8, true), TRYST_E_INVALID);
    assert_int_equal(sized_input(row, TRYST_SIZED_MAX, true), TRYST_E_INVALID);
}

/** True if all of [begin, end) are `byte`. */
static inline bool sized_all(const char *begin, const char *end, int byte)
{
    for (; begin < end; begin++)
        if (*begin != (char)byte)
            return false;
    return true;
}

static inline void sized_output(const struct sized_row *row, size_t size,
                                tryst_status expected, const void *whole)
{
    char *room = malloc(SIZED_ROOM);
    bool written = expected == row->expected && size >= sizeof size;
    size_t end = written ? size : sizeof size;
    memset(room, SIZED_POISON, SIZED_ROOM);
    memcpy(room, &size, sizeof size);
    assert_int_equal(row->call(room), expected);
    assert_memory_equal(room, &size, sizeof size);
    assert_true(sized_all(room + end, room + SIZED_ROOM, SIZED_POISON));
    if (written && size > row->bytes)
        assert_true(sized_all(room + row->bytes, room + size, 0));
    if (written && size >= sizeof size + 4)
        assert_memory_equal(room + sizeof size, (const char *)whole + sizeof size, 4);
    free(room);
}

static inline void sized_check_output(const struct sized_row *row)
{
    static const size_t refused[] = {0, 1, 7, TRYST_SIZED_MAX + 8, SIZE_MAX};
    void *whole = calloc(1, row->bytes);
    memcpy(whole, &row->bytes, sizeof row->bytes);
    assert_int_equal(row->call(whole), row->expected);
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        sized_output(row, refused[i], TRYST_E_INVALID, whole);
    for (size_t size = sizeof(size_t); size <= row->bytes; size++)
        sized_output(row, size, row->expected, whole);
    sized_output(row, row->bytes + 8, row->expected, whole);
    sized_output(row, TRYST_SIZED_MAX, row->expected, whole);
    free(whole);
}

static inline void sized_check(const struct sized_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print_message("%s, %s\n", rows[i].name, rows[i].fill ? "input" : "output");
        if (rows[i].fill)
            sized_check_input(&rows[i]);
        else
            sized_check_output(&rows[i]);
    }
}

#endif
