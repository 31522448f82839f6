/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for a device behind tryst/device.h: streams are threads with queues, each task comes
 * late by a seed, events pass when their stream has come to them. Memory is the host's, so that
 * canaries can look at it.
 *
 * It keeps the contract at its loosest: nothing is done before its stream comes to it, and streams
 * run at the same time, so an engine that leaves out an event trains on wrong bytes and a canary
 * sees it. Everything is under one lock. */
#ifndef TRYST_TESTS_FAKE_DEVICE_H
#define TRYST_TESTS_FAKE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <tryst/device.h>

/* Delays of tasks; also counts what is open, from here on. */
void fake_device_begin(uint64_t seed, uint64_t delay_max_ns);
/* Streams, events, handles and pinned blocks that are open. */
int fake_device_left(void);

/* Queue `fn(arg)` in a stream; fake_device_finish waits until the stream is empty. */
void fake_device_call(void *stream, void (*fn)(void *arg), void *arg);
void fake_device_finish(void *stream);
/* Copies that have been done since begin. */
int fake_device_copied(void);
/* Queue a wait until `fn(arg)` is true; it is asked again and again. */
void fake_device_until(void *stream, bool (*fn)(void *arg), void *arg);

#endif
