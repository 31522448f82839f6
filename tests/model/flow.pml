/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of collectives (DESIGN sections 5 and 6) as a spin model: three ranks, two trees,
 * two all-reduces A and B, which the ranks submit in different orders. A flow is one edge
 * of one tree of one all-reduce in one direction; a tree's range is SLICES slices.
 * rendezvous.pml models the rest of the protocol.
 *
 * Upward, the child sends an OFFER with the number of its ready slices, and another one
 * when that number grows. The parent grants a slice when an OFFER covers it, the same
 * slice of the child before has been added, and a scratch slot and a posted slot are
 * free. Downward, slices are posted ahead of the OFFER in at most half of the slots of a
 * peer. A rank that sends its upward slice from the memory of its downward slice posts
 * the downward one when an OFFER covers it and the transport no longer reads the upward
 * one.
 *
 * With BORROW, the bytes of an upward bulk stay with the child, and landed means that the
 * transport's offer has landed. The bulk needs no scratch. Its posted slot, its offer and
 * its window are held until the parent has added the slice from the child's memory and
 * returned it. A slice is granted only when the offer of the same slice of the child
 * before has landed: so it waits for the parent's own turns alone. The return confirms
 * that the child has not closed. The rank that sends a downward slice has a sum of
 * confirmed terms, so where the upward slice was borrowed, the downward one is posted
 * ahead.
 *
 * The own term of a rank, on a device, is fetched to host memory slice by slice. A leaf's
 * slice is ready once it is fetched, and an inner rank grants slice i of its first child
 * once its own slice i is fetched. With FETCH_AFTER, the program has recorded the ready
 * event of A's term behind the end of B at some ranks: nothing of A is fetched there
 * before B has ended, in whatever order A and B were submitted.
 *
 * The window is one slice for each ordered pair: the start of a bulk takes it and DONE
 * returns it. Frames carry WANT, grants, DONE, OFFER, CANCEL and CANCELED. These events
 * happen at any time and in any order: a submission, the reading of a frame, the landing
 * of a bulk, the end of a send's read (sent), the begin and the end of the addition of a
 * borrowed slice, the fetch of a slice, the close of a sender whose operation has failed.
 * Where several slices may be granted, posted or started, each choice is searched, so all
 * priorities are.
 *
 * What is left out, and why that is safe:
 *   - State is counters, as in the engine (collectives/tree/tree.h). All of a record but
 *     WANT and CANCEL is a cumulative count. A frame carries the counts of the moment in
 *     which the frame is read. A frame with older counts equals one that was read
 *     earlier: the sender's later steps do not depend on that reading, so both orders
 *     lead to the same state.
 *   - A rank that can grant, post or start does so at once, with every choice. A delayed
 *     step equals a later event: an OFFER that is read later, a bulk that lands later.
 *   - An addition takes no time, but for borrowed slices: a sum that takes time equals a
 *     bulk that lands later. Without failures a borrowed slice has no event for the begin
 *     of its addition, which changes nothing.
 *   - With a window of one slice, bulks of a pair land in order. The engine keeps a slice
 *     that lands out of order in its slot until the slices before have landed, and this
 *     model has that state: neither has landed.
 *   - The next bulk of a pair starts when the transport no longer reads the one before.
 *   - The end of a send's read is apart from the landing only where a downward slice
 *     shares the memory: no other rule waits for the end of a read.
 *   - Rank 0 submits A first. Exchange of the names A and B makes every other case one of
 *     these, except in CROSSED. With FETCH_AFTER, where A and B differ, each rank submits
 *     in any order, but for OPPOSITE.
 *   - The copy of a result to the device is left out. It delays the end of its operation,
 *     for which only a fetch and a submission wait; each equals one that happens later.
 *   - A close revokes the memory of one flow. In the engine it ends the whole endpoint,
 *     which is a death (DEATH) with another cause.
 *   - Values are left out: the order of addition follows from the counters, and the bits
 *     of the results are compared by tests/api/test_coll.c and
 *     tests/collectives/test_run.c.
 *
 * Shapes of the trees, child to parent, in the order of addition:
 *   STARS   tree 0: 1 and 2 to 0; tree 1: 2 and 0 to 1
 *   CHAINS  tree 0: 2 to 1 to 0;  tree 1: 2 to 0 to 1
 *   MIXED   tree 0: 1 and 2 to 0; tree 1: 0 to 1 to 2
 *   CROSSED as STARS for A; for B with the opposite orders of addition
 *
 * Options:
 *   OPPOSITE    ranks 0 and 2 submit A first, rank 1 B; without, ranks 1 and 2 submit in
 *               any order
 *   WAITS=r     rank r submits its second operation when the first has ended
 *   SLICES=n    slices of each tree (2)
 *   SLOTS=n     slices of one peer that a receiver has posted, at most: 1 or 2 (2)
 *   SCRATCH=n   scratch slots of each rank (1)
 *   IN_PLACE    each rank's input and result are the same memory
 *   LEAD=n      a slice is granted only while it is less than n beyond the least number of
 *               slices that the rank has passed on, over both trees (tree/lead.h): the
 *               parent has them; at the root, they are added
 *   BORROW=n    upward slices are borrowed: 1 those of the first edge of each tree (in
 *               the order above), 2 those of the second, 3 all
 *   BORROW_EARLY  a slice of the first child is borrowed even ahead of its OFFER, in a
 *               slot ahead
 *   FETCH_AFTER own terms of A are fetched only after B has ended at the same rank, at
 *               the ranks of a set; all sets are searched. The other own terms are
 *               fetched from the start
 *   FETCH_ALL   with FETCH_AFTER: the other own terms are fetched at any time
 *   RELAY       STARS: the first child sends the result on to the second one
 *   INSTANT     each frame is read at once, but not by a rank that adds from memory that
 *               may be revoked: for the large searches
 *   LAX         a child may be granted ahead, in the order of addition
 *   ANY_BUT_LAST  any child may be granted, but the last scratch slot is for the next in
 *                 order
 *   CANCEL=r    rank r may cancel A at any time
 *   DEATH=r     rank r may die at any time
 *
 * What must hold (assertions on the way, and the check when nothing can move any more):
 *   - every operation ends at every rank that is alive: with each slice landed and added
 *     once, or with the cause and the rank of its failure;
 *   - scratch, slots and window have come back;
 *   - no slice lands in memory that was released, was not granted, or is still being
 *     read;
 *   - no borrowed slice is read after its send has ended, unless that sender has closed,
 *     and then no sum with this slice has left.
 *
 * Broken variants, each of which must be found (flow.sh runs them); the number is
 * DESIGN's rule:
 *   BREAK_HANDLER_WAITS  1  the handler of a frame that needs an answer waits for room
 *                           for the answer
 *   BREAK_FRAME_CREDIT   2  a frame's credit returns when its WANTs are matched and its
 *                           OFFERs granted
 *   BREAK_WINDOW_PARKED  3  a WANT takes window before its slice is ready
 *   BREAK_WINDOW_TWICE   3  window returns with the removal, and by DONE again
 *   BREAK_EARLY          4  a cancelled receive returns slots and scratch before its id
 *                           was answered
 *   BREAK_UNANSWERED     4  a WANT for an operation that has failed is not answered
 *   BREAK_DEAD_SCRATCH   5  scratch granted to the dead is not reclaimed
 *   BREAK_DEAD_WINDOW    5  window of bulks to the dead is not reclaimed
 *   BREAK_DEAD_BULK      5  memory returns before the transport has confirmed that the
 *                           dead writes no more
 *   BREAK_CAUSE          5  a cause that travels names the neighbour
 *   BREAK_RESERVE        6  a submission reserves scratch until its operation ends
 *   BREAK_REVOKE         6  a grant is taken back for another OFFER
 *   BREAK_ORDER          7  children are granted in any order
 *   BREAK_POOL           8  sums are in a shared pool of accumulators
 *   LEAD=0               9  the slice to be passed on next is not granted
 *   BREAK_LEAD           9  the lead counts the trees of both operations
 *   BREAK_READY_PER_RUN     the first ready slice makes its whole flow ready
 *   BREAK_AHEAD             slices that are not announced may take all slots of a peer
 *   BREAK_PLACE             a downward slice is posted where the upward slice is still
 *                           being read
 *   BREAK_FETCH             a slice is granted to the first child before this rank's own
 *                           slice is fetched: it holds scratch or, borrowed, the child's
 *                           window until another operation has ended
 *   BREAK_BORROW_AHEAD      a child's slice is borrowed before the child before has
 *                           announced the same one: while that child waits for an
 *                           operation that needs this child's window
 *   BREAK_BORROW_GRANTED    a child's slice is borrowed when the same slice of the child
 *                           before has been granted: two slices with opposite orders
 *                           of addition each hold the window that the other waits for
 *   BREAK_BORROW_DONE       DONE leaves when the offer of a borrowed slice has landed: the
 *                           send ends and the memory is released before it was read.
 *                           (Where the send also waits for the transport's end of the
 *                           bulk, as in the engine, only the window's bound is lost.)
 *   BREAK_BORROW_FORWARD    a sum leaves before the return has confirmed its terms
 *   BREAK_BORROW_RESULT     results are posted ahead where the upward slice is not
 *                           borrowed: its transport may still read it when a rank that
 *                           has not read it sends the result */

#ifndef SLICES
#define SLICES 2
#endif
#ifndef SCRATCH
#define SCRATCH 1
#endif
#ifndef SLOTS
#define SLOTS 2 /* of each peer, at a receiver */
#endif
#define RANKS  3
#define FLOWS  16
#define PAIRS  9
#define NONE   255

/* A flow's index: operation, tree, edge, direction (0 up, 1 down). Tables of two bits
 * have the ranks. */
#if defined(STARS)
#define CHILDREN SAME(1 | 2 << 2 | 2 << 4 | 0 << 6)
#define PARENTS  SAME(0 | 0 << 2 | 1 << 4 | 1 << 6)
#define CHAIN(f) 0
#elif defined(CROSSED)
#define CHILDREN ((1 | 2 << 2 | 2 << 4 | 0 << 6) | (2 | 1 << 2 | 0 << 4 | 2 << 6) << 8)
#define PARENTS  SAME(0 | 0 << 2 | 1 << 4 | 1 << 6)
#define CHAIN(f) 0
#elif defined(CHAINS)
#define CHILDREN SAME(2 | 1 << 2 | 2 << 4 | 0 << 6)
#define PARENTS  SAME(1 | 0 << 2 | 0 << 4 | 1 << 6)
#define CHAIN(f) 1
#else
#define CHILDREN SAME(1 | 2 << 2 | 0 << 4 | 1 << 6)
#define PARENTS  SAME(0 | 0 << 2 | 1 << 4 | 2 << 6)
#define CHAIN(f) ((f) >> 2 & 1)
#endif
#define OP(f)     ((f) >> 3)
#define EDGE(f)   ((f) >> 1 & 1)
#define DOWN(f)   ((f) & 1)
#define SAME(t)   ((t) | (t) << 8) /* the trees of both operations */
#define CHILD(f)  (CHILDREN >> (2 * ((f) >> 1)) & 3)
#define PARENT(f) (PARENTS >> (2 * ((f) >> 1)) & 3)
#ifdef RELAY
#define RELAYED(f) (DOWN(f) && EDGE(f))
#else
#define RELAYED(f) 0
#endif
#define SRC(f)    (RELAYED(f) -> CHILD(BASE(f)) : (DOWN(f) -> PARENT(f) : CHILD(f)))
#define DST(f)    (DOWN(f) -> CHILD(f) : PARENT(f))
#define PAIR(p, q) ((p) * RANKS + (q))
#define FLOW_PAIR(f) PAIR(SRC(f), DST(f))
#define AT(r, op) ((r) * 2 + (op))
#define BASE(f)   ((f) & 12) /* plus 0, 1: edge 0 up, down; plus 2, 3: edge 1 */
#define OF_OP(f, op_) (OP(f) == (op_))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* operations, by rank and operation */
bit submitted[6];
#if defined(CANCEL) || defined(DEATH)
#define FAILS
bit failed[6];
byte cause[6] = NONE;
bit happened; /* the failure has happened */
bit dead[RANKS];
bit learnt[RANKS];
#define FAILED(r, op) failed[AT(r, op)]
#define DEAD(r)       dead[r]
#ifdef BREAK_CAUSE
#define CAUSE_OF(r, op) (r)
#else
#define CAUSE_OF(r, op) cause[AT(r, op)]
#endif
#else
#define FAILED(r, op) 0
#define DEAD(r)       0
#endif

/* A flow at its receiver. */
byte announced[FLOWS]; /* slices that were announced by OFFER */
byte posted[FLOWS];    /* slices that were granted or posted ahead */
byte landed[FLOWS];    /* of a borrowed flow: slices whose offer has landed */
/* A flow at its sender. */
bit wanted[FLOWS];     /* the WANT has come */
byte grants[FLOWS];    /* posted slices, by the frames read so far */
byte started[FLOWS];
/* slices no longer read, where a downward slice shares the memory */
byte sent[FLOWS];
byte done[FLOWS];      /* slices returned by DONE */
#ifdef BORROW
/* A borrowed flow. */
byte returned[FLOWS]; /* slices that the receiver has added, or has dropped */
#ifdef FAILS
bit adding[FLOWS];    /* the receiver adds slice returned[f] */
bit revoked[FLOWS];   /* the sender has closed: its memory is garbage */
#endif
#endif
#ifdef FAILS
bit recv_ended[FLOWS], send_ended[FLOWS];
bit cancel[FLOWS], cancel_read[FLOWS];     /* CANCEL of the receiver */
bit canceled[FLOWS], canceled_read[FLOWS]; /* the sender's answer */
#ifdef BREAK_UNANSWERED
bit late[FLOWS];
#endif
#endif

/* OWN: how many slices of the rank's own term are in host memory. */
#ifdef FETCH_AFTER
byte fetched[12]; /* slices, by rank, operation and tree */
byte awaits_b;    /* the set of ranks of FETCH_AFTER; 1 << r: rank r */
#define AWAITS_B(r, op) (!(op) && awaits_b >> (r) & 1)
#ifdef FETCH_ALL
#define FETCHES(r, op) 1
#define SET_MIN        0
#else
#define FETCHES(r, op) AWAITS_B(r, op)
#define SET_MIN        1
#endif
#define OWN_AT(r, op, tree) (AT(r, op) * 2 + (tree))
#define OWN(r, f) (FETCHES(r, OP(f)) -> fetched[OWN_AT(r, OP(f), (f) >> 2 & 1)] : SLICES)
#else
#define OWN(r, f) SLICES
#endif

/* bounded resources */
byte scratch[RANKS]; /* in use */
byte slots[PAIRS];   /* in use, by sender and receiver */
byte window[PAIRS];
byte flying[PAIRS];  /* the flow plus 1 of the bulk that has not landed */
/* the flow plus 1 of the upward bulk that the transport still reads */
byte unsent[PAIRS];
#ifdef BREAK_HANDLER_WAITS
byte handler[RANKS]; /* the peer plus 1 whose frame is being handled */
#define WAITING(r) handler[r]
#else
#define WAITING(r) 0
#endif

hidden byte k, n;
hidden byte src, dst, op, pair; /* of flow k */

inline flow_take() { src = SRC(k); dst = DST(k); op = OP(k); pair = PAIR(src, dst) }

/* ---- derived from the counters ---- */

#ifdef BORROW
/* Flow f is borrowed. */
#define BORROWS(f) (!DOWN(f) && ((BORROW) >> EDGE(f) & 1))
/* Slices that no longer hold their posted slot. */
#define BACK(f)    (BORROWS(f) -> returned[f] : landed[f])
/* Slices of an upward flow that nobody reads any more, whether or not the sender has
 * noticed. */
#define IS_READ(f) (BORROWS(f) -> returned[f] : sent[f])
#else
#define BORROWS(f) 0
#define BACK(f)    landed[f]
#define IS_READ(f) sent[f]
#endif

/* An addition happens when its turn has come: in a star, the second child waits for the
 * first. */
#ifdef BREAK_BORROW_FORWARD
#define ADDABLE(f) (BACK(f) + adding[f])
#else
#define ADDABLE(f) BACK(f)
#endif
#define FOLDED(f) (EDGE(f) && !CHAIN(f) -> MIN(ADDABLE(f), ADDABLE(BASE(f))) : ADDABLE(f))
#ifdef FETCH_AFTER
#define ADDED(f) MIN(FOLDED(f), OWN(DST(f), f))
#else
#define ADDED(f) FOLDED(f)
#endif

#define READY_UP(f) \
    (CHAIN(f) && EDGE(f) -> ADDED(BASE(f)) : submitted[AT(SRC(f), OP(f))] * OWN(SRC(f), f))
#define READY_DOWN(f) (CHAIN(f) && !EDGE(f) -> landed[BASE(f) + 3] : ADDED(BASE(f) + 2))
#define READY(f) \
    (RELAYED(f) -> landed[BASE(f) + 1] : (DOWN(f) -> READY_DOWN(f) : READY_UP(f)))

/* An inner rank's sums lie in its result, where the downward slices land. */
#ifdef IN_PLACE
#define SHARED(f) 1
#else
#define SHARED(f) (CHAIN(f) && EDGE(f))
#endif

#if defined(BORROW) && defined(FAILS)
#define REVOKED(f) revoked[f]
#else
#define REVOKED(f) 0
#endif
#define STILL_READ(f) \
    (!REVOKED(f) && (!DOWN(f) && SHARED((f) + 1) -> sent[f] < started[f] : BACK(f) < started[f]))
/* DONE proves that a borrowed slice is no longer read. */
#define ALL_DONE(f) (done[f] == SLICES && (BORROWS(f) || !STILL_READ(f)))

#ifdef FAILS
#define RECV_ENDED(f) recv_ended[f]
#define SEND_ENDED(f) send_ended[f]
#else
#define RECV_ENDED(f) (BACK(f) == SLICES)
#define SEND_ENDED(f) ALL_DONE(f)
#endif

#define EACH_FLOW(is, p, q) \
    (is(0, p, q) || is(1, p, q) || is(2, p, q) || is(3, p, q) || is(4, p, q) || is(5, p, q) || is(6, p, q) || \
     is(7, p, q) || is(8, p, q) || is(9, p, q) || is(10, p, q) || is(11, p, q) || is(12, p, q) || is(13, p, q) || \
     is(14, p, q) || is(15, p, q))
#define LIVES(f, r, op) \
    (OP(f) == (op) && ((DST(f) == (r) && !RECV_ENDED(f)) || (SRC(f) == (r) && !SEND_ENDED(f))))
#define OP_ENDED(r, op) (submitted[AT(r, op)] && !EACH_FLOW(LIVES, r, op))

/* ---- frames ---- */

/* An OFFER leaves only for slices that are ready and that the WANT and DONE records have
 * not posted. */
#define SENDER_NEWS(f)   (wanted[f] && READY(f) > announced[f] && READY(f) > grants[f])
/* Slices that DONE reports. */
#ifdef BREAK_BORROW_DONE
#define UPTO(f) landed[f]
#else
#define UPTO(f) BACK(f)
#endif
#define RECEIVER_NEWS(f) \
    ((submitted[AT(DST(f), OP(f))] && !wanted[f]) || posted[f] != grants[f] || UPTO(f) != done[f])
#ifdef FAILS
#define FAIL_NEWS(f, p) ((SRC(f) == p && canceled[f] != canceled_read[f]) || \
                         (DST(f) == p && cancel[f] != cancel_read[f]))
