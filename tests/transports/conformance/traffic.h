/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk messages whose bytes can be checked, and frames that carry their number.
 *
 * One idea: the bytes follow from (pattern, offset), so a receiver can compute them;
 * around each buffer lies a border that must stay unchanged. Device memory goes through
 * bounce buffers, as in the layer above, which decide whether the rail can move a bulk
 * directly.
 * Invariant: `done` is called once, with the bulk as it was passed, never from inside the
 * call that started it. */
#ifndef TRYST_TESTS_TRANSPORTS_CONFORMANCE_TRAFFIC_H
#define TRYST_TESTS_TRANSPORTS_CONFORMANCE_TRAFFIC_H

#include "harness.h"

enum { TRAFFIC_BORDER = 64, TRAFFIC_UNTOUCHED = 0xa5 };

struct traffic {
    struct bulk bulk; /**< overwritten in `done`, as if freed */
    struct conf_peer *peer;
    struct place place;
    uint8_t *data; /**< the view of the bulk's buffer, behind a border */
    size_t bytes;
    uint64_t tag;
    bool is_send;
    bool raw;    /**< straight to the transport, whatever the memory */
    bool staged; /**< a receive through a slot */
    int done;    /**< calls of `done` */
    tryst_status status;
    size_t got;
    bool borrowed; /**< a receive that borrows: its bytes can be read */
    bool canceled; /**< traffic_cancel was called */
};

/** Make a buffer of `bytes` that begins `offset` bytes behind an 8-byte boundary (offset
 *  < 8). A receive's buffer is filled with TRAFFIC_UNTOUCHED, a send's with `pattern`. */
void traffic_recv_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                       size_t bytes, unsigned offset);
void traffic_send_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                       size_t bytes, unsigned offset, uint64_t pattern);
/** Make the same from host memory, whatever memory the subject has. */
void traffic_host_send_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                            size_t bytes, unsigned offset, uint64_t pattern);
/** Make a receive that borrows. What is read of it goes into its buffer. */
void traffic_borrow_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                         size_t bytes);
void traffic_free(struct traffic *traffic);

/** Start the transfer; the second form steps while the transport returns AGAIN. */
tryst_status traffic_try(struct traffic *traffic);
void traffic_start(struct traffic *traffic);
/** Read `bytes` bytes, from byte `at` on, of a borrowed message; return the status of
 *  bulk_read. */
tryst_status traffic_read(struct traffic *traffic, size_t at, size_t bytes);
/** Return a borrowed message; return the status of bulk_return. TRYST_OK: the receive
 *  counts as done. */
tryst_status traffic_return(struct traffic *traffic);
/** Withdraw a receive. */
void traffic_cancel(struct traffic *traffic);

/** Check that the transfer completed with TRYST_OK and exactly the bytes of `pattern`,
 *  border unchanged. */
void traffic_check(struct traffic *traffic, uint64_t pattern);
/** Check either outcome: TRYST_OK implies the right bytes; the border is unchanged in any
 *  case. */
void traffic_check_either(struct traffic *traffic, uint64_t pattern);
/** Check that no byte was written. */
void traffic_check_untouched(struct traffic *traffic);

/** Fill the buffer of a completed transfer with `pattern`, as a new owner would;
 *  traffic_check_recycled checks that the pattern is still there. */
void traffic_recycle(struct traffic *traffic, uint64_t pattern);
void traffic_check_recycled(struct traffic *traffic, uint64_t pattern);

/** Fill `data` with the pattern. */
void pattern_fill(void *data, size_t bytes, uint64_t pattern);
/** Return the offset of the first wrong byte, or `bytes`. */
size_t pattern_differs(const void *data, size_t bytes, uint64_t pattern);

/** Signals in the shared mapping: words count up. */
void signal_add(struct conf_ctx *ctx, unsigned word, uint64_t by);
void signal_wait(struct conf_ctx *ctx, unsigned word, uint64_t at_least);

/** Draw a size, log-uniform in 1 … most. */
size_t size_log_uniform(struct random *random, size_t most);

#endif
