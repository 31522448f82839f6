/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a program as a grid of text with one place marked. */
#ifndef TRYST_PIPELINE_PROGRAM_PROGRAM_GRID_H
#define TRYST_PIPELINE_PROGRAM_PROGRAM_GRID_H

#include "pipeline/base/sentence.h"
#include "program.h"

/** Limit of the columns: a wider grid is unreadable, and one line replaces it. */
#define PROGRAM_GRID_RANKS_MAX 64

/** The position in a rank's list that a grid marks; rank -1: nothing is marked. */
struct program_place {
    int rank;
    size_t position;
};

/** Append the grid to `out`, with `place` marked. */
void program_grid_add(struct sentence *out, const tryst_program *program,
                      struct program_place place);

#endif
