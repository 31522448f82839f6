/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a model on a device, those of ends.c: the embedding; and the final norm, the
 * head and the loss.
 *
 * The head runs over chunks of rows: logits are made in fp32 for DEVICE_CHUNK_ROWS rows, become a
 * loss and a log-sum-exp, and are made once more by backward, so that they are never kept. Called
 * through device_layer_ops. */
#include "device_layer.h"

/* ---- embedding ----------------------------------------------------------------------------- */

enum { EMBEDDING_TOKEN, EMBEDDING_POSITION };

static uint64_t embedding_none(const tryst_model *model, tryst_precision precision)
{
    (void)model;
    (void)precision;
    return 0;
}

static uint64_t embedding_kept_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    device_carve_t(&carver, layer_activation_count(model));
    return carver.used;
}

static void embedding_forward(const device_pass *pass)
{
    const tryst_model *model = pass->model;
    if (pass->output) {
        pass->kernels->embedding_forward(pass->lane, layer_rows(model), model->seq,
                                         model->hidden, pass->input,
                                         pass->weights[EMBEDDING_TOKEN],
                                         pass->weights[EMBEDDING_POSITION], pass->output);
    }
}

static void embedding_backward_input(const device_pass *pass)
{
    pass->kernels->duplicate(pass->lane, layer_activation_count(pass->model),
                             pass->grad_output, pass->kept);
}

static void embedding_backward_weight(const device_pass *pass)
{
    const tryst_model *model = pass->model;
    pass->kernels->embedding_backward(pass->lane, layer_rows(model), model->seq,
                                      model->hidden, model->vocabulary, pass->input,
                                      pass->kept, pass->gradients[EMBEDDING_TOKEN],
                                      pass->gradients[EMBEDDING_POSITION]);
}

const device_layer_ops device_layer_embedding = {
    .saved_bytes = embedding_none,
    .kept_bytes = embedding_kept_bytes,
    .scratch_bytes = embedding_none,
    .forward = embedding_forward,
    .backward_input = embedding_backward_input,
    .backward_weight = embedding_backward_weight,
};

/* ---- final norm, head and loss ------------------------------------------------------------- */

enum { HEAD_NORM_GAIN, HEAD_NORM_BIAS, HEAD_WEIGHT };

typedef struct head_saved {
    void *mean, *rstd, *lse; /* wide [rows] */
    void *normed;            /* [rows, hidden] */
} head_saved;

typedef struct head_kept {
    void *dlogits; /* [rows, vocabulary] */
    void *dnormed; /* [rows, hidden] */
} head_kept;

typedef struct head_scratch {
    void *logits; /* wide [chunk, vocabulary] */
    void *losses; /* wide [rows] */
} head_scratch;

/* Rows [first, first + rows) of a micro-batch. */
typedef struct head_chunk {
    int32_t first, rows;
} head_chunk;

static head_saved head_saved_map(const tryst_model *model, device_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model);
    head_saved saved;
    saved.mean = device_carve_wide(carver, rows);
    saved.rstd = device_carve_wide(carver, rows);
    saved.lse = device_carve_wide(carver, rows);
    saved.normed = device_carve_t(carver, layer_activation_count(model));
    return saved;
}

static head_kept head_kept_map(const tryst_model *model, device_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model);
    head_kept kept;
    kept.dlogits = device_carve_t(carver, rows * (uint64_t)model->vocabulary);
    kept.dnormed = device_carve_t(carver, layer_activation_count(model));
    return kept;
}

static head_scratch head_scratch_map(const tryst_model *model, device_carver *carver)
{
    const int32_t rows = layer_rows(model);
    const int32_t chunk = rows < DEVICE_CHUNK_ROWS ? rows : DEVICE_CHUNK_ROWS;
    head_scratch scratch;
    scratch.logits =
        device_carve_wide(carver, (uint64_t)chunk * (uint64_t)model->vocabulary);
    scratch.losses = device_carve_wide(carver, (uint64_t)rows);
    return scratch;
}

static uint64_t head_saved_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    head_saved_map(model, &carver);
    return carver.used;
}

static uint64_t head_kept_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    head_kept_map(model, &carver);
    return carver.used;
}

static uint64_t head_scratch_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    head_scratch_map(model, &carver);
    return carver.used;
}

static head_saved head_saved_at(const device_pass *pass)
{
    device_carver carver = device_pass_carver(pass, pass->saved);
    return head_saved_map(pass->model, &carver);
}

static head_kept head_kept_at(const device_pass *pass)
{
    device_carver carver = device_pass_carver(pass, pass->kept);
    return head_kept_map(pass->model, &carver);
}

