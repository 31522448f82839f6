/* SPDX-License-Identifier: Apache-2.0 */
/* Which launcher is chosen, what its variables set and what is missing: a table of
 * environments. */
#include "support/unit.h"

#include <string.h>

#include "rendezvous/bootstrap/launch/launch.h"

enum { VARIABLES_MAX = 10 };

/* "NAME=value" pairs of the environment, TRYST_* among them */
static const char *const *variables;

static char *variable_get(const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; i < VARIABLES_MAX && variables[i]; i++)
        if (strncmp(variables[i], name, bytes) == 0 && variables[i][bytes] == '=')
            return (char *)(uintptr_t)variables[i] + bytes + 1;
    return NULL;
}

static tryst_status detect(const char *const *environment, struct err *err,
                           struct launch *launch)
{
    struct config *config = NULL;
    assert_int_equal(config_open_defaults(&config), TRYST_OK);
    variables = environment;
    for (size_t i = 0; i < VARIABLES_MAX && environment[i]; i++) {
        char name[64];
        const char *value = strchr(environment[i], '=');
        if (strncmp(environment[i], "TRYST_", 6) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(value - environment[i]),
                 environment[i]);
        assert_int_equal(config_set(config, name, value + 1, err), TRYST_OK);
    }
    tryst_status status = launch_detect(config, variable_get, err, launch);
    config_close(config);
    return status;
}

#define TORCH   "RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"
#define MASTER  "MASTER_ADDR=node1", "MASTER_PORT=29500"
#define HYDRA   "PMI_RANK=2", "PMI_SIZE=4"
#define MEETING "TRYST_BOOTSTRAP=h:1"
#define TOKEN   "TRYST_TOKEN=0123456789abcdef"
#define SLURM   "SLURM_STEP_ID=0", "SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=4"
#define OMPI    "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4"
#define PMIX    "PMIX_RANK=2", "PMIX_NAMESPACE=slurm.pmix.7.0"

struct found {
    const char *variables[VARIABLES_MAX];
    enum launcher launcher;
    int rank, size, local_rank, local_size;
    const char *address;
    const char *why; /* part of the reason that is reported */
};

static void each_is_found(const struct found *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct found *expected = &cases[i];
        struct launch launch = {.rank = -2};
        struct err err = ERR_INIT;
        tryst_status status = detect(expected->variables, &err, &launch);
        if (status != TRYST_OK || launch.launcher != expected->launcher ||
            strcmp(launch.address, expected->address) != 0 ||
            !strstr(launch.why, expected->why))
            print_error("case %zu (%s): status %d: %s\n%s, at '%s': %s\n", i,
                        expected->variables[0], status, err.text,
                        launcher_name(launch.launcher), launch.address, launch.why);
        assert_int_equal(status, TRYST_OK);
        assert_int_equal(launch.launcher, expected->launcher);
        assert_int_equal(launch.rank, expected->rank);
        assert_int_equal(launch.size, expected->size);
        assert_int_equal(launch.local_rank, expected->local_rank);
        assert_int_equal(launch.local_size, expected->local_size);
        assert_string_equal(launch.address, expected->address);
        assert_non_null(strstr(launch.why, expected->why));
    }
}

