/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as an enemy writes them: the functions below add records with any fields, and
 * the caller may change what they wrote. */
#ifndef TRYST_TESTS_RENDEZVOUS_HOSTILE_FRAME_H
#define TRYST_TESTS_RENDEZVOUS_HOSTILE_FRAME_H

#include "world.h"

struct frame {
    size_t bytes;
    unsigned records;
    uint32_t acks;      /**< DATA that the header acknowledges beyond the current base */
    uint64_t acks_mask; /**< the header's mask for the DATA after those */
    uint32_t frames;    /**< frames that the header acknowledges beyond those so far */
    uint32_t wants;     /**< WANTs that the header takes up beyond those so far */
    uint8_t flags;
    uint8_t group;
    _Alignas(8) uint8_t data[FRAME_BYTES_MAX];
};

void frame_begin(struct frame *frame);
/** Write the header of a frame from rank `from` to `rank`. */
void frame_end(struct frame *frame, struct world *world, int rank, int from);
/** End the frame, and deliver it at `rank`. */
void frame_inject(struct frame *frame, struct world *world, int rank, int from);

/** Add a record of `bytes` bytes, then `name` and room for `payload` bytes. Return the
 *  record in the frame. */
void *frame_add(struct frame *frame, const void *record, size_t bytes, const char *name,
                size_t payload);
struct record_want *frame_add_want(struct frame *frame, const char *key, uint64_t id,
                                   uint64_t step, uint64_t seq, uint64_t bytes,
                                   uint8_t flags);
/** Add DATA; if `declares` is not NULL, it is the key that the record declares for
 *  `name`. */
struct record_data *frame_add_data(struct frame *frame, uint32_t name, uint64_t step,
                                   uint64_t seq, uint32_t bytes, const char *declares,
                                   uint64_t hash);
/** Add OFFER; `name` is the key, or NULL. */
struct record_offer *frame_add_offer(struct frame *frame, uint64_t want, uint64_t step,
                                     uint64_t seq, uint64_t bytes, const char *name);
struct record_answer *frame_add_answer(struct frame *frame, uint8_t type, uint8_t flags,
                                       uint64_t id, tryst_status status, uint32_t upto,
                                       uint32_t posted);

#endif
