/* SPDX-License-Identifier: Apache-2.0 */
/* One transformer block on a device, the one of gpt.c:
 *
 *     a = x + project(attend(qkv(norm1(x))))
 *     y = a + down(gelu(up(norm2(a))))
 *
 * The residual sums and the GELUs ride in the products; attention saves its rows' log-sum-exp in
 * place of probabilities. Called through device_layer_ops. */
#include "device_layer.h"

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
    GPT_DOWN_BIAS
};

/* The feed-forward part is this many times as wide as the block. */
enum { GPT_WIDEN = 4 };

/* What forward leaves behind. H = hidden. */
typedef struct gpt_saved {
    void *mean1, *rstd1; /* wide [rows] */
    void *normed1;       /* [rows, H] */
    void *qkv;           /* [rows, 3H] */
    void *lse;           /* wide [batch, heads, seq] */
    void *attended;      /* [rows, H] */
    void *middle;        /* [rows, H]: a above */
    void *mean2, *rstd2; /* wide [rows] */
    void *normed2;       /* [rows, H] */
    void *up;            /* [rows, 4H], before the GELU */
    void *widened;       /* [rows, 4H], behind it */
} gpt_saved;

/* What backward_input leaves for backward_weight: the gradient of each of these. */
typedef struct gpt_kept {
    void *dnormed1; /* [rows, H] */
    void *dqkv;     /* [rows, 3H] */
    void *dmiddle;  /* [rows, H] */
    void *dnormed2; /* [rows, H] */
    void *dup;      /* [rows, 4H] */
    void *doutput;  /* [rows, H] */
} gpt_kept;

typedef struct gpt_scratch {
    void *dattended; /* [rows, H] */
    void *delta;     /* wide [batch, heads, seq] */
} gpt_scratch;

static uint64_t gpt_sums(const tryst_model *model)
{
    return (uint64_t)layer_rows(model) * (uint64_t)model->heads;
}

static gpt_saved gpt_saved_map(const tryst_model *model, device_carver *carver)
{
    const uint64_t rows = (uint64_t)layer_rows(model);
    const uint64_t count = layer_activation_count(model);
    gpt_saved saved;
    saved.mean1 = device_carve_wide(carver, rows);
    saved.rstd1 = device_carve_wide(carver, rows);
    saved.normed1 = device_carve_t(carver, count);
    saved.qkv = device_carve_t(carver, count * 3);
    saved.lse = device_carve_wide(carver, gpt_sums(model));
    saved.attended = device_carve_t(carver, count);
    saved.middle = device_carve_t(carver, count);
    saved.mean2 = device_carve_wide(carver, rows);
    saved.rstd2 = device_carve_wide(carver, rows);
    saved.normed2 = device_carve_t(carver, count);
    saved.up = device_carve_t(carver, count * GPT_WIDEN);
    saved.widened = device_carve_t(carver, count * GPT_WIDEN);
    return saved;
}

static gpt_kept gpt_kept_map(const tryst_model *model, device_carver *carver)
{
    const uint64_t count = layer_activation_count(model);
    gpt_kept kept;
    kept.dnormed1 = device_carve_t(carver, count);
    kept.dqkv = device_carve_t(carver, count * 3);
    kept.dmiddle = device_carve_t(carver, count);
    kept.dnormed2 = device_carve_t(carver, count);
    kept.dup = device_carve_t(carver, count * GPT_WIDEN);
    kept.doutput = device_carve_t(carver, count);
    return kept;
}

static gpt_scratch gpt_scratch_map(const tryst_model *model, device_carver *carver)
{
    gpt_scratch scratch;
    scratch.dattended = device_carve_t(carver, layer_activation_count(model));
    scratch.delta = device_carve_wide(carver, gpt_sums(model));
    return scratch;
}

static uint64_t gpt_saved_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    gpt_saved_map(model, &carver);
    return carver.used;
}

static uint64_t gpt_kept_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    gpt_kept_map(model, &carver);
    return carver.used;
}

static uint64_t gpt_scratch_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    gpt_scratch_map(model, &carver);
    return carver.used;
}

static gpt_saved gpt_saved_at(const device_pass *pass)
{
    device_carver carver = device_pass_carver(pass, pass->saved);
    return gpt_saved_map(pass->model, &carver);
}

static gpt_kept gpt_kept_at(const device_pass *pass)
{
    device_carver carver = device_pass_carver(pass, pass->kept);
    return gpt_kept_map(pass->model, &carver);
}

static device_attention gpt_attention(const tryst_model *model, const gpt_saved *s)
{
    return (device_attention){.batch = model->microbatch_size,
                              .seq = model->seq,
                              .heads = model->heads,
                              .width = model->hidden / model->heads,
                              .qkv = s->qkv,
                              .attended = s->attended,
                              .lse = s->lse};
}

