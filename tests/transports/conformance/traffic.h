/* SPDX-License-Identifier: Apache-2.0 */
/* Bulk messages whose bytes can be checked, and frames that carry their number.
 *
 * One idea: the bytes follow from (pattern, offset), so a receiver knows them by itself; around
 * each buffer lies a border that nobody may write. Device memory goes through the stage, as the layer
 * above sends it; what the rail takes of it by itself is the stage's to find out.
 * Invariant: `done` is called once, with the bulk as it was given, never from inside the call
 * that started it. Callers: the conformance tests. */
#ifndef TESTS_CONFORMANCE_TRAFFIC_H
#define TESTS_CONFORMANCE_TRAFFIC_H

#include "harness.h"

enum { TRAFFIC_BORDER = 64, TRAFFIC_UNTOUCHED = 0xa5 };

struct traffic {
    struct bulk bulk; /* overwritten in `done`, as if it were freed */
    struct conf_peer *peer;
    struct place place;
    uint8_t *data; /* the view of its buffer, behind a border */
    size_t bytes;
    uint64_t tag;
    bool is_send;
    bool raw;    /* straight to the transport, whatever its memory */
    bool staged; /* a receive through a slot */
    int done;    /* calls */
    tryst_status status;
    size_t got;
};

/* A buffer of `bytes` that begins `offset` bytes behind an 8-byte boundary (offset < 8). A
 * receive's is filled with TRAFFIC_UNTOUCHED, a send's with `pattern`. */
void traffic_recv_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                       size_t bytes, unsigned offset);
void traffic_send_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                       size_t bytes, unsigned offset, uint64_t pattern);
/* The same from host memory, whatever the subject says. */
void traffic_host_send_make(struct traffic *traffic, struct conf_peer *peer, uint64_t tag,
                            size_t bytes, unsigned offset, uint64_t pattern);
void traffic_free(struct traffic *traffic);

/* Start it; the second form steps while the transport says AGAIN. */
tryst_status traffic_try(struct traffic *traffic);
void traffic_start(struct traffic *traffic);
/* Withdraw a receive. */
void traffic_cancel(struct traffic *traffic);

/* It completed well with exactly the bytes of `pattern`; border untouched. */
void traffic_check(struct traffic *traffic, uint64_t pattern);
/* Whatever became of it: OK means the right bytes; the border is untouched in any case. */
void traffic_check_either(struct traffic *traffic, uint64_t pattern);
/* Nothing was written. */
void traffic_check_untouched(struct traffic *traffic);

/* It is done, and its bytes are somebody else's now: `pattern` fills them; is it there still? */
void traffic_recycle(struct traffic *traffic, uint64_t pattern);
void traffic_check_recycled(struct traffic *traffic, uint64_t pattern);

/* The pattern by itself. */
void pattern_fill(void *data, size_t bytes, uint64_t pattern);
/* Offset of the first wrong byte, or `bytes`. */
size_t pattern_differs(const void *data, size_t bytes, uint64_t pattern);

/* Signals in the shared mapping: words count up. */
void signal_add(struct conf_ctx *ctx, unsigned word, uint64_t by);
void signal_wait(struct conf_ctx *ctx, unsigned word, uint64_t at_least);

/* Log-uniform in 1 … most. */
size_t size_log_uniform(struct random *random, size_t most);

#endif