#else
#define FAIL_NEWS(f, p) 0
#endif
#define NEWS_OF(f, p, q) ((SRC(f) == p && DST(f) == q && SENDER_NEWS(f)) || \
                          (SRC(f) == q && DST(f) == p && RECEIVER_NEWS(f)) || \
                          (FLOW_PAIR(f) == PAIR(p, q) && FAIL_NEWS(f, p)) || \
                          (FLOW_PAIR(f) == PAIR(q, p) && FAIL_NEWS(f, p)))
#define NEWS(p, q) EACH_FLOW(NEWS_OF, p, q)

/* Read at q, from p: WANT, grants and DONE of a flow from q to p. */
inline receiver_news(f) {
#ifdef BREAK_UNANSWERED
    if :: !wanted[f] && FAILED(src, op) -> late[f] = 1 :: else fi;
#endif
    wanted[f] = submitted[AT(dst, op)];
    grants[f] = posted[f];
    n = UPTO(f) - done[f];
    done[f] = UPTO(f);
#if defined(FAILS) && !defined(BREAK_WINDOW_TWICE)
    if :: send_ended[f] -> n = 0 :: else fi; /* the removal has returned the window */
#endif
    assert(window[pair] >= n);
    window[pair] = window[pair] - n;
#ifdef FAILS
    if
    :: cancel[f] && !cancel_read[f] ->
        cancel_read[f] = 1;
        if
        :: !send_ended[f] && done[f] < SLICES -> op_fail(src, op, CAUSE_OF(dst, op))
        :: else /* all slices have landed: a late CANCEL changes nothing */
        fi
    :: else
    fi
#endif
}

