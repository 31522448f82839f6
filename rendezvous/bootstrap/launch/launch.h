/* SPDX-License-Identifier: Apache-2.0 */
/* What launched this process: rank, size and the way to rank 0, out of whatever variables are
 * there.
 *
 * One idea: a table with a row for each launcher, in the order in which they count; what is
 * found is said in one sentence, and so is what is missing.
 * Invariant: TRYST_* wins, value by value. Of several launchers the first row that is whole
 * counts; only if none is whole, the first that is half set is an error. Nothing is contacted
 * here: what only PMIx knows is asked for by bootstrap_pmix.h.
 * Callers: bootstrap_env.c, and tryst_launch_find (commsched/settings.c). */
#ifndef TRYST_RENDEZVOUS_LAUNCH_H
#define TRYST_RENDEZVOUS_LAUNCH_H

#include <stdbool.h>

#include "core/config/config.h"
#include "core/text/err.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

/* In the order in which they count: the first may run inside the later ones. */
enum launcher {
    LAUNCHER_NONE,  /* no launcher: this process is alone */
    LAUNCHER_TRYST, /* TRYST_RANK and TRYST_SIZE: tryst-run, or by hand */
    LAUNCHER_TORCHRUN,
    LAUNCHER_HYDRA,   /* MPICH's mpiexec; TRYST_BOOTSTRAP besides */
    LAUNCHER_PMIX,    /* Open MPI, Slurm (srun --mpi=pmix), PRRTE */
    LAUNCHER_OPENMPI, /* without PMIx: TRYST_BOOTSTRAP besides */
    LAUNCHER_SLURM,   /* the same */
};

#define LAUNCH_WHY_BYTES 512

struct launch {
    enum launcher launcher;
    int rank, size;             /* size -1: PMIx alone knows it */
    int local_rank, local_size; /* -1: nobody has said */
    bool by_pmix;               /* address and token are still to come, by PMIx */
    char address[BOOTSTRAP_ADDRESS_MAX]; /* where rank 0 serves; "" for a rank alone */
    char why[LAUNCH_WHY_BYTES]; /* which variables say so; what was passed over */
};

/* `get` is getenv, or a test's. TRYST_E_CONFIG: half set, contradicting or no numbers; the
 * text names the variables and says how to set what is missing. */
tryst_status launch_detect(const struct config *config, char *(*get)(const char *name),
                           struct err *err, struct launch *launch_p);

const char *launcher_name(enum launcher launcher); /* "torchrun"; "none" */

#endif
