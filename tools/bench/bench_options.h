/* SPDX-License-Identifier: Apache-2.0 */
/* pp_bench's command line, read and checked: options from here can run. */
#ifndef TRYST_TOOLS_BENCH_BENCH_OPTIONS_H
#define TRYST_TOOLS_BENCH_BENCH_OPTIONS_H

#include <stdbool.h>
#include <tryst/data.h>
#include <tryst/pipeline.h>

#include "tools/options.h"

/** Device and number format of the stages. All zero: on the host, in fp32. */
struct bench_device {
    tryst_memory_kind memory;
    bool ordinal_given;
    /** device of all ranks; without ordinal_given each rank's device is chosen by
     *  topology */
    int ordinal;
    const char *topology; /**< file with the topology of each host; NULL: detected */
    bool reference;       /**< run the device stages over plain C kernels on the host */
    tryst_precision precision;
    bool recompute;
    uint64_t memory_bytes_max; /**< 0: all free memory */
};

struct bench_options {
    int ranks;
    tryst_model model; /**< resolved */
    tryst_optimizer optimizer;
    struct bench_device device;
    const char *schedule; /**< a generator's name or a file */
    int microbatches;
    int steps;
    const char *data;      /**< path; NULL if the model reads no data */
    const char *transport; /**< NULL: that of the configuration */
    bool check;
    const char *trace;
    const char *timeline;
    const char *save_weights;
    const char *json;
    tryst_engine_fault fault;
    uint64_t fault_step;    /**< counted from 1, as printed */
    tryst_program *program; /**< checked */
};

/** Read and check the command line. `size` is the number of ranks from a launcher, 0
 *  without one. Errors go to stderr, `--help` to stdout. */
enum tool_next bench_options_read(int argc, char **argv, int size,
                                  struct bench_options *options_p);
void bench_options_close(struct bench_options *options);

#endif
