/* SPDX-License-Identifier: Apache-2.0 */
/* One transformer block, pre-norm:
 *
 *     a = x + project(attend(qkv(norm1(x))))
 *     y = a + down(gelu(up(norm2(a))))
 *
 * with causal attention over `heads` heads of hidden / heads columns each. Rows of `qkv` hold
 * q, k and v side by side, each [heads, head_width], so one head is a strided matrix that BLAS
 * reads in place.
 *
 * One idea: forward saves every matrix that a weight gradient multiplies with; backward_input
 * keeps every gradient it is multiplied by; backward_weight is then four products and sums.
 * Called through layer_ops. */
#include "kernels.h"
#include "layer.h"

#include <assert.h>
#include <string.h>

enum {
    GPT_NORM1_GAIN,
    GPT_NORM1_BIAS,
    GPT_QKV_WEIGHT,
    GPT_QKV_BIAS,
    GPT_PROJECT_WEIGHT,
    GPT_PROJECT_BIAS,
    GPT_NORM2_GAIN,
    GPT_NORM2_BIAS,
    GPT_UP_WEIGHT,
    GPT_UP_BIAS,
    GPT_DOWN_WEIGHT,
    GPT_DOWN_BIAS,
    GPT_TENSORS
};

/* The feed-forward part is this many times as wide as the block. */
enum { GPT_WIDEN = 4 };

/* What forward leaves behind. H = hidden. */
typedef struct gpt_saved {
    real *mean1, *rstd1; /* [rows] */
    real *normed1;       /* [rows, H] */
    real *qkv;           /* [rows, 3H] */
    real *probabilities; /* [batch, heads, seq, seq] */
    real *attended;      /* [rows, H] */
    real *middle;        /* [rows, H]: a above */
    real *mean2, *rstd2; /* [rows] */
    real *normed2;       /* [rows, H] */
    real *up;            /* [rows, 4H], before the GELU */
    real *widened;       /* [rows, 4H], behind it */
} gpt_saved;

/* What backward_input leaves for backward_weight: the gradient of each of these. */
typedef struct gpt_kept {
    real *dnormed1; /* [rows, H] */
    real *dqkv;     /* [rows, 3H] */
    real *dmiddle;  /* [rows, H] */
    real *dnormed2; /* [rows, H] */
    real *dup;      /* [rows, 4H] */
    real *doutput;  /* [rows, H] */
} gpt_kept;

/* Backward's scratch. */
typedef struct gpt_scratch {
    real *dwidened;  /* [rows, 4H] */
    real *dattended; /* [rows, H] */
    real *dscores;   /* [seq, seq] */
} gpt_scratch;

static gpt_saved gpt_saved_map(const tryst_model *model, real_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model), hidden = (uint64_t)model->hidden;
    const uint64_t scores = (uint64_t)model->seq * (uint64_t)model->seq;
    gpt_saved saved;
    saved.mean1 = real_carve(carver, rows);
    saved.rstd1 = real_carve(carver, rows);
    saved.normed1 = real_carve(carver, rows * hidden);
    saved.qkv = real_carve(carver, rows * hidden * 3);
    saved.probabilities =
        real_carve(carver, (uint64_t)model->microbatch_size * (uint64_t)model->heads *
                               real_aligned(scores));
    saved.attended = real_carve(carver, rows * hidden);
    saved.middle = real_carve(carver, rows * hidden);
    saved.mean2 = real_carve(carver, rows);
    saved.rstd2 = real_carve(carver, rows);
    saved.normed2 = real_carve(carver, rows * hidden);
    saved.up = real_carve(carver, rows * hidden * GPT_WIDEN);
    saved.widened = real_carve(carver, rows * hidden * GPT_WIDEN);
    return saved;
}

static gpt_kept gpt_kept_map(const tryst_model *model, real_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model), hidden = (uint64_t)model->hidden;
    gpt_kept kept;
    kept.dnormed1 = real_carve(carver, rows * hidden);
    kept.dqkv = real_carve(carver, rows * hidden * 3);
    kept.dmiddle = real_carve(carver, rows * hidden);
    kept.dnormed2 = real_carve(carver, rows * hidden);
    kept.dup = real_carve(carver, rows * hidden * GPT_WIDEN);
    kept.doutput = real_carve(carver, rows * hidden);
    return kept;
}

