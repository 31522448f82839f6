/* SPDX-License-Identifier: Apache-2.0 */
/* Implements one transformer block, pre-norm:
 *
 *     a = x + project(attend(qkv(norm1(x))))
 *     y = a + down(gelu(up(norm2(a))))
 *
 * with causal attention over `heads` heads of hidden / heads columns each. Rows of `qkv`
 * hold q, k and v side by side, each [heads, head_width].
 *
 * One idea: every weight gradient is a product of two factors. Forward saves one, and
 * backward_input keeps the other, so backward_weight is four products and some sums. The
 * residual sums and the GELUs are part of the products. Attention saves the log-sum-exp
 * of each row of scores, not the probabilities. */
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
    GPT_DOWN_BIAS,
    GPT_TENSORS
};

/* Width of the feed-forward part, as a multiple of the block's. */
enum { GPT_WIDEN = 4 };

/* H = hidden. */
enum {
    /* Saved by forward. */
    GPT_MEAN1,    /* wide [rows] */
    GPT_RSTD1,    /* wide [rows] */
    GPT_NORMED1,  /* [rows, H] */
    GPT_QKV,      /* [rows, 3H] */
    GPT_LSE,      /* wide [batch, heads, seq] */
    GPT_ATTENDED, /* [rows, H] */
    GPT_MIDDLE,   /* [rows, H]: a in the formula above */
    GPT_MEAN2,    /* wide [rows] */
    GPT_RSTD2,    /* wide [rows] */
    GPT_NORMED2,  /* [rows, H] */
    GPT_UP,       /* [rows, 4H], before the GELU */
    GPT_WIDENED,  /* [rows, 4H], after the GELU */
    /* Kept by backward_input for backward_weight: the gradients of the arrays named. */
    GPT_DNORMED1, /* [rows, H] */
    GPT_DQKV,     /* [rows, 3H] */
    GPT_DMIDDLE,  /* [rows, H] */
    GPT_DNORMED2, /* [rows, H] */
    GPT_DUP,      /* [rows, 4H] */
    GPT_DOUTPUT,  /* [rows, H] */
    /* Backward's scratch. */
    GPT_DATTENDED, /* [rows, H] */
    GPT_DELTA,     /* wide [batch, heads, seq] */
    GPT_ARRAYS
};

static int32_t gpt_arrays(const tryst_model *model, bool keeps_logits,
                          struct layer_array *arrays)
{
    (void)keeps_logits;
    uint64_t rows = (uint64_t)layer_rows(model);
    uint64_t count = layer_activation_count(model);
    uint64_t sums = rows * (uint64_t)model->heads;
    arrays[GPT_MEAN1] = arrays[GPT_RSTD1] = layer_saved_wide(rows);
    arrays[GPT_MEAN2] = arrays[GPT_RSTD2] = layer_saved_wide(rows);
    arrays[GPT_LSE] = layer_saved_wide(sums);
    arrays[GPT_NORMED1] = arrays[GPT_NORMED2] = layer_saved(count);
    arrays[GPT_ATTENDED] = arrays[GPT_MIDDLE] = layer_saved(count);
    arrays[GPT_QKV] = layer_saved(3 * count);
    arrays[GPT_UP] = arrays[GPT_WIDENED] = layer_saved(GPT_WIDEN * count);
    arrays[GPT_DNORMED1] = arrays[GPT_DNORMED2] = layer_kept(count);
    arrays[GPT_DMIDDLE] = arrays[GPT_DOUTPUT] = layer_kept(count);
    arrays[GPT_DQKV] = layer_kept(3 * count);
    arrays[GPT_DUP] = layer_kept(GPT_WIDEN * count);
    arrays[GPT_DATTENDED] = layer_scratch(count);
    arrays[GPT_DELTA] = layer_scratch_wide(sums);
    return GPT_ARRAYS;
}

