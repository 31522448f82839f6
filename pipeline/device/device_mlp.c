/* SPDX-License-Identifier: Apache-2.0 */
/* Implements one layer of the MLP: y = x + gelu(x·Wᵀ + b), position by position. The MLP
 * is the smallest model that trains, for tests and for studying schedules. Each position
 * depends on one byte only. */
#include "device_layer.h"

enum { MLP_WEIGHT, MLP_BIAS, MLP_TENSORS };
/* Output of the linear part, its gradient, and the output of the GELU. */
enum { MLP_LINEAR, MLP_DLINEAR, MLP_GELU, MLP_ARRAYS };

static int32_t mlp_tensors(const tryst_model *model, struct layer_tensor *tensors)
{
    tensors[MLP_WEIGHT] = layer_matrix("linear.weight", model->hidden, model->hidden, 1);
    tensors[MLP_BIAS] = layer_vector("linear.bias", model->hidden, 0);
    return MLP_TENSORS;
}

static int32_t mlp_arrays(const tryst_model *model, bool keeps_logits,
                          struct layer_array *arrays)
{
    (void)keeps_logits;
    uint64_t count = layer_activation_count(model);
    arrays[MLP_LINEAR] = layer_saved(count);
    arrays[MLP_DLINEAR] = layer_kept(count);
    arrays[MLP_GELU] = layer_scratch(count);
    return MLP_ARRAYS;
}

static void mlp_forward(const struct device_pass *pass)
{
    int32_t hidden = pass->model->hidden;
    device_linear_forward(pass, hidden, hidden, pass->input, pass->weights[MLP_WEIGHT],
                          pass->weights[MLP_BIAS], NULL, pass->arrays[MLP_LINEAR],
                          pass->arrays[MLP_GELU]);
    if (pass->output) {
        pass->kernels->add(pass->lane, layer_activation_count(pass->model), pass->input,
                           pass->arrays[MLP_GELU], pass->output);
    }
}

static void mlp_backward_input(const struct device_pass *pass)
{
    int32_t hidden = pass->model->hidden;
    uint64_t count = layer_activation_count(pass->model);
    pass->kernels->gelu_backward(pass->lane, count, pass->arrays[MLP_LINEAR],
                                 pass->grad_output, pass->arrays[MLP_DLINEAR]);
    device_linear_backward_input(pass, hidden, hidden, pass->arrays[MLP_DLINEAR],
                                 pass->weights[MLP_WEIGHT], NULL, pass->arrays[MLP_GELU]);
    pass->kernels->add(pass->lane, count, pass->grad_output, pass->arrays[MLP_GELU],
                       pass->grad_input);
}

static void mlp_backward_weight(const struct device_pass *pass)
{
    int32_t hidden = pass->model->hidden;
    device_linear_backward_weight(pass, hidden, hidden, pass->input,
                                  pass->arrays[MLP_DLINEAR], pass->gradients[MLP_WEIGHT],
                                  pass->gradients[MLP_BIAS]);
}

static struct layer_flops mlp_flops(const tryst_model *model)
{
    double product = 2.0 * (double)layer_activation_count(model) * model->hidden;
    return (struct layer_flops){product, product, product};
}

const struct layer_ops layer_mlp = {
    .prefix = "blocks.#.",
    .tensors = mlp_tensors,
    .arrays = mlp_arrays,
    .forward = mlp_forward,
    .backward_input = mlp_backward_input,
    .backward_weight = mlp_backward_weight,
    .flops = mlp_flops,
};