static gpt_scratch gpt_scratch_map(const tryst_model *model, real_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model), hidden = (uint64_t)model->hidden;
    gpt_scratch scratch;
    scratch.dwidened = real_carve(carver, rows * hidden * GPT_WIDEN);
    scratch.dattended = real_carve(carver, rows * hidden);
    scratch.dscores = real_carve(carver, (uint64_t)model->seq * (uint64_t)model->seq);
    return scratch;
}

static uint64_t gpt_saved_count(const tryst_model *model)
{
    real_carver carver = {0};
    gpt_saved_map(model, &carver);
    return carver.used;
}

static uint64_t gpt_kept_count(const tryst_model *model)
{
    real_carver carver = {0};
    gpt_kept_map(model, &carver);
    return carver.used;
}

static uint64_t gpt_scratch_count(const tryst_model *model)
{
    real_carver carver = {0};
    gpt_scratch_map(model, &carver);
    return carver.used;
}

/* The products that end in a residual sum start smaller, the more of them there are, so that
 * the sum's variance does not grow with depth (GPT-2). */
static int32_t gpt_tensors(const tryst_model *model, layer_tensor *tensors)
{
    const int32_t hidden = model->hidden, wide = hidden * GPT_WIDEN;
    const double residual = 1 / sqrt(2.0 * model->layers);
    tensors[GPT_NORM1_GAIN] = layer_vector("norm1.weight", hidden, 1);
    tensors[GPT_NORM1_BIAS] = layer_vector("norm1.bias", hidden, 0);
    tensors[GPT_QKV_WEIGHT] = layer_matrix("attention.qkv.weight", 3 * hidden, hidden, 1);
    tensors[GPT_QKV_BIAS] = layer_vector("attention.qkv.bias", 3 * hidden, 0);
    tensors[GPT_PROJECT_WEIGHT] =
        layer_matrix("attention.project.weight", hidden, hidden, residual);
    tensors[GPT_PROJECT_BIAS] = layer_vector("attention.project.bias", hidden, 0);
    tensors[GPT_NORM2_GAIN] = layer_vector("norm2.weight", hidden, 1);
    tensors[GPT_NORM2_BIAS] = layer_vector("norm2.bias", hidden, 0);
    tensors[GPT_UP_WEIGHT] = layer_matrix("mlp.up.weight", wide, hidden, 1);
    tensors[GPT_UP_BIAS] = layer_vector("mlp.up.bias", wide, 0);
    tensors[GPT_DOWN_WEIGHT] = layer_matrix("mlp.down.weight", hidden, wide, residual);
    tensors[GPT_DOWN_BIAS] = layer_vector("mlp.down.bias", hidden, 0);
    return GPT_TENSORS;
}

/* ---- attention, one head of one window ----------------------------------------------------- */

/* Where head `head` of window `window` begins. */
typedef struct gpt_head {
    size_t qkv;      /* its q in [rows, 3H]; k lies H further, v 2H */
    size_t attended; /* its columns in [rows, H] */
    size_t scores;   /* its matrix in probabilities */
} gpt_head;

static gpt_head gpt_head_at(const tryst_model *model, int32_t window, int32_t head)
{
    const size_t hidden = (size_t)model->hidden, seq = (size_t)model->seq;
    const size_t row = (size_t)window * seq;
    const size_t column = (size_t)head * (hidden / (size_t)model->heads);
    const size_t matrix = (size_t)window * (size_t)model->heads + (size_t)head;
    return (gpt_head){.qkv = row * 3 * hidden + column,
                      .attended = row * hidden + column,
                      .scores = matrix * real_aligned(seq * seq)};
}

static real gpt_scale(const tryst_model *model)
{
    return 1 / real_sqrt((real)(model->hidden / model->heads));
}

