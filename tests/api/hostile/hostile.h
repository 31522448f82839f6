/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of a hostile rank: it runs the real library, and the frames, bulk, link
 * messages and shared words that leave it are changed at random.
 *
 * Idea: no code of the product takes part. The linker puts hostile_rail.c between the
 * library and each transport (--wrap=transport_rail_open) and hostile_link.c between a
 * link and its socket (--wrap=sendmsg). In a process without hostile_start both pass all
 * on.
 *
 *   hostile.c        what is drawn: whether to strike, which kind, and the changed bytes
 *   hostile_rail.c   frames and bulk; calls hostile_words.c in each progress
 *   hostile_words.c  the words of shared memory
 *   hostile_link.c   link messages and their descriptors */
#ifndef TRYST_TESTS_API_HOSTILE_HOSTILE_H
#define TRYST_TESTS_API_HOSTILE_HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/os/random.h"
#include "transports/transport.h"

/** Kinds of mutations. The first group changes bytes, the second group changes when and
 *  how often they leave. */
#define HOSTILE_KINDS(KIND)                                                          \
    KIND(BITS, "a few bits are flipped")                                             \
    KIND(BYTES, "a few bytes are random")                                            \
    KIND(FIELD, "an aligned field has an extreme value")                             \
    KIND(FLAGS, "the flags of a header or record are random")                        \
    KIND(TYPE, "a record or link message has another type")                          \
    KIND(TRUNCATE, "the message ends early")                                         \
    KIND(EXTEND, "random bytes follow")                                              \
    KIND(SPLICE, "a record of another frame is added, or replaces one")              \
    KIND(REPEAT, "the message leaves twice or more often")                           \
    KIND(DROP, "the message does not leave")                                         \
    KIND(LATE, "the message leaves behind later ones")                               \
    KIND(OLD, "an old message leaves once more, to any peer")                        \
    KIND(MADE, "a message made of parts of old ones leaves, without one to follow")  \
    KIND(STALL, "the rank makes no progress for up to 20 ms")                        \
    KIND(TAG, "a bulk has another tag")                                              \
    KIND(SIZE, "a bulk has another size")                                            \
    KIND(UNPOSTED, "a receive of bulk is not posted")                                \
    KIND(DESCRIPTOR, "a link message has another descriptor, none, or two")          \
    KIND(HEADER_WORD, "a word in the header of a shared area has an extreme value")  \
    KIND(ENTRY, "an entry of a shared ring is made")                                 \
    KIND(RING_WORD, "a word near the head of a shared ring is changed")              \
    KIND(MAPPED_WORD, "a word of an area or registered region has an extreme value") \
    KIND(EMPTY, "the frame is filled with an earlier OFFER, of 0 bytes")

enum hostile_kind {
#define KIND(name, text) HOSTILE_##name,
    HOSTILE_KINDS(KIND)
#undef KIND
        HOSTILE_KINDS_COUNT,
    HOSTILE_NONE = HOSTILE_KINDS_COUNT
};

extern const char *const hostile_kind_names[HOSTILE_KINDS_COUNT];

#define HOSTILE_BIT(kind) (1u << HOSTILE_##kind)
/** Kinds that change the bytes of a message. */
#define HOSTILE_CONTENT                                                                 \
    (HOSTILE_BIT(BITS) | HOSTILE_BIT(BYTES) | HOSTILE_BIT(FIELD) | HOSTILE_BIT(FLAGS) | \
     HOSTILE_BIT(TYPE) | HOSTILE_BIT(TRUNCATE) | HOSTILE_BIT(EXTEND) |                  \
     HOSTILE_BIT(SPLICE))
/** Kinds that change when and how often a message leaves. */
#define HOSTILE_COURSE                                                                \
    (HOSTILE_BIT(REPEAT) | HOSTILE_BIT(DROP) | HOSTILE_BIT(LATE) | HOSTILE_BIT(OLD) | \
     HOSTILE_BIT(STALL))

/** What this process draws. */
struct hostile {
    bool on;
    struct random random;
    uint32_t kinds;              /**< bit per kind that is drawn in this run */
    double rate;                 /**< share of the messages that are struck */
    _Atomic(uint64_t) *counts_p; /**< how often each kind struck; shared memory */
};
extern struct hostile hostile;

/** Draw the kinds and the rate of a run; nothing is struck before hostile_start. Without
 *  `shares_memory` no words of shared memory are drawn. TRYST_TEST_KIND names the one
 *  kind of all runs. */
void hostile_draw_run(uint64_t seed, bool shares_memory, _Atomic(uint64_t) *counts_p);
void hostile_start(void);

/** Draw for one message. Return the kind that strikes it, one of `allowed` (a bit per
 *  kind), or HOSTILE_NONE. The kind is counted. */
enum hostile_kind hostile_strike(uint32_t allowed);
/** Draw uniformly from [0, below). */
uint64_t hostile_below(uint64_t below);
/** Return an extreme value in place of `old`, for a field of `bytes` bytes. */
uint64_t hostile_extreme(uint64_t old, size_t bytes);
/** Replace an aligned field of `data` by an extreme value. */
void hostile_field_change(uint8_t *data, size_t bytes);
/** Change `data` by BITS, BYTES or FIELD. */
void hostile_bytes_change(enum hostile_kind kind, uint8_t *data, size_t bytes);
/** Return the tag of a bulk that was sent, one near it, or any. hostile_rail.c */
uint64_t hostile_tag_draw(void);
/** Sleep for up to 20 ms, as a rank that computes. */
void hostile_stall(void);

/** Send a link message made of parts of old ones, on any link. hostile_link.c */
void hostile_link_make(void);

/** Change words of the shared areas and mappings of this rank. hostile_words.c; called by
 *  the progress of a rail, where no mapping can end meanwhile. */
void hostile_words_change(struct rail *rail);

#endif
