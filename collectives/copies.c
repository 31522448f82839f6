/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of a collective between device memory and host memory (copies.h).
 *
 * Each part has at most a fetch and a bring. The flows of a packed collective move
 * private memory, so it has one fetch, and a bring of each block. The copier reports
 * progress from its thread: copy_moved queues one submission for all copies of the run,
 * which reads their counters in the progress domain.
 *
 * Memory order: `state` holds a bit while the submission is queued, and the number of the
 * copies that have reported their end. A copy reports its end and takes the right to
 * queue the submission in one atomic operation, and the submission clears the bit and
 * reads the number in one. So when the submission sees all ends, no copier's call will
 * queue it again, nor touch the run. The release of `ended` publishes the final members
 * of a range.
 *
 * A thread that takes the copies over uses the run while the operation's streams are BUSY
 * (op.h). It stores `takeover` and queues the submission before it leaves; the run ends
 * only in another state, with the submission not queued.
 */
#include "copies.h"

#include <assert.h>

#include "core/memory/alloc.h"
#include "core/text/refuse.h"
#include "fail.h"
#include "prepare.h"
#include "rendezvous/coll_op.h"
#include "rendezvous/copier/copier.h"
#include "rendezvous/copier/shadows.h"
#include "rendezvous/copier/takeover.h"
#include "rendezvous/op/dtype.h"
#include "start.h"

static const char submit_call[] = "submit";

/* `state`: the submission is queued; one copy has ended. */
enum { QUEUED = 1, ENDED_ONE = 2 };

/* Time between two polls of words: while the device moves, and while the gate is closed,
 * when only the loss of the device could be found. */
#define POLL_NS      (50 * NS_PER_US)
#define POLL_GATE_NS (10 * NS_PER_MS)

/* Time from a failure on in which the flows of the run should end. Where they do not,
 * since a peer is stopped, a stream that waits goes on before them: what is queued in it
 * uses shadows, which stay until the run ends. */
#define FAILED_NS (NS_PER_S / 5)

/* Of the two tensors of a run. */
enum side { IN, OUT, SIDES };

struct coll_copy {
    struct copier_range range;
    struct coll_copies *copies;
    struct coll_tree_run *at; /* NULL: of a whole tensor or block */
    uint64_t limit;           /* of a bring: that of the last copier_raise */
    _Atomic(bool) ended;      /* the members of `range` are final */
};

struct coll_copies {
    struct submission moved;
    uint64_t failed_ns; /* when the run failed; 0: it has not */
    _Atomic(uint64_t) state;
    struct coll_run *run;
    tryst_tensor tensors[SIDES]; /* the caller's */
    struct shadow shadows[SIDES];
    bool is_device[SIDES]; /* the run's tensor is in a shadow */
    bool unchecked;        /* in colls->copies_unchecked once begun */
    struct list_node unchecked_node;
    uint32_t count, fetches; /* all copies; of these, the fetches */
    uint32_t begun, ended;   /* handed to the copier; of these, ended */
    /* NULL: not taken over. Stored with release by the thread that takes over. */
    _Atomic(struct takeover *) takeover;
    struct list_node polled_node; /* in colls->copies_polled */
    struct coll_copy items[];
};

/* ---- tensors ----------------------------------------------------------------------- */

/* True if the tensor needs a shadow. */
static bool needs_shadow(const tryst_tensor *tensor)
{
    return tensor->memory != TRYST_MEMORY_HOST || tensor->ready_event;
}

static uint64_t bytes_of(const tryst_coll *coll, const tryst_tensor *tensor)
{
    return coll_bytes(tensor->count, dtype_bytes(coll->tensor_dtype));
}

static struct takeover *takeover_of(const struct coll_copies *copies)
{
    return atomic_load_explicit(&copies->takeover, memory_order_acquire);
}

/* Let words be polled at least every `nap_ns`. */
static void nap_shorten(struct colls *colls, uint64_t nap_ns)
{
    if (!colls->nap_ns || colls->nap_ns > nap_ns)
        colls->nap_ns = nap_ns;
    colls->is_due = true;
}

static void polled_add(struct coll_copies *copies)
{
    struct colls *colls = copies->run->coll->colls;
    if (!list_linked(&copies->polled_node))
        list_push_back(&colls->copies_polled, &copies->polled_node);
    nap_shorten(colls, POLL_NS);
}

