/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of every byte model: the embedding before the first layer, and the final norm,
 * the untied head and the cross-entropy behind the last.
 *
 * The embedding's gradient is a scatter-add in row order, so it is as reproducible as the
 * matrix products. Called through layer_ops. */
#include "kernels.h"
#include "layer.h"

#include <string.h>

/* Initial embeddings are uniform in ±this: a standard deviation of 0.05. */
#define EMBEDDING_BOUND 0.0866

/* ---- embedding ----------------------------------------------------------------------------- */

enum { EMBEDDING_TOKEN, EMBEDDING_POSITION };

static int32_t embedding_tensors(const tryst_model *model, layer_tensor *tensors)
{
    const uint64_t hidden = (uint64_t)model->hidden;
    tensors[EMBEDDING_TOKEN] =
        (layer_tensor){.name = "token.weight",
                       .rank = 2,
                       .shape = {(uint64_t)model->vocabulary, hidden},
                       .bound = EMBEDDING_BOUND};
    if (model->kind != TRYST_MODEL_GPT) {
        return 1;
    }
    tensors[EMBEDDING_POSITION] = (layer_tensor){.name = "position.weight",
                                                 .rank = 2,
                                                 .shape = {(uint64_t)model->seq, hidden},
                                                 .bound = EMBEDDING_BOUND};
    return 2;
}

static uint64_t layer_none(const tryst_model *model)
{
    (void)model;
    return 0;
}

static uint64_t embedding_kept_count(const tryst_model *model)
{
    return real_aligned(layer_activation_count(model));
}

static void embedding_forward(const layer_pass *pass)
{
    const size_t hidden = (size_t)pass->model->hidden, seq = (size_t)pass->model->seq;
    const size_t rows = (size_t)layer_rows(pass->model);
    const uint8_t *bytes = pass->input;
    const real *token = pass->weights[EMBEDDING_TOKEN];
    const real *position = pass->weights[EMBEDDING_POSITION];
    real *output = pass->output;
    for (size_t i = 0; i < rows; i++) {
        const real *row = token + bytes[i] * hidden;
        if (position) {
            real_add(hidden, row, position + (i % seq) * hidden, output + i * hidden);
        } else {
            memcpy(output + i * hidden, row, hidden * sizeof(real));
        }
    }
}

static void embedding_backward_input(const layer_pass *pass)
{
    memcpy(pass->kept, pass->grad_output,
           layer_activation_count(pass->model) * sizeof(real));
}

static void embedding_backward_weight(const layer_pass *pass)
{
    const size_t hidden = (size_t)pass->model->hidden, seq = (size_t)pass->model->seq;
    const size_t rows = (size_t)layer_rows(pass->model);
    const uint8_t *bytes = pass->input;
    for (size_t i = 0; i < rows; i++) {
        const real *gradient = pass->kept + i * hidden;
        real *token = pass->gradients[EMBEDDING_TOKEN] + bytes[i] * hidden;
        real_add(hidden, token, gradient, token);
        if (pass->gradients[EMBEDDING_POSITION]) {
            real *position = pass->gradients[EMBEDDING_POSITION] + (i % seq) * hidden;
            real_add(hidden, position, gradient, position);
        }
    }
}

static double embedding_flops(const tryst_model *model)
{
    return (double)layer_activation_count(model);
}

static double embedding_no_flops(const tryst_model *model)
{
    (void)model;
    return 0;
}

const layer_ops layer_embedding = {
    .prefix = "embedding.",
    .tensors = embedding_tensors,
    .saved_count = layer_none,
    .kept_count = embedding_kept_count,
    .scratch_count = layer_none,
    .forward = embedding_forward,
    .backward_input = embedding_backward_input,
    .backward_weight = embedding_backward_weight,
    .forward_flops = embedding_flops,
    .backward_input_flops = embedding_no_flops,
    .backward_weight_flops = embedding_flops,
};

/* ---- final norm, head and loss ------------------------------------------------------------- */

enum { HEAD_NORM_GAIN, HEAD_NORM_BIAS, HEAD_WEIGHT, HEAD_TENSORS };

typedef struct head_saved {
    real *mean, *rstd;   /* [rows] */
    real *normed;        /* [rows, hidden] */
    real *probabilities; /* [rows, vocabulary] */
} head_saved;