/* Read at q, from p: OFFER and CANCELED of a flow from p to q. */
inline sender_news(f) {
    if :: SENDER_NEWS(f) -> announced[f] = READY(f) :: else fi;
#ifdef FAILS
    if
    :: canceled[f] && !canceled_read[f] ->
        canceled_read[f] = 1;
        if
        :: !recv_ended[f] -> op_fail(dst, op, CAUSE_OF(src, op))
        :: else
        fi
    :: else
    fi
#endif
}

inline frame_read(p, q) {
    for (k : 0 .. FLOWS - 1) {
        flow_take();
        if
        :: src == p && dst == q -> sender_news(k)
        :: src == q && dst == p -> receiver_news(k)
        :: else
        fi
    }
}

/* Conditions of a variant before the peer may send another frame. */
#ifdef BREAK_FRAME_CREDIT
#define UNMATCHED(f, p, q) ((SRC(f) == (p) && DST(f) == (q) && !DOWN(f) && announced[f] > posted[f]) || \
                            (SRC(f) == (q) && DST(f) == (p) && wanted[f] && !submitted[AT(q, OP(f))]))
#define MAY_READ(p, q) (NEWS(p, q) && !EACH_FLOW(UNMATCHED, p, q))
#elif defined(FAILS)
#define MAY_READ(p, q) (!dead[q] && !(dead[p] && learnt[q]) && NEWS(p, q))
#else
#define MAY_READ(p, q) NEWS(p, q)
#endif

