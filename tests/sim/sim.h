/* SPDX-License-Identifier: Apache-2.0 */
/* A whole job in virtual time: the unchanged engine and scheduler of up to 64 ranks, in
 * one thread, over a network (network.h) whose clock jumps to the next event.
 *
 * Idea: tests/rendezvous/world.h with other parts. Messages of a rank take their way
 * through the network. A rank makes passes, which take no time, when a message has
 * arrived or a time of its own has come, until it has no work. A script gives the times
 * at which users submit, cancel and raise, and at which links and ranks change.
 * Invariant: the script and the parameters determine the run: equal ones give equal logs.
 *
 * A fault can be planted between engine and scheduler (enum sim_fault), to test that a
 * check finds it. */
#ifndef TRYST_TESTS_SIM_SIM_H
#define TRYST_TESTS_SIM_SIM_H

#include "context/plan_take.h"
#include "log.h"
#include "network.h"
#include "rendezvous/world.h"
#include "tryst/coll.h"

enum { SIM_BYTES_MAX = 64 << 20, SIM_COLL_BYTES_MAX = 256 << 20, SIM_STEPS = 2 };

enum sim_fault {
    SIM_SOUND,
    SIM_FIFO,          /**< first come, first served */
    SIM_REVERSED,      /**< the least urgent first */
    SIM_WIDE_WINDOW,   /**< eight times the configured window */
    SIM_NO_SHARE,      /**< background is treated as the least urgent training */
    SIM_EQUAL_SHARE,   /**< background is treated as training of the same priority */
    SIM_LOST_TRANSFER, /**< one transfer in eight never begins */
    SIM_LOST_CREDIT,   /**< one slice in eight never returns its window */
    SIM_BLIND,         /**< stalled peers are not detected */
    SIM_UNSTEADY       /**< decisions depend on the run before */
};

struct sim_params {
    int ranks;
    uint64_t slice_bytes, window_bytes, rail_window_bytes;
    uint32_t posted_slices;
    int ways;                          /**< transports between each two ranks; 0: one */
    uint32_t wants_max, frame_credits; /**< 0: the default */
    uint32_t posted_max;               /**< slices posted per endpoint; 0: 64 */
    enum sim_fault fault;
    const struct compiled_plan *plan; /**< plan of collectives; NULL: binary trees */
    uint64_t scratch_bytes;           /**< 0: the default */
    /** Bit per rank: its endpoints borrow, as on one host. Their reads take no time. */
    uint64_t borrows;
    bool quiet; /**< no log */
};

enum sim_action_kind {
    SIM_DO_SEND, /**< submit the send of transfer `what` */
    SIM_DO_RECV,
    SIM_DO_CANCEL_SEND,
    SIM_DO_CANCEL_RECV,
    SIM_DO_RAISE_SEND, /**< raise the send to priority `value` */
    SIM_DO_RAISE_RECV,
    SIM_DO_LINK_RATE, /**< set the rate of link `what` to `value` bytes/s */
    SIM_DO_LINK_CUT,
    SIM_DO_LINK_MEND,
    SIM_DO_PAIR_BREAK, /**< break the connection of ranks `what` and `value` */
    SIM_DO_RANK_STOP,  /**< stop rank `what`, as by SIGSTOP: no passes, no submissions */
    SIM_DO_RANK_GO,
    SIM_DO_RANK_KILL,
    SIM_DO_RANK_LEAVE, /**< close the group of rank `what`, with operations under way */
    SIM_DO_REFUSE,     /**< refuse the first `value` transports to and from rank `what` */
    SIM_DO_COLL,       /**< submit the part of rank `value` in collective `what` */
    SIM_DO_CANCEL_COLL
};

struct sim_action {
    uint64_t at_ns; /**< time since the begin of the simulation */
    enum sim_action_kind kind;
    int32_t what;
    int64_t value;
    uint32_t number;
};

struct sim;

/** One end of a transfer. */
struct sim_end {
    struct sim *sim;
    int which;
    bool is_send;
    uint32_t flags;
    int32_t priority;
    tryst_op *op; /**< the operation, while it is pending */
    bool submitted, done;
    tryst_status status; /**< status of the operation, valid if done */
};

