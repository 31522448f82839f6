/* SPDX-License-Identifier: Apache-2.0 */
/* Urgency: one total order for everything that waits.
 *
 * Class first, then priority, then the older step, then the earlier submission. In each
 * field the smaller number is more urgent. With sort key and step zero everywhere
 * (TRYST_SCHED=fifo) the same queues are first come, first served. */
#ifndef TRYST_CORE_MEMORY_URGENCY_H
#define TRYST_CORE_MEMORY_URGENCY_H

#include <stdbool.h>
#include <stdint.h>

enum urgency_class { URGENCY_TRAINING, URGENCY_BACKGROUND, URGENCY_CLASSES };

struct urgency {
    uint64_t sort_key; /**< class and priority, from urgency_sort_key */
    uint64_t step;
    uint64_t number; /**< of the submission at this rank; collectives: from their name */
};

static inline uint64_t urgency_sort_key(enum urgency_class kind, int32_t priority)
{
    return (uint64_t)kind << 32 | ((uint32_t)priority ^ 0x80000000u);
}

static inline enum urgency_class urgency_class(const struct urgency *urgency)
{
    return (enum urgency_class)(urgency->sort_key >> 32);
}

static inline int32_t urgency_priority(const struct urgency *urgency)
{
    return (int32_t)((uint32_t)urgency->sort_key ^ 0x80000000u);
}

/** True if `a` is more urgent than `b`. */
static inline bool urgency_before(const struct urgency *a, const struct urgency *b)
{
    if (a->sort_key != b->sort_key)
        return a->sort_key < b->sort_key;
    if (a->step != b->step)
        return a->step < b->step;
    return a->number < b->number;
}

#endif
