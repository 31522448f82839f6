/* SPDX-License-Identifier: Apache-2.0 */
/* Implements fake_tryst.h. One mutex, one list of operations per world, waits that poll:
 * the code must be obviously right, not fast. */
#include "fake_tryst.h"

#include "fake_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tryst/coll.h>
#include <tryst/profile.h>
#include <tryst/sized.h>

struct tryst_ctx {
    struct fake_world *world;
    int rank;
};

struct tryst_group {
    struct fake_world *world;
    int rank;
};

struct tryst_step {
    struct fake_world *world;
    int rank;
    uint64_t id;
};

struct tryst_key {
    struct fake_world *world;
    char text[TRYST_KEY_MAX + 1];
    int src_rank;
    int dst_rank;
};

/* A region; it stays until its owner and all views have given it back. */
struct tryst_mem {
    struct fake_world *world;
    void *data;
    size_t bytes;
    int uses;
    tryst_mem *next;
};

/* Bytes before a region's data: a pointer to its tryst_mem. */
#define MEM_AHEAD_BYTES 64

struct tryst_subgroup {
    struct fake_world *world;
    int rank; /* number of this rank among the members */
    int count;
    int32_t members[16];
};

struct tryst_coll {
    struct fake_world *world;
    struct tryst_subgroup subgroup; /* a copy */
    tryst_coll_params params;
    char name[64];
};

struct tryst_op {
    struct fake_world *world;
    tryst_coll *coll; /* NULL: a send or receive */
    int use;          /* of the collective's name in the step */
    tryst_op *next;
    bool sends;
    bool released;
    int rank;
    int peer;
    uint64_t step;
    char key[TRYST_KEY_MAX + 1];
    tryst_tensor tensor;
    tryst_op *partner; /* set while matched and not both complete */
    uint64_t due_ns;   /* when a matched receive completes; the send completes later */
    tryst_status status;
    char text[128];
    struct gate *gate; /* set if a stream waits for the operation */
};

/* The condition that a stream waits for; it outlives the operation. */
struct gate {
    struct fake_world *world;
    tryst_op *op; /* NULL: the operation has ended */
};

