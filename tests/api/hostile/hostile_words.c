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

enum {
    EACH = 32, /* of so many calls of progress one draws */
    RING_NEAR = 512,
    MAPS_MAX = 16,
    NEAR_BYTES = 8192
};

struct mapping {
    uint8_t *data;
    size_t bytes;
};

/* Change one aligned word of 1, 4 or 8 bytes. */
static void word_change(uint8_t *data, size_t bytes)
{
    static const size_t sizes[] = {1, 4, 8, 8};
    size_t size = sizes[hostile_below(4)];
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

static void header_change(struct pair_ep *ep)
{
    static_assert(sizeof(struct pair_header) % 8 == 0, "in whole words");
    word_change((uint8_t *)ep->area, sizeof(struct pair_header));
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
    if (hostile_below(EACH))
        return;
    struct pair_ep *ep = area_draw(rail);
    if (ep && hostile_strike(HOSTILE_BIT(HEADER_WORD)) != HOSTILE_NONE)
        header_change(ep);
    if (ep && hostile_strike(HOSTILE_BIT(RING_WORD)) != HOSTILE_NONE)
        ring_change(ep);
    if (hostile_strike(HOSTILE_BIT(MAPPED_WORD)) != HOSTILE_NONE)
        mapped_change();
}
