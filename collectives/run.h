/* SPDX-License-Identifier: Apache-2.0 */
/** @file run.h
 *  The objects of the engine, shared by its files.
 *
 *  tryst_coll  a prepared collective: ranges, neighbours, keys and the kernel. Immutable
 *              but for its idle runs.
 *  coll_run    one start of a tryst_coll: counters, flows and private memory, in one
 *              allocation that later starts reuse. Lives until its last flow has ended,
 *              which may be after its operation was reported.
 *
 *  The flows of a tree are in this order: up from each child, up to the parent, down from
 *  the parent, down to each child. Some kinds lack some of these (tryst_coll_kind).
 */
#ifndef TRYST_COLLECTIVES_RUN_H
#define TRYST_COLLECTIVES_RUN_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "coll.h"
#include "collectives/tree/blocks.h"
#include "collectives/tree/lead.h"
#include "collectives/tree/map.h"
#include "collectives/tree/scratch.h"
#include "collectives/tree/tree.h"
#include "commsched/profile/recorder.h"
#include "core/memory/hash_table.h"
#include "core/memory/list.h"
#include "core/memory/urgent.h"
#include "core/reduce/reduce.h"
#include "rendezvous/protocol/flow.h"
#include "tryst/coll.h"

/** The most bytes of sums in one call of the engine. */
#define COLL_WORK_BYTES FLOW_PIECE_BYTES
/** One-shot collectives that are kept prepared. */
enum { COLLS_KEPT = 1024 };
/** Idle runs of one-shot collectives that are kept whatever their bytes, the most
 *  recently used ones: a loop over a few names allocates nothing. */
enum { COLLS_IDLE_LEAST = 8 };
/** Bytes of the text of a failed collective: the longest reason, a name, and the packets
 *  that are lost. */
enum { COLL_TEXT_BYTES = 1024 };
/** The offset of a part without bytes in a tensor or in private memory. */
#define COLL_NOWHERE UINT64_MAX

struct coll_copies;
struct coll_copy;
struct coll_run;
struct copier;
struct shadows;

struct colls {
    struct coll_host host;
    uint64_t eager_max;           /**< the protocol's limit for DATA */
    const struct coll_plan *plan; /**< the group's plan, or NULL */
    struct coll_plan *own_plan;   /**< binary trees, for a group without a plan */
    pthread_mutex_t lock;         /**< guards plans, kept collectives and idle runs */
    struct hash_table kept;       /**< one-shot tryst_colls, by their parameters */
    struct list kept_order;       /**< tryst_coll.order, least recently used first */
    /** coll_run.order of the idle runs of kept collectives, least recently used first. */
    struct list idle_order;
    uint64_t idle_bytes, idle_bytes_max; /**< bytes of the runs in idle_order */
    uint32_t idle_count;                 /**< number of the runs in idle_order */
    _Atomic(bool) thread_started;
    uint64_t shadow_bytes_max; /**< pinned memory, at most */
    /** Made by the first collective with device memory (copies.h); guarded by `lock`. */
    struct copier *copier;
    struct shadows *shadows;
    struct list copies_unchecked; /**< coll_copies that wait until their driver starts;
                                   *   of the progress domain */
    struct list copies_polled;    /**< coll_copies that no thread reports; likewise */
    uint64_t nap_ns;              /**< coll_calls.nap_ns */

    /** The members below belong to the progress domain. */
    struct urgent_queue work;   /**< marked runs */
    bool is_due;                /**< false: `work` and `scratch.waiters` are empty */
    const struct urgency *left; /**< coll_calls.left: NULL, or `left_urgency` */
    struct urgency left_urgency;
    struct scratch scratch;
    /** coll_run.exchange_node: the runs that end by a failure which comes after the term
     *  of the rank that failed (coll_fails_late). */
    struct list exchanges;
    /** The cause of each rank that died or left, by own or reported evidence (fail.c),
     *  in the order of the news; room for all ranks. Allocated with the first plan
     *  (coll_plan_get), before any run, so that a failure needs no memory. */
    struct cause *lost;
    int32_t lost_count, lost_capacity;
};

