/* SPDX-License-Identifier: Apache-2.0 */
/* Runs an engine on each rank of a program, over a fake of the library (fake_tryst.h):
 * ranks are threads, transfers come late and out of order by a seed, stages are canaries
 * that check every byte that they get. */
#ifndef TRYST_TESTS_PIPELINE_ENGINE_JOB_H
#define TRYST_TESTS_PIPELINE_ENGINE_JOB_H

#include <pthread.h>

#include "canary.h"
#include "fake_tryst.h"

enum { JOB_STAGES_MAX = 16, JOB_STEPS = 4 };

struct job;

struct rank_job {
    struct job *owner;
    int rank;
    pthread_t thread;
    tryst_status status;
    char error[1024];
    bool last_error_set; /**< tryst_last_error is the engine's text */
    double loss;
    int losses_wrong; /**< steps with another loss than the mean of their micro-batches */
    tryst_engine_stats stats;
    tryst_engine_cost costs[JOB_STAGES_MAX]; /**< of its own stages; else zeros */
    int posted_first; /**< receives posted when the first step ends */
    /** Bit n: a stage on the device had work left when step n (below 64) ended. */
    uint64_t busy_ends;
    size_t spans_count;
    uint32_t span_kinds; /**< bit k: the last step has a span of kind k */
};

struct job {
    struct fake_world *world;
    const tryst_program *program;
    struct canary stages[JOB_STAGES_MAX];
    struct rank_job ranks[JOB_STAGES_MAX];
    uint64_t steps_count;
    uint64_t first_step; /**< id of the first step */
    bool steps_follow; /**< tryst_engine_params.steps_follow; steps of a loop do anyway */
    uint64_t timeout_ns;
    uint64_t memory_bytes_max;
    int absent_rank;   /**< never starts; -1: none */
    int dying_rank;    /**< stops before step 2 and counts as dead; -1: none */
    int quitting_rank; /**< aborts before step 2; -1: none */
};

/** Seed of the delays, from TRYST_TEST_SEED or the time; job_seed_set prints it. */
extern uint64_t job_seed;
void job_seed_set(void);
/** The stages are on a fake device (fake_device.h). */
extern bool job_on_device;
/** A cmocka setup function that sets job_on_device. */
int job_use_device(void **state);

#define JOB_ON_DEVICE(test)                               \
    {                                                     \
        "device_" #test, test, job_use_device, NULL, NULL \
    }

void job_init(struct job *self, const tryst_program *program, uint64_t delay_max_ns);
/** Run all ranks to their ends. */
void job_run(struct job *self);
/** The thread of one rank. */
void *job_rank_main(void *rank_job);
/** Return the number of objects that are still open. */
int job_close(struct job *self);
/** Check that every rank succeeded, no canary reports an error, receives are posted in
 *  the order of need and with its priorities, and no object is left. */
void job_expect_success(struct job *self, const char *name);
/** Check that all other ranks ended by the death of `dying_rank`, with an error that
 *  names it, and that no object is left. */
void job_expect_death(struct job *self);
/** Check the program, run so many steps of it, and expect success and the right
 *  losses. */
void job_run_steps(const tryst_program *program, uint64_t steps_count,
                   uint64_t delay_max_ns, const char *name);
/** Run JOB_STEPS steps so. */
void job_run_well(const tryst_program *program, uint64_t delay_max_ns, const char *name);

/** Generate a schedule; fail the test where it is not defined. */
tryst_program *job_generate(const char *schedule, int ranks, int microbatches);
/** Generate a schedule; NULL where it is not defined for these counts. */
tryst_program *job_generate_if(const char *schedule, int ranks, int microbatches);

struct job_listed {
    int rank;
    tryst_action action;
};

/** Make a program of the actions in `list`. */
tryst_program *job_program(int ranks, int stages, int microbatches,
                           const struct job_listed *list, size_t count);

/* Entries of such a list: rank, stage, micro-batch, version. */
#define JOB_ACTION(r, k, s, m, v)     \
    {                                 \
        .rank = (r), .action = {      \
            .kind = TRYST_ACTION_##k, \
            .stage = (s),             \
            .microbatch = (m),        \
            .version = (v)            \
        }                             \
    }
#define F(r, s, m, v) JOB_ACTION(r, FORWARD, s, m, v)
#define B(r, s, m, v) JOB_ACTION(r, BACKWARD, s, m, v)
#define I(r, s, m, v) JOB_ACTION(r, INPUT_GRAD, s, m, v)
#define W(r, s, m, v) JOB_ACTION(r, WEIGHT_GRAD, s, m, v)
#define R(r, s, m, v) JOB_ACTION(r, RECOMPUTE, s, m, v)
#define U(r, s, v)    JOB_ACTION(r, UPDATE, s, -1, v)

#endif