/* Let no thread take the operation over any more. False: one uses the run now. */
static bool streams_close(tryst_op *op)
{
    enum op_streams state = OP_STREAMS_UNBEGUN;
    while (state != OP_STREAMS_GATE && state != OP_STREAMS_BUSY &&
           !op_streams_change(op, state, OP_STREAMS_GATE))
        state = (enum op_streams)atomic_load_explicit(&op->streams, memory_order_acquire);
    return state != OP_STREAMS_BUSY;
}

/* Open the context's copier and its shadows, unless they are open. */
static tryst_status copier_find(struct colls *colls, tryst_group *group)
{
    tryst_status status = TRYST_OK;
    pthread_mutex_lock(&colls->lock);
    if (!colls->copier)
        status = group_copier_open(group, colls->shadow_bytes_max, &colls->copier,
                                   &colls->shadows);
    pthread_mutex_unlock(&colls->lock);
    return status == TRYST_OK ? status : refuse_nomem(submit_call);
}

/* Return the largest number of copies. */
static uint32_t copies_max(const tryst_coll *coll)
{
    return coll->is_packed ? 1 + (uint32_t)coll->size : 2 * coll->parts_count;
}

/* Put a shadow in place of the tensor of `side`, in `run_tensor`. */
static tryst_status shadow_take(struct coll_copies *copies, enum side side,
                                tryst_tensor *run_tensor)
{
    const tryst_tensor *tensor = &copies->tensors[side];
    struct coll_run *run = copies->run;
    struct shadow *shadow = &copies->shadows[side];
    tryst_status status = shadow_get(run->coll->colls->shadows, coll_tensor_ops(tensor),
                                     tensor->device, bytes_of(run->coll, tensor), shadow);
    if (status != TRYST_OK)
        return refuse_nomem(submit_call);
    copies->is_device[side] = true;
    run_tensor->data = shadow->data;
    run_tensor->mem = shadow->mem;
    return TRYST_OK;
}

/* True if `inner` is a part of `outer`, or not given: the collective is in place. */
static bool is_inside(const tryst_coll *coll, const tryst_tensor *inner,
                      const tryst_tensor *outer)
{
    uintptr_t a = (uintptr_t)inner->data, b = (uintptr_t)outer->data;
    uint64_t inner_bytes = bytes_of(coll, inner), outer_bytes = bytes_of(coll, outer);
    return a && b && a >= b && a - b < outer_bytes && inner_bytes <= outer_bytes;
}

/* Let `inner`, of `side`, be in the shadow of the other tensor. */
static void shadow_share(struct coll_copies *copies, enum side side, tryst_tensor *inner,
                         const tryst_tensor *outer)
{
    const tryst_tensor *whole = &copies->tensors[!side];
    size_t at = (size_t)((char *)copies->tensors[side].data - (char *)whole->data);
    copies->is_device[side] = true;
    inner->data = (char *)outer->data + at;
    inner->mem = outer->mem;
}

static tryst_status shadows_take(struct coll_copies *copies)
{
    struct coll_run *run = copies->run;
    tryst_tensor *const tensors[SIDES] = {&run->in, &run->out};
    const tryst_tensor *in = &copies->tensors[IN], *out = &copies->tensors[OUT];
    bool in_shares = is_inside(run->coll, in, out);
    bool out_shares = !in_shares && is_inside(run->coll, out, in);
    const bool shares[SIDES] = {in_shares, out_shares};
    for (enum side side = IN; side < SIDES; side++) {
        const tryst_tensor *tensor = &copies->tensors[side];
        if (!needs_shadow(tensor) || !tensor->data || shares[side] ||
            !bytes_of(run->coll, tensor))
            continue;
        tryst_status status = shadow_take(copies, side, tensors[side]);
        if (status != TRYST_OK)
            return status;
    }
    for (enum side side = IN; side < SIDES; side++)
        if (shares[side] && copies->is_device[!side])
            shadow_share(copies, side, tensors[side], tensors[!side]);
    return TRYST_OK;
}