/* NOLINTNEXTLINE(readability-function-size): the length is the table's. */
static void launchers_as_a_table(void **state)
{
    static const struct found cases[] = {
        {{NULL}, LAUNCHER_NONE, 0, 1, -1, -1, "", "alone"},
        {{"TRYST_RANK=1", "TRYST_SIZE=3", MEETING, "TRYST_LOCAL_RANK=0"},
         LAUNCHER_TRYST,
         1,
         3,
         0,
         -1,
         "h:1",
         "by hand"},
        {{TORCH, MASTER}, LAUNCHER_TORCHRUN, 2, 4, 1, 2, "node1:29501", "MASTER_PORT+1"},
        {{TORCH, MASTER, "TRYST_PORT=4711"},
         LAUNCHER_TORCHRUN,
         2,
         4,
         1,
         2,
         "node1:4711",
         "MASTER_ADDR, TRYST_PORT"},
        {{TORCH, "MASTER_ADDR=node1", "TRYST_PORT=4711"},
         LAUNCHER_TORCHRUN,
         2,
         4,
         1,
         2,
         "node1:4711",
         "TRYST_PORT"},
        {{TORCH, "MASTER_ADDR=fd00::1", "MASTER_PORT=1"},
         LAUNCHER_TORCHRUN,
         2,
         4,
         1,
         2,
         "[fd00::1]:2",
         ""},
        {{TORCH, MASTER, "TRYST_PORT_RANGE=29501-29600"},
         LAUNCHER_TORCHRUN,
         2,
         4,
         1,
         2,
         "node1:29501",
         ""},
        {{TORCH, MASTER, "TRYST_PORT_RANGE=4711", "TRYST_PORT=9"},
         LAUNCHER_TORCHRUN,
         2,
         4,
         1,
         2,
         "node1:9",
         ""},
        {{"RANK=0", "WORLD_SIZE=1"}, LAUNCHER_TORCHRUN, 0, 1, -1, -1, "", "torchrun"},
        {{HYDRA, "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2", MEETING},
         LAUNCHER_HYDRA,
         2,
         4,
         0,
         2,
         "h:1",
         "hydra: PMI_RANK=2, 4 ranks"},
        {{"PMI_RANK=0", "PMI_SIZE=1"}, LAUNCHER_HYDRA, 0, 1, -1, -1, "", "hydra"},
        {{SLURM, "SLURM_LOCALID=0", MEETING},
         LAUNCHER_SLURM,
         2,
         4,
         0,
         -1,
         "h:1",
         "slurm: SLURM_PROCID=2, 4 ranks"},
        {{OMPI, MEETING}, LAUNCHER_OPENMPI, 2, 4, -1, -1, "h:1", "openmpi"},
    };
    each_is_found(cases, COUNT_OF(cases));
}

/* The first complete launcher counts, inner ones before outer ones; TRYST_* comes before
 * all. */
static void several_launchers_have_an_order(void **state)
{
    static const struct found cases[] = {
        {{TORCH, MASTER, SLURM},
         LAUNCHER_TORCHRUN,
         2,
         4,
         1,
         2,
         "node1:29501",
         "; passed over: slurm"},
        {{"PMI_RANK=1", "PMI_SIZE=3", SLURM, MEETING},
         LAUNCHER_HYDRA,
         1,
         3,
         -1,
         -1,
         "h:1",
         "; passed over: slurm"},
        /* an incomplete launcher does not count beside a complete one */
        {{"MASTER_ADDR=x", "WORLD_SIZE=9", HYDRA, MEETING},
         LAUNCHER_HYDRA,
         2,
         4,
         -1,
         -1,
         "h:1",
         "; passed over: torchrun"},
        {{"RANK=1", HYDRA, MEETING}, LAUNCHER_HYDRA, 2, 4, -1, -1, "h:1", "hydra"},
        {{"TRYST_RANK=0", "TRYST_SIZE=2", TORCH, MASTER, MEETING},
         LAUNCHER_TRYST,
         0,
         2,
         -1,
         -1,
         "h:1",
         "by hand"},
        {{"TRYST_RANK=3", "TRYST_LOCAL_RANK=0", MEETING, TORCH, MASTER},
         LAUNCHER_TORCHRUN,
         3,
         4,
         0,
         2,
         "h:1",
         ", TRYST_RANK=3"},
        {{"TRYST_SIZE=1", TORCH, MASTER}, LAUNCHER_TRYST, 0, 1, -1, -1, "", "by hand"},
        /* variables that do not prove a launcher: a batch script, an exported address */
        {{"SLURM_PROCID=0", "SLURM_NTASKS=4"}, LAUNCHER_NONE, 0, 1, -1, -1, "", "alone"},
        {{MASTER}, LAUNCHER_NONE, 0, 1, -1, -1, "", "alone"},
        {{"RANK=3"}, LAUNCHER_NONE, 0, 1, -1, -1, "", "alone"},
        {{"PMI_RANK=", "RANK="}, LAUNCHER_NONE, 0, 1, -1, -1, "", "alone"},
    };
    each_is_found(cases, COUNT_OF(cases));
}

