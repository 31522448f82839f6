/* SPDX-License-Identifier: Apache-2.0 */
/* A whole job in virtual time: the engine and the scheduler of up to 64 ranks, unchanged,
 * in one thread, over a network (network.h) whose clock jumps to the next event.
 *
 * Idea: tests/rendezvous/world.h with other parts. What a rank sends takes its way
 * through the network; a rank makes passes when something has come for it or a time of
 * its own has, until it has nothing to do, which takes no time. Users submit, cancel and
 * raise, links and ranks change, at times that a script says.
 * Invariant: all that happens follows from the script and the parameters: equal ones give
 * equal logs.
 *
 * A fault can be planted between engine and scheduler (enum sim_fault), to see a check
 * fail. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "commsched/context/plan_take.h"
#include "log.h"
#include "network.h"
#include "rendezvous/world.h"
#include "tryst/coll.h"

enum { SIM_BYTES_MAX = 64 << 20, SIM_COLL_BYTES_MAX = 256 << 20, SIM_STEPS = 2 };

enum sim_fault {
    SIM_SOUND,
    SIM_FIFO,          /* first come, first served */
    SIM_REVERSED,      /* the least urgent first */
    SIM_WIDE_WINDOW,   /* eight times what the setting says */
    SIM_NO_SHARE,      /* background is training that nothing is less urgent than */
    SIM_EQUAL_SHARE,   /* background's priorities are training's */
    SIM_LOST_TRANSFER, /* one in eight is never begun */
    SIM_LOST_CREDIT,   /* window of one slice in eight never comes back */
    SIM_BLIND,         /* does not see who is away */
    SIM_UNSTEADY       /* decisions depend on what was run before */
};

struct sim_params {
    int ranks;
    uint64_t slice_bytes, window_bytes, rail_window_bytes;
    uint32_t posted_slices;
    int ways;                          /* transports that each two ranks have, 0: one */
    uint32_t wants_max, frame_credits; /* 0: as by default */
    uint32_t posted_max;               /* slices posted per endpoint, 0: 64 */
    enum sim_fault fault;
    const struct compiled_plan *plan; /* of collectives; NULL: binary trees */
    uint64_t scratch_bytes;           /* 0: as by default */
    bool unpaced;                     /* lanes do not keep the pace of the plan */
    bool quiet;                       /* no log */
};

enum sim_action_kind {
    SIM_DO_SEND, /* of transfer `what` */
    SIM_DO_RECV,
    SIM_DO_CANCEL_SEND,
    SIM_DO_CANCEL_RECV,
    SIM_DO_RAISE_SEND, /* to priority `value` */
    SIM_DO_RAISE_RECV,
    SIM_DO_LINK_RATE, /* of link `what`, bytes/s */
    SIM_DO_LINK_CUT,
    SIM_DO_LINK_MEND,
    SIM_DO_RANK_STOP, /* as by SIGSTOP: rank `what` makes no pass, and hears nothing */
    SIM_DO_RANK_GO,
    SIM_DO_RANK_KILL,
    SIM_DO_RANK_LEAVE, /* it closes its group, with whatever is under way */
    /* of the transports to and from rank `what` the first `value` do not work */
    SIM_DO_REFUSE,
    SIM_DO_COLL, /* collective `what`, by rank `value` */
    SIM_DO_CANCEL_COLL
};

struct sim_action {
    uint64_t at_ns; /* since the simulation began */
    enum sim_action_kind kind;
    int32_t what;
    int64_t value;
    uint32_t number;
};

struct sim;

/* One end of a transfer. */
struct sim_end {
    struct sim *sim;
    int which;
    bool is_send;
    uint32_t flags;
    int32_t priority;
    tryst_op *op; /* pending */
    bool submitted, done;
    tryst_status status; /* once done */
};

struct sim_transfer {
    int from, to, step;
    uint64_t bytes;
    struct sim_end send, recv;
};

/* One rank's part of a collective. */
struct sim_part {
    struct sim *sim;
    int which, rank;
    tryst_op *op; /* pending */
    bool submitted, done;
    tryst_status status, origin_status; /* once done */
    int32_t origin_rank;
    uint64_t deadline_ns; /* after its submission, 0: none */
    uint64_t submitted_ns, done_ns;
};

/* Of `bytes` elements of one byte, whose sum is the reduction. No check reads results. */
struct sim_coll {
    tryst_coll_kind kind;
    int step, root;
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
    struct group_plan *plan; /* NULL: binary trees */
    uint64_t next_ns;        /* when it wakes by itself, 0 never */
    bool killed;
    bool
        /* its group is closed, or is being closed: its operations may end in any way */
        left;
    int leaving;             /* how far it is on its way out */
    uint64_t leave_until_ns; /* how long it waits at that point */
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
    uint64_t events;        /* that the clock jumped to */
    bool moved;             /* since the ranks' last passes something came, or was done */
    uint64_t ranks_next_ns; /* when the first of them wakes by itself */
};

/* `net` has its links and routes, and is the simulation's from here on. */
void sim_open(struct sim *sim, const struct sim_params *params, struct net *net);
/* What has not ended is cancelled. */
void sim_close(struct sim *sim);

/* Both ends are submitted by actions; `flags` and `priority` of the ends are set by the
 * caller. The number. */
int sim_transfer_add(struct sim *sim, int from, int to, int step, uint64_t bytes);
void sim_act(struct sim *sim, uint64_t at_ns, enum sim_action_kind kind, int what,
             int64_t value);
/* Both ends, submitted at these times. */
int sim_transfer_at(struct sim *sim, int from, int to, uint64_t bytes, uint64_t send_ns,
                    uint64_t recv_ns, uint32_t flags, int32_t priority);

/* Its parts are submitted by actions; what differs from an all-reduce without a root is
 * set by the caller. */
int sim_coll_add(struct sim *sim, tryst_coll_kind kind, int step, uint64_t bytes);
bool sim_coll_ended(const struct sim *sim, const struct sim_coll *coll);

/* Until all transfers and collectives have ended and the script is through, or until this
 * time since the begin. False: they have not. */
bool sim_run(struct sim *sim, uint64_t until_ns);
bool sim_transfer_ended(const struct sim *sim, const struct sim_transfer *transfer);

/* colls.c */
void sim_pace(struct sim *sim);
struct above sim_colls_open(struct sim *sim, struct side *side);
void sim_colls_close(struct sim *sim);
void sim_coll_act(struct sim *sim, const struct sim_action *action);
void sim_colls_cancel(struct sim *sim);
bool sim_colls_ended(const struct sim *sim);
/* The memory of all tensors of collectives, which is less than it seems. */
bool sim_coll_holds(const void *data);
void sim_note(struct sim *sim, struct sim_entry entry);

#endif
