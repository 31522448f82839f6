/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the two ends of every model that reads bytes: the embedding before the first
 * layer, and the final norm, the untied head and the cross-entropy after the last.
 *
 * On a device the head runs over chunks of DEVICE_CHUNK_ROWS rows: forward reduces each
 * row's fp32 logits to a loss and a log-sum-exp, and backward computes the logits again,
 * so that they are never kept. On the host, where a product costs more than memory, the
 * logits are kept. */
#include "device_layer.h"

/* Initial embeddings are uniform in ±EMBEDDING_BOUND: a standard deviation of 0.05. */
#define EMBEDDING_BOUND 0.0866

/* ---- embedding --------------------------------------------------------------------- */

enum { EMBEDDING_TOKEN, EMBEDDING_POSITION };

enum { EMBEDDING_DOUTPUT, EMBEDDING_ARRAYS };

static int32_t embedding_arrays(const tryst_model *model, bool keeps_logits,
                                struct layer_array *arrays)
{
    (void)keeps_logits;
    arrays[EMBEDDING_DOUTPUT] = layer_kept(layer_activation_count(model));
    return EMBEDDING_ARRAYS;
}

static int32_t embedding_tensors(const tryst_model *model, struct layer_tensor *tensors)
{
    uint64_t hidden = (uint64_t)model->hidden;
    tensors[EMBEDDING_TOKEN] =
        (struct layer_tensor){.name = "token.weight",
                              .rank = 2,
                              .shape = {(uint64_t)model->vocabulary, hidden},
                              .bound = EMBEDDING_BOUND};
    if (model->kind != TRYST_MODEL_GPT) {
        return 1;
    }
    tensors[EMBEDDING_POSITION] =
        (struct layer_tensor){.name = "position.weight",
                              .rank = 2,
                              .shape = {(uint64_t)model->seq, hidden},
                              .bound = EMBEDDING_BOUND};
    return 2;
}

static void embedding_forward(const struct device_pass *pass)
{
    const tryst_model *model = pass->model;
    if (pass->output) {
        pass->kernels->embedding_forward(pass->lane, layer_rows(model), model->seq,
                                         model->hidden, pass->input,
                                         pass->weights[EMBEDDING_TOKEN],
                                         pass->weights[EMBEDDING_POSITION], pass->output);
    }
}

static void embedding_backward_input(const struct device_pass *pass)
{
    pass->kernels->duplicate(pass->lane, layer_activation_count(pass->model),
                             pass->grad_output, pass->arrays[EMBEDDING_DOUTPUT]);
}

static void embedding_backward_weight(const struct device_pass *pass)
{
    const tryst_model *model = pass->model;
    pass->kernels->embedding_backward(
        pass->lane, layer_rows(model), model->seq, model->hidden, model->vocabulary,
        pass->input, pass->arrays[EMBEDDING_DOUTPUT], pass->gradients[EMBEDDING_TOKEN],
        pass->gradients[EMBEDDING_POSITION]);
}

static struct layer_flops embedding_flops(const tryst_model *model)
{
    double count = (double)layer_activation_count(model);
    return (struct layer_flops){count, 0, count};
}

const struct layer_ops layer_embedding = {
    .prefix = "embedding.",
    .tensors = embedding_tensors,
    .arrays = embedding_arrays,
    .forward = embedding_forward,
    .backward_input = embedding_backward_input,
    .backward_weight = embedding_backward_weight,
    .flops = embedding_flops,
};

/* ---- final norm, head and loss ----------------------------------------------------- */

enum { HEAD_NORM_GAIN, HEAD_NORM_BIAS, HEAD_WEIGHT, HEAD_TENSORS };

enum {
    HEAD_MEAN,    /* wide [rows] */
    HEAD_RSTD,    /* wide [rows] */
    HEAD_LSE,     /* wide [rows] */
    HEAD_NORMED,  /* [rows, hidden] */
    HEAD_DLOGITS, /* [rows, vocabulary] */
    HEAD_DNORMED, /* [rows, hidden] */
    HEAD_LOGITS,  /* wide [chunk, vocabulary]; with keeps_logits [rows, vocabulary] */
    HEAD_LOSSES,  /* wide [rows] */
    HEAD_ARRAYS
};

/* Rows [first, first + rows) of a micro-batch. */
struct head_chunk {
    int32_t first, rows;
};

static int32_t head_arrays(const tryst_model *model, bool keeps_logits,
                           struct layer_array *arrays)
{
    uint64_t rows = (uint64_t)layer_rows(model);
    uint64_t chunk = rows < DEVICE_CHUNK_ROWS ? rows : DEVICE_CHUNK_ROWS;
    uint64_t count = layer_activation_count(model);
    uint64_t classes = (uint64_t)model->vocabulary;
    arrays[HEAD_MEAN] = arrays[HEAD_RSTD] = arrays[HEAD_LSE] = layer_saved_wide(rows);
    arrays[HEAD_NORMED] = layer_saved(count);
    arrays[HEAD_DLOGITS] = layer_kept(rows * classes);
    arrays[HEAD_DNORMED] = layer_kept(count);
    arrays[HEAD_LOGITS] = keeps_logits ? layer_saved_wide(rows * classes)
                                       : layer_scratch_wide(chunk * classes);
    arrays[HEAD_LOSSES] = layer_scratch_wide(rows);
    return HEAD_ARRAYS;
}

