/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The begin of periods, the names of the computation in them, and the file of one:
 * TRYST_PROFILE, in which %r is the rank. Without %r all ranks have one file, and rank 0
 * writes it.
 *
 * Idea: no signal and no death of the process can be noticed in time, so the file is
 * there before: a thread writes it after the first three periods and after each doubling
 * of their number, which is some 30 times in the longest run. The recorder posts a
 * semaphore at such a cut; all else is the thread's. A last time the thread writes when
 * the group closes, or when the process calls exit (core/thread).
 *
 * Invariants: readers find a whole file, of this run or an earlier one: a new one gets
 * its name at last. No failure of the file is the program's, which has its results and
 * gets one line.
 */
#include "profile_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commsched/profile/priorities.h"
#include "commsched/profile/profile_json.h"
#include "commsched/profile/recorder.h"
#include "context.h"
#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "core/os/sigpipe.h"
#include "core/text/refuse.h"
#include "core/thread/thread.h"
#include "rendezvous/group_info.h"
#include "rendezvous/progress/submission.h"
#include "trace_file.h"
#include "tryst/profile.h"

/* Each of the first periods gets a file, since a program may have no more. */
enum { FIRST_PERIODS = 3 };

struct profile_file {
    tryst_ctx *ctx;
    char *path;
    struct thread thread; /* exit() waits for its last file (core/thread) */
    bool has_thread;
    sem_t due; /* posted: the thread writes */
    _Atomic(bool) stops;
    bool written; /* the file has a profile of this run */
    bool warned;
};

/* ---- the file ---------------------------------------------------------------------- */

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

/* Write the text to a file beside `path`, which then takes the name `path`. False: errno
 * has the reason. */
static bool file_exchange(const char *path, const char *text)
{
    char part[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (file_write(part, text) && rename(part, path) == 0)
        return true;
    int reason = errno;
    (void)unlink(part);
    errno = reason;
    return false;
}

/* Replace the file, or what a link leads to. A pipe or a device gets the last profile
 * alone, and so does a file in a folder that permits no other one. False: errno has the
 * reason. */
static bool file_replace(const char *path, const char *text, bool is_last)
{
    char real[PATH_MAX];
    struct stat info;
    const char *target = realpath(path, real) ? real : path;
    if (stat(target, &info) == 0 && !S_ISREG(info.st_mode))
        return !is_last || file_write(target, text);
    if (file_exchange(target, text))
        return true;
    bool is_refused = errno == EACCES || errno == EPERM;
    return is_refused && stat(target, &info) == 0 &&
           (!is_last || file_write(target, text));
}

static void file_warn(struct profile_file *file, const char *reason, const char *action)
{
    /* at exit nothing of the program is called, as its log function */
    const struct log *log = thread_exits() ? &file->thread.log : &file->ctx->log;
    if (!file->warned)
        LOG_WARN(log, "cannot write a profile to %s%s: %s%s", file->path,
                 *action ? "" : " (TRYST_PROFILE)", reason, action);
    file->warned = true;
}

static void profile_write(struct profile_file *file, struct tryst_profile *profile,
                          bool is_last)
{
    struct text json = {0};
    struct err err = ERR_INIT;
    char *text = NULL;
    profile_json_write(profile, &json);
    if (text_release(&json, &err, &text) != TRYST_OK)
        file_warn(file, "out of memory", "");
    else if (!file_replace(file->path, text, is_last))
        file_warn(file, err_reason(errno),
                  "; set TRYST_PROFILE to a file in a folder that exists and that this "
                  "process may write");
    else
        file->written = true;
    mem_free(text);
}

/* Write the recorded step, if there is a whole one. */
static void period_write(struct profile_file *file, bool is_last)
{
    struct err err = ERR_INIT;
    struct tryst_profile *profile;
    tryst_status status = recorder_profile(file->ctx->recorder, &err, &profile);
    if (status == TRYST_OK) {
        profile_write(file, profile, is_last);
        profile_close(profile);
    } else if (is_last && !file->written) {
        file_warn(file, err.text, "");
    }
}

/* ---- the thread -------------------------------------------------------------------- */

static void period_ended(void *arg, uint64_t count)
{
    struct profile_file *file = arg;
    if (count <= FIRST_PERIODS || (count & (count - 1)) == 0)
        (void)sem_post(&file->due);
}

static void file_main(void *arg)
{
    struct profile_file *file = arg;
    bool is_last = false;
    while (!is_last) {
        while (sem_wait(&file->due) != 0)
            continue;
        /* acquire: pairs with the release in file_stop. */
        is_last = atomic_load_explicit(&file->stops, memory_order_acquire);
        period_write(file, is_last);
    }
}

static void file_stop(void *arg)
{
    struct profile_file *file = arg;
    atomic_store_explicit(&file->stops, true, memory_order_release);
    (void)sem_post(&file->due);
}

/* ---- open and close ---------------------------------------------------------------- */

static void file_start(struct profile_file *file)
{
    const struct thread_params params = {.run = file_main,
                                         .stop = file_stop,
                                         .arg = file,
                                         .name = "the profile's file",
                                         .log = &file->ctx->log};
    file->has_thread = thread_open(&file->thread, &params) == 0;
    if (file->has_thread)
        recorder_watch(file->ctx->recorder, period_ended, file);
}

void profile_file_open(tryst_ctx *ctx, const struct origin *origin)
{
    const char *form = config_str(ctx->config, CONFIG_PROFILE);
    if (!*form || (origin->rank != 0 && !strstr(form, "%r")))
        return;
    struct profile_file *file = mem_zalloc(sizeof *file);
    char *path = file ? rank_path_make(form, origin->rank) : NULL;
    if (!path) {
        LOG_WARN(&ctx->log, "cannot write a profile to %s: out of memory", form);
        mem_free(file);
        return;
    }
    file->ctx = ctx;
    recorder_origin_set(ctx->recorder, origin);
    file->path = path;
    (void)sem_init(&file->due, 0, 0);
    ctx->wiring->profile = file;
    file_start(file);
}

static void file_close(struct profile_file *file)
{
    if (file->has_thread) {
        recorder_watch(file->ctx->recorder, NULL, NULL);
        file_stop(file);
        pthread_join(file->thread.id, NULL);
    } else {
        period_write(file, true);
    }
    (void)sem_destroy(&file->due);
    mem_free(file->path);
    mem_free(file);
}

void profile_file_close(tryst_ctx *ctx)
{
    if (ctx->wiring->profile)
        file_close(ctx->wiring->profile);
    ctx->wiring->profile = NULL;
    if (ctx->recorder)
        recorder_reset(ctx->recorder);
    if (ctx->priorities)
        priorities_reset(ctx->priorities);
}

/* ---- the program's part ------------------------------------------------------------ */

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
    if (ctx->recorder && !is_forked(ctx))
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
    if (ctx->recorder && !is_forked(ctx))
        recorder_action(ctx->recorder, name);
    return TRYST_OK;
}
