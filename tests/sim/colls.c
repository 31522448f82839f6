/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of a simulation; see sim.h.
 *
 * Idea: the engine of collectives runs as in a context, over the plan's trees. Its
 * sums are computed, in memory that all tensors share: one mebibyte, mapped again and
 * again. Sums take no virtual time. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collectives/coll.h"
#include "sim.h"

enum { COLL_PAGE_BYTES = 1 << 20 };

/* ---- memory ------------------------------------------------------------------------ */

static char *tensor_bytes;

/* Map one mebibyte again and again, so that the memory stays in the processor's
 * caches. */
static char *memory_make(void)
{
    int fd = memfd_create("tensors", 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, COLL_PAGE_BYTES), 0);
    char *bytes =
        mmap(NULL, SIM_COLL_BYTES_MAX, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(bytes != MAP_FAILED);
    for (size_t at = 0; at < SIM_COLL_BYTES_MAX; at += COLL_PAGE_BYTES)
        assert_true(mmap(bytes + at, COLL_PAGE_BYTES, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    close(fd);
    return bytes;
}

bool sim_coll_holds(const void *data)
{
    return tensor_bytes && (uintptr_t)data - (uintptr_t)tensor_bytes < SIM_COLL_BYTES_MAX;
}

/* ---- open and close ---------------------------------------------------------------- */

struct coll_calls sim_colls_open(struct sim *sim, struct side *side)
{
    struct sim_rank *rank = &sim->ranks[side->rank];
    const struct coll_host host = {.owner = side};
    if (!tensor_bytes)
        tensor_bytes = memory_make();
    assert_int_equal(colls_open(&host, side->config, &rank->colls), TRYST_OK);
    if (sim->params.plan) {
        assert_int_equal(
            group_plan_copy(sim->params.plan, (uint32_t)side->rank, 0, &rank->plan),
            TRYST_OK);
        colls_plan_set(rank->colls, &rank->plan->coll);
    }
    return colls_calls(rank->colls);
}

void sim_colls_close(struct sim *sim)
{
    for (int i = 0; i < sim->params.ranks; i++) {
        colls_close(sim->ranks[i].colls);
        group_plan_close(sim->ranks[i].plan);
    }
    free(sim->colls);
}

int sim_coll_add(struct sim *sim, tryst_coll_kind kind, int step, uint64_t bytes)
{
    int which = sim->colls_count++;
    assert_true(bytes <= SIM_COLL_BYTES_MAX && !sim->events);
    if (which == sim->colls_room) {
        sim->colls_room = 2 * sim->colls_room + 4;
        sim->colls = realloc(sim->colls, (size_t)sim->colls_room * sizeof *sim->colls);
        assert_non_null(sim->colls);
    }
    sim->colls[which] = (struct sim_coll){.kind = kind, .step = step, .bytes = bytes};
    for (int rank = 0; rank < sim->params.ranks; rank++)
        sim->colls[which].parts[rank] =
            (struct sim_part){.which = which, .rank = rank, .origin_rank = -1};
    return which;
}

/* ---- the script -------------------------------------------------------------------- */

static void on_done(void *arg, tryst_op *op, tryst_status status)
{
    struct sim_part *part = arg;
    struct sim *sim = part->sim;
    tryst_error error = {.struct_size = sizeof error, .origin_rank = -1};
    assert_false(part->done);
    assert_int_equal(tryst_op_error(op, &error), status);
    part->done = true;
    part->op = NULL;
    part->status = status;
    part->origin_rank = error.origin_rank;
    part->origin_status = error.origin_status;
    part->done_ns = sim->world.clock.now_ns - sim->begin_ns;
    if (getenv("TRYST_TEST_LOG") && status != TRYST_OK)
        (void)fprintf(stderr, "%llu collective %d rank %d: %s\n",
                      (unsigned long long)part->done_ns, part->which, part->rank,
                      error.text);
    sim_note(sim, (struct sim_entry){.event = SIM_COLL_DONE,
                                     .which = part->which,
                                     .rank = part->rank,
                                     .peer = part->origin_rank,
                                     .a = (uint64_t)status,
                                     .b = (uint64_t)part->origin_status});
    tryst_op_release(op);
    tryst_subgroup_close(part->subgroup);
}

static tryst_subgroup *subgroup_open(struct sim *sim, int rank, uint64_t members)
{
    int32_t ranks[WORLD_RANKS_MAX];
    tryst_subgroup_params params = {.struct_size = sizeof params, .members = ranks};
    for (int i = 0; i < sim->params.ranks; i++)
        if (members >> i & 1)
            ranks[params.count++] = i;
    tryst_subgroup *subgroup;
    assert_int_equal(
        tryst_subgroup_open(&sim->world.sides[rank].group, &params, &subgroup), TRYST_OK);
    return subgroup;
}

static tryst_status start(const struct sim_coll *coll, tryst_step *step, const char *name,
                          const tryst_op_params *params, tryst_op **op_p)
{
    tryst_tensor out = {.struct_size = sizeof out,
                        .dtype = TRYST_DTYPE_U8,
                        .count = coll->bytes,
                        .data = tensor_bytes};
    switch (coll->kind) {
    case TRYST_COLL_ALLREDUCE:
        return tryst_allreduce(step, name, NULL, &out, TRYST_REDUCE_SUM, params, op_p);
    case TRYST_COLL_REDUCE:
        return tryst_reduce(step, name, &out, &out, TRYST_REDUCE_SUM, coll->root, params,
                            op_p);
    case TRYST_COLL_BROADCAST:
        return tryst_broadcast(step, name, &out, coll->root, params, op_p);
    default: return tryst_barrier(step, name, params, op_p);
    }
}

static void part_submit(struct sim *sim, const struct sim_coll *coll,
                        struct sim_part *part)
{
    char name[24];
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = coll->flags,
                              .priority = coll->priority,
                              .deadline_ns = part->deadline_ns,
                              .callback = on_done,
                              .arg = part};
    if (coll->members)
        part->subgroup = subgroup_open(sim, part->rank, coll->members);
    params.subgroup = part->subgroup;
    snprintf(name, sizeof name, "c%d", part->which);
    sim_note(sim, (struct sim_entry){.event = SIM_COLL_SUBMIT,
                                     .which = part->which,
                                     .rank = part->rank,
                                     .a = coll->bytes});
    part->sim = sim;
    part->submitted = true;
    part->submitted_ns = sim->world.clock.now_ns - sim->begin_ns;
    assert_int_equal(
        start(coll, sim->ranks[part->rank].steps[coll->step], name, &params, &part->op),
        TRYST_OK);
}

void sim_coll_act(struct sim *sim, const struct sim_action *action)
{
    struct sim_coll *coll = &sim->colls[action->what];
    int rank = (int)action->value;
    struct sim_part *part = &coll->parts[rank];
    if (sim->ranks[rank].killed || sim->ranks[rank].left)
        return;
    if (sim->world.sides[rank].away) { /* a stopped rank acts when it is continued */
        sim_act(sim, sim->world.clock.now_ns - sim->begin_ns + NS_PER_MS, action->kind,
                action->what, action->value);
        return;
    }
    sim->world.sides[rank].has_events = true;
    if (action->kind == SIM_DO_COLL) {
        part_submit(sim, coll, part);
        return;
    }
    if (!part->op)
        return;
    sim_note(sim, (struct sim_entry){
                      .event = SIM_COLL_CANCEL, .which = part->which, .rank = rank});
    assert_int_equal(tryst_op_cancel(part->op), TRYST_OK);
}

void sim_colls_cancel(struct sim *sim)
{
    for (int i = 0; i < sim->colls_count; i++)
        for (int rank = 0; rank < sim->params.ranks; rank++)
            if (sim->colls[i].parts[rank].op)
                assert_int_equal(tryst_op_cancel(sim->colls[i].parts[rank].op), TRYST_OK);
}

static bool is_member(const struct sim_coll *coll, int rank)
{
    return !coll->members || (coll->members >> rank & 1);
}

bool sim_coll_ended(const struct sim *sim, const struct sim_coll *coll)
{
    for (int i = 0; i < sim->params.ranks; i++)
        if (!coll->parts[i].done && !sim->ranks[i].killed && is_member(coll, i))
            return false;
    return true;
}

bool sim_colls_ended(const struct sim *sim)
{
    for (int i = 0; i < sim->colls_count; i++)
        if (!sim_coll_ended(sim, &sim->colls[i]))
            return false;
    return true;
}
