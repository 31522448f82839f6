/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of a test, and its twin: a tensor on a device, or one with late bytes.
 *
 * Idea: a test writes and checks host memory only. twin_begin copies the whole memory,
 * guards included, to a device before the operation, and twin_pull copies it back after
 * the operation's end. So a check of host memory is a check of device memory, too.
 *
 * A late twin has a ready event. Before the event, a stream overwrites the memory with
 * wrong bytes several times and writes the right bytes last. An operation that reads an
 * input too early reads wrong bytes; a result that is written too early is overwritten.
 *
 * TRYST_TEST_DEVICE (0): tensors of 100 that are on a device; half of these, and a
 * quarter of the others, are late. With 0 no twin does anything, and no device is opened.
 * TRYST_TEST_AWAIT (0): twins of 100 with a stream that waits for the operation. A few
 * streams do this for all twins, so each waits for many operations.
 *
 * Invariant: between twin_begin and the operation's end the test leaves the host memory
 * alone. One thread at a time uses a twin; several may use twins of one rank. */
#ifndef TRYST_TESTS_API_TWINS_H
#define TRYST_TESTS_API_TWINS_H

#include "rooms.h"

/** Open and close the rank's devices, if TRYST_TEST_DEVICE is set; for
 *  harness_params.opened and closing. */
void twins_open(struct harness_rank *rank);
void twins_close(struct harness_rank *rank);
/** Open the devices of a rank; devices_open_all: with the pools of their memory. */
void devices_open(struct harness_rank *rank);
void devices_open_all(struct harness_rank *rank);
/** Run ranks with devices, as harness_run; `arg` has four counters. `opened` opens the
 *  devices; `killed`: a rank, or HARNESS_NO_RANK. */
int devices_run(int size, void (*main)(struct harness_rank *rank),
                void (*opened)(struct harness_rank *rank), int killed);

struct twin {
    struct gpu *gpu; /**< NULL: the tensor is the host memory, and its bytes are there */
    uint8_t *host;   /**< the test's memory */
    size_t bytes;
    size_t used; /**< bytes of the newest twin_begin; `bytes` before */
    bool late;
    int device; /**< number of the device, also of the event of a late host tensor */
    struct room room; /**< the memory on the device; data NULL: the host memory */
    uint8_t *staged;  /**< late: wrong bytes, then those of twin_begin */
    void *event;      /**< passes when the work queued by the twin is done */
    int awaiting;     /**< number of the stream that waits for its operations; -1: none */
};

/** Draw the kind of the twin of `bytes` at `host`, and allocate it. */
void twin_open(struct twin *twin, const struct harness_rank *rank, void *host,
               size_t bytes, uint64_t *random);
/** As twin_open; `device` -1 is the host. Needs rank->gpu if the twin is not plain. */
void twin_place(struct twin *twin, const struct harness_rank *rank, void *host,
                size_t bytes, int device, enum room_how how, bool late);
void twin_close(struct twin *twin);

/** Bring the first `bytes` of the host memory into the tensor: at once, or late. */
void twin_begin(struct twin *twin, size_t bytes);
/** Bring the used bytes into the tensor at once, or back. No operation is under way. */
void twin_push(struct twin *twin);
void twin_pull(struct twin *twin);
/** Let `tensor`, with data in the twin's host memory or NULL, describe the twin;
 *  `names_mem`: with the registration that device memory has, if it has one. */
void twin_tensor(const struct twin *twin, bool names_mem, tryst_tensor *tensor);
/** Let the twin's stream wait for an operation that was submitted with it. */
void twin_await(const struct twin *twin, tryst_op *op);
/** Return the kind of the twin, for messages. */
const char *twin_name(const struct twin *twin);

#endif
