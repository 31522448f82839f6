/* SPDX-License-Identifier: Apache-2.0 */
/* The words of shared memory (hostile.h): the areas of shm's endpoints, found through the
 * endpoints of its rail; and the mappings of areas and registered regions anywhere, found
 * in /proc/self/maps. (The page for live views is not among them: no rank reads it.)
 *
 * Invariant: called from the progress of a rail, in the thread that ends mappings, so no
 * mapping ends while it is written. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "hostile.h"
#include "transports/pair/pair.h"

enum { RING_NEAR = 512, MAPS_MAX = 16, NEAR_BYTES = 8192 };

struct mapping {
    uint8_t *data;
    size_t bytes;
};

/* Change one aligned word of 1, 4 or 8 bytes; there are 4 bytes at least. */
static void word_change(uint8_t *data, size_t bytes)
{
    static const size_t sizes[] = {1, 4, 8, 8};
    size_t size = sizes[hostile_below(bytes < 8 ? 2 : 4)];
    size_t at = hostile_below(bytes / size) * size;
    if (size == 1) {
        _Atomic uint8_t *byte = (_Atomic uint8_t *)(data + at);
        atomic_store(byte, (uint8_t)hostile_extreme(atomic_load(byte), size));
    } else if (size == 4) {
        _Atomic uint32_t *word = (_Atomic uint32_t *)(void *)(data + at);
        atomic_store(word, (uint32_t)hostile_extreme(atomic_load(word), size));
    } else {
        _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)(data + at);
        atomic_store(word, hostile_extreme(atomic_load(word), size));
    }
}

/* ---- areas of shm ----------------------------------------------------------------- */

/* Draw an endpoint of a rail of shm that has an area. */
static struct pair_ep *area_draw(struct rail *rail)
{
    struct pair_rail *pair = (struct pair_rail *)rail;
    struct pair_ep *drawn = NULL;
    uint64_t count = 0;
    if (strcmp(rail->ops->name, "shm") != 0)
        return NULL;
    list_for_each_safe (&pair->eps, node, after) {
        struct pair_ep *ep = container_of(node, struct pair_ep, node);
        if (ep->state == PAIR_READY && ep->area && hostile_below(++count) == 0)
            drawn = ep;
    }
    return drawn;
}

/* Move a tail by whole lines, mostly by few. */
static void tail_change(_Atomic uint64_t *tail, uint64_t ring_bytes)
{
    uint64_t by =
        PAIR_LINE_BYTES * hostile_below(hostile_below(2) ? 16 : ring_bytes / 32);
    atomic_store(tail, atomic_load(tail) + (hostile_below(2) ? by : 0 - by));
}

/* Change one of the words that the two sides share. */
static void header_change(struct pair_ep *ep)
{
    struct pair_side *side = &ep->area->side[hostile_below(2)];
    struct pair_tail *ring = &ep->area->ring[hostile_below(2)];
    switch (hostile_below(7)) {
    case 0: word_change((uint8_t *)&side->asleep, sizeof side->asleep); break;
    case 1: word_change((uint8_t *)&side->answered, sizeof side->answered); break;
    case 2:
        atomic_store(&side->answer[hostile_below(PAIR_SLOTS)], (uint8_t)hostile_below(5));
        atomic_fetch_or(&side->answered, UINT64_C(1) << hostile_below(PAIR_SLOTS));
        break;
    case 3: word_change((uint8_t *)&side->grant, sizeof side->grant); break;
    case 4: word_change((uint8_t *)&ring->tail, sizeof ring->tail); break;
    case 5: tail_change(&ring->tail, ep->tx.bytes); break;
    default: word_change((uint8_t *)ep->area, sizeof(struct pair_header)); break;
    }
}

/* Return a length that a check of an entry may miss. */
static uint64_t entry_bytes_draw(const struct pair_ep *ep)
{
    const uint64_t lengths[] = {0,
                                1,
                                sizeof(struct pair_first),
                                sizeof(struct pair_offer),
                                PAIR_FRAME_MAX,
                                PAIR_FRAME_MAX + 1,
                                2 * PAIR_FRAME_MAX,
                                ep->tx.bytes / 4,
                                ep->tx.bytes / 2,
                                ring_payload_max(ep->tx.bytes),
                                ring_payload_max(ep->tx.bytes) + 1,
                                ep->tx.bytes,
                                UINT32_MAX};
    return lengths[hostile_below(sizeof lengths / sizeof *lengths)];
}