tryst_status coll_copies_open(struct coll_run *run, bool unchecked)
{
    if (!needs_shadow(&run->in) && !needs_shadow(&run->out))
        return TRYST_OK;
    const tryst_coll *coll = run->coll;
    struct coll_copies *copies =
        mem_zalloc(sizeof *copies + copies_max(coll) * sizeof copies->items[0]);
    if (!copies)
        return refuse_nomem(submit_call);
    run->copies = copies;
    atomic_init(&copies->state, 0);
    copies->run = run;
    copies->unchecked = unchecked;
    copies->tensors[IN] = run->in;
    copies->tensors[OUT] = run->out;
    tryst_status status = copier_find(coll->colls, coll->group);
    return status == TRYST_OK ? shadows_take(copies) : status;
}

const tryst_tensor *coll_copies_out(const struct coll_run *run)
{
    return run->copies ? &run->copies->tensors[OUT] : &run->out;
}

void coll_copies_close(struct coll_run *run)
{
    struct coll_copies *copies = run->copies;
    if (!copies)
        return;
    assert(!list_linked(&copies->unchecked_node)); /* begun, or cancelled */
    list_remove(&copies->polled_node);
    if (takeover_of(copies))
        takeover_put(takeover_of(copies));
    for (enum side side = IN; side < SIDES; side++)
        if (copies->shadows[side].data)
            shadow_put(run->coll->colls->shadows, &copies->shadows[side]);
    mem_free(copies);
    run->copies = NULL;
}

void coll_copies_close_all(struct colls *colls)
{
    copier_close(colls->copier);
    shadows_close(colls->shadows);
    colls->copier = NULL;
    colls->shadows = NULL;
}

/* ---- progress, from the copier's thread -------------------------------------------- */

/* Queue the submission unless it is queued; `more` is added to the state. */
static void update_queue(struct coll_copies *copies, uint64_t more)
{
    uint64_t before, after;
    /* acq_rel: see the top of the file. */
    before = atomic_load_explicit(&copies->state, memory_order_relaxed);
    do
        after = (before | QUEUED) + more;
    while (!atomic_compare_exchange_weak_explicit(
        &copies->state, &before, after, memory_order_acq_rel, memory_order_relaxed));
    if (!(before & QUEUED))
        coll_op_queue(copies->run->op, &copies->moved);
}

static void copy_moved(struct copier_range *range)
{
    struct coll_copy *copy = container_of(range, struct coll_copy, range);
    atomic_store_explicit(&copy->ended, range->ended, memory_order_release);
    update_queue(copy->copies, range->ended ? ENDED_ONE : 0);
}

/* Note the first `slices` slices of a part's own term. */
static void part_fetched(struct coll_tree_run *at, uint32_t slices)
{
    if (slices == at->tree.fetched)
        return;
    coll_tree_fetched(&at->tree, slices);
    tree_mark(at);
}

/* Return how many slices of the part are in the first `bytes` bytes. */
static uint32_t slices_in(const struct coll_part *part, uint64_t bytes)
{
    return bytes == part->bytes ? part->slices : (uint32_t)(bytes / part->slice_bytes);
}

static void fetch_update(const struct coll_copy *copy, uint64_t done)
{
    struct coll_run *run = copy->copies->run;
    bool is_taken = !copy->at || copy->at->part->is_exchange; /* once it is whole */
    if (!is_taken) {
        part_fetched(copy->at, slices_in(copy->at->part, done));
        return;
    }
    if (done < copy->range.bytes || run->trees->tree.fetched)
        return;
    coll_terms_take(run);
    for (uint32_t t = 0; t < run->coll->parts_count; t++)
        part_fetched(&run->trees[t], run->trees[t].part->slices);
}

static void copies_update(struct rendezvous *rdv, struct submission *submission)
{
    struct coll_copies *copies = container_of(submission, struct coll_copies, moved);
    struct coll_run *run = copies->run;
    (void)rdv;
    /* acq_rel: see the top of the file. */
    uint64_t state = atomic_fetch_and_explicit(&copies->state, ~(uint64_t)QUEUED,
                                               memory_order_acq_rel);
    copies->ended = (uint32_t)(state / ENDED_ONE);
    for (uint32_t i = 0; i < copies->begun; i++) {
        const struct coll_copy *copy = &copies->items[i];
        const struct copier_range *range = &copy->range;
        bool ended = atomic_load_explicit(&copy->ended, memory_order_acquire);
        if (run_failed(run))
            break;
        if (ended && range->status != TRYST_OK)
            run_fail_own(run, range->status, range->text);
        else if (range->way == COPIER_FETCH)
            fetch_update(copy, atomic_load_explicit(&range->done, memory_order_acquire));
    }
    if (takeover_of(copies))
        polled_add(copies);
    run_mark(run);
}

