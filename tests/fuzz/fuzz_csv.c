/* SPDX-License-Identifier: Apache-2.0 */
/* Any file is a program, or is refused with an error text. A program can be checked, and
 * its saved form loads as the same program. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tryst/pipeline.h"

/* A file in memory with a path. */
struct file {
    int fd;
    char path[40];
};

static void file_open(struct file *file)
{
    file->fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(file->fd >= 0);
    snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->fd);
}

static void marks_compare(const tryst_program *a, const tryst_program *b, int rank)
{
    size_t a_body, a_epilogue, b_body, b_epilogue;
    FUZZ_CHECK(tryst_program_loop(a, rank, &a_body, &a_epilogue) ==
               tryst_program_loop(b, rank, &b_body, &b_epilogue));
    FUZZ_CHECK(a_body == b_body && a_epilogue == b_epilogue);
}

static void programs_compare(const tryst_program *a, const tryst_program *b)
{
    FUZZ_CHECK(tryst_program_ranks(a) == tryst_program_ranks(b));
    FUZZ_CHECK(tryst_program_stages(a) == tryst_program_stages(b));
    FUZZ_CHECK(tryst_program_microbatches(a) == tryst_program_microbatches(b));
    FUZZ_CHECK(tryst_program_rate(a) == tryst_program_rate(b));
    for (int rank = 0; rank < tryst_program_ranks(a); rank++) {
        size_t a_count, b_count;
        const tryst_action *ours = tryst_program_actions(a, rank, &a_count);
        const tryst_action *theirs = tryst_program_actions(b, rank, &b_count);
        FUZZ_CHECK(a_count == b_count);
        for (size_t i = 0; i < a_count; i++)
            FUZZ_CHECK(
                ours[i].kind == theirs[i].kind && ours[i].stage == theirs[i].stage &&
                ours[i].microbatch == theirs[i].microbatch &&
                ours[i].version == theirs[i].version && ours[i].slot == theirs[i].slot &&
                ours[i].direction == theirs[i].direction &&
                ours[i].ahead == theirs[i].ahead);
        marks_compare(a, b, rank);
    }
}

static void program_use(const tryst_program *program)
{
    static const tryst_check_params params = {.struct_size = sizeof params};
    struct file saved;
    tryst_program *again;
    tryst_status status = tryst_program_check(program, &params, NULL);
    FUZZ_CHECK(status == TRYST_OK ||
               (status == TRYST_E_PROGRAM && tryst_last_error()[0]));
    file_open(&saved);
    FUZZ_CHECK(tryst_program_save_csv(program, saved.path) == TRYST_OK);
    status = tryst_program_load_csv(saved.path, &again);
    if (status != TRYST_OK)
        fprintf(stderr, "what was saved does not load: %s\n", tryst_last_error());
    FUZZ_CHECK(status == TRYST_OK);
    programs_compare(program, again);
    tryst_program_close(again);
    close(saved.fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct file file;
    tryst_program *program;
    file_open(&file);
    FUZZ_CHECK(write(file.fd, data, bytes) == (ssize_t)bytes);
    tryst_status status = tryst_program_load_csv(file.path, &program);
    FUZZ_CHECK(status == TRYST_OK || status == TRYST_E_PROGRAM);
    FUZZ_CHECK(status == TRYST_OK || tryst_last_error()[0]);
    if (status == TRYST_OK) {
        program_use(program);
        tryst_program_close(program);
    }
    close(file.fd);
    return 0;
}