/** The range of a prepared collective that one tree moves, at this rank. */
struct coll_part {
    struct coll_range range;
    uint64_t bytes;
    uint64_t slice_bytes; /**< distance of two slices; a single slice: its bytes */
    uint32_t flow_slice_bytes;
    uint32_t slices;
    bool is_small; /**< travels as DATA, without scratch */
    bool is_root;  /**< this rank is the root of the reduction and of the broadcast */
    /** The children are all other ranks, in their order: each flow up brings a rank's own
     *  term, and each flow down sends this rank's term, not the result. The term is in
     *  `keep`, premultiplied. */
    bool is_exchange;
    bool sends_up, receives_down;
    /** Small, and each rank that this rank sends to also sends to it. The operation
     *  does not wait for the answers to its DATA (coll_flow_leave). */
    bool is_mutual;
    uint32_t up_children, down_children;
    /** Exchange: bit c: the flows from and to child c are numbered by the uses of the
     *  name (tryst_coll.uses_key). */
    uint32_t numbered;
    /** Offset of the sums in the run's private memory; COLL_NOWHERE: sums are in the
     *  result. */
    uint64_t private_at;
    uint32_t flow_at;       /**< index of the first flow and key */
    uint64_t in_at, out_at; /**< blocks: byte offset in `in` and in `out` */
    struct flow_shape shape;
};

/** Return the number of the flows that climb: they come first. */
static inline uint32_t part_up_flows(const struct coll_part *part)
{
    return part->up_children + part->sends_up;
}

/** Return the number of the part's flows at this rank. */
static inline uint32_t part_flows(const struct coll_part *part)
{
    return part_up_flows(part) + part->receives_down + part->down_children;
}

/** True if sums pass this rank in slices: the part counts for the lead. */
static inline bool part_passes_on(const struct coll_part *part)
{
    return (part->up_children || part->sends_up) && !part->is_small;
}

struct tryst_coll {
    _Atomic(uint32_t) refs; /**< one of the caller or the table, one of each run */
    struct colls *colls;
    tryst_group *group;
    tryst_subgroup *subgroup; /**< NULL: all ranks of the group */
    struct hash_node by_what; /**< colls->kept */
    struct list_node order;   /**< colls->kept_order */
    struct list idle;         /**< coll_run.idle_node; guarded by colls->lock */
    bool is_kept;             /**< was put into colls->kept: idle runs are bounded */
    tryst_key *label;         /**< the name, as a prepared key */
    uint32_t recorder_name;   /**< in colls->host.recorder, if there is one */
    bool is_own;              /**< the library's own: not recorded */
    const struct reduce_kernel *kernel; /**< NULL: broadcast, barrier */
    struct flow_shape shape;
    tryst_coll_kind kind;
    tryst_reduce_op reduce;
    tryst_dtype dtype;
    int32_t root;
    int32_t size;   /**< number of ranks that take part */
    int32_t rank;   /**< this rank's number among these, as is `root` */
    bool is_spread; /**< the group is on several hosts */
    uint64_t count;
    size_t element_bytes;
    size_t private_bytes, run_bytes;
    uint32_t parts_count, flows_count, children_count;
    struct coll_part *parts;
    tryst_key **keys; /**< the keys of the flows */
    /** Counts the uses of the name in a step (flow_count). They number the flows of
     *  exchanges between ranks that are no neighbours in tree 0. NULL: there are none. */
    tryst_key *uses_key;

    /** Collectives of blocks. */
    tryst_dtype tensor_dtype;     /**< dtype of `in` and `out`; flows move `dtype` */
    uint64_t params_count;        /**< count of the params */
    uint64_t in_count, out_count; /**< least count of the tensors `in` and `out` */
    struct coll_blocks in_blocks, out_blocks;
    bool is_packed; /**< one all-reduce of all blocks, in private memory */
};

/** True for an exchange of three ranks or more: when a rank fails, another one may have
 *  its term and wait for a third (coll_calls.late_failure). */
static inline bool coll_fails_late(const tryst_coll *coll)
{
    return coll->uses_key && coll->parts[0].is_exchange;
}

struct coll_flow {
    struct flow flow;
    struct coll_tree_run *tree;
    uint32_t child; /**< up from a child: index of the child */
    bool is_live;   /**< started, and `ended` has not been called */
    bool is_left;   /**< the run alone waits for its end (coll_flow_leave) */
    bool waits;     /**< `place` returned TRYST_AGAIN for a counter of this run */
    bool borrows;   /**< up from a child: slices are borrowed; known from `place` on */
    bool requeues;  /**< while the run is raised: the flow was in scratch.waiters */
    struct urgent_node waiter; /**< in scratch.waiters while the flow waits for scratch */
};

