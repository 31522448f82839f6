/* SPDX-License-Identifier: Apache-2.0 */
/** @file run.h
 *  The objects of the engine, shared by its files.
 *
 *  tryst_coll  what is prepared: ranges, neighbours, keys and the kernel. Immutable but for its idle runs.
 *  coll_run    one start of it: counters, flows and private memory, in one allocation that later starts
 *              use again.
 *
 *  The flows of a tree, in this order: up from each child, up to the parent, down from the parent, down to each
 *  child; some of these are missing (tryst_coll_kind).
 */
#ifndef COMMSCHED_COLL_RUN_H
#define COMMSCHED_COLL_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "coll.h"
#include "commsched/coll/tree/blocks.h"
#include "commsched/coll/tree/map.h"
#include "commsched/coll/tree/scratch.h"
#include "commsched/coll/tree/tree.h"
#include "core/memory/hash_table.h"
#include "core/memory/list.h"
#include "core/memory/urgent.h"
#include "core/reduce/reduce.h"
#include "rendezvous/protocol/flow.h"
#include "tryst/coll.h"

/** Bytes of sums in one call of the engine, at most: DESIGN section 6. */
#define COLL_WORK_BYTES (128u << 10)
/** One-shot collectives that are kept prepared. */
enum { COLLS_KEPT = 1024 };
/** Idle runs of these that are kept whatever their bytes, those used last: a loop over a few names allocates nothing. */
enum { COLLS_IDLE_LEAST = 8 };
enum { COLL_TEXT_BYTES = 256 };
/** A part has no bytes in this tensor. */
#define COLL_NOWHERE UINT64_MAX

struct coll_run;

struct colls {
    struct coll_host host;
    uint64_t eager_max;           /**< the protocol's: what is more goes as bulk */
    const struct coll_plan *plan; /**< the group's */
    struct coll_plan *own_plan;   /**< made here, where the group has none */
    pthread_mutex_t lock;         /**< guards the plan, what is kept, and idle runs */
    struct hash_table kept;       /**< tryst_coll of one-shot calls, by what they do */
    struct list kept_order;       /**< the one that was used least recently is first */
    struct list idle_order;       /**< coll_run.order of kept collectives, likewise */
    uint64_t idle_bytes, idle_bytes_max; /**< of the runs in idle_order */
    uint32_t idle_count;
    _Atomic(bool) thread_started;

    /* In the progress domain. */
    struct urgent_queue work; /**< runs that are marked */
    bool is_due;              /**< false: `work` and `scratch.waiters` are empty */
    struct scratch scratch;
    /** Of each rank that died, in the order in which this rank learnt of them; room for all ranks. Allocated with the
     *  first plan (coll_plan_get), before any run, so that a failure needs no memory. */
    struct cause *lost;
    int32_t lost_count, lost_room;
};

/** One tree's share of a prepared collective, at this rank. */
struct coll_part {
    struct coll_range range;
    uint64_t bytes;
    uint64_t slice_bytes; /**< what a slice moves by: of a single slice, its bytes */
    uint32_t flow_slice_bytes;
    uint32_t slices;
    bool is_small; /**< travels as DATA: no scratch */
    bool is_root;  /**< of the reduction, and of the broadcast */
    bool sends_up, receives_down;
    uint32_t up_children, down_children;
    uint64_t
        private_at; /**< of its sums in the run's private memory; UINT64_MAX: in the result */
    uint32_t flow_at;       /**< its first flow and key */
    uint64_t in_at, out_at; /**< of blocks: bytes before it in `in` and in `out` */
    struct flow_shape shape;
};

/** Return how many flows a part has at this rank. */
static inline uint32_t part_flows(const struct coll_part *part)
{
    return part->up_children + part->sends_up + part->receives_down + part->down_children;
}

