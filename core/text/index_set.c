/* SPDX-License-Identifier: Apache-2.0 */
#include "index_set.h"

#include <string.h>

static void index_set_add(struct index_set *set, uint32_t member)
{
    if (member < INDEX_SET_MAX)
        set->words[member / 64] |= (uint64_t)1 << member % 64;
}

static bool index_set_has(const struct index_set *set, uint32_t member)
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

void index_set_meet(struct index_set *set, const struct index_set *other)
{
    for (size_t i = 0; i < INDEX_SET_MAX / 64; i++)
        set->words[i] &= other->words[i];
}

static bool index_number_parse(const char **at, uint32_t *number_p)
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
        if (!index_number_parse(&list, &first))
            return false;
        last = first;
        if (*list == '-') {
            list++;
            if (!index_number_parse(&list, &last) || last < first)
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

void index_set_write(const struct index_set *set, struct text *text)
{
    const char *before = "";
    for (uint32_t first = 0, end; first < INDEX_SET_MAX; first = end) {
        end = first + 1;
        if (!index_set_has(set, first))
            continue;
        while (index_set_has(set, end))
            end++;
        text_addf(text, end > first + 1 ? "%s%u-%u" : "%s%u", before, first, end - 1);
        before = ",";
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Add the members of one hexadecimal digit; `bit` is the member of its lowest bit.
 * Returns false if `c` is not a hexadecimal digit or a member is too large. */
static bool digit_add(struct index_set *set, char c, uint32_t bit)
{
    int digit = hex_digit(c);
    if (digit < 0 || (digit && bit >= INDEX_SET_MAX))
        return false;
    for (uint32_t i = 0; i < 4; i++)
        if (digit >> i & 1)
            index_set_add(set, bit + i);
    return true;
}

bool index_set_parse_mask(const char *mask, struct index_set *set_p)
{
    struct index_set set = {{0}};
    uint32_t bit = 0, group = 0; /* lowest bit of the next digit and of its group */
    for (size_t i = strlen(mask); i-- > 0;) {
        if (mask[i] == ',') {
            group = bit = bit == group ? group + 32 : (bit + 31) / 32 * 32;
        } else if (mask[i] == 'x' && i > 0 && mask[i - 1] == '0' &&
                   (i == 1 || mask[i - 2] == ',')) {
            i--;
        } else {
            if (!digit_add(&set, mask[i], bit))
                return false;
            bit += 4;
        }
    }
    *set_p = set;
    return true;
}
