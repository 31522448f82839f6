/* SPDX-License-Identifier: Apache-2.0 */
#include "profile.h"

#include "core/memory/alloc.h"

struct tryst_profile *profile_open(void)
{
    return mem_zalloc(sizeof(struct tryst_profile));
}

void profile_close(struct tryst_profile *profile)
{
    if (!profile)
        return;
    for (uint32_t i = 0; i < profile->nodes_count; i++)
        mem_free(profile->nodes[i].name);
    mem_free(profile->nodes);
    mem_free(profile->after);
    mem_free(profile);
}

struct profile_node *profile_node_add(struct tryst_profile *profile, const char *name)
{
    char *copy = mem_strdup(name);
    if (!copy || profile->nodes_count == UINT32_MAX ||
        !mem_reserve(&profile->nodes, &profile->nodes_room,
                     (size_t)profile->nodes_count + 1, sizeof *profile->nodes)) {
        mem_free(copy);
        return NULL;
    }
    struct profile_node *node = &profile->nodes[profile->nodes_count++];
    *node = (struct profile_node){.name = copy, .after_first = profile->after_count};
    for (int i = 0; i < PROFILE_TIMES; i++)
        node->times_s[i] = -1;
    return node;
}

bool profile_after_add(struct tryst_profile *profile, uint32_t index, uint32_t before)
{
    struct profile_node *node = &profile->nodes[index];
    if (profile->after_count == UINT32_MAX ||
        !mem_reserve(&profile->after, &profile->after_room,
                     (size_t)profile->after_count + 1, sizeof *profile->after))
        return false;
    if (node->after_count == 0)
        node->after_first = profile->after_count;
    profile->after[profile->after_count++] = before;
    node->after_count++;
    return true;
}

const char *profile_time_name(enum profile_time time)
{
    static const char *const names[PROFILE_TIMES] = {[PROFILE_READY] = "ready",
                                                     [PROFILE_MATCHED] = "matched",
                                                     [PROFILE_FIRST_SLICE] =
                                                         "first_slice",
                                                     [PROFILE_DONE] = "done",
                                                     [PROFILE_FIRST_USE] = "first_use"};
    return names[time];
}
