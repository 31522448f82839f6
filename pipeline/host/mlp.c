/* SPDX-License-Identifier: Apache-2.0 */
/* One layer of the MLP: y = x + gelu(x·Wᵀ + b), position by position. The smallest model that
 * trains, for tests and for looking at schedules; it sees one byte at a time.
 *
 * Called through layer_ops. */
#include "kernels.h"
#include "layer.h"

enum { MLP_WEIGHT, MLP_BIAS, MLP_TENSORS };

static int32_t mlp_tensors(const tryst_model *model, layer_tensor *tensors)
{
    tensors[MLP_WEIGHT] = layer_matrix("linear.weight", model->hidden, model->hidden, 1);
    tensors[MLP_BIAS] = layer_vector("linear.bias", model->hidden, 0);
    return MLP_TENSORS;
}

/* Saved is the linear part's output; kept is its gradient; scratch is the GELU's output. */
static uint64_t mlp_buffer_count(const tryst_model *model)
{
    return real_aligned(layer_activation_count(model));
}

static void mlp_forward(const layer_pass *pass)
{
    const int rows = layer_rows(pass->model), hidden = pass->model->hidden;
    const uint64_t count = layer_activation_count(pass->model);
    linear_forward(rows, hidden, hidden, pass->input, pass->weights[MLP_WEIGHT],
                   pass->weights[MLP_BIAS], pass->saved);
    gelu_forward(count, pass->saved, pass->scratch);
    real_add(count, pass->input, pass->scratch, pass->output);
}

static void mlp_backward_input(const layer_pass *pass)
{
    const int rows = layer_rows(pass->model), hidden = pass->model->hidden;
    const uint64_t count = layer_activation_count(pass->model);
    gelu_backward(count, pass->saved, pass->grad_output, pass->kept);
    linear_backward_input(rows, hidden, hidden, pass->kept, pass->weights[MLP_WEIGHT],
                          pass->scratch);
    real_add(count, pass->grad_output, pass->scratch, pass->grad_input);
}

static void mlp_backward_weight(const layer_pass *pass)
{
    const int rows = layer_rows(pass->model), hidden = pass->model->hidden;
    linear_backward_weight(rows, hidden, hidden, pass->input, pass->kept,
                           pass->gradients[MLP_WEIGHT], pass->gradients[MLP_BIAS]);
}

static double mlp_flops(const tryst_model *model)
{
    return 2.0 * (double)layer_activation_count(model) * model->hidden;
}

const layer_ops layer_mlp = {
    .prefix = "blocks.#.",
    .tensors = mlp_tensors,
    .saved_count = mlp_buffer_count,
    .kept_count = mlp_buffer_count,
    .scratch_count = mlp_buffer_count,
    .forward = mlp_forward,
    .backward_input = mlp_backward_input,
    .backward_weight = mlp_backward_weight,
    .forward_flops = mlp_flops,
    .backward_input_flops = mlp_flops,
    .backward_weight_flops = mlp_flops,
};