/* ---- the copies of a run ----------------------------------------------------------- */

/* Append a copy of `bytes` bytes at `offset` in the tensor of `side`. */
static struct coll_copy *copy_add(struct coll_copies *copies, enum side side,
                                  struct coll_tree_run *at, uint64_t offset,
                                  uint64_t bytes)
{
    const struct coll_run *run = copies->run;
    const tryst_tensor *tensor = &copies->tensors[side];
    struct coll_copy *copy = &copies->items[copies->count++];
    bool fetches = side == IN;
    copies->fetches += fetches;
    *copy = (struct coll_copy){
        .copies = copies,
        .at = at,
        .range = {.device = tensor->device,
                  .way = fetches ? COPIER_FETCH : COPIER_BRING,
                  .device_data = (char *)tensor->data + offset,
                  .host_data = (char *)(fetches ? run->in.data : run->out.data) + offset,
                  .bytes = bytes,
                  .ready = tensor->ready_event,
                  .limit = fetches ? bytes : 0,
                  .moved = copy_moved}};
    return copy;
}

bool coll_copies_fetch(const struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    const struct coll_copies *copies = at->run->copies;
    if (!copies || !copies->is_device[IN])
        return false;
    bool has_own = part->is_root || part->sends_up;
    return at->run->coll->is_packed ? at->run->coll->in_count : has_own && part->bytes;
}

/* True if the part has a result at this rank, other than its own term. */
static bool is_brought(const struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    const struct coll_tree *tree = &at->tree;
    bool is_made = part->is_root && (part->up_children || tree->owns || tree->finishes);
    return at->run->copies->is_device[OUT] && part->out_at != COLL_NOWHERE &&
           part->bytes && (part->receives_down || is_made);
}

static void packed_lay(struct coll_copies *copies)
{
    const tryst_coll *coll = copies->run->coll;
    const struct coll_blocks *blocks = &coll->out_blocks;
    size_t element = dtype_bytes(coll->tensor_dtype);
    if (copies->is_device[IN] && coll->in_count)
        copy_add(copies, IN, NULL, 0, coll->in_count * element);
    if (!copies->is_device[OUT])
        return;
    if (!blocks->is_given)
        copy_add(copies, OUT, NULL, 0, coll->out_count * element);
    for (int32_t i = 0; blocks->is_given && i < coll->size; i++)
        if (coll_block_count(blocks, i))
            copy_add(copies, OUT, NULL, coll_block_offset(blocks, i) * element,
                     coll_block_count(blocks, i) * element);
}

static void parts_lay(struct coll_copies *copies)
{
    struct coll_run *run = copies->run;
    for (uint32_t t = 0; t < run->coll->parts_count; t++) {
        struct coll_tree_run *at = &run->trees[t];
        const struct coll_part *part = at->part;
        if (coll_copies_fetch(at))
            copy_add(copies, IN, at, part->in_at, part->bytes);
        if (is_brought(at))
            at->bring = copy_add(copies, OUT, at, part->out_at, part->bytes);
    }
}

void coll_copies_lay(struct coll_run *run)
{
    struct coll_copies *copies = run->copies;
    copies->moved.run = copies_update;
    if (run->coll->is_packed)
        packed_lay(copies);
    else
        parts_lay(copies);
    if (!copies->fetches)
        coll_terms_take(run);
}

/* ---- begin and end ----------------------------------------------------------------- */

/* Check the tensors again: a driver had not started at the submission. */
static tryst_status tensors_recheck(struct coll_copies *copies)
{
    const tryst_coll *coll = copies->run->coll;
    for (enum side side = IN; side < SIDES; side++) {
        tryst_tensor *tensor = &copies->tensors[side];
        tryst_status status =
            copies->is_device[side]
                ? group_memory_check(coll->group, tensor, bytes_of(coll, tensor))
                : TRYST_OK;
        if (status != TRYST_OK)
            return status;
    }
    return TRYST_OK;
}