/* ---- failure ---- */

#ifdef FAILS
inline op_fail(r_, op_, cause_) {
    if
    :: submitted[AT(r_, op_)] && !FAILED(r_, op_) -> failed[AT(r_, op_)] = 1; cause[AT(r_, op_)] = cause_
    :: else
    fi
}

/* Return the slots and scratch of posted slices that will not land. */
inline recv_release(f) {
    assert(slots[pair] >= posted[f] - BACK(f));
    slots[pair] = slots[pair] - (posted[f] - BACK(f));
    if
    :: !DOWN(f) && !BORROWS(f) -> scratch[dst] = scratch[dst] - (posted[f] - landed[f])
    :: else
    fi;
#ifdef BORROW
    adding[f] = 0;
#endif
    recv_ended[f] = 1
}

#ifdef BORROW
/* Return the slices that will not be added. */
inline borrowed_drop(f) {
    slots[pair] = slots[pair] - (landed[f] - returned[f]);
    returned[f] = landed[f];
    adding[f] = 0
}
#endif

inline send_remove(f) {
    window[pair] = window[pair] - (started[f] - done[f]);
    send_ended[f] = 1
}

#define PEER_LOST(f, r) (submitted[AT(r, op)] && dead[(src == r -> dst : src)])

/* The transport has confirmed that no byte moves to or from the dead rank any more. */
inline peer_lost(r, f) {
    if
    :: dst == r && !recv_ended[f] && PEER_LOST(f, r) ->
        op_fail(r, op, src);
#ifdef BREAK_DEAD_SCRATCH
        slots[pair] = 0;
        recv_ended[f] = 1
#else
        recv_release(f)
#endif
    :: src == r && !send_ended[f] && PEER_LOST(f, r) ->
        op_fail(r, op, dst);
#ifdef BREAK_DEAD_WINDOW
        send_ended[f] = 1
#else
        send_remove(f)
#endif
    :: else
    fi
}