struct coll_tree_run {
    struct coll_tree tree;
    struct coll_run *run;
    const struct coll_part *part;
    struct coll_flow *flows;
    const char *own; /**< this rank's term */
    char *sums, *result;
    struct coll_copy *bring; /**< of the result to its device; NULL: none (copies.h) */
    bool is_marked;
    bool has_unit; /**< `unit` is begun and not finished */
    bool stalls;   /**< `unit` waits until its borrowed slice can be read */
    struct coll_unit unit;
    uint64_t unit_done; /**< computed bytes of `unit` */
    /** Small ranges: payloads of children that wait for their turn; in an exchange, then
     *  this rank's own term. */
    char *keep;
};

struct coll_run {
    struct list_node idle_node;     /**< in coll->idle while the run is not in use */
    struct list_node order;         /**< in colls->idle_order */
    struct list_node exchange_node; /**< in colls->exchanges until it is reported */
    tryst_coll *coll;
    tryst_op *op; /**< NULL once reported */
    struct urgent_node work;
    struct urgency urgency;
    uint64_t recorded; /**< its number in colls->host.recorder; 0: none */
    uint64_t matched_at, first_slice_at; /**< recorder_now; 0: not yet */
    /** Copies of the caller's tensors. A tensor without data was not given; without
     *  `in`, the terms are in `out`. With `copies`, `data` and `mem` are those of host
     *  memory. */
    tryst_tensor in, out;
    struct coll_copies *copies; /**< from and to device memory; NULL: none (copies.h) */
    double factor;
    uint32_t live;      /**< flows that have not ended */
    uint32_t awaited;   /**< of these, the flows that the operation waits for */
    bool fails;         /**< flows_fail was called */
    bool completes;     /**< the result is complete in host memory */
    struct cause cause; /**< the first cause of a failure; status TRYST_OK: none */
    /** The text of `cause`: the collective, then the reason. NULL: none, or no memory. */
    char *text;
    const char *reason; /**< in `text` */
    struct coll_tree_run *trees;
    struct coll_flow *flows;
    struct coll_lead lead; /**< over the trees that pass sums on */
    uint64_t use;          /**< with uses_key: number of the use, from 0 */
    char *private;         /**< sums outside of `out` (private_at); packed: all blocks */
};

/** Queue `run` for the engine, which comes to it before the pass ends. */
static inline void run_mark(struct coll_run *run)
{
    run->coll->colls->is_due = true;
    if (!urgent_queued(&run->work))
        urgent_push(&run->coll->colls->work, &run->work, &run->urgency);
}
/** Mark a tree, and its run, for the engine. */
static inline void tree_mark(struct coll_tree_run *at)
{
    at->is_marked = true;
    run_mark(at->run);
}
/** True if a part of the run has failed. */
static inline bool run_failed(const struct coll_run *run)
{
    return run->cause.status != TRYST_OK;
}
/** Note the time of the first slice that arrives or has left. */
static inline void run_record_slice(struct coll_run *run)
{
    if (__builtin_expect(run->recorded && !run->first_slice_at, 0))
        run->first_slice_at = recorder_now(run->coll->colls->host.recorder);
}

/** Write this rank's own term, premultiplied or copied. */
static inline void run_own_compute(const struct coll_run *run, char *to, const char *from,
                                   uint64_t bytes)
{
    const tryst_coll *coll = run->coll;
    if (coll->reduce == TRYST_REDUCE_PREMULTIPLIED_SUM)
        coll->kernel->scale(to, from, bytes / coll->element_bytes, run->factor);
    else if (to != from)
        memcpy(to, from, bytes);
}

static inline struct coll_flow *coll_flow_of(struct flow *flow)
{
    return container_of(flow, struct coll_flow, flow);
}
/** Leave a flow with packed DATA to its run: the payload is in a frame, so the operation
 *  does not wait for the peer's answer if the part is mutual. The operation then also
 *  waits for the peer's own DATA, which proves that the peer has submitted its part with
 *  an equal shape. Without this proof only the answer shows a mismatch. */
static inline void coll_flow_leave(struct coll_flow *flow)
{
    struct coll_run *run = flow->tree->run;
    if (!flow->tree->part->is_mutual)
        return;
    flow->is_left = true;
    if (!--run->awaited)
        run_mark(run);
}
/** Announce `ready` slices to the peer if they are more than before. */
static inline void coll_flow_ready(struct coll_flow *flow, uint32_t ready)
{
    if (flow->is_live && flow->flow.ready < ready)
        flow_ready(&flow->flow, ready);
}
/** Place the slices of a flow that waited for a counter of the run. */
static inline void coll_flow_place_again(struct coll_flow *flow)
{
    flow->waits = false;
    flow_place_again(&flow->flow);
}

#endif