/* Hand all copies to the copier. */
static void copies_start(struct coll_copies *copies)
{
    struct coll_run *run = copies->run;
    for (uint32_t i = 0; i < copies->count && !run_failed(run); i++) {
        struct copier_range *range = &copies->items[i].range;
        enum side side = range->way == COPIER_FETCH ? IN : OUT;
        range->ops = coll_tensor_ops(&copies->tensors[side]);
        range->urgency = run->urgency;
        tryst_status status = copier_add(run->coll->colls->copier, range);
        if (status == TRYST_OK)
            copies->begun++;
        else
            run_fail_own(run, status,
                         "no thread could be started that copies from and "
                         "to devices");
    }
    if (!run_failed(run))
        (void)op_streams_change(run->op, OP_STREAMS_UNBEGUN, OP_STREAMS_OPEN);
}

/* Start the copies, or fail the run: its tensors can be used, or `status` is the reason
 * why not. */
static void copies_go_on(struct coll_copies *copies, tryst_status status)
{
    if (status == TRYST_OK)
        copies_start(copies);
    else
        run_fail_own(copies->run, status,
                     "cannot use device memory: the driver did not start, or the memory "
                     "is not of the device that the tensor names; see the log");
}

void coll_copies_begin(struct coll_run *run)
{
    struct coll_copies *copies = run->copies;
    tryst_status status = copies->unchecked ? tensors_recheck(copies) : TRYST_OK;
    if (status == TRYST_IN_PROGRESS)
        list_push_back(&run->coll->colls->copies_unchecked, &copies->unchecked_node);
    else
        copies_go_on(copies, status);
}

void coll_copies_go_on(struct colls *colls, tryst_status status)
{
    struct list now;
    struct list_node *node;
    list_init(&now);
    list_append(&now, &colls->copies_unchecked);
    while ((node = list_pop_front(&now)) != NULL) {
        struct coll_copies *copies =
            container_of(node, struct coll_copies, unchecked_node);
        /* a failed start is not repeated: the next one would be a new start */
        if (status == TRYST_OK)
            coll_copies_begin(copies->run);
        else
            copies_go_on(copies, status);
    }
}

static void bring_to(struct coll_copy *copy, uint64_t limit)
{
    struct coll_copies *copies = copy->copies;
    bool rises = limit > copy->limit;
    copy->limit = limit;
    if (rises && copy < copies->items + copies->begun)
        copier_raise(copies->run->coll->colls->copier, &copy->range, limit);
    else if (rises)
        copy->range.limit = limit;
}

void coll_copies_bring(struct coll_tree_run *at)
{
    const struct coll_part *part = at->part;
    uint32_t ready = coll_tree_ready_down(&at->tree);
    bring_to(at->bring, ready == part->slices ? part->bytes : ready * part->slice_bytes);
}

void coll_copies_bring_all(struct coll_run *run)
{
    struct coll_copies *copies = run->copies;
    for (uint32_t i = 0; i < copies->count; i++)
        if (copies->items[i].range.way == COPIER_BRING)
            bring_to(&copies->items[i], copies->items[i].range.bytes);
}

/* Copies that wait for their device never begin. */
void coll_copies_cancel(struct coll_run *run)
{
    struct coll_copies *copies = run->copies;
    (void)list_remove(&copies->unchecked_node);
    copies->failed_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < copies->begun; i++)
        copier_cancel(run->coll->colls->copier, &copies->items[i].range);
}

void coll_copies_raise(struct coll_run *run)
{
    struct coll_copies *copies = run->copies;
    for (uint32_t i = 0; i < copies->begun; i++)
        copier_urge(run->coll->colls->copier, &copies->items[i].range, &run->urgency);
}

/* ---- taken over -------------------------------------------------------------------- */

static struct copier_range *range_of(void *arg, uint32_t index)
{
    struct coll_copies *copies = arg;
    return &copies->items[index].range;
}

/* True if all tensors with copies are in memory of this device. */
static bool is_on_device(const struct coll_copies *copies,
                         const struct memory_ops *memory, int32_t device)
{
    for (enum side side = IN; side < SIDES; side++) {
        const tryst_tensor *tensor = &copies->tensors[side];
        bool is_there = tensor->memory != TRYST_MEMORY_HOST && tensor->device == device &&
                        coll_tensor_ops(tensor) == memory;
        if (copies->is_device[side] && !is_there)
            return false;
    }
    return true;
}

