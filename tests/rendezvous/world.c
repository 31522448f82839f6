/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, running and closing a world. */
#include "world.h"

#include "support/roster.h"

struct world *world_current;

/* ---- open -------------------------------------------------------------------------- */

static tryst_status side_rail_open(tryst_ctx *ctx, int kind, uint32_t nic, char *text)
{
    struct side *side = (struct side *)(void *)ctx;
    if (kind != TRANSPORT_SELF && (side->no_rails || kind == side->no_kind)) {
        snprintf(text, TRANSPORT_TEXT_MAX, "no such thing here");
        return TRYST_E_UNSUPPORTED;
    }
    rendezvous_rail_add(side->rdv, kind, nic, &side->rail.base);
    return TRYST_OK;
}

static void log_keep(void *arg, tryst_log_level level, const char *line)
{
    struct side *side = arg;
    size_t used = strlen(side->log_text);
    snprintf(side->log_text + used, sizeof side->log_text - used, "%s\n", line);
}

static tryst_status side_open(struct world *world, int rank,
                              const struct world_setting *settings)
{
    struct side *side = &world->sides[rank];
    tryst_status status = config_open_defaults(&side->config);
    if (status != TRYST_OK)
        return status;
    for (; status == TRYST_OK && settings && settings->name; settings++)
        status = config_set(side->config, settings->name, settings->value, NULL);
    side->world = world;
    side->rank = rank;
    side->log = (struct log)LOG_INIT;
    side->log.sink = log_keep;
    side->log.arg = side;
    list_init(&side->transfers);
    list_init(&side->eps);
    side->rail = (struct world_rail){.base = {.ops = &world_transport,
                                              .events = rendezvous_rail_events,
                                              .tag_bits = 64,
                                              .frame_max = FRAME_BYTES_MAX,
                                              .bulk_max = UINT64_MAX,
                                              .posted_max = 64},
                                     .world = world,
                                     .rank = rank};
    struct rendezvous_params params = {.ctx = (tryst_ctx *)(void *)side,
                                       .config = side->config,
                                       .log = &side->log,
                                       .clock = &world->clock.clock,
                                       .poller = &side->poller,
                                       .sched = (struct sched *)(void *)side,
                                       .rail_open = side_rail_open};
    if (world->parts) {
        params.sched = world->parts->sched(side);
        if (status == TRYST_OK && world->parts->coll_calls)
            params.coll_calls = world->parts->coll_calls(side);
    }
    return status == TRYST_OK ? rendezvous_open(&params, NULL, &side->rdv) : status;
}

/* The ranks' keys, which all worlds of a process have in common. */
static struct {
    uint8_t secret[RANK_KEY_BYTES], open[RANK_KEY_BYTES];
    bool made;
} keys[WORLD_RANKS_MAX];

static void key_make(int rank)
{
    if (!keys[rank].made)
        assert_int_equal(rank_key_make(keys[rank].secret, keys[rank].open), TRYST_OK);
    keys[rank].made = true;
}

static void identity_make(struct roster_entry *entry, int rank)
{
    key_make(rank);
    memcpy(entry->key, keys[rank].open, sizeof entry->key);
    snprintf(entry->device_prefix, sizeof entry->device_prefix,
             "/job:worker/replica:0/task:%d", rank);
    entry->incarnation = 0xabc0 + (uint64_t)rank;
    entry->host = (struct host_identity){.process_id = 100 + (uint64_t)rank,
                                         .host_id = 7,
                                         .net_namespace = 7,
                                         .pid_namespace = 7,
                                         .transports = 1u << TRANSPORT_SHM};
    entry->host.link.listener_id = (uint64_t)rank + 1;
}

