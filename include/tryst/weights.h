/* SPDX-License-Identifier: Apache-2.0 */
/** @file weights.h
 *  The weights of a whole model as one array: fp32, little-endian, tensor after tensor in
 *  layer order, without gaps. Stages are consecutive layers, so the array is the
 *  concatenation of what tryst_stage_weights_copy gives for stage 0, 1, …, on whatever
 *  ranks they ran. Library: libtryst_pipeline.
 */
#ifndef TRYST_WEIGHTS_H
#define TRYST_WEIGHTS_H

#include <tryst/stage.h>

TRYST_BEGIN_DECLS

/** Copy the newest weights of `stage` to `weights`, stage->info.weights_count floats.
 *  Returns: TRYST_OK, TRYST_E_UNSUPPORTED when a parameter is not F32, or the stage's
 *           failure (TRYST_E_SYSTEM, TRYST_E_DEADLINE) */
TRYST_API tryst_status tryst_stage_weights_copy(tryst_stage *stage, float *weights);

/** Visit every parameter of `model` in layer order, without building the model: value and
 *  gradient are NULL. Returns the value with which `fn` stopped; 0 at the end; -1 where
 *  the model is not valid. */
TRYST_API int tryst_model_parameter_visit(const tryst_model *model, tryst_parameter_fn fn,
                                          void *arg);

/** Return the number of parameters (elements) of the whole model; 0 where it is not
 *  valid. */
TRYST_API uint64_t tryst_model_weights_count(const tryst_model *model);

/** Bytes of a digest as text, with the terminator. */
#define TRYST_DIGEST_TEXT_BYTES 33

/** Write XXH3-128 of `weights` as 32 lower-case hexadecimal digits in canonical
 *  (big-endian) order, as `xxhsum -H2` prints it. If `digest` is NULL, or `weights` is
 *  NULL and the count is not 0, tryst_last_error names it and `digest` becomes empty. */
TRYST_API void tryst_weights_digest(const float *weights, uint64_t weights_count,
                                    char digest[TRYST_DIGEST_TEXT_BYTES]);

/** Write all weights of `model` to `path` in safetensors form, each tensor under its
 *  name, with the model's fields as metadata. The file appears whole or not at all.
 *
 *  Returns: TRYST_OK
 *           TRYST_E_INVALID  weights_count is not tryst_model_weights_count(model)
 *           TRYST_E_IO       tryst_last_error gives the reason
 *           TRYST_E_NOMEM
 */
TRYST_API tryst_status tryst_weights_save(const tryst_model *model, const float *weights,
                                          uint64_t weights_count, const char *path);

TRYST_END_DECLS

#endif
