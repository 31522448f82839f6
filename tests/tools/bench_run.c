/* SPDX-License-Identifier: Apache-2.0 */
/* Implements bench_run.h. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench_run.h"

#define ARGS_MAX 64

static char folder[256];

bool folder_open(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tryst-bench-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        return false;
    }
    return true;
}

void folder_close(void)
{
    DIR *entries = opendir(folder);
    for (struct dirent *entry = entries ? readdir(entries) : NULL; entry;
         entry = readdir(entries)) {
        unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries) {
        closedir(entries);
    }
    rmdir(folder);
}

char *in_folder(const char *name)
{
    static char paths[8][320];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void read_into(const char *path, char *text, size_t capacity)
{
    FILE *stream = fopen(path, "r");
    text[0] = '\0';
    if (stream) {
        text[fread(text, 1, capacity - 1, stream)] = '\0';
        fclose(stream);
    }
}

static void redirect(const char *path, int fd)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, fd) < 0) {
        _exit(126);
    }
    close(file);
}

static void program_start(struct run *self, char *program, const char *words)
{
    static char copy[4096];
    char *argv[ARGS_MAX] = {program};
    int argc = 1;
    assert_non_null(argv[0]);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word && argc < ARGS_MAX - 1;
         word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    *self = (struct run){0};
    self->pid = fork();
    assert_true(self->pid >= 0);
    if (self->pid == 0) {
        /* end with the test, also when the test fails */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        redirect(in_folder("out"), STDOUT_FILENO);
        redirect(in_folder("err"), STDERR_FILENO);
        execv(argv[0], argv);
        _exit(127);
    }
}

void bench_start(struct run *self, const char *words)
{
    program_start(self, getenv("TRYST_TEST_PP_BENCH"), words);
}

void bench_end(struct run *self)
{
    int status = 0;
    assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
    self->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_into(in_folder("out"), self->out, sizeof self->out);
    read_into(in_folder("err"), self->err, sizeof self->err);
}

const struct run *bench(const char *words)
{
    static struct run self;
    bench_start(&self, words);
    bench_end(&self);
    return &self;
}

const struct run *bench_faulty(const char *fault, const char *words)
{
    static struct run self;
    setenv("TRYST_TEST_FAULT", fault, 1);
    program_start(&self, getenv("TRYST_TEST_PP_BENCH_FAULTY"), words);
    bench_end(&self);
    return &self;
}

void expect_exit(const struct run *self, const char *words, int exit_status)
{
    if (self->exit_status != exit_status) {
        fail_msg("pp_bench %s: exit %d, not %d\n%s%s", words, self->exit_status,
                 exit_status, self->out, self->err);
    }
}

void expect_text(const char *text, const char *words, const char *says)
{
    if (!strstr(text, says)) {
        fail_msg("pp_bench %s: the output does not contain \"%s\":\n%s", words, says,
                 text);
    }
}

struct json *load_json(const char *name)
{
    return json_of_file(in_folder(name));
}

void write_file(const char *name, const char *content)
{
    FILE *stream = fopen(in_folder(name), "w");
    assert_non_null(stream);
    fputs(content, stream);
    fclose(stream);
}

const char *more_words(void)
{
    const char *given = getenv("TRYST_TEST_BENCH_ARGS");
    return given ? given : "";
}

void digest_of(const char *words, char digest[40])
{
    char all[1024];
    snprintf(all, sizeof all, "%s --check --json %s", words, in_folder("m.json"));
    const struct run *self = bench(all);
    expect_exit(self, all, 0);
    expect_text(self->out, all, "bitwise equal");
    struct json *document = load_json("m.json");
    snprintf(digest, 40, "%s", json_string_of(json_member(document, "weights_digest")));
    mem_free(document);
}

void expect_one_digest(const char *words, char first[40])
{
    char digest[40];
    digest_of(words, digest);
    if (!*first) {
        memcpy(first, digest, sizeof digest);
    }
    if (strcmp(first, digest) != 0) {
        fail_msg("pp_bench %s: weights %s, but %s before", words, digest, first);
    }
}