static int32_t head_tensors(const tryst_model *model, struct layer_tensor *tensors)
{
    tensors[HEAD_NORM_GAIN] = layer_vector("norm.weight", model->hidden, 1);
    tensors[HEAD_NORM_BIAS] = layer_vector("norm.bias", model->hidden, 0);
    tensors[HEAD_WEIGHT] = layer_matrix("weight", model->vocabulary, model->hidden, 1);
    return HEAD_TENSORS;
}

static bool head_chunk_next(const struct device_pass *pass, struct head_chunk *chunk)
{
    int32_t left = layer_rows(pass->model) - chunk->first - chunk->rows;
    bool whole = pass->keeps_logits || left < DEVICE_CHUNK_ROWS;
    chunk->first += chunk->rows;
    chunk->rows = whole ? left : DEVICE_CHUNK_ROWS;
    return chunk->rows > 0;
}

/* Return the address of row `row` of a matrix with `columns` columns. */
static void *head_row(const void *data, tryst_dtype dtype, int32_t row, int32_t columns)
{
    return (char *)(uintptr_t)data +
           (uint64_t)row * (uint64_t)columns * device_dtype_bytes(dtype);
}

static void head_logits(const struct device_pass *pass, struct head_chunk chunk)
{
    const tryst_model *model = pass->model;
    tryst_dtype dtype = pass->lane->session->dtype;
    const struct device_product product = {
        .m = chunk.rows,
        .n = model->vocabulary,
        .k = model->hidden,
        .b_transposed = true,
        .d_wide = true,
        .a = head_row(pass->arrays[HEAD_NORMED], dtype, chunk.first, model->hidden),
        .b = pass->weights[HEAD_WEIGHT],
        .d = pass->arrays[HEAD_LOGITS]};
    pass->kernels->product(pass->lane, &product);
}

static void head_forward(const struct device_pass *pass)
{
    const struct device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    tryst_dtype wide = pass->lane->session->wide;
    void *const *a = pass->arrays;
    k->norm_forward(pass->lane, layer_rows(model), model->hidden, pass->input,
                    pass->weights[HEAD_NORM_GAIN], pass->weights[HEAD_NORM_BIAS],
                    a[HEAD_NORMED], a[HEAD_MEAN], a[HEAD_RSTD]);
    for (struct head_chunk chunk = {0}; head_chunk_next(pass, &chunk);) {
        head_logits(pass, chunk);
        k->cross_entropy_forward(pass->lane, chunk.rows, model->vocabulary,
                                 a[HEAD_LOGITS], pass->target + chunk.first,
                                 head_row(a[HEAD_LOSSES], wide, chunk.first, 1),
                                 head_row(a[HEAD_LSE], wide, chunk.first, 1));
    }
    if (pass->output) {
        k->loss_mean(pass->lane, layer_rows(model), a[HEAD_LOSSES], pass->output);
    }
}

static void head_backward_input(const struct device_pass *pass)
{
    const struct device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    const struct device_session *session = pass->lane->session;
    int32_t rows = layer_rows(model), classes = model->vocabulary;
    void *const *a = pass->arrays;
    for (struct head_chunk chunk = {0}; head_chunk_next(pass, &chunk);) {
        if (!pass->keeps_logits) {
            head_logits(pass, chunk);
        }
        k->cross_entropy_backward(
            pass->lane, chunk.rows, classes, 1.0 / rows, a[HEAD_LOGITS],
            pass->target + chunk.first,
            head_row(a[HEAD_LSE], session->wide, chunk.first, 1),
            head_row(a[HEAD_DLOGITS], session->dtype, chunk.first, classes));
    }
    device_linear_backward_input(pass, model->hidden, classes, a[HEAD_DLOGITS],
                                 pass->weights[HEAD_WEIGHT], NULL, a[HEAD_DNORMED]);
    k->norm_backward_input(pass->lane, rows, model->hidden, pass->input,
                           pass->weights[HEAD_NORM_GAIN], a[HEAD_MEAN], a[HEAD_RSTD],
                           a[HEAD_DNORMED], NULL, pass->grad_input);
}

static void head_backward_weight(const struct device_pass *pass)
{
    const tryst_model *model = pass->model;
    void *const *a = pass->arrays;
    device_linear_backward_weight(pass, model->hidden, model->vocabulary, a[HEAD_NORMED],
                                  a[HEAD_DLOGITS], pass->gradients[HEAD_WEIGHT], NULL);
    pass->kernels->norm_backward_weight(pass->lane, layer_rows(model), model->hidden,
                                        pass->input, a[HEAD_MEAN], a[HEAD_RSTD],
                                        a[HEAD_DNORMED], pass->gradients[HEAD_NORM_GAIN],
                                        pass->gradients[HEAD_NORM_BIAS]);
}

static struct layer_flops head_flops(const tryst_model *model)
{
    double product = 2.0 * (double)layer_activation_count(model) * model->vocabulary;
    return (struct layer_flops){product, product, product};
}

const struct layer_ops layer_head = {
    .prefix = "head.",
    .tensors = head_tensors,
    .arrays = head_arrays,
    .forward = head_forward,
    .backward_input = head_backward_input,
    .backward_weight = head_backward_weight,
    .flops = head_flops,
};
