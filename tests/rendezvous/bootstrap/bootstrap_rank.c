/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a job for tryst-run, with rank and size from the environment: join,
 * exchange, leave. With an argument N, rank N kills itself once it is a member; the
 * others then exit 0 if their error names it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/bootstrap/launch/bootstrap_env.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

static int exchange(struct bootstrap *bootstrap, const struct bootstrap_params *params)
{
    struct err err = ERR_INIT;
    int32_t mine = 1000 + params->rank, all[64];
    tryst_status status = bootstrap_allgather(bootstrap, &mine, sizeof mine, all, &err);
    for (int rank = 0; rank < params->size && status == TRYST_OK; rank++)
        if (all[rank] != 1000 + rank)
            return 2;
    if (status == TRYST_OK)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

/* Let the victim die after all have joined. The survivors' error must name it. */
static int survive(struct bootstrap *bootstrap, const struct bootstrap_params *params,
                   int victim)
{
    struct err err = ERR_INIT;
    char name[32];
    if (bootstrap_allgather(bootstrap, NULL, 0, NULL, &err) != TRYST_OK)
        return 1;
    if (params->rank == victim) {
        usleep(200000); /* the other ranks are in the next barrier by now */
        raise(SIGKILL);
    }
    tryst_status status = bootstrap_allgather(bootstrap, NULL, 0, NULL, &err);
    snprintf(name, sizeof name, "rank %d ", victim);
    fprintf(stderr, "%s\n", err.text);
    return status == TRYST_E_BOOTSTRAP && strstr(err.text, name) ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct config *config = NULL;
    struct bootstrap *bootstrap = NULL;
    struct bootstrap_env env;
    struct err err = ERR_INIT;
    tryst_status status = config_open(NULL, &err, &config);
    if (status == TRYST_OK)
        status = bootstrap_env_read(config, 0, NULL, &err, &env);
    if (status == TRYST_OK && (env.params.size < 2 || env.params.size > 64))
        return 3;
    if (status == TRYST_OK)
        status = bootstrap_open(&env.params, &err, &bootstrap);
    if (status != TRYST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int result = argc > 1 ? survive(bootstrap, &env.params, atoi(argv[1]))
                          : exchange(bootstrap, &env.params);
    bootstrap_close(bootstrap, NULL);
    bootstrap_env_wipe(&env);
    config_close(config);
    return result;
}
