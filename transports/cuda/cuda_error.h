/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's results as statuses, and sentences. */
#ifndef TRANSPORTS_CUDA_ERROR_H
#define TRANSPORTS_CUDA_ERROR_H

#include <cuda.h>

#include "tryst/types.h"

/** TRYST_OK, or the status for `result` of `function`, with a sentence for this thread. */
tryst_status cuda_status(CUresult result, const char *function);
void cuda_error_write(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** `status`, with that sentence. */
#define cuda_error_set(status, ...) (cuda_error_write(__VA_ARGS__), (status))
/** Why the last call of this thread that failed did. */
const char *cuda_error_text(void);

#endif