/* List the tensors. The more layers, the smaller the initial weights of products that end
 * in a residual sum, so that the sum's variance does not grow with depth (GPT-2). */
static int32_t gpt_tensors(const tryst_model *model, struct layer_tensor *tensors)
{
    int32_t hidden = model->hidden, wide = hidden * GPT_WIDEN;
    double residual = 1 / sqrt(2.0 * model->layers);
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

static struct device_attention gpt_attention(const struct device_pass *pass)
{
    const tryst_model *model = pass->model;
    return (struct device_attention){.batch = model->microbatch_size,
                                     .seq = model->seq,
                                     .heads = model->heads,
                                     .width = model->hidden / model->heads,
                                     .qkv = pass->arrays[GPT_QKV],
                                     .attended = pass->arrays[GPT_ATTENDED],
                                     .lse = pass->arrays[GPT_LSE],
                                     .dattended = pass->arrays[GPT_DATTENDED],
                                     .delta = pass->arrays[GPT_DELTA],
                                     .dqkv = pass->arrays[GPT_DQKV]};
}

static void gpt_forward(const struct device_pass *pass)
{
    const struct device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    int32_t rows = layer_rows(model), hidden = model->hidden;
    int32_t wide = hidden * GPT_WIDEN;
    const void *const *w = pass->weights;
    void *const *a = pass->arrays;
    const struct device_attention attention = gpt_attention(pass);

    k->norm_forward(pass->lane, rows, hidden, pass->input, w[GPT_NORM1_GAIN],
                    w[GPT_NORM1_BIAS], a[GPT_NORMED1], a[GPT_MEAN1], a[GPT_RSTD1]);
    device_linear_forward(pass, hidden, 3 * hidden, a[GPT_NORMED1], w[GPT_QKV_WEIGHT],
                          w[GPT_QKV_BIAS], NULL, NULL, a[GPT_QKV]);
    k->attention_forward(pass->lane, &attention);
    device_linear_forward(pass, hidden, hidden, a[GPT_ATTENDED], w[GPT_PROJECT_WEIGHT],
                          w[GPT_PROJECT_BIAS], pass->input, NULL, a[GPT_MIDDLE]);
    k->norm_forward(pass->lane, rows, hidden, a[GPT_MIDDLE], w[GPT_NORM2_GAIN],
                    w[GPT_NORM2_BIAS], a[GPT_NORMED2], a[GPT_MEAN2], a[GPT_RSTD2]);
    device_linear_forward(pass, hidden, wide, a[GPT_NORMED2], w[GPT_UP_WEIGHT],
                          w[GPT_UP_BIAS], NULL, a[GPT_UP], a[GPT_WIDENED]);
    if (pass->output) {
        device_linear_forward(pass, wide, hidden, a[GPT_WIDENED], w[GPT_DOWN_WEIGHT],
                              w[GPT_DOWN_BIAS], a[GPT_MIDDLE], NULL, pass->output);
    }
}

/* Run backward_input from the block's output to GPT_MIDDLE. */
static void gpt_backward_feed(const struct device_pass *pass)
{
    const struct device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    int32_t hidden = model->hidden, wide = hidden * GPT_WIDEN;
    const void *const *w = pass->weights;
    void *const *a = pass->arrays;
    k->duplicate(pass->lane, layer_activation_count(model), pass->grad_output,
                 a[GPT_DOUTPUT]);
    device_linear_backward_input(pass, wide, hidden, a[GPT_DOUTPUT], w[GPT_DOWN_WEIGHT],
                                 a[GPT_UP], a[GPT_DUP]);
    device_linear_backward_input(pass, hidden, wide, a[GPT_DUP], w[GPT_UP_WEIGHT], NULL,
                                 a[GPT_DNORMED2]);
    k->norm_backward_input(pass->lane, layer_rows(model), hidden, a[GPT_MIDDLE],
                           w[GPT_NORM2_GAIN], a[GPT_MEAN2], a[GPT_RSTD2], a[GPT_DNORMED2],
                           a[GPT_DOUTPUT], a[GPT_DMIDDLE]);
}

static void gpt_backward_input(const struct device_pass *pass)
{
    const struct device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    int32_t hidden = model->hidden;
    const void *const *w = pass->weights;
    void *const *a = pass->arrays;
    const struct device_attention attention = gpt_attention(pass);

    gpt_backward_feed(pass);
    device_linear_backward_input(pass, hidden, hidden, a[GPT_DMIDDLE],
                                 w[GPT_PROJECT_WEIGHT], NULL, a[GPT_DATTENDED]);
    k->attention_backward(pass->lane, &attention);
    device_linear_backward_input(pass, hidden, 3 * hidden, a[GPT_DQKV], w[GPT_QKV_WEIGHT],
                                 NULL, a[GPT_DNORMED1]);
    k->norm_backward_input(pass->lane, layer_rows(model), hidden, pass->input,
                           w[GPT_NORM1_GAIN], a[GPT_MEAN1], a[GPT_RSTD1], a[GPT_DNORMED1],
                           a[GPT_DMIDDLE], pass->grad_input);
}

static void gpt_backward_weight(const struct device_pass *pass)
{
    const struct device_kernels *k = pass->kernels;
    const tryst_model *model = pass->model;
    int32_t rows = layer_rows(model), hidden = model->hidden;
    int32_t wide = hidden * GPT_WIDEN;
    void *const *dw = pass->gradients;
    void *const *a = pass->arrays;

    k->norm_backward_weight(pass->lane, rows, hidden, pass->input, a[GPT_MEAN1],
                            a[GPT_RSTD1], a[GPT_DNORMED1], dw[GPT_NORM1_GAIN],
                            dw[GPT_NORM1_BIAS]);
    device_linear_backward_weight(pass, hidden, 3 * hidden, a[GPT_NORMED1], a[GPT_DQKV],
                                  dw[GPT_QKV_WEIGHT], dw[GPT_QKV_BIAS]);
    device_linear_backward_weight(pass, hidden, hidden, a[GPT_ATTENDED], a[GPT_DMIDDLE],
                                  dw[GPT_PROJECT_WEIGHT], dw[GPT_PROJECT_BIAS]);
    k->norm_backward_weight(pass->lane, rows, hidden, a[GPT_MIDDLE], a[GPT_MEAN2],
                            a[GPT_RSTD2], a[GPT_DNORMED2], dw[GPT_NORM2_GAIN],
                            dw[GPT_NORM2_BIAS]);
    device_linear_backward_weight(pass, hidden, wide, a[GPT_NORMED2], a[GPT_DUP],
                                  dw[GPT_UP_WEIGHT], dw[GPT_UP_BIAS]);
    device_linear_backward_weight(pass, wide, hidden, a[GPT_WIDENED], a[GPT_DOUTPUT],
                                  dw[GPT_DOWN_WEIGHT], dw[GPT_DOWN_BIAS]);
}

/* ---- cost -------------------------------------------------------------------------- */

/* Count floating-point operations. The four weight matrices have 12·H² weights, with a
 * multiplication and an addition each per row. `attention` is one product of attention
 * over all heads and windows, as if it were not causal. */
static struct layer_flops gpt_flops(const tryst_model *model)
{
    double count = 2.0 * (double)layer_activation_count(model);
    double linear = 12.0 * count * model->hidden, attention = count * model->seq;
    return (struct layer_flops){linear + 2 * attention, linear + 4 * attention, linear};
}

const struct layer_ops layer_gpt = {
    .prefix = "blocks.#.",
    .tensors = gpt_tensors,
    .arrays = gpt_arrays,
    .forward = gpt_forward,
    .backward_input = gpt_backward_input,
    .backward_weight = gpt_backward_weight,
    .flops = gpt_flops,
};
