/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the fuzzers: reading the input, and reporting a violation. */
#ifndef TRYST_TESTS_FUZZ_FUZZ_H
#define TRYST_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/** Judge all inputs of the corpus together, after the last one; 0: they reach what they
 *  should. A fuzzer may define it, and replay.c calls it. */
int fuzz_corpus_judge(void) __attribute__((weak));

/** A condition that must hold for every input. */
#define FUZZ_CHECK(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

/** The input as a script: bytes, and runs of bytes with their length in front. */
struct fuzz_input {
    const uint8_t *data;
    size_t bytes;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (!input->bytes)
        return 0;
    input->bytes--;
    return *input->data++;
}

/** Take a run of at most `most` bytes, in memory of exactly its size, which the caller
 *  frees. */
static inline uint8_t *fuzz_run(struct fuzz_input *input, size_t wanted, size_t most,
                                size_t *bytes_p)
{
    size_t bytes = wanted < most ? wanted : most;
    bytes = bytes < input->bytes ? bytes : input->bytes;
    uint8_t *run = malloc(bytes + !bytes);
    FUZZ_CHECK(run != NULL);
    if (bytes)
        memcpy(run, input->data, bytes);
    input->data += bytes;
    input->bytes -= bytes;
    *bytes_p = bytes;
    return run;
}

/** Return the whole input as a terminated string, which the caller frees. */
static inline char *fuzz_text(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    FUZZ_CHECK(text != NULL);
    if (bytes)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    return text;
}

#endif
