/* SPDX-License-Identifier: Apache-2.0 */
/* The variables in which launchers name a job: see launch_job.h. */
#include "launch_job.h"

#include <stdio.h>
#include <string.h>

#include "core/text/hash.h"
#include "core/text/text.h"

/* Names of 100 bytes and values of any length; what is longer is hashed as far as it
 * fits. */
#define TEXT_BYTES 4096

struct job_row {
    enum launcher launcher;
    const char *name, *part; /* variables of the job, and of a part of it; may be NULL */
};

/* In the order of enum launcher. Slurm sets the id of a heterogeneous job's leader on
 * each task, and a separate id for each member of an array. */
static const struct job_row rows[] = {
    {LAUNCHER_TORCHRUN, "TORCHELASTIC_RUN_ID", NULL},
    {LAUNCHER_HYDRA, "PMI_JOBID", NULL}, /* srun --mpi=pmi2; mpiexec.hydra has none */
    {LAUNCHER_PMIX, "PMIX_NAMESPACE", NULL},
    {LAUNCHER_OPENMPI, "OMPI_MCA_ess_base_jobid", NULL},
    {LAUNCHER_SLURM, "SLURM_JOB_ID", "SLURM_STEP_ID"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* Return a variable's value; NULL: not set, or torchrun's default, which names no job. */
static const char *value_of(char *(*get)(const char *name), const char *name)
{
    const char *value = name ? get(name) : NULL;
    return value && *value && strcmp(value, "none") != 0 ? value : NULL;
}

static void pair_add(char *text, const char *name, const char *value)
{
    if (value)
        (void)text_append(text, TEXT_BYTES, "%s%s=%s", *text ? ", " : "", name, value);
}

static void text_fit(const char *text, char job_p[BOOTSTRAP_JOB_BYTES])
{
    enum { HEAD_BYTES = BOOTSTRAP_JOB_BYTES - HASH128_HEX_BYTES - 3 };
    char hash[HASH128_HEX_BYTES];
    size_t bytes = strlen(text);
    if (bytes < BOOTSTRAP_JOB_BYTES) {
        memcpy(job_p, text, bytes + 1);
        return;
    }
    hash128_hex(hash128_bytes(text, bytes), hash);
    (void)snprintf(job_p, BOOTSTRAP_JOB_BYTES, "%.*s...%s",
                   (int)text_cut(text, HEAD_BYTES), text, hash);
}

void launch_job_find(const struct config *config, char *(*get)(const char *name),
                     enum launcher launcher, char job_p[BOOTSTRAP_JOB_BYTES])
{
    char text[TEXT_BYTES] = "";
    const char *own = config_str(config, CONFIG_JOB);
    /* torchrun's variables may be the work of a script under another launcher. */
    bool by_hand = launcher == LAUNCHER_TRYST ||
                   (launcher == LAUNCHER_TORCHRUN && !get("TORCHELASTIC_RUN_ID"));
    pair_add(text, "TRYST_JOB", *own ? own : NULL);
    for (size_t i = 0; i < ROWS && !*text; i++) {
        const char *value = value_of(get, rows[i].name);
        if (!value || (!by_hand && rows[i].launcher != launcher))
            continue;
        pair_add(text, rows[i].name, value);
        pair_add(text, rows[i].part, value_of(get, rows[i].part));
    }
    /* A launcher inside Slurm may start its agents in several steps. */
    if (!*text)
        pair_add(text, "SLURM_JOB_ID", value_of(get, "SLURM_JOB_ID"));
    text_fit(text, job_p);
}