inline recv_settle(r, f) {
#ifdef BORROW
    if
    :: BORROWS(f) && FAILED(r, op) -> borrowed_drop(f)
    :: else
    fi;
#endif
    if
    :: BACK(f) == SLICES -> recv_ended[f] = 1
    :: BACK(f) < SLICES && canceled_read[f] && landed[f] == started[f] -> recv_release(f)
    :: BACK(f) < SLICES && !canceled_read[f] && FAILED(r, op) && !cancel[f] ->
        cancel[f] = 1;
#ifdef BREAK_EARLY
        recv_release(f)
#endif
    :: else
    fi
}

#ifdef BREAK_UNANSWERED
#define IS_LATE(f) late[f]
#else
#define IS_LATE(f) 0
#endif
#define UNANSWERED(f) (wanted[f] && !canceled[f] && done[f] < SLICES && !IS_LATE(f))

inline send_settle(r, f) {
    if
    :: UNANSWERED(f) && (FAILED(r, op) || (!submitted[AT(r, op)] && cancel_read[f])) -> canceled[f] = 1
    :: else
    fi;
    if
    :: send_ended[f]
    :: !send_ended[f] && ALL_DONE(f) -> send_ended[f] = 1
    :: !send_ended[f] && done[f] < SLICES && FAILED(r, op) && !STILL_READ(f) -> send_remove(f)
    :: else
    fi
}

/* Bring each flow of the rank as far as the failure of its operation brings it. */
inline settle(r) {
    for (k : 0 .. FLOWS - 1) {
        flow_take();
        if
        :: src == r && submitted[AT(r, op)] && cancel_read[k] && done[k] < SLICES && !send_ended[k] ->
            op_fail(r, op, CAUSE_OF(dst, op))
        :: else
        fi;
        if
        :: learnt[r] -> peer_lost(r, k)
        :: else
        fi
    }
    for (k : 0 .. FLOWS - 1) {
        flow_take();
        if
        :: dst == r && !recv_ended[k] -> recv_settle(r, k)
        :: src == r -> send_settle(r, k)
        :: else
        fi
    }
}

inline death_learn(r, d) {
    learnt[r] = 1;
#ifndef BREAK_DEAD_BULK
    flying[PAIR(d, r)] = 0;
#endif
    flying[PAIR(r, d)] = 0;
    unsent[PAIR(r, d)] = 0
}
#else
#define settle(r) skip
#endif

/* ---- grants and posted slots ---- */

#ifdef BREAK_READY_PER_RUN
#define IS_ANNOUNCED(f) (announced[f] > 0 || landed[f] > 0)
#define AHEAD(f) (IS_ANNOUNCED(f) -> 0 : posted[f] - landed[f])
#else
#define IS_ANNOUNCED(f) (posted[f] < announced[f])
#define TOLD(f)  (announced[f] > landed[f] -> announced[f] : landed[f])
#define AHEAD(f) (posted[f] > announced[f] -> posted[f] - TOLD(f) : 0)
#endif
#ifdef BREAK_AHEAD
#define IS_AHEAD(f, p, q) 0
#elif SLOTS == 1
#define IS_AHEAD(f, p, q) 1 /* half of one slot is zero */
#else
/* half of two slots is one */
#define IS_AHEAD(f, p, q) (FLOW_PAIR(f) == PAIR(p, q) && (DOWN(f) || BORROWS(f)) && AHEAD(f) > 0)
#endif

#ifdef BREAK_PLACE
#define PLACE(f) 1
#else
#define PLACE(f) (sent[(f) - 1] > posted[f])
#endif

/* The first child of a star, or an only child, is always next in the order of
 * addition. */
#define FIRST(f) (CHAIN(f) || !EDGE(f))
#if defined(BREAK_ORDER) || defined(BREAK_BORROW_AHEAD)
#define IN_ORDER(f) 1
#elif defined(BREAK_BORROW_GRANTED)
#define IN_ORDER(f) (FIRST(f) || posted[f] < posted[BASE(f)])
#elif defined(LAX)
#define IN_ORDER(f) (FIRST(f) || posted[f] < (BORROWS(f) -> landed[BASE(f)] : posted[BASE(f)]))
#elif defined(ANY_BUT_LAST)
#define IN_ORDER(f) (FIRST(f) || posted[f] < landed[BASE(f)] || scratch[DST(f)] + 1 < SCRATCH)
#else
#define IN_ORDER(f) (FIRST(f) || posted[f] < (BORROWS(f) -> landed[BASE(f)] : ADDED(BASE(f))))
#endif

