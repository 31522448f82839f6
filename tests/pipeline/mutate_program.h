/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with small faults, by seed: a program is copied to plain lists, changed, and
 * appended to a new program. */
#ifndef TRYST_TESTS_PIPELINE_MUTATE_PROGRAM_H
#define TRYST_TESTS_PIPELINE_MUTATE_PROGRAM_H

#include <tryst/pipeline.h>

/** Change a copy of `program` in `changes` places (at least 1), chosen by `seed`: swap
 *  two neighbours; drop, double or move an action; change its version, slot, micro-batch
 *  or kind; move a mark, or the first action of a body into the step before.
 *
 *  Returns NULL where tryst_program_append or tryst_program_mark refuses the copy, or a
 *  list has no place for the change. The caller closes the program. */
tryst_program *mutate_program(const tryst_program *program, uint64_t seed, int changes);

#endif
