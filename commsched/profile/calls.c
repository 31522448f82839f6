/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of profiles (tryst/profile.h): arguments are checked here. */
#include "tryst/profile.h"

#include "core/memory/alloc.h"
#include "core/text/refuse.h"
#include "profile_json.h"
#include "tryst/sized.h"

tryst_status tryst_profile_load(const char *path, tryst_profile **profile_p)
{
    struct err err = ERR_INIT;
    struct source source = {.err = &err};
    char *text = NULL;
    if (!path || !profile_p)
        return refuse_null("load a profile", !path ? "path" : "profile_p");
    tryst_status status = source_load(path, &err, &source.name, &text, &source.bytes);
    source.text = text;
    if (status == TRYST_OK)
        status = profile_json_read(&source, profile_p);
    mem_free(text);
    return status == TRYST_OK ? status : refuse_err(&err, status);
}

void tryst_profile_close(tryst_profile *profile)
{
    profile_close(profile);
}

tryst_status tryst_profile_origin_get(const tryst_profile *profile,
                                      tryst_profile_origin *origin_p)
{
    static const char call[] = "get the origin of a profile";
    tryst_profile_origin made = {.struct_size = sizeof made};
    if (!profile || !origin_p)
        return refuse_null(call, !profile ? "profile" : "origin_p");
    made.run = profile->origin.run;
    made.rank = profile->origin.run ? profile->origin.rank : -1;
    made.size = profile->origin.size;
    if (!tryst_sized_write(origin_p, &made, sizeof made))
        return refuse_unsized(call, "origin_p");
    return TRYST_OK;
}

uint32_t tryst_profile_nodes(const tryst_profile *profile)
{
    return profile ? profile->nodes_count : 0;
}

tryst_status tryst_profile_node_get(const tryst_profile *profile, uint32_t index,
                                    tryst_profile_node *node_p)
{
    static const char call[] = "get a node of a profile";
    if (!profile || !node_p)
        return refuse_null(call, !profile ? "profile" : "node_p");
    if (index >= profile->nodes_count)
        return refuse(TRYST_E_INVALID, "cannot %s: there is no node %u, but %u nodes",
                      call, index, profile->nodes_count);
    const struct profile_node *node = &profile->nodes[index];
    tryst_profile_node made = {
        .struct_size = sizeof made,
        .name = node->name,
        .is_operation = node->is_operation,
        .seconds = node->seconds,
        .bytes = node->bytes,
        .after = node->after_count > 0 ? profile->after + node->after_first : NULL,
        .after_count = node->after_count,
        .ready_s = node->times_s[PROFILE_READY],
        .matched_s = node->times_s[PROFILE_MATCHED],
        .first_slice_s = node->times_s[PROFILE_FIRST_SLICE],
        .done_s = node->times_s[PROFILE_DONE],
        .first_use_s = node->times_s[PROFILE_FIRST_USE],
    };
    if (!tryst_sized_write(node_p, &made, sizeof made))
        return refuse_unsized(call, "node_p");
    return TRYST_OK;
}
