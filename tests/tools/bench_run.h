/* SPDX-License-Identifier: Apache-2.0 */
/* A run of pp_bench (TRYST_TEST_PP_BENCH) in a temporary folder, with its output. */
#ifndef TRYST_TESTS_TOOLS_BENCH_RUN_H
#define TRYST_TESTS_TOOLS_BENCH_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "support/json_text.h"

struct run {
    pid_t pid;
    int exit_status; /**< 128 + signal if it was killed */
    char out[65536];
    char err[65536];
};

/** Make the folder for the runs of this program; return false after printing the
 *  error. */
bool folder_open(void);
/** Remove the folder and all its files. */
void folder_close(void);
/** Return the path of a file in the folder, valid for the next seven calls. */
char *in_folder(const char *name);
void read_into(const char *path, char *text, size_t capacity);
struct json *load_json(const char *name);

void write_file(const char *name, const char *content);

/** A model that trains in milliseconds. */
#define TINY "--layers 4 --hidden 16 --heads 2 --seq 8 --microbatch-size 2 --steps 3"
/** The schedules by name. */
static const char *const bench_schedules[] = {"naive", "gpipe", "1f1b"};

/** Return the arguments that TRYST_TEST_BENCH_ARGS adds to the runs of a matrix, and to
 *  those in which a rank is killed. */
const char *more_words(void);
/** Run with --check, which must pass, and get the digest of the weights. */
void digest_of(const char *words, char digest[40]);
/** The same; the digest must be `first`, or is stored there if that is empty. */
void expect_one_digest(const char *words, char first[40]);

/** Start pp_bench with arguments separated by blanks. */
void bench_start(struct run *self, const char *words);
void bench_end(struct run *self);
/** Start and end a run; the result is valid until the next run. */
const struct run *bench(const char *words);
/** The same by pp_bench_faulty (TRYST_TEST_PP_BENCH_FAULTY), where one rank computes
 *  wrongly once: `fault` is NAME:STEP:RANK (faulty_bench.c). */
const struct run *bench_faulty(const char *fault, const char *words);
void expect_exit(const struct run *self, const char *words, int exit_status);
void expect_text(const char *text, const char *words, const char *says);

#endif