struct sim_transfer {
    int from, to, step;
    uint64_t bytes;
    struct sim_end send, recv;
};

/** One rank's part of a collective. */
struct sim_part {
    struct sim *sim;
    int which, rank;
    tryst_op *op;             /**< the operation, while it is pending */
    tryst_subgroup *subgroup; /**< of the operation; NULL: the group */
    bool submitted, done;
    tryst_status status, origin_status; /**< valid if done */
    int32_t origin_rank;
    uint64_t deadline_ns; /**< deadline after the submission; 0: none */
    uint64_t submitted_ns, done_ns;
};

/** A collective of `bytes` elements of one byte; reductions are sums. No check reads the
 *  results. */
struct sim_coll {
    tryst_coll_kind kind;
    int step, root;
    uint64_t members; /**< bit per rank of its subgroup; 0: all ranks of the group */
    bool in_place;
    uint64_t bytes;
    uint32_t flags;
    int32_t priority;
    struct sim_part parts[WORLD_RANKS_MAX];
};

struct sim_rank {
    struct sim *sim;
    int rank;
    struct sched *sched;
    struct colls *colls;
    struct group_plan *plan; /**< NULL: binary trees */
    uint64_t next_ns;        /**< time at which the rank wakes by itself; 0: never */
    bool killed;
    /** The group is closed or closing: operations may end with any status. */
    bool left;
    tryst_step *steps[SIM_STEPS];
};

struct sim {
    struct sim_params params;
    struct world world;
    struct net net;
    struct sim_log log;
    struct sim_rank ranks[WORLD_RANKS_MAX];
    struct sim_transfer *transfers;
    int transfers_count, transfers_room;
    struct sim_coll *colls;
    int colls_count, colls_room;
    struct sim_action *actions;
    int actions_count, actions_room, actions_next;
    bool actions_sorted;
    const struct transfer *starting;
    uint64_t begin_ns;
    uint64_t events; /**< number of times that the clock jumped to */
    /** A message has arrived or an action was run since the ranks' last passes. */
    bool moved;
    uint64_t ranks_next_ns; /**< time at which the first rank wakes by itself */
};

/** Open a simulation. `net` has its links and routes; the simulation takes it over. */
void sim_open(struct sim *sim, const struct sim_params *params, struct net *net);
/** Close the simulation; operations that have not ended are cancelled. */
void sim_close(struct sim *sim);

/** Add a transfer and return its number. Actions submit both ends; the caller sets
 *  `flags` and `priority` of the ends. */
int sim_transfer_add(struct sim *sim, int from, int to, int step, uint64_t bytes);
void sim_act(struct sim *sim, uint64_t at_ns, enum sim_action_kind kind, int what,
             int64_t value);
/** Add a transfer, submit its ends at these times, and return its number. */
int sim_transfer_at(struct sim *sim, int from, int to, uint64_t bytes, uint64_t send_ns,
                    uint64_t recv_ns, uint32_t flags, int32_t priority);

/** Add an all-reduce without a root, and return its number; the caller changes members
 *  for other collectives. Actions submit its parts. */
int sim_coll_add(struct sim *sim, tryst_coll_kind kind, int step, uint64_t bytes);
bool sim_coll_ended(const struct sim *sim, const struct sim_coll *coll);

/** Run until all transfers and collectives have ended and the script is done, or until
 *  this time since the begin. False: the time was up first. */
bool sim_run(struct sim *sim, uint64_t until_ns);
bool sim_transfer_ended(const struct sim *sim, const struct sim_transfer *transfer);

/** Defined in colls.c. */
struct coll_calls sim_colls_open(struct sim *sim, struct side *side);
void sim_colls_close(struct sim *sim);
void sim_coll_act(struct sim *sim, const struct sim_action *action);
void sim_colls_cancel(struct sim *sim);
bool sim_colls_ended(const struct sim *sim);
/** True if `data` is in the memory of all collectives' tensors, which is smaller than
 *  their sum. */
bool sim_coll_holds(const void *data);
void sim_note(struct sim *sim, struct sim_entry entry);

#endif