static void gpt_head_forward(const tryst_model *model, const gpt_saved *s, gpt_head at)
{
    const int seq = model->seq, hidden = model->hidden, width = hidden / model->heads;
    const real *q = s->qkv + at.qkv, *k = q + hidden, *v = k + hidden;
    real *probabilities = s->probabilities + at.scores;
    real_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, seq, seq, width, 1, q, 3 * hidden,
              k, 3 * hidden, 0, probabilities, seq);
    softmax_causal_forward(seq, gpt_scale(model), probabilities);
    real_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, seq, width, seq, 1,
              probabilities, seq, v, 3 * hidden, 0, s->attended + at.attended, hidden);
}

static void gpt_head_backward(const tryst_model *model, const gpt_saved *s,
                              const gpt_kept *g, const gpt_scratch *t, gpt_head at)
{
    const int seq = model->seq, hidden = model->hidden, width = hidden / model->heads;
    const real *q = s->qkv + at.qkv, *k = q + hidden, *v = k + hidden;
    real *dq = g->dqkv + at.qkv, *dk = dq + hidden, *dv = dk + hidden;
    const real *probabilities = s->probabilities + at.scores;
    const real *dattended = t->dattended + at.attended;
    real_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, seq, width, seq, 1, probabilities,
              seq, dattended, hidden, 0, dv, 3 * hidden);
    real_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, seq, seq, width, 1, dattended,
              hidden, v, 3 * hidden, 0, t->dscores, seq);
    softmax_causal_backward(seq, gpt_scale(model), probabilities, t->dscores);
    real_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, seq, width, seq, 1, t->dscores,
              seq, k, 3 * hidden, 0, dq, 3 * hidden);
    real_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, seq, width, seq, 1, t->dscores,
              seq, q, 3 * hidden, 0, dk, 3 * hidden);
}

/* ---- the block ----------------------------------------------------------------------------- */

static void gpt_forward(const layer_pass *pass)
{
    const tryst_model *model = pass->model;
    const int rows = layer_rows(model), hidden = model->hidden, wide = hidden * GPT_WIDEN;
    const uint64_t count = layer_activation_count(model);
    const real *const *w = pass->weights;
    gpt_saved s = gpt_saved_map(model, &(real_carver){.base = pass->saved});
    real *branch = pass->scratch; /* [rows, H] */

    norm_forward(rows, hidden, pass->input, w[GPT_NORM1_GAIN], w[GPT_NORM1_BIAS],
                 s.normed1, s.mean1, s.rstd1);
    linear_forward(rows, hidden, 3 * hidden, s.normed1, w[GPT_QKV_WEIGHT],
                   w[GPT_QKV_BIAS], s.qkv);
    for (int32_t window = 0; window < model->microbatch_size; window++) {
        for (int32_t head = 0; head < model->heads; head++) {
            gpt_head_forward(model, &s, gpt_head_at(model, window, head));
        }
    }
    linear_forward(rows, hidden, hidden, s.attended, w[GPT_PROJECT_WEIGHT],
                   w[GPT_PROJECT_BIAS], branch);
    real_add(count, pass->input, branch, s.middle);

    norm_forward(rows, hidden, s.middle, w[GPT_NORM2_GAIN], w[GPT_NORM2_BIAS], s.normed2,
                 s.mean2, s.rstd2);
    linear_forward(rows, hidden, wide, s.normed2, w[GPT_UP_WEIGHT], w[GPT_UP_BIAS], s.up);
    gelu_forward(count * GPT_WIDEN, s.up, s.widened);
    linear_forward(rows, wide, hidden, s.widened, w[GPT_DOWN_WEIGHT], w[GPT_DOWN_BIAS],
                   branch);
    real_add(count, s.middle, branch, pass->output);
}

