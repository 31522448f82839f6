/* SPDX-License-Identifier: Apache-2.0 */
/* A fake device behind tryst/device.h: streams are threads with queues, each task has a
 * random delay from a seed, and an event passes when its stream reaches it. Memory is
 * host memory, so that canaries can read it.
 *
 * The contract is implemented as loosely as allowed: a task runs only when its stream
 * reaches it, and streams run concurrently. So an engine with a missing event trains on
 * wrong bytes, and a canary detects them. One lock guards everything. */
#ifndef TRYST_TESTS_PIPELINE_FAKE_DEVICE_H
#define TRYST_TESTS_PIPELINE_FAKE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <tryst/device.h>

/** Set the seed and maximum of the tasks' delays, and begin to count open objects. */
void fake_device_begin(uint64_t seed, uint64_t delay_max_ns);
/** Return the number of open streams, events, handles and pinned blocks. */
int fake_device_left(void);

/** Queue `fn(arg)` in a stream; fake_device_finish waits until the stream is empty. */
void fake_device_call(void *stream, void (*fn)(void *arg), void *arg);
void fake_device_finish(void *stream);
/** Return true if the stream has nothing left to do. */
bool fake_device_idle(void *stream);
/** Return the number of copies done since fake_device_begin. */
int fake_device_copied(void);
/** Queue a wait until `fn(arg)` is true; the stream calls `fn` repeatedly. */
void fake_device_until(void *stream, bool (*fn)(void *arg), void *arg);

#endif
