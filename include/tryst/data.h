/* SPDX-License-Identifier: Apache-2.0 */
/** @file data.h
 *  Training data: the bytes of any file, read in windows. Library: libtryst_pipeline.
 *
 *  Row `row` of micro-batch `microbatch` of step `step` is a window of seq + 1 bytes at
 *  an offset that a seeded generator gives for (seed, step, microbatch, row) alone. So
 *  every rank computes the same windows by itself: the first stage takes bytes 0…seq−1 as
 *  input, the last stage bytes 1…seq as target, and nothing is sent.
 *  pipeline/model/README.md gives the formula.
 */
#ifndef TRYST_DATA_H
#define TRYST_DATA_H

#include <tryst/types.h>

TRYST_BEGIN_DECLS

/** An open data file. */
typedef struct tryst_data tryst_data;

/** Open the regular file `path` for windows of `seq` bytes and their successors.
 *
 *  Owns:    the caller owns `*data_p`; the file is held open, not read into memory.
 *  Returns: TRYST_OK
 *           TRYST_E_IO       missing, unreadable, not a regular file, or shorter than a
 *                            window (seq + 1 bytes); tryst_last_error names it
 *           TRYST_E_INVALID  seq < 1
 *           TRYST_E_NOMEM
 *  Blocks:  for the system calls.
 */
TRYST_API tryst_status tryst_data_open(const char *path, int32_t seq, uint64_t seed,
                                       tryst_data **data_p);

/** Read the windows of one micro-batch, `rows` of them, each [seq] bytes, row after row.
 *  `input` and `target` may each be NULL.
 *
 *  Thread:  any; reads only.
 *  Returns: TRYST_OK, or TRYST_E_IO (the file became shorter, or a read failed)
 */
TRYST_API tryst_status tryst_data_windows(const tryst_data *data, uint64_t step,
                                          uint64_t microbatch, int32_t rows,
                                          uint8_t *input, uint8_t *target);

/** Return the offset in the file, in bytes, of one window that tryst_data_windows reads.
 *  Any thread. */
TRYST_API uint64_t tryst_data_offset(const tryst_data *data, uint64_t step,
                                     uint64_t microbatch, int32_t row);

/** Return the bytes that the file had at tryst_data_open. 0 for NULL. */
TRYST_API uint64_t tryst_data_bytes(const tryst_data *data);

/** Close the file. NULL is allowed. */
TRYST_API void tryst_data_close(tryst_data *data);

TRYST_END_DECLS

#endif