static void what_is_missing_is_named(void **state)
{
    static const struct {
        const char *variables[VARIABLES_MAX];
        const char *text;
    } cases[] = {
        {{"RANK=0", "WORLD_SIZE=2"},
         "RANK, WORLD_SIZE set, but not MASTER_ADDR, MASTER_PORT"},
        {{"RANK=0", "MASTER_ADDR=h"}, "set, but not WORLD_SIZE, MASTER_PORT"},
        {{"LOCAL_RANK=0", "WORLD_SIZE=2", MASTER}, "set, but not RANK;"},
        {{TORCH, MASTER, "TRYST_PORT_RANGE=30000-30009"},
         "port 29501, which TRYST_PORT_RANGE leaves out; set TRYST_PORT"},
        {{TORCH, "MASTER_ADDR=h", "MASTER_PORT=65535"}, "MASTER_PORT='65535'"},
        {{TORCH, "MASTER_ADDR=h", "MASTER_PORT=http"}, "MASTER_PORT='http'"},
        {{"RANK=4", "WORLD_SIZE=4", MASTER}, "RANK=4, but WORLD_SIZE=4"},
        {{"RANK=two", "WORLD_SIZE=4", MASTER}, "RANK='two' is not a number"},
        {{"RANK=-1", "WORLD_SIZE=4", MASTER}, "RANK='-1' is not a number"},
        {{HYDRA}, "TRYST_BOOTSTRAP is missing; for example: mpiexec.hydra -genv"},
        {{HYDRA, "PMI_FD=x"}, "PMI_FD='x' is not a descriptor"},
        {{"PMI_RANK=0"}, "PMI_RANK set, but not PMI_SIZE"},
        {{"PMI_SIZE=2", MEETING}, "PMI_SIZE set, but not PMI_RANK"},
        {{SLURM}, "TRYST_BOOTSTRAP is missing; for example: srun --mpi=pmix"},
        {{OMPI}, "TRYST_BOOTSTRAP is missing; for example: mpirun -x"},
        {{"TRYST_RANK=1"},
         "TRYST_RANK is set, but TRYST_SIZE and TRYST_BOOTSTRAP are not"},
        {{"TRYST_RANK=7", HYDRA, MEETING}, "PMI_RANK=7, but PMI_SIZE=4"},
#ifndef TRYST_HAVE_PMIX
        {{PMIX}, "this build has no PMIx; build it with libpmix-dev"},
#else
        {{"PMIX_RANK=1"}, "PMIX_RANK set, but not PMIX_NAMESPACE"},
#endif
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct launch launch;
        struct err err = ERR_INIT;
        tryst_status status = detect(cases[i].variables, &err, &launch);
        if (status != TRYST_E_CONFIG || !strstr(err.text, cases[i].text))
            print_error("case %zu (%s): status %d: %s\n", i, cases[i].variables[0],
                        status, err.text);
        assert_int_equal(status, TRYST_E_CONFIG);
        assert_non_null(strstr(err.text, cases[i].text));
    }
}

