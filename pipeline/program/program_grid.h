/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a program as a grid of text with one place marked. */
#ifndef TRYST_PIPELINE_PROGRAM_PROGRAM_GRID_H
#define TRYST_PIPELINE_PROGRAM_PROGRAM_GRID_H

#include "pipeline/base/text.h"
#include "program.h"

/** A grid of more columns is unreadable. */
#define PROGRAM_GRID_RANKS_MAX 64

/** One action of a rank's list; rank -1: no place. */
struct program_place {
    int rank;
    size_t position;
};

void program_grid_add(struct text *out, const tryst_program *program,
                      struct program_place place);

#endif
