/* SPDX-License-Identifier: Apache-2.0 */
/* A run of pp_bench (TRYST_TEST_PP_BENCH) in a folder of its own, with what it printed. */
#ifndef TRYST_TESTS_BENCH_RUN_H
#define TRYST_TESTS_BENCH_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct run {
    pid_t pid;
    int exit_status; /* 128 + signal where it was killed */
    char out[65536];
    char err[65536];
} run;

/* Make the folder of this program's runs; false after a message. */
bool folder_open(void);
/* Remove it and all files in it. */
void folder_close(void);
/* The path of a file there, valid for the next seven calls. */
char *in_folder(const char *name);
void read_into(const char *path, char *text, size_t capacity);
json_t *load_json(const char *name);

/* Start pp_bench with words separated by blanks. */
void bench_start(run *self, const char *words);
void bench_end(run *self);
/* Both; valid until the next one. */
const run *bench(const char *words);
void expect_exit(const run *self, const char *words, int exit_status);
void expect_says(const char *text, const char *words, const char *says);

#endif
