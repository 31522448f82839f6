/* SPDX-License-Identifier: Apache-2.0 */
/** @file stream_wait.h
 *  Words in pinned memory that streams wait for (stream_wait.c). One set per engine.
 */
#ifndef TRYST_RENDEZVOUS_STREAM_WAIT_H
#define TRYST_RENDEZVOUS_STREAM_WAIT_H

#include "core/log/log.h"
#include "tryst/types.h"

struct gates;

void gates_open(struct gates *gates);
/** Close the set when all operations are complete. Waits, 2 s at most, for streams that
 *  have not passed their words. */
void gates_close(struct gates *gates, const struct log *log);

#endif