struct fake_world {
    pthread_mutex_t lock;
    int ranks_count;
    uint64_t random;
    uint64_t delay_max_ns;
    tryst_ctx *ctxs;
    tryst_group *groups;
    bool *killed;
    uint64_t *newest; /* [ranks]: 1 + the newest id of a step; 0: none */
    tryst_op *ops;    /* newest first */
    int live_count;
    uint64_t memory_bytes_left;
    bool lends;
    tryst_mem *mems;
    struct {
        int rank;
        uint64_t step;
        char text[128];
    } aborts[256]; /* one per rank and step */
    int aborts_count;
    struct {
        int32_t priority; /* of the last one */
        int posted;
    } * receives; /* by rank */
    int unordered_count;
    char held[64]; /* name of the all-reduces that do not end; "": none */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* xorshift64* */
static uint64_t draw(struct fake_world *world)
{
    world->random ^= world->random >> 12;
    world->random ^= world->random << 25;
    world->random ^= world->random >> 27;
    return world->random * 2685821657736338717ull;
}

struct fake_world *fake_world_open(int ranks_count, uint64_t seed, uint64_t delay_max_ns)
{
    struct fake_world *world = calloc(1, sizeof *world);
    *world = (struct fake_world){
        .ranks_count = ranks_count,
        .random = seed * 2 + 1,
        .delay_max_ns = delay_max_ns,
        .memory_bytes_left = UINT64_MAX,
        .lends = seed % 2 == 1,
        .ctxs = calloc((size_t)ranks_count, sizeof *world->ctxs),
        .groups = calloc((size_t)ranks_count, sizeof *world->groups),
        .killed = calloc((size_t)ranks_count, sizeof *world->killed),
        .newest = calloc((size_t)ranks_count, sizeof *world->newest),
        .receives = calloc((size_t)ranks_count, sizeof *world->receives)};
    pthread_mutex_init(&world->lock, NULL);
    for (int rank = 0; rank < ranks_count; rank++) {
        world->ctxs[rank] = (tryst_ctx){world, rank};
        world->groups[rank] = (tryst_group){world, rank};
    }
    return world;
}

int fake_world_close(struct fake_world *world)
{
    int left = world->live_count;
    while (world->ops) {
        tryst_op *op = world->ops;
        world->ops = op->next;
        free(op);
    }
    pthread_mutex_destroy(&world->lock);
    free(world->ctxs);
    free(world->groups);
    free(world->killed);
    free(world->newest);
    free(world->receives);
    free(world);
    return left;
}

tryst_ctx *fake_ctx(struct fake_world *world, int rank)
{
    return &world->ctxs[rank];
}

tryst_group *fake_group(struct fake_world *world, int rank)
{
    return &world->groups[rank];
}

static void count_live(struct fake_world *world, int change)
{
    pthread_mutex_lock(&world->lock);
    world->live_count += change;
    pthread_mutex_unlock(&world->lock);
}

void fake_memory(struct fake_world *world, uint64_t bytes)
{
    pthread_mutex_lock(&world->lock);
    world->memory_bytes_left = bytes;
    pthread_mutex_unlock(&world->lock);
}

static bool memory_reserve(struct fake_world *world, uint64_t bytes)
{
    pthread_mutex_lock(&world->lock);
    bool fits = bytes <= world->memory_bytes_left;
    world->memory_bytes_left -= fits ? bytes : 0;
    pthread_mutex_unlock(&world->lock);
    return fits;
}

void fake_kill(struct fake_world *world, int rank)
{
    pthread_mutex_lock(&world->lock);
    world->killed[rank] = true;
    pthread_mutex_unlock(&world->lock);
}

int fake_unordered(const struct fake_world *world)
{
    return world->unordered_count;
}

int fake_posted(const struct fake_world *world, int rank)
{
    return world->receives[rank].posted;
}

/* ---- operations (under the lock) --------------------------------------------------- */

static void complete(tryst_op *op, tryst_status status, const char *text)
{
    op->status = status;
    if (op->gate) {
        op->gate->op = NULL;
        op->gate = NULL;
    }
    snprintf(op->text, sizeof op->text, "%s", text);
    if (op->partner) {
        op->partner->partner = NULL;
        op->partner = NULL;
    }
}

static void match(tryst_op *op)
{
    tryst_op *found = NULL;
    for (tryst_op *other = op->world->ops; other; other = other->next) {
        if (other != op && !other->coll && other->sends != op->sends &&
            other->status == TRYST_IN_PROGRESS && !other->partner &&
            other->step == op->step && strcmp(other->key, op->key) == 0) {
            found = other; /* the last match in the list is the oldest */
        }
    }
    if (found) {
        uint64_t span = op->world->delay_max_ns;
        op->partner = found;
        found->partner = op;
        op->due_ns = now_ns() + (span ? draw(op->world) % span : 0);
        found->due_ns = op->due_ns;
    }
}

/* Copy and complete both ends of a match that is due. Called from the receiver's side
 * only. */
static void deliver(tryst_op *receive)
{
    tryst_op *send = receive->partner;
    if (send->tensor.count != receive->tensor.count ||
        send->tensor.dtype != receive->tensor.dtype) {
        complete(receive, TRYST_E_MISMATCH, "sizes differ");
        complete(send, TRYST_E_MISMATCH, "sizes differ");
        return;
    }
    if (send->tensor.count > 0) {
        memcpy(receive->tensor.data, send->tensor.data,
               send->tensor.count * tryst_dtype_bytes(send->tensor.dtype));
    }
    complete(receive, TRYST_OK, "");
    complete(send, TRYST_OK, "");
}

static const char *find_abort(const struct fake_world *world, uint64_t step)
{
    for (int i = 0; i < world->aborts_count; i++) {
        if (world->aborts[i].step == step) {
            return world->aborts[i].text;
        }
    }
    return NULL;
}

static bool has_aborted(const struct fake_world *world, int rank, uint64_t step)
{
    for (int i = 0; i < world->aborts_count; i++) {
        if (world->aborts[i].rank == rank && world->aborts[i].step == step) {
            return true;
        }
    }
    return false;
}

bool fake_aborted(struct fake_world *world, int rank, uint64_t step)
{
    pthread_mutex_lock(&world->lock);
    bool aborted = has_aborted(world, rank, step);
    pthread_mutex_unlock(&world->lock);
    return aborted;
}

/* True if the tensors' events have passed; device tensors have one at both ends. */
static bool is_ready(const tryst_op *op)
{
    return !op->tensor.ready_event ||
           tryst_event_test(NULL, op->tensor.ready_event) == TRYST_OK;
}

/* Find the operation of member `number` of the collective that `op` belongs to. */
static tryst_op *member_op(const tryst_op *op, int number)
{
    const struct tryst_subgroup *of = &op->coll->subgroup;
    for (tryst_op *other = op->world->ops; other; other = other->next) {
        if (other->coll && other->rank == of->members[number] && other->use == op->use &&
            other->step == op->step && strcmp(other->key, op->key) == 0) {
            return other;
        }
    }
    return NULL;
}

/* Sum in the order of members, and complete all members' operations, if all are there and
 * due. */
static void sum_up(tryst_op *op)
{
    int count = op->coll->subgroup.count;
    if (strcmp(op->key, op->world->held) == 0) {
        return;
    }
    tryst_op *ops[16];
    uint64_t now = now_ns();
    for (int i = 0; i < count; i++) {
        ops[i] = member_op(op, i);
        if (!ops[i] || ops[i]->status != TRYST_IN_PROGRESS || now < ops[i]->due_ns) {
            return;
        }
    }
    for (uint64_t at = 0; at < op->tensor.count; at++) {
        float sum = ((float *)ops[0]->tensor.data)[at];
        for (int i = 1; i < count; i++) {
            sum += ((float *)ops[i]->tensor.data)[at];
        }
        for (int i = 0; i < count; i++) {
            ((float *)ops[i]->tensor.data)[at] = sum;
        }
    }
    for (int i = 0; i < count; i++) {
        complete(ops[i], TRYST_OK, "");
    }
}

static tryst_status coll_look(tryst_op *op)
{
    const struct tryst_subgroup *of = &op->coll->subgroup;
    sum_up(op);
    for (int i = 0; i < of->count && op->status == TRYST_IN_PROGRESS; i++) {
        if (op->world->killed[of->members[i]]) {
            char text[64];
            snprintf(text, sizeof text, "rank %d died", (int)of->members[i]);
            complete(op, TRYST_E_PEER, text);
        }
    }
    if (op->status == TRYST_IN_PROGRESS && find_abort(op->world, op->step)) {
        complete(op, TRYST_E_ABORTED, find_abort(op->world, op->step));
    }
    return op->status;
}

static tryst_status look(tryst_op *op)
{
    struct fake_world *world = op->world;
    if (op->status != TRYST_IN_PROGRESS) {
        return op->status;
    }
    if (op->coll) {
        return coll_look(op);
    }
    if (op->partner && !op->sends && now_ns() >= op->due_ns && is_ready(op) &&
        is_ready(op->partner)) {
        deliver(op);
    } else if (op->peer >= 0 && (world->killed[op->peer] || world->killed[op->rank])) {
        char text[64];
        snprintf(text, sizeof text, "rank %d died",
                 world->killed[op->peer] ? op->peer : op->rank);
        complete(op, TRYST_E_PEER, text);
    } else if (find_abort(world, op->step)) {
        complete(op, TRYST_E_ABORTED, find_abort(world, op->step));
    }
    return op->status;
}

static tryst_status submit(tryst_step *step, const tryst_key *key,
                           const tryst_tensor *tensor, bool sends, tryst_op **op_p)
{
    struct fake_world *world = step->world;
    tryst_op *op = calloc(1, sizeof *op);
    *op = (tryst_op){.world = world,
                     .sends = sends,
                     .rank = step->rank,
                     .peer = sends ? key->dst_rank : key->src_rank,
                     .step = step->id,
                     .tensor = *tensor,
                     .status = TRYST_IN_PROGRESS};
    memcpy(op->key, key->text, sizeof op->key);
    pthread_mutex_lock(&world->lock);
    op->next = world->ops;
    world->ops = op;
    world->live_count++;
    match(op);
    pthread_mutex_unlock(&world->lock);
    *op_p = op;
    return TRYST_OK;
}

static void unordered_note(struct fake_world *world)
{
    pthread_mutex_lock(&world->lock);
    world->unordered_count++;
    pthread_mutex_unlock(&world->lock);
}

/* True if the receive comes before operations without a priority, and after all receives
 * that its rank posted before it. */
static bool receive_is_ordered(const tryst_step *step, const tryst_tensor *tensor,
                               const tryst_op_params *params)
{
    struct fake_world *world = step->world;
    if (!params || !(params->flags & TRYST_OP_PRIORITY) || params->priority >= 0) {
        return tensor->count <= 1; /* about the memory of items, not an item */
    }
    bool first = world->receives[step->rank].posted == 0;
    bool ordered = first || world->receives[step->rank].priority < params->priority;
    world->receives[step->rank].posted++;
    world->receives[step->rank].priority = params->priority;
    return ordered;
}

tryst_status tryst_send_key(tryst_step *step, const tryst_key *key,
                            const tryst_tensor *tensor, const tryst_op_params *params,
                            tryst_op **op_p)
{
    if (params && params->flags & TRYST_OP_PRIORITY) {
        unordered_note(step->world);
    }
    return submit(step, key, tensor, true, op_p);
}

tryst_status tryst_recv_key(tryst_step *step, const tryst_key *key,
                            const tryst_tensor *tensor, const tryst_op_params *params,
                            tryst_op **op_p)
{
    if (!receive_is_ordered(step, tensor, params)) {
        unordered_note(step->world);
    }
    return submit(step, key, tensor, false, op_p);
}

tryst_status tryst_op_test(const tryst_op *op)
{
    pthread_mutex_lock(&op->world->lock);
    tryst_status status = look((tryst_op *)op);
    pthread_mutex_unlock(&op->world->lock);
    return status;
}

tryst_status tryst_wait(tryst_op *op, uint64_t timeout_ns)
{
    uint64_t begin_ns = now_ns();
    for (;;) {
        tryst_status status = tryst_op_test(op);
        if (status != TRYST_IN_PROGRESS) {
            return status;
        }
        if (now_ns() - begin_ns > timeout_ns) {
            return TRYST_E_TIMEOUT;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

tryst_status tryst_op_error(const tryst_op *op, tryst_error *error_p)
{
    if (op->status == TRYST_OK || op->status == TRYST_IN_PROGRESS) {
        return op->status;
    }
    const tryst_error error = {
        .status = op->status, .origin_rank = op->peer, .text = op->text};
    (void)tryst_sized_write(error_p, &error, sizeof error);
    return op->status;
}

static void unlink_op(struct fake_world *world, tryst_op *op)
{
    for (tryst_op **place = &world->ops; *place; place = &(*place)->next) {
        if (*place == op) {
            *place = op->next;
            return;
        }
    }
}

void tryst_op_release(tryst_op *op)
{
    if (!op) {
        return;
    }
    struct fake_world *world = op->world;
    pthread_mutex_lock(&world->lock);
    if (op->status == TRYST_IN_PROGRESS) {
        abort(); /* the engine keeps every operation to its end */
    }
    unlink_op(world, op);
    world->live_count--;
    pthread_mutex_unlock(&world->lock);
    free(op);
}

static bool gate_is_open(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->world->lock);
    if (gate->op) {
        look(gate->op);
    }
    bool open = !gate->op;
    pthread_mutex_unlock(&gate->world->lock);
    if (open) {
        free(gate); /* not called again */
    }
    return open;
}

tryst_status tryst_op_stream_wait(tryst_op *op, int32_t device, void *stream)
{
    (void)device;
    struct gate *gate = calloc(1, sizeof *gate);
    pthread_mutex_lock(&op->world->lock);
    *gate = (struct gate){op->world, op->status == TRYST_IN_PROGRESS ? op : NULL};
    if (gate->op) {
        op->gate = gate;
    }
    pthread_mutex_unlock(&op->world->lock);
    fake_device_until(stream, gate_is_open, gate);
    return TRYST_OK;
}

int tryst_progress(tryst_ctx *ctx)
{
    (void)ctx;
    return 0;
}

void fake_hold(struct fake_world *world, const char *name)
{
    pthread_mutex_lock(&world->lock);
    snprintf(world->held, sizeof world->held, "%s", name ? name : "");
    pthread_mutex_unlock(&world->lock);
}

bool fake_under_way(struct fake_world *world, int rank, const char *name)
{
    bool found = false;
    pthread_mutex_lock(&world->lock);
    for (const tryst_op *op = world->ops; op; op = op->next) {
        found = found || (op->coll && op->rank == rank && strcmp(op->key, name) == 0);
    }
    pthread_mutex_unlock(&world->lock);
    return found;
}

/* ---- collectives ------------------------------------------------------------------- */

tryst_status tryst_subgroup_open(tryst_group *group, const tryst_subgroup_params *params,
                                 tryst_subgroup **subgroup_p)
{
    tryst_subgroup *self = calloc(1, sizeof *self);
    *self =
        (tryst_subgroup){.world = group->world, .rank = -1, .count = (int)params->count};
    for (int i = 0; i < self->count; i++) {
        self->members[i] = params->members[i];
        self->rank = params->members[i] == group->rank ? i : self->rank;
    }
    count_live(group->world, 1);
    *subgroup_p = self;
    return TRYST_OK;
}

void tryst_subgroup_close(tryst_subgroup *subgroup)
{
    if (subgroup) {
        count_live(subgroup->world, -1);
        free(subgroup);
    }
}

int tryst_subgroup_rank(const tryst_subgroup *subgroup)
{
    return subgroup->rank;
}

int tryst_subgroup_size(const tryst_subgroup *subgroup)
{
    return subgroup->count;
}

tryst_status tryst_coll_prepare(tryst_group *group, const tryst_coll_params *params,
                                tryst_coll **coll_p)
{
    tryst_coll *self = calloc(1, sizeof *self);
    *self = (tryst_coll){
        .world = group->world, .subgroup = *params->subgroup, .params = *params};
    snprintf(self->name, sizeof self->name, "%s", params->name);
    count_live(group->world, 1);
    *coll_p = self;
    return TRYST_OK;
}

void tryst_coll_release(tryst_coll *coll)
{
    if (coll) {
        count_live(coll->world, -1);
        free(coll);
    }
}

/* Count the starts of a collective's name by a rank in a step; the caller has the
 * lock. */
static int uses_of(const struct fake_world *world, int rank, uint64_t step,
                   const char *name)
{
    int count = 0;
    for (const tryst_op *op = world->ops; op; op = op->next) {
        count += op->coll && op->rank == rank && op->step == step &&
                 strcmp(op->key, name) == 0;
    }
    return count;
}

/* An all-reduce is less urgent than every receive. (Its operation must be released before
 * the next use of its name in the step, as the engine does.) */
tryst_status tryst_coll_start(tryst_step *step, tryst_coll *coll, const tryst_tensor *in,
                              const tryst_tensor *out, const tryst_op_params *params,
                              tryst_op **op_p)
{
    struct fake_world *world = step->world;
    tryst_op *op = calloc(1, sizeof *op);
    if (in || !params || !(params->flags & TRYST_OP_PRIORITY) || params->priority < 0) {
        unordered_note(world);
    }
    *op = (tryst_op){.world = world,
                     .coll = coll,
                     .rank = step->rank,
                     .peer = -1,
                     .step = step->id,
                     .tensor = *out,
                     .status = TRYST_IN_PROGRESS};
    snprintf(op->key, sizeof op->key, "%s", coll->name);
    pthread_mutex_lock(&world->lock);
    op->use = uses_of(world, step->rank, step->id, coll->name);
    op->due_ns = now_ns() + (world->delay_max_ns ? draw(world) % world->delay_max_ns : 0);
    op->next = world->ops;
    world->ops = op;
    world->live_count++;
    pthread_mutex_unlock(&world->lock);
    *op_p = op;
    return TRYST_OK;
}

/* ---- steps, keys, memory, other calls ---------------------------------------------- */

tryst_status tryst_step_open(tryst_group *group, uint64_t id, tryst_step **step_p)
{
    uint64_t *newest =
        &group->world->newest[group->rank]; /* of this rank's thread alone */
    if (id < *newest) {
        return TRYST_E_INVALID;
    }
    *newest = id + 1;
    tryst_step *step = calloc(1, sizeof *step);
    *step = (tryst_step){group->world, group->rank, id};
    count_live(group->world, 1);
    *step_p = step;
    return TRYST_OK;
}

tryst_status tryst_step_abort(tryst_step *step, tryst_status status, const char *reason)
{
    struct fake_world *world = step->world;
    (void)status;
    pthread_mutex_lock(&world->lock);
    if (!world->killed[step->rank] && !has_aborted(world, step->rank, step->id) &&
        world->aborts_count < 256) {
        world->aborts[world->aborts_count].rank = step->rank;
        world->aborts[world->aborts_count].step = step->id;
        snprintf(world->aborts[world->aborts_count].text, sizeof world->aborts->text,
                 "aborted: %s", reason);
        world->aborts_count++;
    }
    pthread_mutex_unlock(&world->lock);
    return TRYST_OK;
}

tryst_status tryst_step_status(const tryst_step *step, tryst_error *error_p)
{
    struct fake_world *world = step->world;
    pthread_mutex_lock(&world->lock);
    const char *text = find_abort(world, step->id);
    pthread_mutex_unlock(&world->lock);
    if (text) {
        const tryst_error error = {
            .status = TRYST_E_ABORTED, .origin_rank = 0, .step = step->id, .text = text};
        (void)tryst_sized_write(error_p, &error, sizeof error);
    }
    return text ? TRYST_E_ABORTED : TRYST_OK;
}

tryst_status tryst_step_close(tryst_step *step, tryst_op **op_p)
{
    struct fake_world *world = step->world;
    pthread_mutex_lock(&world->lock);
    for (tryst_op *op = world->ops; op; op = op->next) {
        if (op->rank == step->rank && op->step == step->id &&
            op->status == TRYST_IN_PROGRESS) {
            complete(op, TRYST_E_CANCELED, "the step was closed");
        }
    }
    pthread_mutex_unlock(&world->lock);
    if (op_p) {
        tryst_op *op = calloc(1, sizeof *op);
        *op = (tryst_op){
            .world = world, .rank = step->rank, .peer = -1, .status = TRYST_OK};
        count_live(world, 1);
        *op_p = op;
    }
    count_live(world, -1);
    free(step);
    return TRYST_OK;
}

tryst_status tryst_key_build(const tryst_group *group, int src_rank, int dst_rank,
                             const char *edge, uint64_t frame, uint64_t iter, char *key,
                             size_t capacity)
{
    (void)group;
    snprintf(key, capacity, "%d;%d;%s;%llu:%llu", src_rank, dst_rank, edge,
             (unsigned long long)frame, (unsigned long long)iter);
    return TRYST_OK;
}

tryst_status tryst_key_prepare(tryst_group *group, const char *key, tryst_key **key_p)
{
    tryst_key *self = calloc(1, sizeof *self);
    self->world = group->world;
    snprintf(self->text, sizeof self->text, "%s", key);
    char *after = NULL;
    self->src_rank = (int)strtol(key, &after, 10);
    self->dst_rank = (int)strtol(after + 1, NULL, 10);
    count_live(group->world, 1);
    *key_p = self;
    return TRYST_OK;
}

void tryst_key_release(tryst_key *key)
{
    if (key) {
        count_live(key->world, -1);
        free(key);
    }
}

tryst_status tryst_mem_alloc(tryst_ctx *ctx, size_t bytes, tryst_memory_kind memory,
                             int32_t device, void **data_p, tryst_mem **mem_p)
{
    (void)memory;
    (void)device;
    if (!memory_reserve(ctx->world, bytes)) {
        return TRYST_E_NOMEM;
    }
    tryst_mem *self = calloc(1, sizeof *self);
    char *room = aligned_alloc(64, MEM_AHEAD_BYTES + (bytes + 63) / 64 * 64);
    memcpy(room, &self, sizeof self);
    *self = (tryst_mem){
        .world = ctx->world, .data = room + MEM_AHEAD_BYTES, .bytes = bytes, .uses = 1};
    pthread_mutex_lock(&ctx->world->lock);
    self->next = ctx->world->mems;
    ctx->world->mems = self;
    pthread_mutex_unlock(&ctx->world->lock);
    count_live(ctx->world, 1);
    *data_p = self->data;
    *mem_p = self;
    return TRYST_OK;
}

static void mem_unlink(tryst_mem *mem)
{
    tryst_mem **at = &mem->world->mems;
    while (*at != mem) {
        at = &(*at)->next;
    }
    *at = mem->next;
}

void tryst_mem_release(tryst_mem *mem)
{
    if (!mem) {
        return;
    }
    struct fake_world *world = mem->world;
    pthread_mutex_lock(&world->lock);
    bool last = --mem->uses == 0;
    if (last) {
        mem_unlink(mem);
    }
    pthread_mutex_unlock(&world->lock);
    count_live(world, -1);
    if (last) {
        free((char *)mem->data - MEM_AHEAD_BYTES);
        free(mem);
    }
}

/* One memory for all ranks: a view is the region itself, known by its address. */
static tryst_mem *mem_at(struct fake_world *world, const void *data)
{
    tryst_mem *mem = world->mems;
    while (mem && mem->data != data) {
        mem = mem->next;
    }
    return mem;
}

void fake_lend(struct fake_world *world, bool lends)
{
    world->lends = lends;
}

tryst_status tryst_mem_share(tryst_group *group, int rank, tryst_mem *mem, uint64_t *id_p)
{
    (void)rank;
    *id_p = (uint64_t)(uintptr_t)mem->data;
    return group->world->lends ? TRYST_OK : TRYST_E_UNSUPPORTED;
}

tryst_status tryst_mem_view(tryst_group *group, int rank, uint64_t id,
                            const void **data_p, size_t *bytes_p)
{
    struct fake_world *world = group->world;
    (void)rank;
    pthread_mutex_lock(&world->lock);
    bool late = world->delay_max_ns && draw(world) % 2; /* a note that came first */
    tryst_mem *mem = late ? NULL : mem_at(world, (const void *)(uintptr_t)id);
    if (mem) {
        mem->uses++;
        *data_p = mem->data;
        *bytes_p = mem->bytes;
    }
    pthread_mutex_unlock(&world->lock);
    if (mem) {
        count_live(world, 1);
    }
    return mem ? TRYST_OK : TRYST_AGAIN;
}

void tryst_mem_view_close(const void *data, size_t bytes)
{
    tryst_mem *mem;
    (void)bytes;
    memcpy(&mem, (const char *)data - MEM_AHEAD_BYTES, sizeof mem);
    tryst_mem_release(mem);
}

int tryst_group_rank(const tryst_group *group)
{
    return group->rank;
}

int tryst_group_size(const tryst_group *group)
{
    return group->world->ranks_count;
}

uint64_t tryst_now_ns(const tryst_ctx *ctx)
{
    (void)ctx;
    return now_ns();
}

tryst_status tryst_profile_action(tryst_ctx *ctx, const char *name)
{
    (void)ctx;
    return name ? TRYST_OK : TRYST_E_INVALID;
}

void tryst_trace_span(tryst_ctx *ctx, const char *name, uint64_t begin_ns,
                      uint64_t end_ns, uint64_t arg)
{
    (void)ctx;
    (void)name;
    (void)begin_ns;
    (void)end_ns;
    (void)arg;
}

size_t tryst_dtype_bytes(tryst_dtype dtype)
{
    static const size_t bytes[] = {0, 1, 1, 4, 8, 2, 2, 4, 8, 2, 2, 4, 8};
    return bytes[dtype];
}

const char *tryst_dtype_name(tryst_dtype dtype)
{
    static const char *const names[] = {"",    "u8",  "i8",  "i32", "i64", "f16", "bf16",
                                        "f32", "f64", "u16", "i16", "u32", "u64"};
    return names[dtype];
}
