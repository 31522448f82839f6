/* SPDX-License-Identifier: Apache-2.0 */
/* See fusion.h. One pass, for a time T: item i can begin a group that ends with item j if
 *
 *      ready[j] + tail[j] + (groups from j + 1 on, + 1) * overhead <= T - left[i]
 *
 * where left[i] is the time of the bytes from i on. The right side falls as i falls, so
 * an end that is too late for one i is too late for all before it: each end is tried
 * once. */
#include "fusion.h"

#include <math.h>
#include <stdbool.h>

/* Plan the fewest groups with which the step takes at most `most_s`. False: no groups
 * do. */
static bool plan_within(struct fusion_item *items, uint32_t count, double overhead_s,
                        double most_s)
{
    double left_s = 0;
    uint32_t end = count - 1;
    for (uint32_t i = count; i-- > 0;) {
        left_s += items[i].seconds;
        for (;; end--) {
            uint32_t behind = end + 1 < count ? items[end + 1].groups_count : 0;
            double cost_s = (behind + 1) * overhead_s;
            items[i].last = end;
            items[i].groups_count = behind + 1;
            if (items[end].ready_s + items[end].tail_s + cost_s <= most_s - left_s)
                break;
            if (end == i)
                return false;
        }
    }
    return true;
}

void fusion_plan(struct fusion_item *items, uint32_t count, double overhead_s)
{
    double low_s = 0, bytes_s = 0, tail_s = 0;
    for (uint32_t i = 0; i < count; i++) {
        tail_s = items[i].tail_s = fmax(tail_s, items[i].tail_s);
        low_s = fmax(low_s, items[i].ready_s + tail_s);
        bytes_s += items[i].seconds;
    }
    /* Enough for one group, whatever was rounded. */
    double high_s = (low_s + bytes_s + overhead_s) * (1 + 1e-9);
    for (;;) {
        double middle_s = low_s + (high_s - low_s) / 2;
        if (middle_s <= low_s || middle_s >= high_s)
            break;
        if (plan_within(items, count, overhead_s, middle_s))
            high_s = middle_s;
        else
            low_s = middle_s;
    }
    plan_within(items, count, overhead_s, high_s);
}