static void gpt_forward(const device_pass *pass)
{
    const device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    const int32_t rows = layer_rows(model), hidden = model->hidden;
    const int32_t wide = hidden * GPT_WIDEN;
    const void *const *w = pass->weights;
    const gpt_saved s = gpt_saved_at(pass);
    const device_attention attention = gpt_attention(model, &s);

    k->norm_forward(pass->lane, rows, hidden, pass->input, w[GPT_NORM1_GAIN],
                    w[GPT_NORM1_BIAS], s.normed1, s.mean1, s.rstd1);
    device_linear_forward(pass, hidden, 3 * hidden, s.normed1, w[GPT_QKV_WEIGHT],
                          w[GPT_QKV_BIAS], NULL, s.qkv);
    k->attention_forward(pass->lane, &attention);
    device_linear_forward(pass, hidden, hidden, s.attended, w[GPT_PROJECT_WEIGHT],
                          w[GPT_PROJECT_BIAS], pass->input, s.middle);
    k->norm_forward(pass->lane, rows, hidden, s.middle, w[GPT_NORM2_GAIN],
                    w[GPT_NORM2_BIAS], s.normed2, s.mean2, s.rstd2);
    device_linear_gelu_forward(pass, hidden, wide, s.normed2, w[GPT_UP_WEIGHT],
                               w[GPT_UP_BIAS], s.up, s.widened);
    if (pass->output) {
        device_linear_forward(pass, wide, hidden, s.widened, w[GPT_DOWN_WEIGHT],
                              w[GPT_DOWN_BIAS], s.middle, pass->output);
    }
}

/* From the block's output back to `middle`. */
static void gpt_backward_feed(const device_pass *pass, const gpt_saved *s,
                              const gpt_kept *g)
{
    const device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    const int32_t hidden = model->hidden, wide = hidden * GPT_WIDEN;
    const void *const *w = pass->weights;
    k->duplicate(pass->lane, layer_activation_count(model), pass->grad_output,
                 g->doutput);
    device_linear_gelu_backward_input(pass, wide, hidden, g->doutput, w[GPT_DOWN_WEIGHT],
                                      s->up, g->dup);
    device_linear_backward_input(pass, hidden, wide, g->dup, w[GPT_UP_WEIGHT],
                                 g->dnormed2);
    k->norm_backward_input(pass->lane, layer_rows(model), hidden, s->middle,
                           w[GPT_NORM2_GAIN], s->mean2, s->rstd2, g->dnormed2, g->doutput,
                           g->dmiddle);
}

static void gpt_backward_input(const device_pass *pass)
{
    const device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    const int32_t hidden = model->hidden;
    const void *const *w = pass->weights;
    const gpt_saved s = gpt_saved_at(pass);
    const gpt_kept g = gpt_kept_at(pass);
    device_carver carver = device_pass_carver(pass, pass->scratch);
    const gpt_scratch t = gpt_scratch_map(model, &carver);
    device_attention attention = gpt_attention(model, &s);
    attention.dattended = t.dattended;
    attention.delta = t.delta;
    attention.dqkv = g.dqkv;

    gpt_backward_feed(pass, &s, &g);
    device_linear_backward_input(pass, hidden, hidden, g.dmiddle, w[GPT_PROJECT_WEIGHT],
                                 t.dattended);
    k->attention_backward(pass->lane, &attention);
    device_linear_backward_input(pass, hidden, 3 * hidden, g.dqkv, w[GPT_QKV_WEIGHT],
                                 g.dnormed1);
    k->norm_backward_input(pass->lane, layer_rows(model), hidden, pass->input,
                           w[GPT_NORM1_GAIN], s.mean1, s.rstd1, g.dnormed1, g.dmiddle,
                           pass->grad_input);
}

static void gpt_backward_weight(const device_pass *pass)
{
    const device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    const int32_t rows = layer_rows(model), hidden = model->hidden;
    const int32_t wide = hidden * GPT_WIDEN;
    void *const *dw = pass->gradients;
    const gpt_saved s = gpt_saved_at(pass);
    const gpt_kept g = gpt_kept_at(pass);

    k->norm_backward_weight(pass->lane, rows, hidden, pass->input, s.mean1, s.rstd1,
                            g.dnormed1, dw[GPT_NORM1_GAIN], dw[GPT_NORM1_BIAS]);
    device_linear_backward_weight(pass, hidden, 3 * hidden, s.normed1, g.dqkv,
                                  dw[GPT_QKV_WEIGHT], dw[GPT_QKV_BIAS]);
    device_linear_backward_weight(pass, hidden, hidden, s.attended, g.dmiddle,
                                  dw[GPT_PROJECT_WEIGHT], dw[GPT_PROJECT_BIAS]);
    k->norm_backward_weight(pass->lane, rows, hidden, s.middle, s.mean2, s.rstd2,
                            g.dnormed2, dw[GPT_NORM2_GAIN], dw[GPT_NORM2_BIAS]);
    device_linear_backward_weight(pass, hidden, wide, s.normed2, g.dup, dw[GPT_UP_WEIGHT],
                                  dw[GPT_UP_BIAS]);
    device_linear_backward_weight(pass, wide, hidden, s.widened, g.doutput,
                                  dw[GPT_DOWN_WEIGHT], dw[GPT_DOWN_BIAS]);
}

const device_layer_ops device_layer_gpt = {
    .saved_bytes = gpt_saved_bytes,
    .kept_bytes = gpt_kept_bytes,
    .scratch_bytes = gpt_scratch_bytes,
    .forward = gpt_forward,
    .backward_input = gpt_backward_input,
    .backward_weight = gpt_backward_weight,
};
