/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of this process: see launch.h. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/net/port_range.h"
#include "core/text/number.h"
#include "core/text/text.h"
#include "launch_job.h"

#define RANKS_MAX (1 << 20) /* the limit of TRYST_SIZE */

struct launcher_row {
    enum launcher launcher;
    const char *name;
    const char *gate; /* without this variable the row does not apply; may be NULL */
    const char *rank, *size;
    const char *local_rank, *local_size; /* may be NULL */
    const char *export_by; /* the user's command that gives all ranks a variable */
};

/* In the order in which they count, inner launchers first: torchrun's agents are
 * themselves started by others, and Hydra's by Slurm. */
static const struct launcher_row rows[] = {
    {LAUNCHER_TORCHRUN, "torchrun", NULL, "RANK", "WORLD_SIZE", "LOCAL_RANK",
     "LOCAL_WORLD_SIZE", "export TRYST_BOOTSTRAP=host:port on every host"},
    {LAUNCHER_HYDRA, "hydra", NULL, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS", "mpiexec.hydra -genv TRYST_BOOTSTRAP host:port"},
    {LAUNCHER_PMIX, "pmix", NULL, "PMIX_RANK", "PMIX_NAMESPACE", NULL, NULL, ""},
    {LAUNCHER_OPENMPI, "openmpi", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "mpirun -x TRYST_BOOTSTRAP=host:port"},
    /* a batch script has SLURM_PROCID too, but is not a step */
    {LAUNCHER_SLURM, "slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID", NULL,
     "srun --mpi=pmix, or srun --export=ALL,TRYST_BOOTSTRAP=host:port"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

enum found { ABSENT, HALF, WHOLE };

struct detecting {
    const struct config *config;
    char *(*get)(const char *name);
    struct err *err;
    struct launch launch;
};

/* ---- texts and numbers ------------------------------------------------------------- */

/* Return a variable's value; NULL if it is not set, or empty. */
static const char *value_of(const struct detecting *self, const char *name)
{
    const char *value = name ? self->get(name) : NULL;
    return value && *value ? value : NULL;
}

#define WHY_ADD(launch, ...) \
    (void)text_append((launch)->why, sizeof(launch)->why, __VA_ARGS__)

/* Read a number; -1: not set. */
static tryst_status number_of(struct detecting *self, const char *name, int *value_p)
{
    const char *text = value_of(self, name);
    uint64_t number = 0;
    if (text && !number_parse(text, RANKS_MAX, &number))
        return err_set(self->err, TRYST_E_CONFIG,
                       "%s='%.40s' is not a number from 0 to 1048576", name, text);
    *value_p = text ? (int)number : -1;
    return TRYST_OK;
}

static int setting_of(const struct detecting *self, enum config_id id)
{
    return (int)config_int(self->config, id);
}

static bool has_address(const struct detecting *self)
{
    return *config_str(self->config, CONFIG_BOOTSTRAP) != '\0';
}

const char *launcher_name(enum launcher launcher)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].launcher == launcher)
            return rows[i].name;
    return launcher == LAUNCHER_TRYST ? "tryst" : "none";
}

/* ---- presence ---------------------------------------------------------------------- */

/* RANK and WORLD_SIZE are names that other programs use too: one of them alone, or an
 * exported MASTER_ADDR, does not indicate torchrun. */
static enum found torchrun_find(const struct detecting *self)
{
    static const char *const others[] = {"MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK",
                                         "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"};
    const char *size = value_of(self, "WORLD_SIZE");
    bool any = false, rank = value_of(self, "RANK") != NULL;
    bool port = value_of(self, "MASTER_PORT") || setting_of(self, CONFIG_PORT) > 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        any = any || value_of(self, others[i]);
    if (rank && size && (has_address(self) || strcmp(size, "1") == 0))
        return WHOLE;
    if (rank && size && value_of(self, "MASTER_ADDR") && port)
        return WHOLE;
    return (rank && size) || ((rank || size) && any) ? HALF : ABSENT;
}