static head_scratch head_scratch_at(const device_pass *pass)
{
    device_carver carver = device_pass_carver(pass, pass->scratch);
    return head_scratch_map(pass->model, &carver);
}

static bool head_chunk_next(const tryst_model *model, head_chunk *chunk)
{
    const int32_t left = layer_rows(model) - chunk->first - chunk->rows;
    chunk->first += chunk->rows;
    chunk->rows = left < DEVICE_CHUNK_ROWS ? left : DEVICE_CHUNK_ROWS;
    return chunk->rows > 0;
}

/* Element `row`·`columns` of an array. */
static void *head_row(const void *data, tryst_dtype dtype, int32_t row, int32_t columns)
{
    return (char *)(uintptr_t)data +
           (uint64_t)row * (uint64_t)columns * device_dtype_bytes(dtype);
}

static void head_logits(const device_pass *pass, const head_saved *s, head_chunk chunk,
                        void *logits)
{
    const tryst_model *model = pass->model;
    const tryst_dtype dtype = pass->lane->session->dtype;
    const device_product product = {
        .m = chunk.rows,
        .n = model->vocabulary,
        .k = model->hidden,
        .b_transposed = true,
        .d_wide = true,
        .a = head_row(s->normed, dtype, chunk.first, model->hidden),
        .b = pass->weights[HEAD_WEIGHT],
        .d = logits};
    pass->kernels->product(pass->lane, &product);
}

static void head_forward(const device_pass *pass)
{
    const device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    const tryst_dtype wide = pass->lane->session->wide;
    const head_saved s = head_saved_at(pass);
    const head_scratch t = head_scratch_at(pass);
    k->norm_forward(pass->lane, layer_rows(model), model->hidden, pass->input,
                    pass->weights[HEAD_NORM_GAIN], pass->weights[HEAD_NORM_BIAS],
                    s.normed, s.mean, s.rstd);
    for (head_chunk chunk = {0}; head_chunk_next(model, &chunk);) {
        head_logits(pass, &s, chunk, t.logits);
        k->cross_entropy_forward(pass->lane, chunk.rows, model->vocabulary, t.logits,
                                 pass->target + chunk.first,
                                 head_row(t.losses, wide, chunk.first, 1),
                                 head_row(s.lse, wide, chunk.first, 1));
    }
    if (pass->output) {
        k->loss_mean(pass->lane, layer_rows(model), t.losses, pass->output);
    }
}

static void head_backward_input(const device_pass *pass)
{
    const device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    const device_session *session = pass->lane->session;
    const int32_t rows = layer_rows(model), classes = model->vocabulary;
    const head_saved s = head_saved_at(pass);
    const head_kept g = head_kept_at(pass);
    const head_scratch t = head_scratch_at(pass);
    for (head_chunk chunk = {0}; head_chunk_next(model, &chunk);) {
        head_logits(pass, &s, chunk, t.logits);
        k->cross_entropy_backward(
            pass->lane, chunk.rows, classes, 1.0 / rows, t.logits,
            pass->target + chunk.first, head_row(s.lse, session->wide, chunk.first, 1),
            head_row(g.dlogits, session->dtype, chunk.first, classes));
    }
    device_linear_backward_input(pass, model->hidden, classes, g.dlogits,
                                 pass->weights[HEAD_WEIGHT], g.dnormed);
    k->norm_backward_input(pass->lane, rows, model->hidden, pass->input,
                           pass->weights[HEAD_NORM_GAIN], s.mean, s.rstd, g.dnormed, NULL,
                           pass->grad_input);
}

static void head_backward_weight(const device_pass *pass)
{
    const tryst_model *model = pass->model;
    const head_saved s = head_saved_at(pass);
    const head_kept g = head_kept_at(pass);
    device_linear_backward_weight(pass, model->hidden, model->vocabulary, s.normed,
                                  g.dlogits, pass->gradients[HEAD_WEIGHT], NULL);
    pass->kernels->norm_backward_weight(
        pass->lane, layer_rows(model), model->hidden, pass->input, s.mean, s.rstd,
        g.dnormed, pass->gradients[HEAD_NORM_GAIN], pass->gradients[HEAD_NORM_BIAS]);
}

const device_layer_ops device_layer_head = {
    .saved_bytes = head_saved_bytes,
    .kept_bytes = head_kept_bytes,
    .scratch_bytes = head_scratch_bytes,
    .forward = head_forward,
    .backward_input = head_backward_input,
    .backward_weight = head_backward_weight,
};
