/* SPDX-License-Identifier: Apache-2.0 */
/* The wire of the oracle in virtual time: see oracle_wire.h. */
#include "oracle_wire.h"

/* ---- heap -------------------------------------------------------------------------- */

static bool is_before(const struct oracle_entry *a, const struct oracle_entry *b)
{
    return a->key < b->key || (a->key == b->key && a->node < b->node);
}

void oracle_heap_push(struct oracle_heap *heap, double key, uint32_t node)
{
    struct oracle_entry entry = {key, node};
    uint32_t at = heap->count++;
    for (; at > 0 && is_before(&entry, &heap->entries[(at - 1) / 2]); at = (at - 1) / 2)
        heap->entries[at] = heap->entries[(at - 1) / 2];
    heap->entries[at] = entry;
}

struct oracle_entry oracle_heap_pop(struct oracle_heap *heap)
{
    struct oracle_entry first = heap->entries[0];
    struct oracle_entry last = heap->entries[--heap->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < heap->count &&
            is_before(&heap->entries[child + 1], &heap->entries[child]))
            child++;
        if (child >= heap->count || !is_before(&heap->entries[child], &last))
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = last;
    return first;
}

/* ---- wire -------------------------------------------------------------------------- */

void oracle_wire_reset(struct oracle_wire *wire, const double *urgency, bool interrupts)
{
    wire->urgency = urgency;
    wire->interrupts = interrupts;
    wire->now_s = 0;
    wire->waiting.count = 0;
    wire->served = ORACLE_NONE;
    wire->pieces_count = 0;
}

static double key_of(const struct oracle_wire *wire, uint32_t node)
{
    return wire->urgency ? -wire->urgency[node] : wire->now_s;
}

void oracle_wire_add(struct oracle_wire *wire, uint32_t node)
{
    oracle_heap_push(&wire->waiting, key_of(wire, node), node);
}

/* Serve the most urgent operation. One that is being served goes on where another is no
 * more urgent. */
static void choose(struct oracle_wire *wire)
{
    if (wire->waiting.count == 0)
        return;
    if (wire->served != ORACLE_NONE) {
        struct oracle_entry served = {key_of(wire, wire->served), wire->served};
        if (!wire->interrupts || !wire->urgency ||
            !is_before(&wire->waiting.entries[0], &served))
            return;
        oracle_heap_push(&wire->waiting, served.key, served.node);
    }
    wire->served = oracle_heap_pop(&wire->waiting).node;
}

static void piece_add(struct oracle_wire *wire, double to_s)
{
    tryst_profile_piece *last = wire->pieces + wire->pieces_count;
    if (to_s <= wire->now_s)
        return;
    if (wire->pieces_count > 0 && last[-1].node == wire->served &&
        last[-1].to_s == wire->now_s) {
        last[-1].to_s = to_s;
        return;
    }
    *last = (tryst_profile_piece){wire->served, wire->now_s, to_s};
    wire->pieces_count++;
}

uint32_t oracle_wire_advance(struct oracle_wire *wire, double until_s)
{
    choose(wire);
    uint32_t served = wire->served;
    if (served == ORACLE_NONE || wire->now_s + wire->left_s[served] > until_s) {
        if (served != ORACLE_NONE) {
            piece_add(wire, until_s);
            wire->left_s[served] -= until_s - wire->now_s;
        }
        wire->now_s = until_s;
        return ORACLE_NONE;
    }
    piece_add(wire, wire->now_s + wire->left_s[served]);
    wire->now_s += wire->left_s[served];
    wire->left_s[served] = 0;
    wire->served = ORACLE_NONE;
    return served;
}