/* Store only the word of an entry; what is behind it is old. */
static void entry_word_make(struct pair_ep *ep)
{
    uint64_t kind = hostile_below(8) ? 1 + hostile_below(PAIR_PIECE) : hostile_below(256);
    if (hostile_below(2))
        kind = PAIR_FRAME;
    uint64_t lap = hostile_below(8) ? ep->tx.lap : hostile_below(4);
    _Atomic uint64_t *word = ring_word(ep->tx.data, ep->tx.offset);
    atomic_store(word, entry_bytes_draw(ep) | kind << 32 | lap << 40);
}

/* Put an entry of a bulk into the ring: a tag near those that the peer has posted, or
 * any. */
static void entry_make(struct pair_ep *ep)
{
    struct pair_offer offer = {.tag = hostile_tag_draw(),
                               .bytes = 1 + hostile_below(1 << 20),
                               .where = hostile_extreme((uintptr_t)&offer, 8),
                               .region = 1 + hostile_below(4),
                               .slot = (uint32_t)hostile_below(PAIR_SLOTS + 1),
                               .mech = (uint32_t)hostile_below(PAIR_MECH_FULL + 1),
                               .sort_key = random_u64(&hostile.random)};
    static const uint8_t piece[2 * PAIR_FRAME_MAX];
    enum pair_kind kind = PAIR_OFFER + hostile_below(3);
    size_t head = kind == PAIR_OFFER   ? sizeof offer
                  : kind == PAIR_FIRST ? sizeof(struct pair_first)
                                       : 0;
    size_t more = hostile_below(2) ? hostile_below(sizeof piece) : 0;
    if (hostile_below(2))
        hostile_field_change((uint8_t *)&offer, sizeof offer);
    if (pair_room(ep, head + more, ep->tx.bytes) == TRYST_OK)
        ring_tx_put(&ep->tx, kind, &offer, (uint32_t)head, piece, (uint32_t)more);
}

/* Change a word in what was written last, or in the word that the peer polls. */
static void ring_change(struct pair_ep *ep)
{
    uint64_t back = hostile_below(2) ? 8 * hostile_below(RING_NEAR / 8) : 0;
    uint64_t offset = (ep->tx.offset + ep->tx.bytes - back) % ep->tx.bytes;
    word_change(ep->tx.data + offset, 8);
}

/* ---- mappings --------------------------------------------------------------------- */

static unsigned mappings_read(struct mapping *mappings)
{
    char line[512];
    unsigned count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && count < MAPS_MAX && fgets(line, sizeof line, file)) {
        unsigned long from, to;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 ||
            strcmp(rights, "rw-s") != 0 ||
            (!strstr(line, "/memfd:tryst-pair") && !strstr(line, "/memfd:tryst-region")))
            continue;
        mappings[count++] = (struct mapping){(uint8_t *)from, to - from};
    }
    if (file)
        (void)fclose(file);
    return count;
}

/* Change a word of a mapping, mostly in its first pages. */
static void mapped_change(void)
{
    struct mapping mappings[MAPS_MAX];
    unsigned count = mappings_read(mappings);
    if (!count)
        return;
    const struct mapping *mapping = &mappings[hostile_below(count)];
    bool anywhere = hostile_below(4) == 0 || mapping->bytes < NEAR_BYTES;
    word_change(mapping->data, anywhere ? mapping->bytes : NEAR_BYTES);
}

void hostile_words_change(struct rail *rail)
{
    struct pair_ep *ep = area_draw(rail);
    if (ep && hostile_strike(HOSTILE_BIT(HEADER_WORD)) != HOSTILE_NONE)
        header_change(ep);
    if (ep && hostile_strike(HOSTILE_BIT(RING_WORD)) != HOSTILE_NONE)
        ring_change(ep);
    if (ep && hostile_strike(HOSTILE_BIT(ENTRY)) != HOSTILE_NONE) {
        if (hostile_below(2))
            entry_make(ep);
        else
            entry_word_make(ep);
    }
    if (hostile_strike(HOSTILE_BIT(MAPPED_WORD)) != HOSTILE_NONE)
        mapped_change();
}