static enum found row_find(const struct detecting *self, const struct launcher_row *row)
{
    bool rank = value_of(self, row->rank) != NULL;
    bool size = value_of(self, row->size) != NULL;
    if (row->gate && !value_of(self, row->gate))
        return ABSENT;
    if (row->launcher == LAUNCHER_TORCHRUN)
        return torchrun_find(self);
#ifndef TRYST_HAVE_PMIX
    if (row->launcher == LAUNCHER_PMIX)
        return rank || size ? HALF : ABSENT;
#endif
    return rank && size ? WHOLE : rank || size ? HALF : ABSENT;
}

/* ---- half set ---------------------------------------------------------------------- */

static tryst_status half_refuse(struct detecting *self, const struct launcher_row *row)
{
    const char *const torch[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    const char *const names[] = {row->rank, row->size};
    bool is_torch = row->launcher == LAUNCHER_TORCHRUN;
    char there[128] = "", missing[128] = "";
#ifndef TRYST_HAVE_PMIX
    if (row->launcher == LAUNCHER_PMIX)
        return err_set(self->err, TRYST_E_CONFIG,
                       "a PMIx launcher started this process (%s is set), but this build "
                       "has no PMIx; build it with libpmix-dev, or set TRYST_RANK, "
                       "TRYST_SIZE, TRYST_BOOTSTRAP and TRYST_TOKEN",
                       value_of(self, row->rank) ? row->rank : row->size);
#endif
    for (int i = 0; i < (is_torch ? 4 : 2); i++) {
        const char *name = is_torch ? torch[i] : names[i];
        char *list = value_of(self, name) ? there : missing;
        (void)text_append(list, sizeof there, "%s%s", *list ? ", " : "", name);
    }
    return err_set(
        self->err, TRYST_E_CONFIG,
        "only some variables of %s are set: %s set, but not %s; start the ranks "
        "with it, or export the missing ones%s, or unset the rest (TRYST_SIZE=1 "
        "runs one process alone)",
        row->name, there, missing,
        is_torch ? " (MASTER_ADDR: the host of rank 0; TRYST_PORT can replace "
                   "MASTER_PORT)"
                 : "");
}

/* ---- rank 0's address -------------------------------------------------------------- */

/* Take the address from TRYST_BOOTSTRAP; false with the error: it is too long. */
static bool address_set(struct detecting *self)
{
    const char *address = config_str(self->config, CONFIG_BOOTSTRAP);
    struct launch *launch = &self->launch;
    if (strlen(address) >= sizeof launch->address) {
        (void)err_set(self->err, TRYST_E_CONFIG, "TRYST_BOOTSTRAP is too long");
        return false;
    }
    memcpy(launch->address, address, strlen(address) + 1);
    launch->address_setting = launch->port_setting = BOOTSTRAP_SETTING;
    return true;
}

static tryst_status torchrun_port(struct detecting *self, int *port_p)
{
    struct port_range range;
    const char *text = value_of(self, "MASTER_PORT");
    int port = setting_of(self, CONFIG_PORT);
    uint64_t master;
    *port_p = port;
    if (port > 0)
        return TRYST_OK;
    if (!number_parse(text, UINT16_MAX - 1, &master) || master == 0)
        return err_set(self->err, TRYST_E_CONFIG,
                       "MASTER_PORT='%.40s': the ranks would meet at the port above it, "
                       "which must be one of 2 to 65535; set TRYST_PORT to another one",
                       text);
    *port_p = port = (int)master + 1;
    tryst_status status =
        port_range_parse(config_str(self->config, CONFIG_PORT_RANGE), self->err, &range);
    if (status == TRYST_OK && range.first && (port < range.first || port > range.last))
        return err_set(
            self->err, TRYST_E_CONFIG,
            "MASTER_PORT=%s, so the ranks would meet at port %d, which "
            "TRYST_PORT_RANGE leaves out; set TRYST_PORT to the port that rank "
            "0 may use",
            text, port);
    return status;
}

/* Derive the address from MASTER_ADDR. torchrun's own store has MASTER_PORT; Tryst uses
 * the port above it. */
static tryst_status torchrun_address(struct detecting *self)
{
    const char *host = value_of(self, "MASTER_ADDR");
    struct launch *launch = &self->launch;
    bool bare_v6 = strchr(host, ':') && host[0] != '[';
    int port = 0;
    tryst_status status = torchrun_port(self, &port);
    if (status != TRYST_OK)
        return status;
    if (strlen(host) > 255)
        return err_set(self->err, TRYST_E_CONFIG, "MASTER_ADDR is too long");
    (void)snprintf(launch->address, sizeof launch->address, bare_v6 ? "[%s]:%d" : "%s:%d",
                   host, port);
    bool chosen = setting_of(self, CONFIG_PORT) > 0;
    launch->address_setting = "MASTER_ADDR, MASTER_PORT, TRYST_PORT";
    launch->port_setting = chosen ? "TRYST_PORT" : "TRYST_PORT (now: MASTER_PORT+1)";
    WHY_ADD(launch, "; rank 0 serves at %s (MASTER_ADDR, %s)", launch->address,
            chosen ? "TRYST_PORT" : "MASTER_PORT+1");
    return TRYST_OK;
}

/* Decide whether the launcher's store is to supply address or token: PMIx, or PMI-1 where
 * the launcher passes a descriptor on. */
static tryst_status store_find(struct detecting *self, const struct launcher_row *row)
{
    struct launch *launch = &self->launch;
    bool has_token = *config_str(self->config, CONFIG_TOKEN) ||
                     *config_str(self->config, CONFIG_TOKEN_FILE) ||
                     config_bool(self->config, CONFIG_INSECURE);
    bool is_whole = has_address(self) && has_token;
    const char *fd = row->launcher == LAUNCHER_HYDRA ? value_of(self, "PMI_FD") : NULL;
    uint64_t number = 0;
    launch->by_pmix = row->launcher == LAUNCHER_PMIX && (!is_whole || launch->size < 0);
    launch->by_pmi = fd && !is_whole;
    if (!launch->by_pmix && !launch->by_pmi)
        return TRYST_OK;
    if (launch->by_pmi && !number_parse(fd, INT32_MAX, &number))
        return err_set(self->err, TRYST_E_CONFIG,
                       "PMI_FD='%.40s' is not a descriptor; set TRYST_BOOTSTRAP and "
                       "TRYST_TOKEN to run without PMI",
                       fd);
    launch->pmi_fd = (int)number;
    if (!has_address(self)) {
        launch->address_setting = "TRYST_NET";
        launch->port_setting = "TRYST_PORT";
    }
    WHY_ADD(launch, "; %s has the address of rank 0", launch->by_pmi ? "PMI" : "PMIx");
    return TRYST_OK;
}

static tryst_status address_find(struct detecting *self, const struct launcher_row *row)
{
    struct launch *launch = &self->launch;
    const char *address = config_str(self->config, CONFIG_BOOTSTRAP);
    if (launch->size == 1)
        return TRYST_OK;
    if (!address_set(self))
        return TRYST_E_CONFIG;
    tryst_status status = store_find(self, row);
    if (status != TRYST_OK)
        return status;
    if (*address || launch->by_pmix || launch->by_pmi)
        return TRYST_OK;
    if (row->launcher == LAUNCHER_TORCHRUN)
        return torchrun_address(self);
    return err_set(self->err, TRYST_E_CONFIG,
                   "%s started this process as rank %d of %d (%s, %s), but the address "
                   "of rank 0 is unknown: TRYST_BOOTSTRAP is missing; for example: %s   "
                   "(the host of rank 0 and a free port there), and the same for "
                   "TRYST_TOKEN",
                   row->name, launch->rank, launch->size, row->rank, row->size,
                   row->export_by);
}

/* ---- a launcher's variables -------------------------------------------------------- */

static tryst_status sizes_read(struct detecting *self, const struct launcher_row *row)
{
    struct launch *launch = &self->launch;
    tryst_status status = number_of(self, row->size, &launch->size);
    if (status == TRYST_OK)
        status = number_of(self, row->local_rank, &launch->local_rank);
    return status == TRYST_OK ? number_of(self, row->local_size, &launch->local_size)
                              : status;
}

/* Read the numbers from the launcher that uses PMIx. PMIx itself has the number of ranks,
 * and Open MPI and Slurm set a variable with it as well. Open MPI may run inside a Slurm
 * step; Slurm's variables then describe another job. */
static tryst_status pmix_numbers(struct detecting *self)
{
    const char *name_space = value_of(self, "PMIX_NAMESPACE");
    const struct launcher_row *row = NULL;
    struct launch *launch = &self->launch;
    if (value_of(self, "OMPI_COMM_WORLD_SIZE"))
        row = &rows[ROWS - 2];
    else if (strncmp(name_space, "slurm.", 6) == 0)
        row = &rows[ROWS - 1];
    if (!row)
        return TRYST_OK;
    WHY_ADD(launch, " (%s)", row->name);
    return sizes_read(self, row);
}

static tryst_status numbers_read(struct detecting *self, const struct launcher_row *row)
{
    struct launch *launch = &self->launch;
    tryst_status status = number_of(self, row->rank, &launch->rank);
    WHY_ADD(launch, "%s", row->name);
    if (status == TRYST_OK && row->launcher == LAUNCHER_PMIX)
        status = pmix_numbers(self);
    else if (status == TRYST_OK)
        status = sizes_read(self, row);
    WHY_ADD(launch, ": %s=%d, ", row->rank, launch->rank);
    if (launch->size >= 0)
        WHY_ADD(launch, "%d rank%s", launch->size, launch->size == 1 ? "" : "s");
    else
        WHY_ADD(launch, "the number of ranks comes from PMIx");
    return status;
}

/* Let the user's TRYST_* settings replace the launcher's values. */
static void settings_override(struct detecting *self)
{
    static const enum config_id ids[] = {CONFIG_RANK, CONFIG_SIZE, CONFIG_LOCAL_RANK,
                                         CONFIG_LOCAL_SIZE};
    struct launch *launch = &self->launch;
    int *const values[] = {&launch->rank, &launch->size, &launch->local_rank,
                           &launch->local_size};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (setting_of(self, ids[i]) < 0)
            continue;
        *values[i] = setting_of(self, ids[i]);
        WHY_ADD(launch, ", %s=%d", config_environment(ids[i]), *values[i]);
    }
    if (has_address(self))
        WHY_ADD(launch, ", TRYST_BOOTSTRAP=%.80s",
                config_str(self->config, CONFIG_BOOTSTRAP));
}

