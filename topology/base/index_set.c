/* SPDX-License-Identifier: Apache-2.0 */
/* A set of small numbers; see index_set.h. */
#include "index_set.h"

#include <stdio.h>

void index_set_add(struct index_set *set, uint32_t member)
{
    if (member < INDEX_SET_MAX)
        set->words[member / 64] |= (uint64_t)1 << member % 64;
}

bool index_set_has(const struct index_set *set, uint32_t member)
{
    return member < INDEX_SET_MAX && set->words[member / 64] >> member % 64 & 1;
}

uint32_t index_set_count(const struct index_set *set)
{
    uint32_t count = 0;
    for (size_t i = 0; i < INDEX_SET_MAX / 64; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

void index_set_join(struct index_set *set, const struct index_set *other)
{
    for (size_t i = 0; i < INDEX_SET_MAX / 64; i++)
        set->words[i] |= other->words[i];
}

void index_set_meet(struct index_set *set, const struct index_set *other)
{
    for (size_t i = 0; i < INDEX_SET_MAX / 64; i++)
        set->words[i] &= other->words[i];
}

static bool number_take(const char **at, uint32_t *number_p)
{
    const char *digit = *at;
    uint32_t number = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        number = number < 100000000 ? number * 10 + (uint32_t)(*digit - '0') : number;
    if (digit == *at)
        return false;
    *at = digit;
    *number_p = number;
    return true;
}

bool index_set_parse(const char *list, struct index_set *set_p)
{
    struct index_set set = {{0}};
    while (*list && *list != '\n') {
        uint32_t first, last;
        if (!number_take(&list, &first))
            return false;
        last = first;
        if (*list == '-') {
            list++;
            if (!number_take(&list, &last) || last < first)
                return false;
        }
        for (; first <= last && first < INDEX_SET_MAX; first++)
            index_set_add(&set, first);
        if (*list == ',')
            list++;
        else if (*list && *list != '\n')
            return false;
    }
    *set_p = set;
    return true;
}

void index_set_format(const struct index_set *set, char *list, size_t capacity)
{
    size_t used = 0;
    list[0] = '\0';
    for (uint32_t first = 0, end; first < INDEX_SET_MAX && used < capacity; first = end) {
        end = first + 1;
        if (!index_set_has(set, first))
            continue;
        while (index_set_has(set, end))
            end++;
        int wrote =
            snprintf(list + used, capacity - used, end > first + 1 ? "%s%u-%u" : "%s%u",
                     used ? "," : "", first, end - 1);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}
