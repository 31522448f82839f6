/* SPDX-License-Identifier: Apache-2.0 */
/* hanayo: W waves over 2pW stages, which lie zigzag: with x = j mod 2p, stage j is on
 * rank min(x, 2p - 1 - x) (Liu et al., SC 2023).
 *
 * The one idea: let F take one slot. A micro-batch goes down the ranks and up again, W
 * times, a slot for each stage, and the next one follows 2 slots behind. So a rank runs
 * the stages on the way down in slots of one parity and those on the way up in slots of
 * the other, and no two meet. A group of N >= p micro-batches fills each of the two ways
 * with W passes of 2N slots, and the next group follows. That is the sequence of a rank's
 * forwards; backwards take the same sequence with the stages in reverse. First come
 * 2(W - 1)N + min(m, 2p - 1) + r forwards on rank r, the fewest that leave no rank
 * waiting later, then a forward and a backward in turn. Groups are as many as have p
 * micro-batches each, with sizes that differ by 1 at most.
 *
 * For p micro-batches that is the paper's order: a unit of chimera, folded into one copy
 * of the model. The paper lets units follow one another. With B = 2F each of them then
 * adds idle time; here the bubble is (p - 1)max(F, B) / W for every m >= p. With p = 8,
 * W = 2, F = 1, B = 2 it is 7 for m = 16 and 32 (simulated); of units one behind the
 * other 10.5 and 17.5, of "B first, deepest stage first" 20.5 and 17.25. */
#include <limits.h>

#include "schedules.h"

static const char *check(tryst_schedule_params *params)
{
    /* two stages on a rank, as many as those of interleaved, and the fewest transfers */
    params->waves = params->waves > 0 ? params->waves : 1;
    params->chunks_count = params->waves > INT_MAX / 2 ? INT_MAX : 2 * params->waves;
    return NULL;
}

struct group {
    int begin; /* its first micro-batch */
    int size;
};

/* Return the group of micro-batch `n`. The larger ones come first. */
static struct group group_of(const tryst_schedule_params *params, int n)
{
    int count = params->microbatches_count;
    int groups = count < params->ranks_count ? 1 : count / params->ranks_count;
    int size = count / groups, larger = count % groups * (size + 1);
    if (n < larger) {
        return (struct group){n / (size + 1) * (size + 1), size + 1};
    }
    return (struct group){larger + (n - larger) / size * size, size};
}

struct place {
    int stage;
    int microbatch;
};

/* True if the rank has a forward in `slot`. */
static bool slot_find(const struct schedule_list *list, int slot, struct place *place_p)
{
    int ranks = list->params->ranks_count, waves = list->params->waves;
    bool up = (slot - list->rank) % 2 != 0;
    int offset = up ? 2 * ranks - 1 - list->rank : list->rank;
    int index = (slot - offset) / 2; /* among the rank's slots of this way */
    /* fewer than p micro-batches take the slots of p */
    bool few = list->params->microbatches_count < ranks;
    int slots = waves * (few ? ranks : list->params->microbatches_count);
    if (slot < offset || index >= slots) {
        return false;
    }
    struct group group = group_of(list->params, few ? 0 : index / waves);
    int pass_slots = few ? ranks : group.size;
    int inside = index - group.begin * waves;
    place_p->stage = inside / pass_slots * 2 * ranks + offset;
    place_p->microbatch = group.begin + inside % pass_slots;
    return inside % pass_slots < group.size;
}

/* Return the rank's next forward from *slot_p on. */
static struct place place_next(const struct schedule_list *list, int *slot_p)
{
    struct place place = {0};
    while (!slot_find(list, (*slot_p)++, &place)) {
    }
    return place;
}

static void forward_add(struct schedule_list *list, int *slot_p)
{
    struct place place = place_next(list, slot_p);
    schedule_forward(list, place.stage, place.microbatch,
                     (struct schedule_weights){0, 0});
}

static void backward_add(struct schedule_list *list, int *slot_p)
{
    struct place place = place_next(list, slot_p);
    int last = list->params->ranks_count * list->params->chunks_count - 1;
    schedule_backward(list, last - place.stage, place.microbatch,
                      (struct schedule_weights){0, 0});
}

static tryst_status generate(const tryst_schedule_params *params, tryst_program *program,
                             int rank)
{
    struct schedule_list list = schedule_begin(params, program, rank);
    int count = params->chunks_count * params->microbatches_count;
    int lead = 2 * (params->waves - 1) * group_of(params, 0).size + rank +
               schedule_min(params->microbatches_count, 2 * params->ranks_count - 1);
    int forward_slot = 0, backward_slot = 0;
    lead = schedule_min(lead, count);
    for (int i = -lead; i < count && list.status == TRYST_OK; i++) {
        if (i + lead < count) {
            forward_add(&list, &forward_slot);
        }
        if (i >= 0) {
            backward_add(&list, &backward_slot);
        }
    }
    return list.status;
}

const tryst_schedule schedule_hanayo = {
    .struct_size = sizeof(tryst_schedule),
    .name = "hanayo",
    .help = "`waves` (1) waves of forwards down the ranks and up again, over two stages "
            "on each rank for each (Liu et al. 2023)",
    .options = TRYST_SCHEDULE_WAVES | TRYST_SCHEDULE_RECOMPUTE,
    .check = check,
    .generate = generate};
