/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_WEIGHTS_H
#define TRYST_WEIGHTS_H

#include <tryst/stage.h>

TRYST_BEGIN_DECLS

TRYST_API tryst_status tryst_stage_weights_copy(tryst_stage *stage, float *weights);

TRYST_API int tryst_model_parameter_visit(const tryst_model *model, tryst_parameter_fn fn,
                                          void *arg);

TRYST_API uint64_t tryst_model_weights_count(const tryst_model *model);

#define TRYST_DIGEST_TEXT_BYTES 33

TRYST_API void tryst_weights_digest(const float *weights, uint64_t weights_count,
                                    char digest[TRYST_DIGEST_TEXT_BYTES]);

TRYST_API tryst_status tryst_weights_save(const tryst_model *model, const float *weights,
                                          uint64_t weights_count, const char *path);

TRYST_END_DECLS

#endif
