/* SPDX-License-Identifier: Apache-2.0 */
/** @file cuda_stream.h
 *  Streams, events, and words that streams wait for and write (cuda_stream.c).
 */
#ifndef TRYST_TRANSPORTS_CUDA_CUDA_STREAM_H
#define TRYST_TRANSPORTS_CUDA_CUDA_STREAM_H

#include "cuda_private.h"

tryst_status cuda_stream_open(int32_t device, bool urgent, void **stream_p);
void cuda_stream_close(int32_t device, void *stream);
tryst_status cuda_event_open(int32_t device, void **event_p);
void cuda_event_close(int32_t device, void *event);
tryst_status cuda_event_record(int32_t device, void *stream, void *event);
tryst_status cuda_event_query(int32_t device, void *event);
tryst_status cuda_stream_wait(int32_t device, void *stream, void *event);
tryst_status cuda_stream_wait_word(int32_t device, void *stream, const uint32_t *word,
                                   uint32_t value);
tryst_status cuda_stream_write_word(int32_t device, void *stream, uint32_t *word,
                                    uint32_t value);

#endif
