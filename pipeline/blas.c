/* SPDX-License-Identifier: Apache-2.0 */
/* One thread per product. OpenBLAS splits a product over its threads, and the split decides the
 * order of sums; with one thread equal calls give equal bits on one machine, whatever
 * OPENBLAS_NUM_THREADS says. Other CBLAS libraries have other switches: the symbols are weak.
 *
 * Called by tryst_stage_open; the setting is the process's, and OpenBLAS has no narrower one. */
#include "blas.h"

#include <pthread.h>

extern void openblas_set_num_threads(int threads_count) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

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