static tryst_status launcher_row_apply(struct detecting *self,
                                       const struct launcher_row *row)
{
    struct launch *launch = &self->launch;
    launch->launcher = row->launcher;
    tryst_status status = numbers_read(self, row);
    if (status != TRYST_OK)
        return status;
    settings_override(self);
    if (launch->size == 0 || (launch->size > 0 && launch->rank >= launch->size))
        return err_set(self->err, TRYST_E_CONFIG,
                       "%s=%d, but %s=%d: ranks count from 0, the last one is %d",
                       row->rank, launch->rank, row->size, launch->size,
                       launch->size - 1);
    status = address_find(self, row);
    const char *before = "; passed over: ";
    for (const struct launcher_row *other = rows; other < rows + ROWS; other++) {
        if (other->launcher == row->launcher || row_find(self, other) == ABSENT ||
            (row->launcher == LAUNCHER_PMIX && other->launcher > LAUNCHER_PMIX))
            continue;
        WHY_ADD(launch, "%s%s", before, other->name);
        before = ", ";
    }
    return status;
}

/* ---- by TRYST_* -------------------------------------------------------------------- */

static tryst_status own_refuse(struct detecting *self, const bool missing[3])
{
    static const char *const names[] = {"TRYST_RANK", "TRYST_SIZE", "TRYST_BOOTSTRAP"};
    char lists[2][64] = {"", ""}; /* present, missing */
    int count = 0;
    for (int i = 0; i < 3; count += missing[i++])
        (void)text_append(lists[missing[i]], sizeof lists[0], "%s%s",
                          *lists[missing[i]] ? " and " : "", names[i]);
    return err_set(
        self->err, TRYST_E_CONFIG,
        "%s %s set, but %s %s not: each process of a job needs TRYST_RANK, "
        "TRYST_SIZE and TRYST_BOOTSTRAP=host:port (where rank 0 runs); tryst-run "
        "sets them; a single process needs none",
        lists[0], count == 2 ? "is" : "are", lists[1], count == 1 ? "is" : "are");
}