static tryst_status side_group_open(struct side *side, int size)
{
    struct tryst_group *group = &side->group;
    struct link_address address;
    group->roster = (struct roster){.rank = side->rank, .size = size};
    struct roster_entry *entries = calloc((size_t)size, sizeof *entries);
    for (int i = 0; entries && i < size; i++)
        identity_make(&entries[i], i);
    tryst_status status = entries ? roster_make(&group->roster, entries) : TRYST_E_NOMEM;
    free(entries);
    if (status != TRYST_OK)
        return status;
    memcpy(group->cookie, "one world's kin", sizeof group->cookie);
    memcpy(group->secret, keys[side->rank].secret, sizeof group->secret);
    status = rendezvous_listen(side->rdv, NULL, &address);
    return status == TRYST_OK ? rendezvous_group_open(side->rdv, group, NULL) : status;
}

static void sides_close(struct world *world)
{
    for (int i = 0; i < world->size; i++) {
        struct side *side = &world->sides[i];
        if (side->rdv && side->rdv->group) {
            rendezvous_group_close(side->rdv);
            rendezvous_rails_forget(side->rdv);
        }
        if (side->rdv) {
            rendezvous_listen_stop(side->rdv);
            rendezvous_close(side->rdv);
        }
        config_close(side->config);
        roster_close(&side->group.roster);
        side->rdv = NULL;
        side->config = NULL;
        memset(&side->group.roster, 0, sizeof side->group.roster);
    }
    world_links_close(world);
}

tryst_status world_open_parts(struct world *world, int size,
                              const struct world_setting *settings,
                              const struct world_parts *parts)
{
    tryst_status status = TRYST_OK;
    memset(world, 0, sizeof *world);
    world->parts = parts;
    clock_fake_init(&world->clock, NS_PER_S);
    world->size = size;
    list_init(&world->links);
    world_current = world;
    for (int i = 0; i < size && status == TRYST_OK; i++)
        status = side_open(world, i, settings);
    for (int i = 0; i < size && status == TRYST_OK; i++)
        status = side_group_open(&world->sides[i], size);
    if (status != TRYST_OK)
        sides_close(world);
    return status;
}

tryst_status world_try_open(struct world *world, int size,
                            const struct world_setting *settings)
{
    return world_open_parts(world, size, settings, NULL);
}

void world_open(struct world *world, int size, const struct world_setting *settings)
{
    assert_int_equal(world_try_open(world, size, settings), TRYST_OK);
}

/* ---- turn -------------------------------------------------------------------------- */

int world_pass(struct world *world)
{
    int count = world_links_run(world);
    for (int i = 0; i < world->size; i++) {
        if (world->sides[i].still || world->sides[i].away)
            continue;
        count += pass_run(world->sides[i].rdv);
        pass_flush(world->sides[i].rdv); /* as a thread does when it leaves */
    }
    return count;
}

void world_doze(struct world *world)
{
    for (int i = 0; i < world->size; i++) {
        const struct side *side = &world->sides[i];
        if (side->still || side->away)
            continue;
        (void)pass_arm(side->rdv);
        pass_awake(side->rdv);
    }
}

void world_settle(struct world *world)
{
    enum { IDLE = 80 }; /* more than the passes between two readings of the clock */
    bool dozed = false;
    int idle = 0;
    if (world->parts) {
        world->parts->settle(world);
        return;
    }
    for (int i = 0; i < 100000 && idle < IDLE; i++) {
        bool moved = world_pass(world) > 0;
        idle = moved ? 0 : idle + 1;
        dozed = dozed && !moved;
        if (idle == IDLE && !dozed) {
            world_doze(world);
            dozed = true;
            idle = 0;
        }
    }
    assert_true(idle == IDLE);
}

void world_advance(struct world *world, uint64_t ns)
{
    clock_fake_advance(&world->clock, ns);
    world_settle(world);
}

struct peer *world_peer(struct world *world, int rank, int of)
{
    struct peer *peer = peer_get(&world->sides[rank].group, of);
    assert_non_null(peer);
    return peer;
}

void world_ways(struct world *world, int count)
{
    for (int i = 0; i < world->size; i++)
        for (int j = 0; j < world->size; j++) {
            struct peer_endpoint *endpoint = &world_peer(world, i, j)->endpoint;
            for (int kind = TRANSPORT_UCX; i != j && endpoint->candidates_count < count;
                 kind++)
                endpoint->candidates[endpoint->candidates_count++] =
                    (enum transport_kind)kind;
        }
}

