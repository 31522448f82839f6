/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of profiles (tryst/profile.h): arguments are checked here. */
#include "tryst/profile.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/params.h"
#include "core/text/refuse.h"
#include "merge.h"
#include "orders.h"
#include "profile_json.h"
#include "step_graph.h"

#define BUCKET_BYTES       (UINT64_C(25) << 20)
#define FIRST_BUCKET_BYTES (UINT64_C(1) << 20)

static tryst_status result(tryst_status status, const struct err *err)
{
    return status == TRYST_OK ? status : refuse_err(err, status);
}

/* ---- files ------------------------------------------------------------------------- */

tryst_status tryst_profile_parse(const char *text, size_t bytes, const char *name,
                                 tryst_profile **profile_p)
{
    struct err err = ERR_INIT;
    struct source source = {text, bytes, name, &err};
    if (!text || !name || !profile_p)
        return refuse_null("parse a profile", !text   ? "text"
                                              : !name ? "name"
                                                      : "profile_p");
    return result(profile_json_read(&source, profile_p), &err);
}

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
    return result(status, &err);
}

tryst_status tryst_profile_merge(tryst_profile *const *profiles, uint32_t count,
                                 tryst_profile **merged_p)
{
    struct err err = ERR_INIT;
    if (!profiles || !merged_p)
        return refuse_null("merge profiles", !profiles ? "profiles" : "merged_p");
    if (count == 0)
        return refuse(TRYST_E_INVALID, "cannot merge profiles: there is none");
    for (uint32_t i = 0; i < count; i++)
        if (!profiles[i])
            return refuse_null("merge profiles", "a profile");
    return result(profile_merge(profiles, count, &err, merged_p), &err);
}

void tryst_profile_close(tryst_profile *profile)
{
    profile_close(profile);
}

tryst_status tryst_profile_write(const tryst_profile *profile, char **text_p)
{
    struct err err = ERR_INIT;
    struct text text = {0};
    if (!profile || !text_p)
        return refuse_null("write a profile", !profile ? "profile" : "text_p");
    profile_json_write(profile, &text);
    return result(text_release(&text, &err, text_p), &err);
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

/* ---- nodes ------------------------------------------------------------------------- */

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

/* ---- replay ------------------------------------------------------------------------ */

const char *tryst_profile_order_name(tryst_profile_order order)
{
    static const char *const names[] = {
        [TRYST_PROFILE_FIFO] = "fifo",
        [TRYST_PROFILE_BUCKETS] = "buckets",
        [TRYST_PROFILE_PRIORITY] = "priority",
        [TRYST_PROFILE_PREEMPT] = "preempt",
    };
    return (unsigned)order < sizeof names / sizeof names[0] ? names[order] : NULL;
}

/* Check what the caller gave, and fill in the defaults. */
static tryst_status params_resolve(const tryst_profile_params *params, struct err *err,
                                   tryst_profile_params *resolved_p)
{
    tryst_status status =
        params_read(resolved_p, sizeof *resolved_p, params, "tryst_profile_params", err);
    if (status != TRYST_OK)
        return status;
    if (!(resolved_p->bytes_per_s > 0) || !isfinite(resolved_p->bytes_per_s))
        return err_set(err, TRYST_E_INVALID,
                       "cannot replay the profile: bytes_per_s is %g; it must be above 0",
                       resolved_p->bytes_per_s);
    if (!(resolved_p->latency_s >= 0 && resolved_p->overhead_s >= 0) ||
        !isfinite(resolved_p->latency_s + resolved_p->overhead_s))
        return err_set(err, TRYST_E_INVALID,
                       "cannot replay the profile: latency_s is %g and overhead_s %g; "
                       "both must be 0 or more",
                       resolved_p->latency_s, resolved_p->overhead_s);
    if (!tryst_profile_order_name(resolved_p->order))
        return err_set(err, TRYST_E_INVALID,
                       "cannot replay the profile: there is no order %d",
                       (int)resolved_p->order);
    if (!resolved_p->bucket_bytes)
        resolved_p->bucket_bytes = BUCKET_BYTES;
    if (!resolved_p->first_bucket_bytes)
        resolved_p->first_bucket_bytes = FIRST_BUCKET_BYTES;
    return TRYST_OK;
}

tryst_status tryst_profile_replay(tryst_profile *profile,
                                  const tryst_profile_params *params,
                                  tryst_profile_replayed *replayed_p)
{
    struct err err = ERR_INIT;
    tryst_profile_params resolved;
    tryst_profile_replayed made = {.struct_size = sizeof made};
    if (!profile || !params || !replayed_p)
        return refuse_null("replay a profile", !profile  ? "profile"
                                               : !params ? "params"
                                                         : "replayed_p");
    tryst_status status = params_check_output(replayed_p, "tryst_profile_replayed", &err);
    if (status == TRYST_OK)
        status = params_resolve(params, &err, &resolved);
    if (status == TRYST_OK)
        status = orders_replay(profile, &resolved, &err, &made.seconds);
    if (status != TRYST_OK)
        return result(status, &err);
    made.spans = profile->spans;
    made.pieces = profile->pieces;
    made.pieces_count = profile->pieces_count;
    tryst_sized_write(replayed_p, &made, sizeof made);
    return TRYST_OK;
}

/* Open the profile's oracle for what the caller gave. */
static tryst_status oracle_prepare(tryst_profile *profile,
                                   const tryst_profile_params *params, struct err *err)
{
    tryst_profile_params resolved;
    tryst_status status = params_resolve(params, err, &resolved);
    if (status != TRYST_OK)
        return status;
    return step_graph_open(profile, &resolved, NULL, false, err, NULL);
}

tryst_status tryst_profile_bound(tryst_profile *profile,
                                 const tryst_profile_params *params, double *seconds_p)
{
    struct err err = ERR_INIT;
    if (!profile || !params || !seconds_p)
        return refuse_null("bound a profile", !profile  ? "profile"
                                              : !params ? "params"
                                                        : "seconds_p");
    tryst_status status = oracle_prepare(profile, params, &err);
    if (status == TRYST_OK)
        *seconds_p = oracle_bound(profile->oracle);
    return result(status, &err);
}

tryst_status tryst_profile_tails(tryst_profile *profile,
                                 const tryst_profile_params *params, double *tails)
{
    struct err err = ERR_INIT;
    if (!profile || !params || !tails)
        return refuse_null("compute the tails of a profile", !profile  ? "profile"
                                                             : !params ? "params"
                                                                       : "tails");
    tryst_status status = oracle_prepare(profile, params, &err);
    if (status == TRYST_OK)
        memcpy(tails, oracle_tails(profile->oracle),
               profile->nodes_count * sizeof *tails);
    return result(status, &err);
}

tryst_status tryst_profile_fuse(tryst_profile *profile,
                                const tryst_profile_params *params, uint32_t *groups,
                                uint32_t *count_p)
{
    struct err err = ERR_INIT;
    tryst_profile_params resolved;
    if (!profile || !params || !groups || !count_p)
        return refuse_null("join operations", !profile  ? "profile"
                                              : !params ? "params"
                                              : !groups ? "groups"
                                                        : "count_p");
    tryst_status status = params_resolve(params, &err, &resolved);
    if (status == TRYST_OK)
        status = orders_fuse(profile, &resolved, &err, groups, count_p);
    return result(status, &err);
}
