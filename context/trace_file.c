/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TRYST_TRACE: a switch, or the file to which a context writes its trace when it closes.
 *
 * Idea: a file is a path with '/' or with ".json" at its end, so no switch and no
 * misspelt switch is taken for a file. %r in it is the rank.
 */
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "core/text/growing_text.h"
#include "tryst/tryst.h"

char *rank_path_make(const char *form, int32_t rank)
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

static bool is_path(const char *text)
{
    size_t length = strlen(text);
    return strchr(text, '/') || (length > 5 && strcmp(text + length - 5, ".json") == 0);
}

static bool is_word(const char *text, const char *const *words)
{
    while (*words && strcmp(*words, text) != 0)
        words++;
    return *words;
}

tryst_status trace_setting_read(const struct config *config, struct err *err,
                                bool *records_p)
{
    static const char *const off[] = {"", "0", "n", "no", "off", "false", NULL};
    static const char *const on[] = {"1", "y", "yes", "on", "true", NULL};
    const char *text = config_str(config, CONFIG_TRACE);
    *records_p = is_path(text) || is_word(text, on);
    if (*records_p || is_word(text, off))
        return TRYST_OK;
    return err_set(err, TRYST_E_CONFIG,
                   "TRYST_TRACE=%.100s: must be 1 or 0, or a file: a path with '/', or a "
                   "name that ends in .json, such as trace.%%r.json",
                   text);
}

void trace_file_write(tryst_ctx *ctx)
{
    const char *form = config_str(ctx->config, CONFIG_TRACE);
    /* relaxed: both change with a new group alone. */
    int32_t rank = atomic_load_explicit(&ctx->log.rank, memory_order_relaxed);
    uint64_t run = atomic_load_explicit(&ctx->run, memory_order_relaxed);
    if (!ctx->trace || !run || !is_path(form) || (rank != 0 && !strstr(form, "%r")))
        return;
    char *path = rank_path_make(form, rank);
    int fd =
        path ? FD_MAKE(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) : -1;
    if (!path)
        LOG_WARN(&ctx->log, "cannot write the trace to %s: out of memory", form);
    else if (fd < 0)
        LOG_WARN(
            &ctx->log,
            "cannot write the trace to %s: %s; set TRYST_TRACE to a file in a folder "
            "that exists and that this process may write",
            path, err_reason(errno));
    else if (tryst_trace_write(ctx, fd) != TRYST_OK)
        LOG_WARN(&ctx->log, "TRYST_TRACE=%s: %s", form, tryst_last_error());
    if (fd >= 0)
        close(fd);
    mem_free(path);
}
