/* SPDX-License-Identifier: Apache-2.0 */
/* pp_bench's command line, read and checked: what comes out of here can run. */
#ifndef TRYST_TOOLS_BENCH_OPTIONS_H
#define TRYST_TOOLS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <tryst/data.h>
#include <tryst/pipeline.h>

#include "tools/options.h"

/* Where and in which numbers the stages compute. All zero: on the host, in fp32. */
typedef struct bench_device {
    tryst_memory_kind memory;
    bool ordinal_given;
    int ordinal;          /* else ranks of a host are placed by what joins its devices */
    const char *topology; /* a file that says that; NULL: detected */
    bool reference;       /* the device stages' code over plain C kernels, on the host */
    tryst_precision precision;
    bool recompute;
    uint64_t memory_bytes_max; /* 0: what is free */
} bench_device;

typedef struct bench_options {
    int ranks;
    tryst_model model; /* resolved */
    tryst_optimizer optimizer;
    bench_device device;
    const char *schedule; /* a generator's name or a file */
    int microbatches;
    int steps;
    const char *data;      /* path; NULL where the model reads none */
    const char *transport; /* NULL: the configuration's */
    bool check;
    const char *trace;
    const char *timeline;
    const char *save_weights;
    const char *json;
    tryst_engine_fault fault;
    uint64_t fault_step;    /* counted from 1, as steps are printed */
    tryst_program *program; /* checked */
} bench_options;

/* Read and check the command line. `size` is the number of ranks that a launcher gave, 0
 * where there is none. Says on stderr what is wrong; `--help` prints on stdout. */
enum tool_next bench_options_read(int argc, char **argv, int size,
                                  bench_options *options_p);
void bench_options_close(bench_options *options);

#endif
