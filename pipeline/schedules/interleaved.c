/* SPDX-License-Identifier: Apache-2.0 */
/* interleaved: 1f1b over v chunks on each rank; stage c·p + r is chunk c of rank r
 * (Narayanan et al., SC 2021; the order of Megatron-LM).
 *
 * The one idea: all forwards of a rank are one sequence of v·M places. It takes groups of
 * N micro-batches, each group through all chunks before the next group. Backwards take
 * the same sequence with the chunks in reverse. A rank runs 2(p - r - 1) + (v - 1)N
 * forwards first, then a forward and a backward in turn.
 *
 * A group smaller than p leaves a rank without work before its first micro-batch comes
 * around, so N, and the last group, are at least p. */
#include <stdio.h>

#include "schedules.h"

/* True if each group of the size `group`, the last one too, has at least `ranks`
 * micro-batches. */
static bool group_works(int group, int ranks, int count)
{
    int last = count % group;
    return group >= ranks && group <= count && (last == 0 || last >= ranks);
}

/* Return the sentence, and the smallest group that works: one of all `count` does. */
static const char *refusal(const char *why, int ranks, int count)
{
    static _Thread_local char text[256];
    int group = ranks;
    while (!group_works(group, ranks, count)) {
        group++;
    }
    snprintf(text, sizeof text, "%s; group=%d works", why, group);
    return text;
}

static const char *check(tryst_schedule_params *params)
{
    int ranks = params->ranks_count, count = params->microbatches_count;
    params->chunks_count = params->chunks_count > 0 ? params->chunks_count : 2;
    if (count < ranks) {
        params->group = count;
        return NULL;
    }
    if (params->group == TRYST_GROUP_TORCH) {
        int rounds = count / ranks;
        if (count % rounds != 0) {
            return refusal("with group=torch the micro-batches must be a multiple of the "
                           "rounds, micro-batches / ranks rounded down, as in PyTorch",
                           ranks, count);
        }
        params->group = count / rounds;
    }
    params->group = params->group > 0 ? params->group : ranks;
    if (group_works(params->group, ranks, count)) {
        return NULL;
    }
    return refusal("a group must have from the number of ranks to the number of "
                   "micro-batches, and the last group at least the number of ranks",
                   ranks, count);
}

struct place {
    int chunk;
    int microbatch;
};

/* Return the place at `index` of the sequence of forwards. */
static struct place place_at(const tryst_schedule_params *params, int index)
{
    int begin = index / (params->chunks_count * params->group) * params->group;
    int size = schedule_min(params->group, params->microbatches_count - begin);
    int inside = index - begin * params->chunks_count;
    return (struct place){inside / size, begin + inside % size};
}

static void forward_add(struct schedule_list *list, int index)
{
    struct place place = place_at(list->params, index);
    schedule_forward(list, place.chunk * list->params->ranks_count + list->rank,
                     place.microbatch, (struct schedule_weights){0, 0});
}

static void backward_add(struct schedule_list *list, int index)
{
    struct place place = place_at(list->params, index);
    int chunk = list->params->chunks_count - 1 - place.chunk;
    schedule_backward(list, chunk * list->params->ranks_count + list->rank,
                      place.microbatch, (struct schedule_weights){0, 0});
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    int count = params->chunks_count * params->microbatches_count;
    int lead = schedule_min(2 * schedule_ahead(params, rank) +
                                (params->chunks_count - 1) * params->group,
                            count);
    for (int i = -lead; i < count; i++) {
        if (i + lead < count) {
            forward_add(&list, i + lead);
        }
        if (i >= 0) {
            backward_add(&list, i);
        }
    }
    return list.status;
}

const tryst_schedule schedule_interleaved = {
    .struct_size = sizeof(tryst_schedule),
    .name = "interleaved",
    .help = "1f1b over `v` chunks on each rank (2), in groups of `group` micro-batches "
            "(Megatron-LM, Narayanan et al. 2021)",
    .options = TRYST_SCHEDULE_CHUNKS | TRYST_SCHEDULE_GROUP | TRYST_SCHEDULE_RECOMPUTE,
    .check = check,
    .generate = generate};
