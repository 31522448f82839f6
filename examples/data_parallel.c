/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallelism: each rank computes gradients from its own data, and an all-reduce for
 * each layer sums them over the ranks.
 *
 * The backward pass makes the last layer's gradient first, but the next forward pass
 * reads the first layer first. So the layer's number is the priority of its all-reduce
 * (smaller is more urgent), and the first layer's sum, which is submitted last, overtakes
 * the others. The forward pass waits for one layer at a time, just before it reads it.
 *
 * The loss is half the squared distance of the weights from a rank's targets, so that a
 * gradient is the difference of the two. All numbers are multiples of a power of two with
 * few digits: their sums are exact in any order of additions, and the weights must equal
 * those of a serial program bit by bit (with up to 16 ranks).
 *
 * Run:     tryst-run -n 4 ./data_parallel
 * Prints:  data_parallel: 4 ranks, 4 steps, loss 232.50 to 63.64, weights as in a serial
 *          program */
#include <stdio.h>
#include <stdlib.h>
#include <tryst/coll.h>

enum { LAYERS = 6, COUNT = 65536, STEPS = 4 };
static const float rate = 1 / 16.0f;

static float weights[LAYERS][COUNT], grads[LAYERS][COUNT];
static tryst_op *sums[LAYERS]; /* each layer's all-reduce under way, or NULL */

/* End the program unless `status` is TRYST_OK. */
static void must(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "data_parallel: %s\n", tryst_last_error());
    exit(1);
}

/* Return the value that the data of `rank` want for weight `i` of `layer`. */
static float target(int rank, int layer, int i)
{
    return (float)((rank * 5 + layer * 3 + i) % 16);
}

/* Wait until the layer's gradients of all ranks are summed, and update its weights. */
static void layer_update(int layer)
{
    if (!sums[layer])
        return; /* the first step */
    must(tryst_wait(sums[layer], TRYST_FOREVER));
    tryst_op_release(sums[layer]);
    sums[layer] = NULL;
    for (int i = 0; i < COUNT; i++)
        weights[layer][i] -= rate * grads[layer][i];
}

/* Return the mean loss of this rank's data. */
static double forward(int rank)
{
    double loss = 0;
    for (int layer = 0; layer < LAYERS; layer++) {
        layer_update(layer);
        for (int i = 0; i < COUNT; i++) {
            float distance = weights[layer][i] - target(rank, layer, i);
            loss += (double)(distance * distance / 2);
        }
    }
    return loss / COUNT;
}

/* Compute the gradients from the last layer to the first. Each sum starts at once, and
 * travels while the gradients of other layers are computed. */
static void backward(tryst_step *step, int rank)
{
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        for (int i = 0; i < COUNT; i++)
            grads[layer][i] = weights[layer][i] - target(rank, layer, i);
        char name[32]; /* all-reduces of the ranks meet by name */
        snprintf(name, sizeof name, "layer %d", layer);
        tryst_tensor grad = {.struct_size = sizeof grad,
                             .data = grads[layer],
                             .count = COUNT,
                             .dtype = TRYST_DTYPE_F32};
        tryst_op_params params = {
            .struct_size = sizeof params, .priority = layer, .flags = TRYST_OP_PRIORITY};
        must(tryst_allreduce(step, name, NULL, &grad, TRYST_REDUCE_SUM, &params,
                             &sums[layer])); /* NULL: in place */
    }
}

/* Return the weight of a program without ranks, which adds one gradient after another. */
static float serial_weight(int ranks, int layer, int i)
{
    float weight = 0;
    for (int step = 0; step < STEPS; step++) {
        float sum = 0;
        for (int rank = 0; rank < ranks; rank++)
            sum += weight - target(rank, layer, i);
        weight -= rate * sum;
    }
    return weight;
}

/* Return the number of weights that differ from the serial program's. */
static int differences(int ranks)
{
    int count = 0;
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < COUNT; i++)
            count += weights[layer][i] != serial_weight(ranks, layer, i);
    return count;
}

int main(void)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step, *before = NULL;
    double first = 0;
    must(tryst_open(NULL, &ctx));
    must(tryst_group_open(ctx, NULL, &group));
    int rank = tryst_group_rank(group), ranks = tryst_group_size(group);
    for (uint64_t id = 1; id <= STEPS; id++) {
        must(tryst_step_open(group, id, &step));
        double loss = forward(rank); /* ends the sums of the step before */
        if (before)
            must(tryst_step_close(before, NULL)); /* a close cancels what is pending */
        else
            first = loss;
        backward(step, rank);
        before = step;
    }
    double last = forward(rank);
    must(tryst_step_close(step, NULL));
    int wrong = differences(ranks);
    if (wrong)
        fprintf(stderr, "data_parallel: rank %d: %d weights are wrong\n", rank, wrong);
    else if (rank == 0)
        printf("data_parallel: %d ranks, %d steps, loss %.2f to %.2f, weights as in a "
               "serial program\n",
               ranks, STEPS, first, last);
    tryst_group_close(group);
    tryst_close(ctx);
    return wrong != 0;
}