struct tryst_coll {
    _Atomic(uint32_t) refs; /**< the caller's or the table's; each run */
    struct colls *colls;
    tryst_group *group;
    tryst_subgroup *subgroup; /**< NULL: all ranks of the group */
    struct hash_node by_what; /**< colls->kept */
    struct list_node order;   /**< colls->kept_order */
    struct list idle;         /**< coll_run.idle_node; under colls->lock */
    bool is_kept;             /**< it was put into the table: its idle runs count */
    tryst_key *label;         /**< the name */
    const struct reduce_kernel *kernel; /**< NULL: broadcast, barrier */
    struct flow_shape shape;
    tryst_coll_kind kind;
    tryst_reduce_op reduce;
    tryst_dtype dtype;
    int32_t root;
    int32_t size;   /**< ranks that take part */
    int32_t rank;   /**< this one among them, as `root` */
    bool is_spread; /**< the group is on several hosts */
    uint64_t count;
    size_t element_bytes;
    size_t private_bytes, run_bytes;
    uint32_t parts_count, flows_count, children_count;
    struct coll_part *parts;
    tryst_key **keys;                  /**< of the flows */
    const uint64_t *paces_bytes_per_s; /**< of the plan's class, by rank; NULL: none */

    /* Collectives of blocks. */
    tryst_dtype tensor_dtype;     /**< of `in` and `out`; `dtype` is what flows move */
    uint64_t asked_count;         /**< of the params */
    uint64_t in_count, out_count; /**< of the tensors, at least */
    struct coll_blocks in_blocks, out_blocks;
    bool is_packed; /**< one all-reduce of all blocks, in private memory */
};

struct coll_flow {
    struct flow flow;
    struct coll_tree_run *tree;
    uint32_t child; /**< up from a child: which one */
    bool is_live;   /**< `ended` has not come */
    bool waits;     /**< `place` returned TRYST_AGAIN for a counter of this run */
    bool requeues;  /**< while its run is raised: it was a waiter */
    struct urgent_node waiter; /**< scratch.waiters: what it waits for is a slot */
};

struct coll_tree_run {
    struct coll_tree tree;
    struct coll_run *run;
    const struct coll_part *part;
    struct coll_flow *flows;
    const char *own; /**< this rank's term */
    char *sums, *result;
    bool is_marked;
    bool has_unit; /**< `unit` is half done: */
    struct coll_unit unit;
    uint64_t unit_done; /**< bytes of it */
    char *keep; /**< of small ranges: children's payloads that wait for their turn */
};

struct coll_run {
    struct list_node idle_node; /**< coll->idle, while it is in no use */
    struct list_node order;     /**< colls->idle_order */
    tryst_coll *coll;
    tryst_op *op; /**< NULL once reported */
    struct urgent_node work;
    struct urgency urgency;
    tryst_tensor in, out; /**< as given; without data: none, and of `in` in place */
    double factor;
    uint32_t live;      /**< flows that have not ended */
    bool fails;         /**< its flows have been failed */
    struct cause cause; /**< the first; its status is TRYST_OK: none */
    char text[COLL_TEXT_BYTES];
    struct coll_tree_run *trees;
    struct coll_flow *flows;
    char *private; /**< sums without a place in `out` (private_at); packed: all blocks */
};

/** Let the engine come to `run` before the pass ends. */
static inline void run_mark(struct coll_run *run)
{
    run->coll->colls->is_due = true;
    if (!urgent_queued(&run->work))
        urgent_push(&run->coll->colls->work, &run->work, &run->urgency);
}
/** Note the first cause of a failure, and mark. Ends nothing, so any hook may call it. */
void run_fail(struct coll_run *run, struct cause cause, const char *text);
/** As run_fail, for a cause of this rank. */
static inline void run_fail_own(struct coll_run *run, tryst_status status,
                                const char *text)
{
    run_fail(run, (struct cause){status, -1, status}, text);
}
/** True if a part of the run has failed. */
static inline bool run_failed(const struct coll_run *run)
{
    return run->cause.status != TRYST_OK;
}
/** The submission of a start. */
void run_begin(struct rendezvous *rdv, struct submission *submission);

#endif
