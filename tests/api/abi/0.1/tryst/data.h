/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_DATA_H
#define TRYST_DATA_H

#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_data tryst_data;

TRYST_API tryst_status tryst_data_open(const char *path, int32_t seq, uint64_t seed,
                                       tryst_data **data_p);

TRYST_API tryst_status tryst_data_windows(const tryst_data *data, uint64_t step,
                                          uint64_t microbatch, int32_t rows,
                                          uint8_t *input, uint8_t *target);

TRYST_API uint64_t tryst_data_offset(const tryst_data *data, uint64_t step,
                                     uint64_t microbatch, int32_t row);

TRYST_API uint64_t tryst_data_bytes(const tryst_data *data);

TRYST_API void tryst_data_close(tryst_data *data);

TRYST_END_DECLS

#endif
