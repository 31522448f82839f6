/* SPDX-License-Identifier: Apache-2.0 */
/* Implements job.h. */
#include "job.h"

#include <stdio.h>

static tryst_status config_make(const char *const *settings, char *error,
                                size_t error_capacity, tryst_config **config_p)
{
    tryst_status status = tryst_config_open(config_p, error, error_capacity);
    for (; status == TRYST_OK && *settings; settings += 2)
        if (settings[1])
            status = tryst_config_set(*config_p, settings[0], settings[1], error,
                                      error_capacity);
    return status;
}

tryst_status job_open(const char *const *settings, const tryst_group_params *params,
                      char *error, size_t error_capacity, tryst_ctx **ctx_p,
                      tryst_group **group_p)
{
    tryst_group_params group = *params;
    tryst_config *config = NULL;
    tryst_ctx *ctx = NULL;
    error[0] = '\0';
    group.struct_size = sizeof group;
    group.error = error;
    group.error_capacity = error_capacity;
    tryst_status status = config_make(settings, error, error_capacity, &config);
    const tryst_open_params open = {.struct_size = sizeof open,
                                    .config = config,
                                    .error = error,
                                    .error_capacity = error_capacity};
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
    if (status != TRYST_OK && !*error)
        snprintf(error, error_capacity, "%s", tryst_status_str(status));
    return status;
}
