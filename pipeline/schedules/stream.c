/* SPDX-License-Identifier: Apache-2.0 */
/* Writes asynchronous schedules: a stream of micro-batches without a drain.
 *
 * One forward and one backward in turn, the forwards `lead` micro-batches ahead; behind
 * every `every`-th backward an UPDATE. The flat form begins with `lead` forwards and ends
 * with as many backwards. The loop cuts the same stream into steps of M micro-batches:
 * the prologue is the leading forwards, a body is M pairs, of which the last forwards
 * belong to the next step, and the epilogue is a body without these forwards.
 *
 * In a step's numbers a version may be negative: it is older than the step. The flat
 * form and the prologue begin with version 0, the oldest. */
#include "stream.h"

#include <limits.h>

struct stream_part {
    int first_n; /* of the backwards; n + lead is that of the forwards */
    int last_n;
    int forwards_end; /* no forward of this micro-batch or a later one */
    bool from_start;  /* no version before 0 */
};

static struct schedule_weights clamped(const struct stream_part *part,
                                       struct schedule_weights weights)
{
    if (part->from_start && weights.version < 0) {
        weights.version = 0;
    }
    return weights;
}

static void part_write(struct schedule_list *list, const struct schedule_stream *stream,
                       int lead, struct stream_part part)
{
    int every = list->params->every;
    for (int n = part.first_n; n < part.last_n; n++) {
        if (n + lead < part.forwards_end) {
            schedule_forward(list, list->rank, n + lead,
                             clamped(&part, stream->forward(list, n + lead)));
        }
        if (n < 0) {
            continue;
        }
        schedule_backward(list, list->rank, n, clamped(&part, stream->backward(list, n)));
        if ((n + 1) % every == 0) {
            schedule_update(list, list->rank, (n + 1) / every);
        }
    }
}

tryst_status schedule_stream_write(const tryst_schedule_params *params,
                                   tryst_program *program, int rank,
                                   const struct schedule_stream *stream)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    int lead = stream->lead(params, rank);
    int count = params->microbatches_count;
    if (params->updates_count > 0) {
        lead = schedule_min(lead, count);
        part_write(&list, stream, lead, (struct stream_part){-lead, count, count, true});
        return list.status;
    }
    part_write(&list, stream, lead, (struct stream_part){-lead, 0, count, true});
    schedule_mark(&list, TRYST_PROGRAM_BODY);
    part_write(&list, stream, lead, (struct stream_part){0, count, INT_MAX, false});
    schedule_mark(&list, TRYST_PROGRAM_EPILOGUE);
    part_write(&list, stream, lead, (struct stream_part){0, count, count, false});
    return list.status;
}

const char *schedule_every_set(tryst_schedule_params *params, int fallback)
{
    params->every = params->every > 0 ? params->every : fallback;
    if (params->updates_count > 0) {
        if (params->updates_count > INT32_MAX / 4 / params->every) {
            return "there are more micro-batches than numbers for them: give fewer "
                   "updates";
        }
        params->microbatches_count = params->updates_count * params->every;
        return NULL;
    }
    if (params->microbatches_count % params->every != 0) {
        return "a step must have a whole number of UPDATEs: \"every\" must divide the "
               "micro-batches of a step";
    }
    return params->microbatches_count >= params->ranks_count - 1
               ? NULL
               : "a step must have at least ranks - 1 micro-batches, since the first "
                 "rank "
                 "is so many ahead of the last; or give \"updates\", for a program that "
                 "drains at its end";
}
