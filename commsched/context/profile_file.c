/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The begin of periods, the names of the computation in them, and the file of one:
 * TRYST_PROFILE, in which %r is the rank. Without %r all ranks have one file, and rank 0
 * writes it.
 *
 * Invariant: no failure of the file is the program's, which has its results and gets a
 * line.
 */
#include "profile_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commsched/profile/priorities.h"
#include "commsched/profile/recorder.h"
#include "context.h"
#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "core/os/sigpipe.h"
#include "core/text/refuse.h"
#include "rendezvous/group_info.h"
#include "rendezvous/submission.h"
#include "topology/base/text.h"
#include "tryst/profile.h"
#include "tryst/topo.h"

/* Return `form` with the rank for each %r; the caller frees it. NULL: no memory. */
static char *path_make(const char *form, int32_t rank)
{
    struct text text = {0};
    struct err err = ERR_INIT;
    char *path = NULL;
    for (const char *place; (place = strstr(form, "%r")) != NULL; form = place + 2) {
        text_add_bytes(&text, form, (size_t)(place - form));
        text_addf(&text, "%" PRId32, rank);
    }
    text_add(&text, form);
    return text_release(&text, &err, &path) == TRYST_OK ? path : NULL;
}

/* Write the text to the file. False: errno has the reason. */
static bool file_write(const char *path, const char *text)
{
    struct sigpipe_guard guard;
    sigpipe_guard_begin(&guard);
    FILE *file = fd_file_open(path, "w");
    bool written = file && fputs(text, file) >= 0;
    int reason = errno;
    if (file && fclose(file) != 0) {
        reason = written ? errno : reason;
        written = false;
    }
    sigpipe_guard_end(&guard);
    errno = reason;
    return written;
}

static void profile_write(tryst_ctx *ctx, const char *path)
{
    struct err err = ERR_INIT;
    tryst_profile *profile;
    char *text = NULL;
    tryst_status status = recorder_profile(ctx->recorder, &err, &profile);
    if (status != TRYST_OK) {
        LOG_WARN(&ctx->log, "cannot write a profile to %s (TRYST_PROFILE): %s", path,
                 err.text);
        return;
    }
    if (tryst_profile_write(profile, &text) != TRYST_OK)
        LOG_WARN(&ctx->log, "cannot write a profile to %s (TRYST_PROFILE): out of memory",
                 path);
    else if (!file_write(path, text))
        LOG_WARN(&ctx->log,
                 "cannot write a profile to %s: %s; set TRYST_PROFILE to a file in a "
                 "folder that exists and that this process may write",
                 path, err_reason(errno));
    tryst_text_free(text);
    tryst_profile_close(profile);
}

/* True if an action may have the name: no other text makes "name;2", or an action
 * without a name. */
static bool action_name_is_valid(const char *name)
{
    static const char unnamed[] = "action ";
    size_t bytes = strnlen(name, TRYST_PROFILE_ACTION_MAX + 1);
    return bytes > 0 && bytes <= TRYST_PROFILE_ACTION_MAX && !strchr(name, ';') &&
           strncmp(name, unnamed, sizeof unnamed - 1) != 0;
}

tryst_status tryst_period_begin(tryst_group *group)
{
    if (!group)
        return refuse_null("begin a period", "group");
    tryst_ctx *ctx = rendezvous_group_ctx(group);
    if (ctx->recorder && rendezvous_usable(ctx->rdv) != TRYST_E_FORKED)
        recorder_period_begin(ctx->recorder);
    return TRYST_OK;
}

tryst_status tryst_profile_action(tryst_ctx *ctx, const char *name)
{
    if (!ctx)
        return refuse_null("name an action", "ctx");
    if (name && !action_name_is_valid(name))
        return refuse(TRYST_E_INVALID,
                      "cannot name an action \"%.64s\": a name has 1 to %d bytes and no "
                      "';', and does not begin with \"action \"",
                      name, TRYST_PROFILE_ACTION_MAX);
    if (ctx->recorder && rendezvous_usable(ctx->rdv) != TRYST_E_FORKED)
        recorder_action(ctx->recorder, name);
    return TRYST_OK;
}

void profile_file_write(tryst_ctx *ctx, int32_t rank)
{
    const char *form = config_str(ctx->config, CONFIG_PROFILE);
    if (*form && (rank == 0 || strstr(form, "%r"))) {
        char *path = path_make(form, rank);
        if (path)
            profile_write(ctx, path);
        else
            LOG_WARN(&ctx->log, "cannot write a profile to %s: out of memory", form);
        mem_free(path);
    }
    recorder_reset(ctx->recorder);
    if (ctx->priorities)
        priorities_reset(ctx->priorities);
}