/* Prepare for a gate, which tensors on another device need. */
static tryst_status gate_prepare(const struct coll_copies *copies)
{
    const struct colls *colls = copies->run->coll->colls;
    for (enum side side = IN; side < SIDES; side++) {
        const tryst_tensor *tensor = &copies->tensors[side];
        if (copies->is_device[side] &&
            takeovers_prepare(colls->copier, colls->shadows, coll_tensor_ops(tensor),
                              tensor->device) != TRYST_OK)
            return TRYST_AGAIN;
    }
    return TRYST_E_UNSUPPORTED;
}

/* The progress domain has the take-over from here on. */
static void copies_taken(void *arg, struct takeover *takeover)
{
    struct coll_copies *copies = arg;
    atomic_store_explicit(&copies->takeover, takeover, memory_order_release);
    update_queue(copies, 0);
}

static tryst_status copies_take(struct coll_copies *copies,
                                const struct memory_ops *memory, int32_t device,
                                void *stream)
{
    const struct colls *colls = copies->run->coll->colls;
    struct takeover_params params = {
        .copier = colls->copier,
        .shadows = colls->shadows,
        .ops = memory,
        .device = device,
        .stream = stream,
        .range = range_of,
        .taken = copies_taken,
        .arg = copies,
        .count = copies->count,
        .shadow = {&copies->shadows[IN], &copies->shadows[OUT]}};
    if (!is_on_device(copies, memory, device))
        return gate_prepare(copies);
    tryst_status status = takeover_begin(&params);
    if (takeover_of(copies))
        update_queue(copies, 0); /* also what the last calls have left */
    return status;
}

tryst_status coll_copies_stream_wait(struct coll_run *run, bool follows,
                                     const struct memory_ops *memory, int32_t device,
                                     void *stream)
{
    struct coll_copies *copies = run->copies;
    return follows ? takeover_follow(takeover_of(copies), memory, device, stream)
                   : copies_take(copies, memory, device, stream);
}

/* Read the words of a take-over. */
static void words_read(struct coll_copies *copies, struct takeover *takeover)
{
    struct coll_run *run = copies->run;
    const char *text;
    tryst_status status = takeover_failure(takeover, &text);
    if (status != TRYST_OK && !run_failed(run))
        run_fail_own(run, status, text);
    if (copies->failed_ns && clock_monotonic_ns() - copies->failed_ns > FAILED_NS)
        takeover_open(takeover);
    for (uint32_t i = 0; i < copies->count && !run_failed(run); i++) {
        struct coll_copy *copy = &copies->items[i];
        uint64_t done = takeover_fetched(takeover, &copy->range);
        /* relaxed: of this domain since the range was taken */
        if (copy->range.way != COPIER_FETCH ||
            done == atomic_load_explicit(&copy->range.done, memory_order_relaxed))
            continue;
        atomic_store_explicit(&copy->range.done, done, memory_order_relaxed);
        fetch_update(copy, done);
    }
    if (takeover_ended(takeover))
        run_mark(run);
}

void coll_copies_poll(struct colls *colls)
{
    colls->nap_ns = 0;
    list_for_each_safe (&colls->copies_polled, node, after) {
        struct coll_copies *copies = container_of(node, struct coll_copies, polled_node);
        struct takeover *takeover = takeover_of(copies);
        if (takeover)
            words_read(copies, takeover);
        else
            run_mark(copies->run);
        bool is_slow = takeover && !takeover_moves(takeover);
        nap_shorten(colls, is_slow ? POLL_GATE_NS : POLL_NS);
    }
}

bool coll_copies_end(struct coll_run *run)
{
    struct coll_copies *copies = run->copies;
    struct takeover *takeover = takeover_of(copies);
    if (takeover)
        takeover_open(takeover);
    if (copies->ended != (run_failed(run) ? copies->begun : copies->count))
        return false;
    if (takeover && !takeover_ended(takeover)) {
        nap_shorten(run->coll->colls, POLL_NS);
        return false;
    }
    if (!streams_close(run->op)) {
        polled_add(copies);
        return false;
    }
    /* acquire: pairs with update_queue. What is queued marks the run again. */
    if (atomic_load_explicit(&copies->state, memory_order_acquire) & QUEUED)
        return false;
    list_remove(&copies->polled_node);
    return true;
}
