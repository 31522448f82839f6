/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one cell of a program's CSV file. */
#ifndef TRYST_PIPELINE_PROGRAM_PROGRAM_CELL_H
#define TRYST_PIPELINE_PROGRAM_PROGRAM_CELL_H

#include <tryst/pipeline.h>

/** Limit of a stage and a micro-batch in a cell. */
#define PROGRAM_CELL_NUMBER_MAX 999999

/** Size of a buffer for the longest text of tryst_action_format. */
#define PROGRAM_CELL_TEXT_MAX 128

enum program_cell_kind {
    PROGRAM_CELL_ACTION,
    PROGRAM_CELL_DROPPED, /**< an action of PyTorch's that a program does not have */
    PROGRAM_CELL_BODY,    /**< the body of a loop begins */
    PROGRAM_CELL_EPILOGUE,
    PROGRAM_CELL_RATE /**< see tryst_program_rate_set */
};

struct program_cell {
    enum program_cell_kind kind;
    tryst_action action; /**< of PROGRAM_CELL_ACTION */
    int32_t rate;        /**< of PROGRAM_CELL_RATE */
};

/** Read `text`, which is not a pair. Returns NULL, or the reason why it is not a cell, as
 *  the end of a sentence that begins with the cell. The locale's decimal point must be
 *  ".". */
const char *program_cell_read(const char *text, struct program_cell *cell_p);

#endif