#ifdef LEAD
/* b: BASE of a tree. A rank that sends to no parent is the root. */
#define PASSED(b, r) (CHILD(b) == (r) -> done[b] : (CHILD((b) + 2) == (r) -> done[(b) + 2] : ADDED((b) + 2)))
#define LEAST(op, r) MIN(PASSED((op) * 8, r), PASSED((op) * 8 + 4, r))
#ifdef BREAK_LEAD
#define IN_LEAD(f) (posted[f] < LEAD + MIN(LEAST(0, DST(f)), LEAST(1, DST(f))))
#else
#define IN_LEAD(f) (posted[f] < LEAD + LEAST(OP(f), DST(f)))
#endif
#else
#define IN_LEAD(f) 1
#endif

#ifdef BREAK_RESERVE
byte reserved[RANKS] = NONE; /* the operation that holds the rank's scratch */
#define MAY_USE(f) (reserved[DST(f)] == OP(f))
#elif defined(BREAK_POOL)
/* One accumulator a rank: from the grant of the first child's slice until the sum has
 * left. */
#define SUM_LEFT(f) \
    (!CHAIN(f) -> MIN(landed[(f) + 1], landed[(f) + 3]) : (EDGE(f) -> landed[(f) + 1] : sent[(f) + 2]))
#define HAS_SUM(f, p, q) (!DOWN(f) && FIRST(f) && DST(f) == (q) && posted[f] > SUM_LEFT(f))
#define MAY_USE(f) (!FIRST(f) || !EACH_FLOW(HAS_SUM, 0, DST(f)))
#else
#define MAY_USE(f) 1
#endif

#ifdef BREAK_FETCH
#define HAS_OWN(f) 1
#else
#define HAS_OWN(f) (posted[f] < OWN(DST(f), f))
#endif

#ifdef BORROW_EARLY
#define MAY_BORROW(f) (BORROWS(f) && FIRST(f) && !EACH_FLOW(IS_AHEAD, SRC(f), DST(f)))
#else
#define MAY_BORROW(f) 0
#endif
#define MAY_GRANT(f) ((posted[f] < announced[f] || MAY_BORROW(f)) && HAS_OWN(f) && IN_LEAD(f) && IN_ORDER(f) && \
                      (BORROWS(f) || (scratch[DST(f)] < SCRATCH && MAY_USE(f))))
#ifdef BREAK_BORROW_RESULT
#define BY_PLACE(f) 0
#else
#define BY_PLACE(f) (SHARED(f) && !BORROWS((f) - 1))
#endif
/* A flow that gets its memory by place posts nothing ahead of the OFFER. */
#define MAY_PLACE(f) \
    (BY_PLACE(f) -> IS_ANNOUNCED(f) && PLACE(f) : IS_ANNOUNCED(f) || !EACH_FLOW(IS_AHEAD, SRC(f), DST(f)))
#define MAY_POST(f, r) (DST(f) == r && submitted[AT(r, OP(f))] && posted[f] < SLICES && !FAILED(r, OP(f)) && \
                        slots[FLOW_PAIR(f)] < SLOTS && (DOWN(f) -> MAY_PLACE(f) : MAY_GRANT(f)))

inline post(f) {
    posted[f]++;
    slots[FLOW_PAIR(f)]++;
    if :: !DOWN(f) && !BORROWS(f) -> scratch[DST(f)]++ :: else fi
}

#ifdef BREAK_RESERVE
inline reserve(r) {
    if
    :: reserved[r] != NONE && OP_ENDED(r, reserved[r]) -> reserved[r] = NONE
    :: else
    fi;
    if
    :: reserved[r] == NONE && submitted[AT(r, 0)] && !OP_ENDED(r, 0) -> reserved[r] = 0
    :: else
    fi;
    if
    :: reserved[r] == NONE && submitted[AT(r, 1)] && !OP_ENDED(r, 1) -> reserved[r] = 1
    :: else
    fi
}
#else
#define reserve(r) skip
#endif

/* ---- bulks ---- */

#ifdef BREAK_WINDOW_PARKED
#define IS_READY(f) 1 /* the slice takes window, and moves when it is ready */
#define MOVES(f)    (READY(f) > landed[f])
#else
#define IS_READY(f) (READY(f) > started[f])
#define MOVES(f)    1
#endif
#define MAY_START(f, r) (SRC(f) == r && submitted[AT(r, OP(f))] && started[f] < grants[f] && IS_READY(f) && \
                         window[FLOW_PAIR(f)] == 0 && flying[FLOW_PAIR(f)] == 0 && unsent[FLOW_PAIR(f)] == 0 && \
                         !FAILED(r, OP(f)))

inline bulk_start(f) {
    started[f]++;
    window[FLOW_PAIR(f)]++;
    flying[FLOW_PAIR(f)] = f + 1;
    if :: !DOWN(f) && SHARED((f) + 1) -> unsent[FLOW_PAIR(f)] = f + 1 :: else fi
}

/* Slices whose scratch is free again. */
#define FREED(f) (DOWN(f) || BORROWS(f) -> 0 : ADDED(f))

inline bulk_land(pair_) {
    k = flying[pair_] - 1;
    flow_take();
    flying[pair_] = 0;
    assert(!RECV_ENDED(k));                                       /* not released */
    assert(landed[k] < posted[k]);                                /* granted */
    assert(!DOWN(k) || !SHARED(k) || IS_READ(k - 1) > landed[k]); /* not being read */
    n = FREED(k) + FREED(k ^ 2);
    landed[k]++;
    if :: !BORROWS(k) -> slots[pair_]-- :: else fi;
    scratch[dst] = scratch[dst] - (FREED(k) + FREED(k ^ 2) - n)
}

inline bulk_sent(pair_) {
    k = unsent[pair_] - 1;
    unsent[pair_] = 0;
    sent[k]++
}

/* ---- own terms ---- */

#ifdef FETCH_AFTER
#define MAY_FETCH(r, op, tree) \
    (FETCHES(r, op) && submitted[AT(r, op)] && fetched[OWN_AT(r, op, tree)] < SLICES && \
     !FAILED(r, op) && (!AWAITS_B(r, op) || OP_ENDED(r, 1)))

