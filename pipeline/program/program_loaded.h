/* SPDX-License-Identifier: Apache-2.0 */
/* Completes a program after its lists were read from a file. */
#ifndef TRYST_PIPELINE_PROGRAM_PROGRAM_LOADED_H
#define TRYST_PIPELINE_PROGRAM_PROGRAM_LOADED_H

#include "program.h"

/** Count the stages and micro-batches of `program`, add empty lists up to `rows_count`,
 *  the rows of its file, and append UPDATEs where the file has none. Drops REDUCE_GRADs
 *  of stages that one rank alone has. `path` is named in errors. The program stays the
 *  caller's, also after an error.
 *  Returns: TRYST_OK, TRYST_E_PROGRAM (tryst_last_error explains), TRYST_E_NOMEM (no
 *           tryst_last_error) */
tryst_status program_loaded_complete(tryst_program *program, const char *path,
                                     int rows_count);

/** Give the program at least `ranks_count` lists. Returns TRYST_OK or TRYST_E_NOMEM, and
 *  sets no tryst_last_error. */
tryst_status program_loaded_add_ranks(tryst_program *program, int ranks_count);

#endif
