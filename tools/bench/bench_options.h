/* SPDX-License-Identifier: Apache-2.0 */
/* Reads pp_bench's command line, and checks it before any rank starts. */
#ifndef TRYST_TOOLS_BENCH_BENCH_OPTIONS_H
#define TRYST_TOOLS_BENCH_BENCH_OPTIONS_H

#include <stdbool.h>
#include <tryst/data.h>
#include <tryst/pipeline.h>

#include "tools/options.h"

/** Device and precision of the stages. All zero: on the host, in fp32. */
struct bench_device {
    tryst_memory_kind memory;
    bool ordinal_given; /**< `ordinal` is the device of all ranks; false: by topology */
    int ordinal;
    const char *topology; /**< file with the topology of each host; NULL: detect it */
    bool reference;       /**< run the device stages over plain C kernels on the host */
    tryst_precision precision;
    bool recompute;
    uint64_t memory_bytes_max; /**< 0: all free memory */
};

struct bench_options {
    int ranks;
    int dp; /**< copies of the schedule's program (--dp) */
    /** The most ranks that a stage is on, by --dp and by schedules of several copies; 1:
     *  no stage is replicated. */
    int replicas;
    bool no_overlap;   /**< sum gradients only behind the last backward */
    tryst_model model; /**< resolved */
    tryst_optimizer optimizer;
    struct bench_device device;
    const char *schedule; /**< name of a generator with options, or path of a file */
    /** Steps of `first_program` before those of `program`, on the same stages. */
    int sync_steps;
    tryst_program *first_program; /**< NULL if sync_steps is 0 */
    int microbatches;             /**< of all replicas */
    int steps;
    const char *data;      /**< path; NULL if the model reads no data */
    const char *transport; /**< NULL: the one of the configuration (TRYST_TRANSPORT) */
    bool check;
    const char *trace;
    const char *timeline;
    const char *report;
    const char *profile;
    const char *save_weights;
    const char *json;
    tryst_program *program; /**< checked */
};

/** Return the name by which the program was called: tryst-bench, or pp_bench. */
const char *bench_name(void);
/** Return the name of schedule `i`; NULL: there is none. */
const char *bench_schedule_name(int i);

/** Read and check the command line. `size` is the number of ranks that a launcher
 *  started, 0 without a launcher. Errors go to stderr, the text of `--help` to stdout.
 *  Sets *options_p only if it returns TOOL_GO; bench_options_close frees what it
 *  holds. */
enum tool_next bench_options_read(int argc, char **argv, int size,
                                  struct bench_options *options_p);
void bench_options_close(struct bench_options *options);
/** True if the stages compute. Those that sleep have no loss and need no cores, so the
 *  cost of their actions is wall time, not CPU time. */
bool bench_computes(const struct bench_options *options);
/** True if the program is a loop. */
bool bench_loops(const tryst_program *program);

#endif