/* Scratch of the rank that the tree has freed; b: BASE of the tree. */
#define FREED_AT(r, b) ((DST(b) == (r) -> FREED(b) : 0) + (DST((b) + 2) == (r) -> FREED((b) + 2) : 0))

inline own_fetch(r_, op_, tree) {
    k = (op_) * 8 + (tree) * 4;
    n = FREED_AT(r_, k);
    fetched[OWN_AT(r_, op_, tree)]++;
    scratch[r_] = scratch[r_] - (FREED_AT(r_, k) - n)
}
#endif

/* ---- borrowed slices ---- */

#ifdef BORROW
#define MAY_ADD(f) (BORROWS(f) && returned[f] < landed[f] && returned[f] < OWN(DST(f), f) && \
                    (FIRST(f) || returned[f] < BACK(BASE(f))) && !FAILED(DST(f), OP(f)) && !DEAD(DST(f)))

/* The slice is added; its slot is free. */
inline slice_return() {
    assert(!SEND_ENDED(k)); /* its memory was not released */
    n = FREED(k) + FREED(k ^ 2);
    returned[k]++;
    slots[pair]--;
    scratch[dst] = scratch[dst] - (FREED(k) + FREED(k ^ 2) - n)
}

#ifdef FAILS
#define IS_CLOSED(f) (dead[SRC(f)] || revoked[f])
/* A sum with slice i of flow f has left. */
#define HAS_LEFT(f, i) \
    (CHAIN(f) && !EDGE(f) -> started[(f) + 2] > (i) : \
                             started[BASE(f) + 3] > (i) || (!CHAIN(f) && started[BASE(f) + 1] > (i)))

/* The end of an addition: the slice counts if its sender has not closed. */
inline addition_end(f) {
    k = f;
    flow_take();
    adding[k] = 0;
    if
    :: !IS_CLOSED(k) -> slice_return()
    :: else ->
        assert(!HAS_LEFT(k, returned[k])); /* no garbage was passed on */
        if
        :: dead[src] -> death_learn(dst, src)
        :: else -> op_fail(dst, op, CAUSE_OF(src, op))
        fi
    fi
}

/* A rank whose operation has failed waits for no reader. */
#define MAY_CLOSE(f) \
    (BORROWS(f) && FAILED(SRC(f), OP(f)) && !send_ended[f] && STILL_READ(f) && !dead[SRC(f)])

inline sender_close(f) {
    revoked[f] = 1;
    if :: unsent[FLOW_PAIR(f)] == f + 1 -> unsent[FLOW_PAIR(f)] = 0 :: else fi
}
#endif
#endif

/* ---- events ---- */

/* Rank 0 submits A first; with OPPOSITE, rank 1 submits B first and rank 2 A. */
#ifdef OPPOSITE
#define BEFORE(r, op) ((r) == 1 -> (op) == 1 || submitted[AT(1, 1)] : (op) == 0 || submitted[AT(r, 0)])
#elif defined(FETCH_AFTER)
#define BEFORE(r, op) 1 /* A and B differ */
#else
#define BEFORE(r, op) ((r) != 0 || (op) == 0 || submitted[AT(0, 0)])
#endif
#ifdef WAITS
#define HAS_WAITED(r, op) ((r) != WAITS || !submitted[AT(r, 1 - (op))] || OP_ENDED(r, 1 - (op)))
#else
#define HAS_WAITED(r, op) 1
#endif
#define MAY_SUBMIT(r, op) (!submitted[AT(r, op)] && BEFORE(r, op) && HAS_WAITED(r, op))

#define on_submit(r_, op) \
    :: !DEAD(r_) && !WAITING(r_) && MAY_SUBMIT(r_, op) -> d_step { submitted[AT(r_, op)] = 1; r = r_ }
#define on_land(p, q) \
    :: flying[PAIR(p, q)] && !DEAD(q) && !WAITING(q) && MOVES(flying[PAIR(p, q)] - 1) -> \
        d_step { bulk_land(PAIR(p, q)); r = q }
#define MAY_SEE_SENT(f) (!BORROWS(f) || IS_READ(f) > sent[f])
#define on_sent(p, q) \
    :: unsent[PAIR(p, q)] && MAY_SEE_SENT(unsent[PAIR(p, q)] - 1) && !DEAD(p) && !WAITING(p) -> \
        d_step { bulk_sent(PAIR(p, q)); r = p }
#ifndef BREAK_HANDLER_WAITS
#define on_read(p, q) \
    :: MAY_READ(p, q) -> d_step { frame_read(p, q); r = q }
#else
#define ASKS(f, p, q) ((SRC(f) == (p) && DST(f) == (q) && SENDER_NEWS(f)) || \
                       (SRC(f) == (q) && DST(f) == (p) && submitted[AT(p, OP(f))] && !wanted[f]))
#define on_read(p, q) \
    :: !WAITING(q) && NEWS(p, q) && !(NEWS(q, p) && EACH_FLOW(ASKS, p, q)) -> \
        d_step { frame_read(p, q); r = q } \
    :: !WAITING(q) && NEWS(q, p) && EACH_FLOW(ASKS, p, q) -> d_step { handler[q] = p + 1; r = q } \
    :: handler[q] == p + 1 && !NEWS(q, p) -> d_step { handler[q] = 0; frame_read(p, q); r = q }
#endif
#ifdef INSTANT
#define EACH_PAIR_READS /* frames are read after each event instead */
#if defined(BORROW) && defined(FAILS)
#define IS_ADDING(f, p, q) (DST(f) == (q) && adding[f])
#define read_next(p, q) :: MAY_READ(p, q) && !EACH_FLOW(IS_ADDING, p, q) -> frame_read(p, q); r = q
#else
#define read_next(p, q) :: MAY_READ(p, q) -> frame_read(p, q); r = q
#endif
#else
#define EACH_PAIR_READS EACH_PAIR(on_read)
#endif
#define EACH_PAIR(on) on(0, 1) on(0, 2) on(1, 0) on(1, 2) on(2, 0) on(2, 1)

