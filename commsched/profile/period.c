/* SPDX-License-Identifier: Apache-2.0 */
#include "period.h"

#include <string.h>

#include "core/memory/alloc.h"

void period_begin(struct period *period, uint64_t serial, uint64_t at, uint64_t ns)
{
    period->serial = serial;
    period->is_whole = true;
    period->begin_at = period->end_at = at;
    period->begin_ns = period->end_ns = ns;
    period->ops_count = period->marks_count = 0;
    memset(period->blocked_begin, 0, sizeof period->blocked_begin);
    memset(period->blocked_end, 0, sizeof period->blocked_end);
    for (int i = 0; i < PERIOD_THREADS_MAX; i++)
        period->named_begin[i] = PERIOD_NONE;
}

void period_close(struct period *period)
{
    mem_free(period->ops);
    mem_free(period->marks);
}

uint32_t period_op_add(struct period *period, const struct period_op *op)
{
    if (!period->is_whole || period->ops_count == PERIOD_OPS_MAX ||
        !mem_reserve(&period->ops, &period->ops_room, (size_t)period->ops_count + 1,
                     sizeof *period->ops)) {
        period->is_whole = false;
        return PERIOD_NONE;
    }
    period->ops[period->ops_count] = *op;
    return period->ops_count++;
}

uint32_t period_mark_add(struct period *period, const struct period_mark *mark)
{
    if (!period->is_whole ||
        !mem_reserve(&period->marks, &period->marks_room, (size_t)period->marks_count + 1,
                     sizeof *period->marks)) {
        period->is_whole = false;
        return PERIOD_NONE;
    }
    period->marks[period->marks_count] = *mark;
    return period->marks_count++;
}

bool period_is_like(const struct period *period, const struct period *other)
{
    if (period->ops_count != other->ops_count)
        return false;
    for (uint32_t i = 0; i < period->ops_count; i++)
        if (period->ops[i].name != other->ops[i].name ||
            period->ops[i].bytes != other->ops[i].bytes)
            return false;
    return true;
}
