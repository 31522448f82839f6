/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of a table against the reference: one table of cases, run by the
 * emulation's test and by the test for GPUs. */
#ifndef TRYST_TESTS_PIPELINE_KERNEL_CASES_H
#define TRYST_TESTS_PIPELINE_KERNEL_CASES_H

#include "pipeline/device/device_kernels.h"

enum { OPERANDS_MAX = 12, SHAPE_MAX = 4 };

enum operand_type { OPERAND_T, OPERAND_WIDE, OPERAND_BYTES, OPERAND_F64 };

/** An array of a case, filled with numbers in ±bound (0: in [0, 1)). */
struct operand {
    enum operand_type type;
    bool is_output;
    uint64_t count;
    double bound;
};

struct kernel_run {
    const struct device_kernels *kernels;
    const struct device_lane *lane;
    void *at[OPERANDS_MAX];
    const int32_t *shape;
};

struct kernel_case {
    const char *name;
    /** Fill `operands`; return how many there are. */
    int (*describe)(const int32_t *shape, struct operand *operands);
    void (*run)(const struct kernel_run *run);
    /** Shapes to run. */
    const int32_t (*shapes)[SHAPE_MAX];
    int32_t shapes_count;
    /** A shape that fills a GPU, and its number of flops, where products are counted: for
     *  benchmarks. */
    int32_t large[SHAPE_MAX];
    double (*flops)(const int32_t *shape);
};

extern const struct kernel_case kernel_cases[];
extern const int kernel_cases_count;

/** The arrays of a case for one shape, in one session. */
struct kernel_arrays {
    struct device_session *session;
    struct operand operands[OPERANDS_MAX];
    int operands_count;
    struct kernel_run run;
};

/** Give the lanes of a session the workspace that a stage would, to run kernels without a
 *  stage. */
void kernel_workspace_open(struct device_session *session);
void kernel_workspace_close(struct device_session *session);

/** Make arrays with seeded contents: equal seeds give equal bytes in each session of one
 *  precision. Any failure fails the test. The calls enter and leave the session
 *  themselves. */
struct kernel_arrays kernel_arrays_open(struct device_session *session,
                                        const struct kernel_case *with,
                                        const int32_t *shape, uint64_t seed);
void kernel_arrays_close(struct kernel_arrays *arrays);
uint64_t kernel_arrays_bytes(const struct kernel_arrays *arrays, int i);
/** Return operand `i` in host memory; the caller frees it. */
void *kernel_arrays_fetch(struct kernel_arrays *arrays, int i);
void kernel_arrays_run(struct kernel_arrays *arrays, const struct kernel_case *with);

/** Run a case at a shape on `session` and on the reference: the outputs must agree within
 *  the precision's tolerance, and the inputs must be unchanged. */
void kernel_case_check(struct device_session *session, const struct kernel_case *with,
                       const int32_t *shape);

/** Run a case twice, with `between` (may be NULL) in the middle: the bits must be
 *  equal. */
void kernel_case_check_repeats(struct device_session *session,
                               const struct kernel_case *with, const int32_t *shape,
                               void (*between)(void));

#endif
