/* SPDX-License-Identifier: Apache-2.0 */
/** @file run.h
 *  The objects of the engine, shared by its files.
 *
 *  tryst_coll  what is prepared: ranges, neighbours, keys and the kernel. Immutable but for its idle runs.
 *  coll_run    one start of it: counters, flows and private memory, in one allocation that later starts
 *              use again.
 *
 *  The flows of a tree, in this order: up from each child, up to the parent, down from the parent, down to each
 *  child; some of these are missing (enum coll_kind).
 */
#ifndef COMMSCHED_COLL_RUN_H
#define COMMSCHED_COLL_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "coll.h"
#include "core/hash_table.h"
#include "core/list.h"
#include "core/reduce.h"
#include "core/urgent.h"
#include "map.h"
#include "rendezvous/protocol/flow.h"
#include "scratch.h"
#include "tree.h"
#include "tryst/coll.h"

/** Bytes of sums in one call of the engine, at most: DESIGN section 6. */
#define COLL_WORK_BYTES (128u << 10)
/** One-shot collectives that are kept prepared. */
enum { COLLS_KEPT = 1024 };
enum { COLL_TEXT_BYTES = 256 };

struct coll_run;

struct colls {
    struct coll_host host;
    uint64_t eager_max;
    const struct coll_plan *plan; /**< the group's */
    struct coll_plan *own_plan;   /**< made here, where the group has none */
    pthread_mutex_t lock; /**< guards the plan, `kept` and `kept_order`, and idle runs */
    struct hash_table kept; /**< tryst_coll of one-shot calls, by what they do */
    struct list kept_order; /**< the one that was prepared first is first */
    _Atomic(bool) thread_started;

    /* In the progress domain. */
    struct urgent_queue work; /**< runs that are marked */
    struct scratch scratch;
    tryst_status gone_status; /**< of the first rank that died, TRYST_OK: none did */
    int32_t gone_rank;
    tryst_status gone_origin;
    char gone_text[COLL_TEXT_BYTES];
};

/** What one tree has to do with a prepared collective, at this rank. */
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
    uint32_t flow_at; /**< its first flow and key */
};

struct tryst_coll {
    _Atomic(uint32_t) refs; /**< the caller's or the table's; each run */
    struct colls *colls;
    tryst_group *group;
    struct hash_node by_what;           /**< colls->kept */
    struct list_node order;             /**< colls->kept_order */
    struct list idle;                   /**< coll_run.idle_node; under colls->lock */
    tryst_key *label;                   /**< the name */
    const struct reduce_kernel *kernel; /**< NULL: broadcast, barrier */
    struct flow_shape shape;
    tryst_coll_kind kind;
    tryst_reduce_op reduce;
    tryst_dtype dtype;
    int32_t root;
    int32_t size; /**< of the group */
    uint64_t count;
    size_t element_bytes;
    size_t private_bytes, run_bytes;
    uint32_t parts_count, flows_count, children_count;
    struct coll_part *parts;
    tryst_key **keys; /**< of the flows */
};

struct coll_flow {
    struct flow flow;
    struct coll_tree_run *tree;
    uint32_t child; /**< up from a child: which one */
    bool is_live;   /**< `ended` has not come */
    bool waits;     /**< `place` said "not yet", and what it waits for is in this run */
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
    struct list_node idle_node;
    tryst_coll *coll;
    tryst_op *op; /**< NULL once reported */
    struct urgent_node work;
    struct urgency urgency;
    tryst_tensor in, out; /**< `in` is never without data where `out` has some */
    double factor;
    uint32_t live;                      /**< flows that have not ended */
    bool fails;                         /**< its flows have been failed */
    tryst_status status, origin_status; /**< TRYST_OK, or the first cause */
    int32_t origin_rank;
    char text[COLL_TEXT_BYTES];
    struct coll_tree_run *trees;
    struct coll_flow *flows;
    char *private; /**< sums of a rank that has no result */
};

/* ---- coll.c ------------------------------------------------------------------------------- */

/** Let the engine come to `run` before the pass ends. */
static inline void run_mark(struct coll_run *run)
{
    if (!urgent_queued(&run->work))
        urgent_push(&run->coll->colls->work, &run->work, &run->urgency);
}
/** Note the first cause of a failure, and mark. Ends nothing, so any hook may call it. */
void run_fail(struct coll_run *run, tryst_status status, int32_t origin_rank,
              tryst_status origin_status, const char *text);
/** The submission of a start. */
void run_begin(struct rendezvous *rdv, struct submission *submission);

/* ---- hooks.c ------------------------------------------------------------------------------ */

extern const struct flow_ops flow_up_from_child, flow_up_to_parent, flow_down_from_parent,
    flow_down_reusing, flow_down_to_child;

/* ---- work.c ------------------------------------------------------------------------------- */

/** Compute what is due in a tree, at most `budget` bytes; returns the bytes. */
uint64_t tree_work(struct coll_tree_run *at, uint64_t budget);
/** Compute the one unit that is due now, whole. */
void tree_work_unit(struct coll_tree_run *at);
/** Let the protocol know what the counters allow by now. */
void tree_tell(struct coll_tree_run *at);
/** Take back what scratch a child's slices still have. */
void tree_slots_release(struct coll_tree_run *at, uint32_t child);

/* ---- prepare.c ---------------------------------------------------------------------------- */

/** Prepare a collective; `params` were checked. With a text for tryst_last_error. */
tryst_status coll_open(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p);
void coll_ref(tryst_coll *coll);
void coll_unref(tryst_coll *coll);
/** Get a run with counters at their begin, idle or new; NULL: no memory. Any thread. */
struct coll_run *coll_run_get(tryst_coll *coll);
/** It is over, and has no flow. */
void coll_run_put(struct coll_run *run);

/* ---- cache.c ------------------------------------------------------------------------------ */

/** Find what does the same, or prepare it and keep it; a reference is the caller's. */
tryst_status coll_find(struct colls *colls, tryst_group *group,
                       const tryst_coll_params *params, tryst_coll **coll_p);
/** Forget all. */
void coll_kept_drop(struct colls *colls);

#endif