/* NOLINTNEXTLINE(readability-function-size): the length is the table's. */
static void identities_as_a_table(void **state)
{
    static const struct {
        const char *variables[VARIABLES_MAX];
        const char *job;
    } cases[] = {
        {{TORCH, MASTER}, ""},
        {{TORCH, MASTER, "TORCHELASTIC_RUN_ID=a", "TORCHELASTIC_RESTART_COUNT=2",
          "SLURM_JOB_ID=7"},
         "TORCHELASTIC_RUN_ID=a"},
        /* torchrun's default is not a name; its agents may be of several steps */
        {{TORCH, MASTER, "TORCHELASTIC_RUN_ID=none"}, ""},
        {{TORCH, MASTER, "TORCHELASTIC_RUN_ID=none", "SLURM_JOB_ID=7", "SLURM_STEP_ID=1"},
         "SLURM_JOB_ID=7"},
        /* torchrun's variables, but not its doing */
        {{TORCH, MASTER, "SLURM_JOB_ID=7", "SLURM_STEP_ID=1"},
         "SLURM_JOB_ID=7, SLURM_STEP_ID=1"},
        {{HYDRA, MEETING}, ""},
        {{HYDRA, MEETING, "PMI_JOBID=7.0", "SLURM_JOB_ID=7"}, "PMI_JOBID=7.0"},
        {{HYDRA, MEETING, "SLURM_JOB_ID=7", "SLURM_STEP_ID=3"}, "SLURM_JOB_ID=7"},
        {{OMPI, MEETING, "OMPI_MCA_ess_base_jobid=99", "SLURM_JOB_ID=7"},
         "OMPI_MCA_ess_base_jobid=99"},
        {{SLURM, MEETING, "SLURM_JOB_ID=7"}, "SLURM_JOB_ID=7, SLURM_STEP_ID=0"},
        {{SLURM, MEETING, "SLURM_JOB_ID=7", "TRYST_JOB=mine"}, "TRYST_JOB=mine"},
        {{"TRYST_RANK=1", "TRYST_SIZE=3", MEETING}, ""},
        {{"TRYST_RANK=1", "TRYST_SIZE=3", MEETING, "TRYST_JOB=x y"}, "TRYST_JOB=x y"},
        {{"TRYST_RANK=1", "TRYST_SIZE=3", MEETING, "SLURM_JOB_ID=7"}, "SLURM_JOB_ID=7"},
        {{"TRYST_RANK=1", "TRYST_SIZE=3", MEETING, "SLURM_JOB_ID=7", "PMIX_NAMESPACE=n"},
         "PMIX_NAMESPACE=n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct launch launch;
        struct err err = ERR_INIT;
        assert_int_equal(detect(cases[i].variables, &err, &launch), TRYST_OK);
        if (strcmp(launch.job, cases[i].job) != 0)
            print_error("case %zu: '%s', not '%s'\n", i, launch.job, cases[i].job);
        assert_string_equal(launch.job, cases[i].job);
        if (*launch.job)
            assert_non_null(strstr(launch.why, launch.job));
    }
}

/* Two long identities that differ at their end stay two. */
static void long_identities_differ(void **state)
{
    static const char *const ends[] = {"a", "b"};
    char values[2][700], jobs[2][BOOTSTRAP_JOB_BYTES];
    for (int i = 0; i < 2; i++) {
        const char *environment[VARIABLES_MAX] = {"TRYST_RANK=1", "TRYST_SIZE=3", MEETING,
                                                  values[i]};
        struct launch launch;
        struct err err = ERR_INIT;
        snprintf(values[i], sizeof values[i], "TORCHELASTIC_RUN_ID=%0600d%s", 0, ends[i]);
        assert_int_equal(detect(environment, &err, &launch), TRYST_OK);
        assert_int_equal(strlen(launch.job), sizeof launch.job - 1);
        assert_ptr_equal(strstr(launch.job, "TORCHELASTIC_RUN_ID=0000"), launch.job);
        memcpy(jobs[i], launch.job, sizeof jobs[i]);
    }
    assert_string_not_equal(jobs[0], jobs[1]);
}

/* Messages name the settings from which the address comes. */
static void settings_of_the_address(void **state)
{
    static const struct {
        const char *variables[VARIABLES_MAX];
        const char *address, *port;
    } cases[] = {
        {{TORCH, MASTER},
         "MASTER_ADDR, MASTER_PORT, TRYST_PORT",
         "TRYST_PORT (now: MASTER_PORT+1)"},
        {{TORCH, MASTER, "TRYST_PORT=9"},
         "MASTER_ADDR, MASTER_PORT, TRYST_PORT",
         "TRYST_PORT"},
        {{TORCH, MASTER, MEETING}, "TRYST_BOOTSTRAP", "TRYST_BOOTSTRAP"},
        {{"TRYST_RANK=1", "TRYST_SIZE=3", MEETING}, "TRYST_BOOTSTRAP", "TRYST_BOOTSTRAP"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct launch launch;
        struct err err = ERR_INIT;
        assert_int_equal(detect(cases[i].variables, &err, &launch), TRYST_OK);
        assert_string_equal(launch.address_setting, cases[i].address);
        assert_string_equal(launch.port_setting, cases[i].port);
    }
}

static void pmi_is_asked_for_what_is_missing(void **state)
{
    static const struct {
        const char *variables[VARIABLES_MAX];
        bool by_pmi;
    } cases[] = {
        {{HYDRA, "PMI_FD=9"}, true},
        {{HYDRA, "PMI_FD=9", MEETING}, true}, /* the token is missing */
        {{HYDRA, "PMI_FD=9", TOKEN}, true},   /* the address is */
        {{HYDRA, "PMI_FD=9", MEETING, TOKEN}, false},
        {{HYDRA, "PMI_FD=x", MEETING, TOKEN}, false},
        {{HYDRA, MEETING}, false},
        {{HYDRA, "PMI_FD=9", "TRYST_RANK=0", "TRYST_SIZE=1"}, false},
        {{"PMI_RANK=0", "PMI_SIZE=1", "PMI_FD=9"}, false},
        {{SLURM, "PMI_FD=9", MEETING}, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct launch launch;
        struct err err = ERR_INIT;
        assert_int_equal(detect(cases[i].variables, &err, &launch), TRYST_OK);
        if (launch.by_pmi != cases[i].by_pmi)
            print_error("case %zu: %s\n", i, launch.why);
        assert_int_equal(launch.by_pmi, cases[i].by_pmi);
        assert_false(launch.by_pmix);
        assert_int_equal(launch.pmi_fd, launch.by_pmi ? 9 : 0);
        assert_int_equal(strstr(launch.why, "; PMI has the address") != NULL,
                         launch.by_pmi);
    }
}

#ifdef TRYST_HAVE_PMIX
static void pmix_is_asked_for_what_is_missing(void **state)
{
    static const struct found cases[] = {
        {{PMIX, SLURM, "SLURM_LOCALID=1"},
         LAUNCHER_PMIX,
         2,
         4,
         1,
         -1,
         "",
         "pmix (slurm): PMIX_RANK=2, 4 ranks; PMIx has the address"},
        /* the variables of an outer step belong to another job */
        {{"PMIX_RANK=2", "PMIX_NAMESPACE=99", OMPI, "SLURM_STEP_ID=0", "SLURM_PROCID=0",
          "SLURM_STEP_NUM_TASKS=1"},
         LAUNCHER_PMIX,
         2,
         4,
         -1,
         -1,
         "",
         "pmix (openmpi)"},
        {{"PMIX_RANK=2", "PMIX_NAMESPACE=99"},
         LAUNCHER_PMIX,
         2,
         -1,
         -1,
         -1,
         "",
         "the number of ranks comes from PMIx"},
        {{PMIX, SLURM, MEETING}, LAUNCHER_PMIX, 2, 4, -1, -1, "h:1", "PMIx has"},
        {{HYDRA, MEETING, PMIX},
         LAUNCHER_HYDRA,
         2,
         4,
         -1,
         -1,
         "h:1",
         "; passed over: pmix"},
    };
    static const char *const all_said[VARIABLES_MAX] = {PMIX, SLURM, MEETING, TOKEN};
    struct launch launch;
    struct err err = ERR_INIT;
    each_is_found(cases, COUNT_OF(cases));
    assert_int_equal(detect(cases[0].variables, &err, &launch), TRYST_OK);
    assert_true(launch.by_pmix);
    assert_string_equal(launch.job, "PMIX_NAMESPACE=slurm.pmix.7.0");
    assert_string_equal(launch.address_setting, "TRYST_NET");
    assert_int_equal(detect(all_said, &err, &launch), TRYST_OK);
    assert_false(launch.by_pmix);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_as_a_table),
        cmocka_unit_test(several_launchers_have_an_order),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(identities_as_a_table),
        cmocka_unit_test(long_identities_differ),
        cmocka_unit_test(settings_of_the_address),
        cmocka_unit_test(pmi_is_asked_for_what_is_missing),
#ifdef TRYST_HAVE_PMIX
        cmocka_unit_test(pmix_is_asked_for_what_is_missing),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
