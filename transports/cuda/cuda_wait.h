/* SPDX-License-Identifier: Apache-2.0 */
/** @file cuda_wait.h
 *  A stream waits for a word (cuda_wait.c).
 */
#ifndef TRANSPORTS_CUDA_CUDA_WAIT_H
#define TRANSPORTS_CUDA_CUDA_WAIT_H

#include "cuda_private.h"

tryst_status cuda_stream_wait_word(int32_t device, void *stream, const uint32_t *word,
                                   uint32_t value);

#endif
