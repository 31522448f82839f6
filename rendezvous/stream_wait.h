/* SPDX-License-Identifier: Apache-2.0 */
/** @file stream_wait.h
 *  Words in pinned memory that streams wait for (stream_wait.c). One set per engine.
 */
#ifndef RENDEZVOUS_STREAM_WAIT_H
#define RENDEZVOUS_STREAM_WAIT_H

#include <pthread.h>

#include "core/list.h"
#include "core/log.h"

struct gates {
    pthread_mutex_t lock; /**< guards all; not held while a device is waited for */
    struct list free;     /**< struct gate, the one that was set longest ago first */
    struct list pages;
};

void gates_open(struct gates *gates);
/** All operations are complete. Waits a little for streams that are still to go past. */
void gates_close(struct gates *gates, const struct log *log);

#endif