void world_join(struct world *world, int a, int b)
{
    peer_connect_start(world_peer(world, a, b));
    world_settle(world);
    assert_int_equal(world_peer(world, a, b)->endpoint.state, PEER_EP_READY);
    assert_int_equal(world_peer(world, b, a)->endpoint.state, PEER_EP_READY);
}

void world_inject(struct world *world, int rank, int from, const void *frame,
                  size_t bytes)
{
    struct peer *peer = world_peer(world, rank, from);
    /* exactly this size, so that an access one byte too far is detected */
    uint64_t *copy = malloc(bytes + !bytes);
    memcpy(copy, frame, bytes);
    world->forged = true;
    peer_rail_events.frame(peer->endpoint.ep, copy, bytes);
    free(copy);
}

/* ---- close ------------------------------------------------------------------------- */

static void knobs_release(struct side *side)
{
    side->still = side->hold_frames = side->hold_bulk = side->hold_sent = false;
    side->hold_cancels = side->hold_close = side->hold_sched = false;
    side->hold_accepts = side->silent = side->away = false;
    side->frames_max = 0;
    side->recv_again = side->send_again = 0;
    side->frames_fail = side->sends_fail = side->recvs_fail = side->returns_fail = false;
    side->unready = side->refuses = 0;
    side->no_kind = 0;
}

void world_leave_next(struct rendezvous *rdv)
{
    if (rdv->leave.state < LEAVE_CUT)
        rdv->leave.until_ns = clock_now_ns(rdv->clock);
    rendezvous_leave_poll(rdv);
}

void world_close(struct world *world)
{
    for (int i = 0; i < world->size; i++)
        knobs_release(&world->sides[i]);
    world->hold_links = false;
    world->link_again = 0;
    world_settle(world);
    world_counters_check_idle(world);
    for (unsigned state = LEAVE_BEGUN; state <= LEAVE_CUT; state++) {
        for (int i = 0; i < world->size; i++)
            if (world->sides[i].rdv->leave.state < state)
                world_leave_next(world->sides[i].rdv);
        world_settle(world);
    }
    for (int i = 0; i < world->size; i++)
        assert_int_equal(rendezvous_leave_poll(world->sides[i].rdv), LEAVE_DONE);
    world_counters_check_end(world);
    sides_close(world);
}

/* ---- operations -------------------------------------------------------------------- */

tryst_step *world_step(struct world *world, int rank, uint64_t id)
{
    tryst_step *step;
    assert_int_equal(tryst_step_open(&world->sides[rank].group, id, &step), TRYST_OK);
    return step;
}

const char *world_key(struct world *world, int src, int dst, const char *edge)
{
    static char key[TRYST_KEY_MAX + 1];
    assert_int_equal(
        tryst_key_build(&world->sides[0].group, src, dst, edge, 0, 0, key, sizeof key),
        TRYST_OK);
    return key;
}

static tryst_tensor tensor_of(void *data, size_t bytes)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .dtype = TRYST_DTYPE_U8,
                          .count = bytes,
                          .data = data};
}

tryst_op *world_send(struct world *world, int rank, tryst_step *step, const char *key,
                     void *data, size_t bytes, const tryst_op_params *params)
{
    tryst_tensor tensor = tensor_of(data, bytes);
    tryst_op *op;
    assert_int_equal(tryst_send(step, key, &tensor, params, &op), TRYST_OK);
    return op;
}

tryst_op *world_recv(struct world *world, int rank, tryst_step *step, const char *key,
                     void *data, size_t bytes, const tryst_op_params *params)
{
    tryst_tensor tensor = tensor_of(data, bytes);
    bool alloc = params && params->alloc;
    tryst_op *op;
    assert_int_equal(tryst_recv(step, key, alloc ? NULL : &tensor, params, &op),
                     TRYST_OK);
    return op;
}
