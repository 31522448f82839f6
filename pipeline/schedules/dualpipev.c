/* SPDX-License-Identifier: Apache-2.0 */
/* dualpipev: two stages on each rank, in a V, where a forward of one chunk and a backward
 * of the other follow each other, so that the transfers of one hide behind the compute of
 * the other (DeepSeek's DualPipeV, 2025: DualPipe cut in half; the order of PyTorch's
 * ScheduleDualPipeV).
 *
 * The one idea: as in zb-v, but most backwards are whole. I and W are apart only before
 * and behind the pairs of F and B, where a neighbour waits for I. PyTorch calls each pair
 * one action, OVERLAP_F_B; here they are two.
 *
 * Invariant: W follow their I in the order of I. A rank holds at most 2p + 1 chunks. */
#include <stdio.h>

#include "v.h"

static const char *check(tryst_schedule_params *params)
{
    static _Thread_local char text[96];
    params->chunks_count = 2;
    if (params->microbatches_count / 2 >= params->ranks_count) {
        return NULL;
    }
    snprintf(text, sizeof text, "two micro-batches for each rank are the least: give %d",
             2 * params->ranks_count);
    return text;
}

/* Backwards of both chunks in turn without forwards between them: the first half whole,
 * the others with their W left for later. */
static void backwards_end(struct schedule_v *v)
{
    int half = v->list.rank + 1;
    for (int i = 0; i < 2 * half; i++) {
        schedule_v_add(v, i < half ? 'B' : 'I', i % 2 == 0);
    }
}

/* The W left by backwards_end, and those of the last I of chunk 0, which are between
 * them. */
static void weight_grads_end(struct schedule_v *v)
{
    int half = v->list.rank + 1;
    int inputs = schedule_ahead(v->list.params, v->list.rank);
    for (int i = 0; i < half + inputs; i++) {
        schedule_v_add(v, 'W', i < half && (half + i) % 2 == 0);
        if (i < inputs) {
            schedule_v_add(v, 'I', 0);
        }
    }
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    int ahead = schedule_ahead(params, rank);
    struct schedule_v v = schedule_v_begin(params, program, rank);
    schedule_v_repeat(&v, 2 * ahead, "F0");
    schedule_v_repeat(&v, rank + 1, "F0 F1");
    schedule_v_repeat(&v, ahead, "I1 W1 F1");
    schedule_v_repeat(&v, params->microbatches_count - 2 * params->ranks_count + rank + 1,
                      "F0 B1 F1 B0");
    schedule_v_repeat(&v, ahead, "B1 F1 B0");
    backwards_end(&v);
    weight_grads_end(&v);
    return v.list.status;
}

const tryst_schedule schedule_dualpipev = {
    .struct_size = sizeof(tryst_schedule),
    .name = "dualpipev",
    .help = "two stages on each rank, in a V: a forward of one beside a backward of the "
            "other (DeepSeek's DualPipeV, 2025)",
    .options = TRYST_SCHEDULE_RECOMPUTE,
    .check = check,
    .generate = generate};
