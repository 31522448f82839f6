/* SPDX-License-Identifier: Apache-2.0 */
/* Limits BLAS to one thread per product. OpenBLAS splits a product over its threads, and
 * the split decides the order of sums; with one thread equal calls give equal bits on one
 * machine, whatever OPENBLAS_NUM_THREADS is. Other CBLAS libraries lack these functions
 * of OpenBLAS, so the symbols are weak.
 *
 * The setting applies to the whole process: OpenBLAS has none for a thread or a call. */
#include "blas.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/stage.h>

extern void openblas_set_num_threads(int threads_count) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));

void blas_use_one_thread(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    if (!openblas_set_num_threads || !openblas_get_num_threads) {
        return;
    }
    pthread_mutex_lock(&mutex);
    if (openblas_get_num_threads() != 1) {
        openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&mutex);
}

const char *tryst_blas_describe(char *text, size_t capacity)
{
    if (openblas_get_corename && openblas_get_num_threads) {
        int threads_count = openblas_get_num_threads();
        snprintf(text, capacity, "OpenBLAS, %s kernels, %d thread%s",
                 openblas_get_corename(), threads_count, threads_count == 1 ? "" : "s");
    } else {
        snprintf(text, capacity, "a CBLAS that is not OpenBLAS");
    }
    return text;
}

const char *tryst_blas_core_hint(void)
{
    if (!openblas_get_corename || strcmp(openblas_get_corename(), "Prescott") != 0 ||
        getenv("OPENBLAS_CORETYPE")) {
        return NULL;
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
#endif
    return NULL;
}