static tryst_status own_settings_apply(struct detecting *self)
{
    struct launch *launch = &self->launch;
    int rank = setting_of(self, CONFIG_RANK), size = setting_of(self, CONFIG_SIZE);
    bool no_rank = rank < 0, no_size = size < 0, no_address = !has_address(self);
    launch->launcher = LAUNCHER_TRYST;
    if (no_rank && no_size && no_address) {
        launch->launcher = LAUNCHER_NONE;
        rank = 0;
        size = 1;
        WHY_ADD(launch, "no launcher: one process alone");
    } else if (size == 1 && no_rank) {
        rank = 0;
    } else if (size != 0 && (no_rank || no_size || (no_address && size > 1))) {
        return own_refuse(self, (const bool[]){no_rank, no_size, no_address});
    }
    if (size == 0)
        return err_set(
            self->err, TRYST_E_CONFIG,
            "TRYST_SIZE is 0, but a job has at least one rank; set it to the number "
            "of ranks");
    if (rank >= size)
        return err_set(
            self->err, TRYST_E_CONFIG,
            "TRYST_RANK=%d, but TRYST_SIZE=%d: ranks count from 0, the last one is %d",
            rank, size, size - 1);
    if (!address_set(self))
        return TRYST_E_CONFIG;
    launch->rank = rank;
    launch->size = size;
    launch->local_rank = setting_of(self, CONFIG_LOCAL_RANK);
    launch->local_size = setting_of(self, CONFIG_LOCAL_SIZE);
    if (launch->launcher == LAUNCHER_TRYST)
        WHY_ADD(launch, "tryst-run or by hand: TRYST_RANK=%d, TRYST_SIZE=%d%s%.80s", rank,
                size, *launch->address ? ", TRYST_BOOTSTRAP=" : "", launch->address);
    return TRYST_OK;
}