typedef struct head_kept {
    real *dlogits; /* [rows, vocabulary] */
    real *dnormed; /* [rows, hidden] */
} head_kept;

static head_saved head_saved_map(const tryst_model *model, real_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model);
    head_saved saved;
    saved.mean = real_carve(carver, rows);
    saved.rstd = real_carve(carver, rows);
    saved.normed = real_carve(carver, rows * (uint64_t)model->hidden);
    saved.probabilities = real_carve(carver, rows * (uint64_t)model->vocabulary);
    return saved;
}

static head_kept head_kept_map(const tryst_model *model, real_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model);
    head_kept kept;
    kept.dlogits = real_carve(carver, rows * (uint64_t)model->vocabulary);
    kept.dnormed = real_carve(carver, rows * (uint64_t)model->hidden);
    return kept;
}

static int32_t head_tensors(const tryst_model *model, layer_tensor *tensors)
{
    tensors[HEAD_NORM_GAIN] = layer_vector("norm.weight", model->hidden, 1);
    tensors[HEAD_NORM_BIAS] = layer_vector("norm.bias", model->hidden, 0);
    tensors[HEAD_WEIGHT] = layer_matrix("weight", model->vocabulary, model->hidden, 1);
    return HEAD_TENSORS;
}

static uint64_t head_saved_count(const tryst_model *model)
{
    real_carver carver = {0};
    head_saved_map(model, &carver);
    return carver.used;
}

static uint64_t head_kept_count(const tryst_model *model)
{
    real_carver carver = {0};
    head_kept_map(model, &carver);
    return carver.used;
}

static void head_forward(const layer_pass *pass)
{
    const tryst_model *model = pass->model;
    const int rows = layer_rows(model), hidden = model->hidden,
              classes = model->vocabulary;
    head_saved s = head_saved_map(model, &(real_carver){.base = pass->saved});
    norm_forward(rows, hidden, pass->input, pass->weights[HEAD_NORM_GAIN],
                 pass->weights[HEAD_NORM_BIAS], s.normed, s.mean, s.rstd);
    linear_forward(rows, hidden, classes, s.normed, pass->weights[HEAD_WEIGHT], NULL,
                   s.probabilities);
    *(double *)pass->output =
        cross_entropy_forward(rows, classes, pass->target, s.probabilities);
}

static void head_backward_input(const layer_pass *pass)
{
    const tryst_model *model = pass->model;
    const int rows = layer_rows(model), hidden = model->hidden,
              classes = model->vocabulary;
    head_saved s = head_saved_map(model, &(real_carver){.base = pass->saved});
    head_kept k = head_kept_map(model, &(real_carver){.base = pass->kept});
    cross_entropy_backward(rows, classes, pass->target, s.probabilities, k.dlogits);
    linear_backward_input(rows, hidden, classes, k.dlogits, pass->weights[HEAD_WEIGHT],
                          k.dnormed);
    norm_backward_input(rows, hidden, pass->input, pass->weights[HEAD_NORM_GAIN], s.mean,
                        s.rstd, k.dnormed, NULL, pass->grad_input);
}

static void head_backward_weight(const layer_pass *pass)
{
    const tryst_model *model = pass->model;
    const int rows = layer_rows(model), hidden = model->hidden;
    head_saved s = head_saved_map(model, &(real_carver){.base = pass->saved});
    head_kept k = head_kept_map(model, &(real_carver){.base = pass->kept});
    linear_backward_weight(rows, hidden, model->vocabulary, s.normed, k.dlogits,
                           pass->gradients[HEAD_WEIGHT], NULL);
    norm_backward_weight(rows, hidden, pass->input, s.mean, s.rstd, k.dnormed,
                         pass->gradients[HEAD_NORM_GAIN],
                         pass->gradients[HEAD_NORM_BIAS]);
}

static double head_flops(const tryst_model *model)
{
    return 2.0 * (double)layer_activation_count(model) * model->vocabulary;
}

const layer_ops layer_head = {
    .prefix = "head.",
    .tensors = head_tensors,
    .saved_count = head_saved_count,
    .kept_count = head_kept_count,
    .scratch_count = layer_none,
    .forward = head_forward,
    .backward_input = head_backward_input,
    .backward_weight = head_backward_weight,
    .forward_flops = head_flops,
    .backward_input_flops = head_flops,
    .backward_weight_flops = head_flops,
};
