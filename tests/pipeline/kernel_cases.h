/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of a table against the reference: one table of cases, run by the
 * emulation's test and by the test for GPUs. */
#ifndef TRYST_TESTS_PIPELINE_KERNEL_CASES_H
#define TRYST_TESTS_PIPELINE_KERNEL_CASES_H

#include "pipeline/device/device_kernels.h"

enum { OPERANDS_MAX = 12, SHAPE_MAX = 4 };

typedef enum operand_type {
    OPERAND_T,
    OPERAND_WIDE,
    OPERAND_BYTES,
    OPERAND_F64
} operand_type;

/** An array of a case, filled with numbers in ±bound (0: in [0, 1)). */
typedef struct operand {
    operand_type type;
    bool is_output;
    uint64_t count;
    double bound;
} operand;

typedef struct kernel_run {
    const device_kernels *kernels;
    const device_lane *lane;
    void *at[OPERANDS_MAX];
    const int32_t *shape;
} kernel_run;

typedef struct kernel_case {
    const char *name;
    /** Fill `operands`; return how many there are. */
    int (*describe)(const int32_t *shape, operand *operands);
    void (*run)(const kernel_run *run);
    /** Shapes to run. */
    const int32_t (*shapes)[SHAPE_MAX];
    int32_t shapes_count;
    /** A shape that fills a GPU, and its number of flops, where products are counted: for
     *  benchmarks. */
    int32_t large[SHAPE_MAX];
    double (*flops)(const int32_t *shape);
} kernel_case;

extern const kernel_case kernel_cases[];
extern const int kernel_cases_count;

/** The arrays of a case for one shape, in one session. */
typedef struct kernel_arrays {
    device_session *session;
    operand operands[OPERANDS_MAX];
    int operands_count;
    kernel_run run;
} kernel_arrays;

/** Give the lanes of a session the workspace that a stage would, to run kernels without a
 *  stage. */
void kernel_workspace_open(device_session *session);
void kernel_workspace_close(device_session *session);

/** Make arrays with seeded contents: equal seeds give equal bytes in each session of one
 *  precision. Any failure fails the test. The calls enter and leave the session
 *  themselves. */
kernel_arrays kernel_arrays_open(device_session *session, const kernel_case *with,
                                 const int32_t *shape, uint64_t seed);
void kernel_arrays_close(kernel_arrays *arrays);
uint64_t kernel_arrays_bytes(const kernel_arrays *arrays, int i);
/** Return operand `i` in host memory; the caller frees it. */
void *kernel_arrays_fetch(kernel_arrays *arrays, int i);
void kernel_arrays_run(kernel_arrays *arrays, const kernel_case *with);

/** Run a case at a shape on `session` and on the reference: the outputs must agree within
 *  the precision's tolerance, and the inputs must be unchanged. */
void kernel_case_check(device_session *session, const kernel_case *with,
                       const int32_t *shape);

/** Run a case twice, with `between` (may be NULL) in the middle: the bits must be
 *  equal. */
void kernel_case_check_repeats(device_session *session, const kernel_case *with,
                               const int32_t *shape, void (*between)(void));

#endif