static tryst_status detect(struct detecting *self)
{
    const struct launcher_row *half = NULL;
    int rank = setting_of(self, CONFIG_RANK), size = setting_of(self, CONFIG_SIZE);
    if ((rank >= 0 && size >= 0) || size == 1 || size == 0)
        return own_settings_apply(self);
    for (size_t i = 0; i < ROWS; i++) {
        enum found found = row_find(self, &rows[i]);
        if (found == WHOLE)
            return launcher_row_apply(self, &rows[i]);
        if (found == HALF && !half)
            half = &rows[i];
    }
    return half ? half_refuse(self, half) : own_settings_apply(self);
}

tryst_status launch_detect(const struct config *config, char *(*get)(const char *name),
                           struct err *err, struct launch *launch_p)
{
    struct detecting self = {
        .config = config,
        .get = get,
        .err = err,
        .launch = {.rank = -1, .size = -1, .local_rank = -1, .local_size = -1}};
    struct launch *launch = &self.launch;
    tryst_status status = detect(&self);
    if (status != TRYST_OK)
        return status;
    launch_job_find(config, get, launch->launcher, launch->job);
    if (launch->size != 1 && *launch->job)
        WHY_ADD(launch, "; job %s", launch->job);
    *launch_p = *launch;
    return status;
}