static void gpt_backward_input(const layer_pass *pass)
{
    const tryst_model *model = pass->model;
    const int rows = layer_rows(model), hidden = model->hidden, wide = hidden * GPT_WIDEN;
    const uint64_t count = layer_activation_count(model);
    const real *const *w = pass->weights;
    gpt_saved s = gpt_saved_map(model, &(real_carver){.base = pass->saved});
    gpt_kept g = gpt_kept_map(model, &(real_carver){.base = pass->kept});
    gpt_scratch t = gpt_scratch_map(model, &(real_carver){.base = pass->scratch});

    assert(g.doutput);
    memcpy(g.doutput, pass->grad_output, count * sizeof(real));
    linear_backward_input(rows, wide, hidden, g.doutput, w[GPT_DOWN_WEIGHT], t.dwidened);
    gelu_backward(count * GPT_WIDEN, s.up, t.dwidened, g.dup);
    linear_backward_input(rows, hidden, wide, g.dup, w[GPT_UP_WEIGHT], g.dnormed2);
    norm_backward_input(rows, hidden, s.middle, w[GPT_NORM2_GAIN], s.mean2, s.rstd2,
                        g.dnormed2, g.doutput, g.dmiddle);

    linear_backward_input(rows, hidden, hidden, g.dmiddle, w[GPT_PROJECT_WEIGHT],
                          t.dattended);
    for (int32_t window = 0; window < model->microbatch_size; window++) {
        for (int32_t head = 0; head < model->heads; head++) {
            gpt_head_backward(model, &s, &g, &t, gpt_head_at(model, window, head));
        }
    }
    linear_backward_input(rows, hidden, 3 * hidden, g.dqkv, w[GPT_QKV_WEIGHT],
                          g.dnormed1);
    norm_backward_input(rows, hidden, pass->input, w[GPT_NORM1_GAIN], s.mean1, s.rstd1,
                        g.dnormed1, g.dmiddle, pass->grad_input);
}

static void gpt_backward_weight(const layer_pass *pass)
{
    const tryst_model *model = pass->model;
    const int rows = layer_rows(model), hidden = model->hidden, wide = hidden * GPT_WIDEN;
    real *const *dw = pass->gradients;
    gpt_saved s = gpt_saved_map(model, &(real_carver){.base = pass->saved});
    gpt_kept g = gpt_kept_map(model, &(real_carver){.base = pass->kept});

    norm_backward_weight(rows, hidden, pass->input, s.mean1, s.rstd1, g.dnormed1,
                         dw[GPT_NORM1_GAIN], dw[GPT_NORM1_BIAS]);
    linear_backward_weight(rows, hidden, 3 * hidden, s.normed1, g.dqkv,
                           dw[GPT_QKV_WEIGHT], dw[GPT_QKV_BIAS]);
    linear_backward_weight(rows, hidden, hidden, s.attended, g.dmiddle,
                           dw[GPT_PROJECT_WEIGHT], dw[GPT_PROJECT_BIAS]);
    norm_backward_weight(rows, hidden, s.middle, s.mean2, s.rstd2, g.dnormed2,
                         dw[GPT_NORM2_GAIN], dw[GPT_NORM2_BIAS]);
    linear_backward_weight(rows, hidden, wide, s.normed2, g.dup, dw[GPT_UP_WEIGHT],
                           dw[GPT_UP_BIAS]);
    linear_backward_weight(rows, wide, hidden, s.widened, g.doutput, dw[GPT_DOWN_WEIGHT],
                           dw[GPT_DOWN_BIAS]);
}

/* ---- cost ---------------------------------------------------------------------------------- */

/* The four weight matrices: 12·H² weights, a multiplication and an addition each per row. */
static double gpt_linear_flops(const tryst_model *model)
{
    return 2.0 * 12.0 * (double)layer_activation_count(model) * model->hidden;
}

/* One product of attention, over all heads and windows. */
static double gpt_attention_flops(const tryst_model *model)
{
    return 2.0 * (double)layer_activation_count(model) * model->seq;
}

static double gpt_forward_flops(const tryst_model *model)
{
    return gpt_linear_flops(model) + 2 * gpt_attention_flops(model);
}

static double gpt_backward_input_flops(const tryst_model *model)
{
    return gpt_linear_flops(model) + 4 * gpt_attention_flops(model);
}

const layer_ops layer_gpt = {
    .prefix = "blocks.#.",
    .tensors = gpt_tensors,
    .saved_count = gpt_saved_count,
    .kept_count = gpt_kept_count,
    .scratch_count = gpt_scratch_count,
    .forward = gpt_forward,
    .backward_input = gpt_backward_input,
    .backward_weight = gpt_backward_weight,
    .forward_flops = gpt_forward_flops,
    .backward_input_flops = gpt_backward_input_flops,
    .backward_weight_flops = gpt_linear_flops,
};
