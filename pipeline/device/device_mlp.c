/* SPDX-License-Identifier: Apache-2.0 */
/* One layer of the MLP on a device: y = x + gelu(x·Wᵀ + b), as mlp.c. Called through
 * device_layer_ops. */
#include "device_layer.h"

enum { MLP_WEIGHT, MLP_BIAS };

/* Saved is the linear part's output; kept is its gradient; scratch is the GELU's output. */
static uint64_t mlp_bytes(const tryst_model *model, tryst_precision precision)
{
    device_carver carver = device_carver_at(NULL, precision);
    device_carve_t(&carver, layer_activation_count(model));
    return carver.used;
}

static void mlp_forward(const device_pass *pass)
{
    const int32_t hidden = pass->model->hidden;
    device_linear_gelu_forward(pass, hidden, hidden, pass->input,
                               pass->weights[MLP_WEIGHT], pass->weights[MLP_BIAS],
                               pass->saved, pass->scratch);
    if (pass->output) {
        pass->kernels->add(pass->lane, layer_activation_count(pass->model), pass->input,
                           pass->scratch, pass->output);
    }
}

static void mlp_backward_input(const device_pass *pass)
{
    const int32_t hidden = pass->model->hidden;
    const uint64_t count = layer_activation_count(pass->model);
    pass->kernels->gelu_backward(pass->lane, count, pass->saved, pass->grad_output,
                                 pass->kept);
    device_linear_backward_input(pass, hidden, hidden, pass->kept,
                                 pass->weights[MLP_WEIGHT], pass->scratch);
    pass->kernels->add(pass->lane, count, pass->grad_output, pass->scratch,
                       pass->grad_input);
}

static void mlp_backward_weight(const device_pass *pass)
{
    const int32_t hidden = pass->model->hidden;
    device_linear_backward_weight(pass, hidden, hidden, pass->input, pass->kept,
                                  pass->gradients[MLP_WEIGHT], pass->gradients[MLP_BIAS]);
}

const device_layer_ops device_layer_mlp = {
    .saved_bytes = mlp_bytes,
    .kept_bytes = mlp_bytes,
    .scratch_bytes = mlp_bytes,
    .forward = mlp_forward,
    .backward_input = mlp_backward_input,
    .backward_weight = mlp_backward_weight,
};