#if !defined(BORROW)
#define on_add(f)
#elif !defined(FAILS)
#define on_add(f) :: MAY_ADD(f) -> d_step { k = f; flow_take(); slice_return(); r = dst }
#else
#define on_add(f) \
    :: MAY_ADD(f) && !adding[f] -> d_step { adding[f] = 1; r = DST(f) } \
    :: adding[f] && !dead[DST(f)] -> d_step { addition_end(f); r = DST(f) } \
    :: MAY_CLOSE(f) -> d_step { sender_close(f); r = SRC(f) }
#endif
#define EACH_UPWARD(on) on(0) on(2) on(4) on(6) on(8) on(10) on(12) on(14)

#ifdef FETCH_AFTER
#define on_fetch(r_, op, tree) \
    :: !DEAD(r_) && !WAITING(r_) && MAY_FETCH(r_, op, tree) -> d_step { own_fetch(r_, op, tree); r = r_ }
#define on_fetches(r_) on_fetch(r_, 0, 0) on_fetch(r_, 0, 1) on_fetch(r_, 1, 0) on_fetch(r_, 1, 1)
#define EACH_FETCH on_fetches(0) on_fetches(1) on_fetches(2)
#else
#define EACH_FETCH
#endif

#ifdef BREAK_REVOKE
#define MAY_REVOKE(f, p, q) (!DOWN(f) && posted[f] > landed[f] && scratch[DST(f)] == SCRATCH && \
                             EACH_FLOW(WANTS_SCRATCH, 0, DST(f)))
#define WANTS_SCRATCH(f, p, q) (!DOWN(f) && DST(f) == (q) && posted[f] < announced[f])
#define on_revoke(f) :: MAY_REVOKE(f, 0, 0) -> \
    d_step { posted[f]--; slots[FLOW_PAIR(f)]--; scratch[DST(f)]--; r = DST(f) }
#endif

#define may_post(i)  :: MAY_POST(i, r) -> f = i
#define may_start(i) :: MAY_START(i, r) -> f = i
#define ANY_FLOW(may) may(0) may(1) may(2) may(3) may(4) may(5) may(6) may(7) \
                      may(8) may(9) may(10) may(11) may(12) may(13) may(14) may(15)

/* ---- checks at the end ---- */

inline rank_check(r_) {
    assert(submitted[AT(r_, 0)] && submitted[AT(r_, 1)]);
    assert(OP_ENDED(r_, 0) && OP_ENDED(r_, 1));
    assert(scratch[r_] == 0);
    for (n : 0 .. RANKS - 1) { assert(slots[PAIR(n, r_)] == 0 && window[PAIR(r_, n)] == 0) }
}

inline flow_check(f) {
#ifdef FAILS
    assert(DEAD(dst) || FAILED(dst, op) || landed[f] == SLICES);
    assert(happened || landed[f] == SLICES);
#else
    assert(landed[f] == SLICES)
#endif
}

#ifdef FAILS
inline cause_check(r_, op_) {
#ifdef CANCEL
    assert(!FAILED(r_, op_) || (op_ == 0 && cause[AT(r_, op_)] == CANCEL))
#else
    assert(!FAILED(r_, op_) || cause[AT(r_, op_)] == DEATH)
#endif
}
#endif

active proctype ranks() {
    byte r, f;
#ifdef FETCH_AFTER
    select(awaits_b : SET_MIN .. 7);
#endif
end:
    do
    :: atomic {
        if
        on_submit(0, 0) on_submit(0, 1) on_submit(1, 0) on_submit(1, 1) on_submit(2, 0) on_submit(2, 1)
        EACH_PAIR(on_land)
        EACH_PAIR(on_sent)
        EACH_UPWARD(on_add)
        EACH_FETCH
        EACH_PAIR_READS
#ifdef BREAK_REVOKE
        ANY_FLOW(on_revoke)
#endif
#ifdef CANCEL
        :: !happened && submitted[AT(CANCEL, 0)] && !OP_ENDED(CANCEL, 0) && !FAILED(CANCEL, 0) ->
            d_step { happened = 1; op_fail(CANCEL, 0, CANCEL); r = CANCEL }
#endif
#ifdef DEATH
        :: !happened -> d_step { happened = 1; dead[DEATH] = 1; r = DEATH }
        :: dead[DEATH] && DEATH != 0 && !learnt[0] -> d_step { death_learn(0, DEATH); r = 0 }
        :: dead[DEATH] && DEATH != 1 && !learnt[1] -> d_step { death_learn(1, DEATH); r = 1 }
        :: dead[DEATH] && DEATH != 2 && !learnt[2] -> d_step { death_learn(2, DEATH); r = 2 }
#endif
        fi;
again:
        skip;
        d_step { settle(r); reserve(r) };
        if
        :: DEAD(r) || WAITING(r)
        :: else ->
            do
            :: if
               ANY_FLOW(may_post)
               :: else -> break
               fi;
               d_step { post(f) }
            od;
            do
            :: if
               ANY_FLOW(may_start)
               :: else -> break
               fi;
               d_step { bulk_start(f) }
            od
        fi;
#ifdef INSTANT
        skip;
        d_step {
            f = 0;
            if /* the first that applies */
            EACH_PAIR(read_next)
            :: else -> f = 1
            fi
        };
        if :: !f -> goto again :: else fi;
#endif
        r = 0; f = 0
    }
    :: timeout -> break
    od;
    atomic {
        for (k : 0 .. RANKS - 1) {
            if :: DEAD(k) :: else -> rank_check(k) fi
        }
        for (k : 0 .. FLOWS - 1) { flow_take(); flow_check(k) }
#ifdef FAILS
        for (k : 0 .. 5) { cause_check(k / 2, k % 2) }
#endif
    }
}
