/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: the offsets are the documented ones, cover the file and stay inside it; every
 * error of a file has a text. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include <cmocka.h>

#include <tryst/data.h>

static char folder[512];

static int setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/tryst_data_XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int teardown(void **state)
{
    return rmdir(folder);
}

static const char *path_of(const char *name)
{
    static char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* Write a file of `bytes` bytes, byte i being i mod 251; return its path. */
static const char *write_file(const char *name, int bytes)
{
    const char *path = path_of(name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (int i = 0; i < bytes; i++) {
        fputc(i % 251, out);
    }
    assert_int_equal(fclose(out), 0);
    return path;
}

static void test_windows(void **state)
{
    enum { BYTES = 200, SEQ = 7, ROWS = 5 };
    const char *path = write_file("text", BYTES);
    tryst_data *data = NULL, *same = NULL, *other = NULL;
    assert_int_equal(tryst_data_open(path, SEQ, 42, &data), TRYST_OK);
    assert_int_equal(tryst_data_open(path, SEQ, 42, &same), TRYST_OK);
    assert_int_equal(tryst_data_open(path, SEQ, 43, &other), TRYST_OK);
    assert_int_equal(tryst_data_bytes(data), BYTES);
    uint8_t input[ROWS * SEQ], target[ROWS * SEQ], alone[ROWS * SEQ];
    int seen[BYTES] = {0}, differs = 0;
    for (uint64_t step = 0; step < 100; step++) {
        for (uint64_t m = 0; m < 4; m++) {
            assert_int_equal(tryst_data_windows(data, step, m, ROWS, input, target),
                             TRYST_OK);
            assert_int_equal(tryst_data_windows(same, step, m, ROWS, NULL, alone),
                             TRYST_OK);
            assert_memory_equal(target, alone, sizeof(alone));
            assert_int_equal(tryst_data_windows(same, step, m, ROWS, alone, NULL),
                             TRYST_OK);
            assert_memory_equal(input, alone, sizeof(alone));
            for (int row = 0; row < ROWS; row++) {
                uint64_t offset = tryst_data_offset(data, step, m, row);
                differs += offset != tryst_data_offset(other, step, m, row);
                assert_true(offset + SEQ < BYTES);
                seen[offset]++;
                for (uint64_t i = 0; i < SEQ; i++) {
                    assert_int_equal(input[(uint64_t)row * SEQ + i], (offset + i) % 251);
                    assert_int_equal(target[(uint64_t)row * SEQ + i],
                                     (offset + i + 1) % 251);
                }
            }
        }
    }
    /* 2000 draws from 193 offsets: each occurs, none far too often. */
    for (int i = 0; i + SEQ < BYTES; i++) {
        assert_true(seen[i] > 0 && seen[i] < 40);
    }
    assert_true(differs > 1900);
    tryst_data_close(other);
    tryst_data_close(same);
    tryst_data_close(data);
    unlink(path);
}

/* The formula of pipeline/model/README.md. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void test_formula(void **state)
{
    uint64_t golden = 0x9e3779b97f4a7c15u;
    const char *path = write_file("text", 1000);
    tryst_data *data = NULL;
    assert_int_equal(tryst_data_open(path, 64, 5, &data), TRYST_OK);
    uint64_t stream = mix(mix(mix(~(uint64_t)5 + golden) + 17 + golden) + 3 + golden);
    uint64_t bits = mix(stream + (2 + 1) * golden);
    __extension__ typedef unsigned __int128 wide;
    uint64_t expected = (uint64_t)(((wide)bits * (1000 - 64)) >> 64);
    assert_int_equal(tryst_data_offset(data, 17, 3, 2), expected);
    tryst_data_close(data);
    unlink(path);
}

/* The shortest file has one window. */
static void test_shortest(void **state)
{
    const char *path = write_file("text", 9);
    tryst_data *data = NULL;
    uint8_t input[8], target[8];
    assert_int_equal(tryst_data_open(path, 8, 0, &data), TRYST_OK);
    assert_int_equal(tryst_data_windows(data, 3, 1, 1, input, target), TRYST_OK);
    assert_int_equal(input[0], 0);
    assert_int_equal(target[7], 8);
    assert_int_equal(truncate(path, 4), 0);
    assert_int_equal(tryst_data_windows(data, 3, 1, 1, input, target), TRYST_E_IO);
    tryst_data_close(data);
    tryst_data_close(NULL);
    unlink(path);
}

static void expect_refusal(const char *path, int32_t seq, tryst_status status,
                           const char *word)
{
    tryst_data *data = NULL;
    assert_int_equal(tryst_data_open(path, seq, 0, &data), status);
    assert_non_null(strstr(tryst_last_error(), word));
    assert_null(data);
}

static void test_refusals(void **state)
{
    char fifo[600];
    expect_refusal(path_of("missing"), 8, TRYST_E_IO, "No such file");
    expect_refusal(folder, 8, TRYST_E_IO, "directory");
    expect_refusal("/dev/null", 8, TRYST_E_IO, "not a file of bytes");
    strcpy(fifo, path_of("fifo"));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_refusal(fifo, 8, TRYST_E_IO, "not a file of bytes");
    unlink(fifo);
    const char *path = write_file("short", 8);
    expect_refusal(path, 8, TRYST_E_IO, "has 8 bytes, but a window needs 9");
    expect_refusal(path, 0, TRYST_E_INVALID, "empty");
    expect_refusal(path, INT32_MAX, TRYST_E_IO, "2147483648");
    assert_int_equal(chmod(path, 0), 0);
    if (access(path, R_OK) != 0) { /* root can read everything */
        expect_refusal(path, 4, TRYST_E_IO, "Permission denied");
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_shortest),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
