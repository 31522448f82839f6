/* SPDX-License-Identifier: Apache-2.0 */
/* Implements job.h. */
#include "job.h"

#include <stdio.h>
#include <string.h>

static tryst_status config_make(const char *const *settings, tryst_config **config_p)
{
    tryst_status status = tryst_config_open(config_p);
    for (; status == TRYST_OK && *settings; settings += 2)
        if (settings[1])
            status = tryst_config_set(*config_p, settings[0], settings[1]);
    return status;
}

tryst_status job_open(const char *const *settings, const tryst_group_params *params,
                      tryst_ctx **ctx_p, tryst_group **group_p)
{
    tryst_group_params group = *params;
    tryst_config *config = NULL;
    tryst_ctx *ctx = NULL;
    group.struct_size = sizeof group;
    tryst_status status = config_make(settings, &config);
    const tryst_open_params open = {.struct_size = sizeof open, .config = config};
    if (status == TRYST_OK)
        status = tryst_open(&open, &ctx);
    if (config)
        tryst_config_close(config);
    if (status == TRYST_OK)
        status = tryst_group_open(ctx, &group, group_p);
    if (status == TRYST_OK)
        *ctx_p = ctx;
    else if (ctx)
        tryst_close(ctx);
    return status;
}

int job_place(const char *name, int *rank_p, int *size_p)
{
    tryst_launch launch = {.struct_size = sizeof launch};
    tryst_status status = tryst_launch_find(NULL, &launch);
    if (status != TRYST_OK) {
        fprintf(stderr, "%s: %s\n", name, tryst_last_error());
        return -1;
    }
    if (launch.size < 0) {
        fprintf(stderr, "%s: %s; set TRYST_SIZE for this program\n", name, launch.why);
        return -1;
    }
    *rank_p = launch.rank;
    *size_p = launch.size;
    return strcmp(launch.launcher, "none") != 0;
}
