/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of this process: rank, size and the address of rank 0, from the variables
 * that are set.
 *
 * One idea: a table with a row for each launcher, in the order in which they count. One
 * sentence reports what was found, one what is missing. Invariant: TRYST_* wins, value by
 * value. Of several launchers the first whole row counts; only if none is whole, the
 * first that is half set is an error. Nothing is contacted here: bootstrap_pmix.h and
 * bootstrap_pmi.h get what only PMIx or PMI has. */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_LAUNCH_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "core/config/config.h"
#include "core/text/err.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

/** In the order in which they count: the first may run inside the later ones. */
enum launcher {
    LAUNCHER_NONE,  /**< no launcher: one process alone */
    LAUNCHER_TRYST, /**< TRYST_RANK and TRYST_SIZE: tryst-run, or by hand */
    LAUNCHER_TORCHRUN,
    LAUNCHER_HYDRA,   /**< MPICH's mpiexec */
    LAUNCHER_PMIX,    /**< Open MPI, Slurm (srun --mpi=pmix), PRRTE */
    LAUNCHER_OPENMPI, /**< without PMIx: needs TRYST_BOOTSTRAP too */
    LAUNCHER_SLURM,   /**< without PMIx: needs TRYST_BOOTSTRAP too */
};

#define LAUNCH_WHY_BYTES 512

struct launch {
    enum launcher launcher;
    int rank, size;             /**< size -1: only PMIx has it */
    int local_rank, local_size; /**< -1: not known */
    bool by_pmix;               /**< PMIx is to supply address and token */
    bool by_pmi;                /**< PMI-1 is, through pmi_fd */
    int pmi_fd;                 /**< PMI_FD; valid if by_pmi */
    /** Address of rank 0; "" for a process alone. */
    char address[BOOTSTRAP_ADDRESS_MAX];
    /** The settings that give that address, and its port, for messages. */
    const char *address_setting, *port_setting;
    /** The job's identity, as the variables that give it: "SLURM_JOB_ID=7,
     *  SLURM_STEP_ID=0". "": none. */
    char job[BOOTSTRAP_JOB_BYTES];
    /** The deciding variables, and the launchers passed over. */
    char why[LAUNCH_WHY_BYTES];
};

/** Find the launcher. `get` is getenv, or a test's function. TRYST_OK; TRYST_E_CONFIG:
 *  the variables are half set, contradict each other, or are no numbers; the text names
 *  them, and how to set what is missing. */
tryst_status launch_detect(const struct config *config, char *(*get)(const char *name),
                           struct err *err, struct launch *launch_p);

/** Return the name of a launcher: "torchrun"; "none". */
const char *launcher_name(enum launcher launcher);

#endif
