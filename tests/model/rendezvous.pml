/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous table protocol (docs/design.md; rendezvous/protocol/) as a spin model:
 * one consumer, one producer, one key with two receives and two sends, two ordered
 * channels.
 *
 * The quota of WANTs (wants_max), the room for parked ones (parked_max) and the eager
 * credit are 1 each, so WANTs wait, are deferred and are offered again. With -DNAMES the
 * credit suffices for both sends, so both DATA may be in flight: the first declares the
 * key, the second carries only its name. At the start the model draws which operations
 * may be cancelled and which side may close its step; each of these events then happens
 * at any time, or not at all where the operation ends first. Both sides post all their
 * operations unless they close first.
 *
 * A receive announces itself at any time after it was posted. This includes the late
 * announcement of small receives (pass_flush), up to one that comes after
 * everything else.
 *
 * Bytes travel as eager DATA ahead of a WANT (under credit) or as DATA that answers a
 * WANT; with -DLARGE as a transfer in two events (bulk, its DONE), which a cancel
 * overtakes only before its start. One slice stands for all: slices differ only in how
 * they use the window. A cancel of eager DATA is a request to the consumer, which gives
 * the DATA back (CANCELED_SEND) if no receive has taken it; its number and credit wait
 * for DONE all the same.
 *
 * A producer with sends that wait for a WANT sends ASK (has the consumer closed?), at any
 * time, and only one until the answer. The consumer notes the ASK, and answers
 * (CLOSED_STEP) when it has closed and all of its receives have ended.
 *
 * With -DDEATH one of the two ranks may die at any time. The other learns of the death at
 * any time after that, with or without having read the frames in flight, and then ends
 * all of its operations.
 *
 * What must hold (assertions on the way, and the monitor's when nothing can move any
 * more):
 *   - both ends of a number that both sides posted have ended, and agree; a side that
 *     closed has ended all of its own; a receive ends when its producer has closed, a
 *     send when its consumer has;
 *   - each id comes to an end, and counts only once (an answer that crossed eager DATA is
 *     void);
 *   - bytes reach only the receive of their number, and never one that was reported;
 *   - eager credit and WANT quota have come back;
 *   - where one rank died, all operations of the other have ended, and no send was
 *     reported OK that the dead rank had not taken.
 *
 * Broken variants, each of which must be found (rendezvous.sh runs them):
 *   BREAK_CANCEL_PARKED    the CANCEL of a parked WANT is not answered
 *   BREAK_OFFER            a tensor that becomes ready after a deferral is not offered
 *   BREAK_OFFER_CANCEL     cancelling a send withdraws its offer
 *   BREAK_VOID             a receive that is cancelled before its WANT left drops its
 *                          number
 *   BREAK_CLOSED_DATA      a closing consumer refuses eager DATA before it searches the
 *                          receive
 *   BREAK_CLOSED_DEFERRED  a deferred receive is not announced again when the producer
 *                          has closed
 *   BREAK_CLOSED_DEFERRAL  a receive whose deferral comes after its step's close stays
 *                          void
 *   BREAK_CREDIT           a refusal does not return the eager credit
 *   BREAK_QUOTA            a deferred WANT is never counted as taken up
 *   BREAK_EARLY_REPORT     a cancelled receive is reported before its id was answered
 *   BREAK_LAZY             a small receive waits for its DATA and never announces itself
 *   BREAK_ASK              the producer never sends ASK
 *   BREAK_ASK_NOTE         a consumer that receives ASK before it has closed does not
 *                          note it
 *   BREAK_ASK_EARLY        a consumer that still closes answers ASK, and sends without a
 *                          WANT end
 *   BREAK_TAKE_BACK        a send is reported as cancelled before the consumer has agreed
 *   BREAK_TAKE_BACK_BYTES  the consumer gives DATA back, and also gives its receive the
 *                          bytes
 *   BREAK_TAKE_BACK_CREDIT credit and number of DATA that was given back are used again
 *                          at once
 *   BREAK_NAME             DATA that is refused does not make its key known
 *   BREAK_DEATH            the producer waits for DATA that a dead consumer has not
 *                          answered
 *   BREAK_DEATH_WANT       the consumer waits for a dead producer's answer to a WANT
 *   BREAK_DEATH_READ       frames of the dead rank are read after all has ended */

#define N         2
#define WANTS_MAX 1
#define NOBODY    255
#define NAMED     254 /* in place of an id: eager DATA with its whole key */
#ifdef NAMES
#define EAGER_MAX 2
#else
#define EAGER_MAX 1
#endif
#define R_NONE    0
#define S_NONE    0
/* Each number is announced at most three times: at first, after an OFFER, after a
 * close. */
#define IDS       8

mtype = { WANT, WANT_VOID, DATA, DATA_FAIL, OFFER, DONE, DONE_FAIL, CANCEL, CANCELED, DEFERRED,
          CLOSED, BULK, BULK_DONE, CANCEL_SEND, CANCELED_SEND, ASK, CLOSED_STEP };

/* Events that may happen, drawn at the start. */
bit drawn, may_close_c, may_close_p;
bit may_die, c_dead, p_dead;  /* at most one rank dies */
bit c_alone, p_alone;         /* the other rank has learnt of the death */
bit may_cancel_recv[N], may_cancel_send[N];

/* receive states */
mtype = { R_POSTED, R_WANTED, R_DEFERRED, R_VOID, R_ENDED };
/* send states */
mtype = { S_POSTED, S_INLINE, S_MATCHED, S_STARTED, S_VOID, S_ENDED };

/* record, number, id (0: none) */
chan c2p = [8] of { mtype, byte, byte };
chan p2c = [8] of { mtype, byte, byte };

/* consumer */
mtype recv[N];
byte recv_id[N];        /* the announced id; 0: none */
bit recv_reported[N];
bit recv_ok[N];
bit recv_want[N];       /* QUEUED_WANT */
bit recv_cancel[N];     /* QUEUED_CANCEL */
bit recv_failing[N];    /* the cancel was requested */
byte recv_next;
bit early[N];           /* by number: DATA came before the receive */
/* by number: early DATA was given back, so the receive will end as cancelled */
bit early_dead[N];
bit key_known;          /* the consumer knows the key from a DATA */
bit c_closed;
byte wants_out;         /* WANTs announced and not taken up */
byte id_next = 1;
byte answered[IDS];

/* producer */
mtype send[N];
bit send_reported[N];
bit send_ok[N];
bit send_offer[N];      /* QUEUED_OFFER */
bit send_eager[N];
byte send_want[N];      /* id of the WANT that the send answers */
byte send_next;
byte park_number = NOBODY; /* the number of the parked WANT */
byte park_id;
bit park_void;
bit p_closed, deferred;
bit told;               /* a DATA that names the key has left */
bit asked, noted;       /* ASK was sent and not answered; the consumer has noted an ASK */
byte eager_used;
byte taken_up;          /* the header's wants_taken, not yet seen by the consumer */

#ifdef LARGE
#define CAN_EAGER 0
#else
#define CAN_EAGER (eager_used < EAGER_MAX)
#endif

inline answer(id_)
{
    answered[id_]++;
    assert(answered[id_] == 1);
}

/* ---- consumer ---------------------------------------------------------------------- */

#define RECV_ENDED(i_) (recv[i_] == R_NONE || recv[i_] == R_ENDED)
#define RECVS_ENDED    (c_closed && RECV_ENDED(0) && RECV_ENDED(1))

inline recv_report(i_, ok_)
{
    if
    :: !recv_reported[i_] -> recv_reported[i_] = 1; recv_ok[i_] = ok_
    :: else
    fi
}

inline recv_fail(i_) /* cancel or close */
{
    if
    :: recv[i_] == R_POSTED || recv[i_] == R_DEFERRED ->
        recv_report(i_, 0);
        recv[i_] = R_VOID;
#ifdef BREAK_VOID
        recv_want[i_] = 0;
#endif
    :: recv[i_] == R_WANTED && !recv_failing[i_] ->
        recv_failing[i_] = 1;
        recv_cancel[i_] = 1;
#ifdef BREAK_EARLY_REPORT
        recv_report(i_, 0);
#endif
    :: else
    fi
}

inline data_deliver(i_, ok_) /* consumer_deliver: DATA for a posted receive */
{
    if
    :: recv[i_] == R_VOID -> ok = 0
    :: else ->
        /* else it would write into memory that belongs to the caller again */
        assert(!recv_reported[i_]);
        ok = ok_;
        recv_report(i_, ok_)
    fi;
    if
    :: recv_id[i_] != 0 -> answer(recv_id[i_]); recv_id[i_] = 0
    :: else
    fi;
    recv_want[i_] = 0;
    recv_cancel[i_] = 0;
    recv[i_] = R_ENDED;
    if
    :: ok -> c2p!DONE, i_, 0
    :: else -> c2p!DONE_FAIL, i_, 0
    fi
}

inline recv_id_end(i_, id_)
{
    if
    :: recv_id[i_] == id_ && id_ != 0 -> answer(id_); recv_id[i_] = 0; known = 1
    :: else -> known = 0 /* ended already: eager DATA crossed its WANT */
    fi
}

inline consumer_read()
{
    p2c?what, number, id;
    wants_out = wants_out - taken_up; /* every frame's header carries it */
    taken_up = 0;
    if
    :: (what == DATA || what == DATA_FAIL) && (id == 0 || id == NAMED) -> /* eager */
#ifdef BREAK_CLOSED_DATA
        if
        :: c_closed -> c2p!DONE_FAIL, number, 0; goto consumer_next
        :: else
        fi;
#endif
        posted = number < recv_next && recv[number] != R_ENDED && recv[number] != R_NONE;
#ifdef BREAK_NAME
        if
        :: id == NAMED && (posted || (number >= recv_next && !c_closed)) -> key_known = 1
#else
        if
        /* the key has an entry */
        :: id == NAMED && (recv_next > 0 || !c_closed) -> key_known = 1
#endif
        :: else
        fi;
        if
        :: !key_known -> c2p!DONE_FAIL, number, 0
        :: key_known && posted -> data_deliver(number, (what == DATA))
        :: key_known && !posted && (number < recv_next || c_closed) ->
            c2p!DONE_FAIL, number, 0
        :: key_known && !posted && number >= recv_next && !c_closed ->
            assert(!early[number]);
            early[number] = 1
        fi;
        posted = 0
    :: (what == DATA || what == DATA_FAIL) && id != 0 && id != NAMED ->
        /* else it would answer a WANT that does not exist */
        assert(recv_id[number] == id);
        data_deliver(number, (what == DATA))
    :: what == BULK ->
        assert(recv_id[number] == id && recv[number] == R_WANTED && !recv_reported[number]);
        recv_id_end(number, id);
        recv_report(number, 1);
        recv_cancel[number] = 0;
        recv[number] = R_ENDED;
        c2p!BULK_DONE, number, id
    :: what == OFFER ->
        if
        :: recv[number] == R_DEFERRED -> recv[number] = R_POSTED; recv_want[number] = 1
        :: recv[number] == R_VOID && recv_id[number] == 0 -> recv_want[number] = 1
        :: else
        fi
    :: what == CANCEL_SEND ->
        if
        :: early[number] && !early_dead[number] ->
#ifndef BREAK_TAKE_BACK_BYTES
            early_dead[number] = 1;
#endif
            c2p!CANCELED_SEND, number, 0
        :: else /* taken, with DONE in flight, or given back already */
        fi
    :: what == ASK ->
        if
#ifndef BREAK_ASK_EARLY
#ifndef BREAK_ASK_NOTE
        :: !RECVS_ENDED -> noted = 1
#else
        :: !RECVS_ENDED
#endif
        :: RECVS_ENDED -> c2p!CLOSED_STEP, 0, 0
#else
        :: c2p!CLOSED_STEP, 0, 0
#endif
        fi
    :: what == DEFERRED ->
        recv_id_end(number, id);
        if
        :: known && recv[number] == R_VOID -> recv[number] = (c_closed -> R_ENDED : R_VOID)
        :: known && recv[number] == R_WANTED ->
            recv_cancel[number] = 0;
            recv[number] = R_DEFERRED;
            if
            :: recv_failing[number] ->
                recv_report(number, 0);
#ifdef BREAK_CLOSED_DEFERRAL
                recv[number] = R_VOID
#else
                recv[number] = (c_closed -> R_ENDED : R_VOID)
#endif
            :: else
            fi
        :: else
        fi
    :: what == CANCELED || what == CLOSED ->
        recv_id_end(number, id);
        if
        :: known ->
            recv_report(number, 0);
            recv_cancel[number] = 0;
            recv[number] = R_ENDED
        :: else
        fi
    fi;
consumer_next:
    skip
}

inline consumer_close()
{
    c_closed = 1;
    i = 0;
    do
    :: i < N ->
        if
        /* the producer needs no record */
        :: recv[i] == R_POSTED || recv[i] == R_DEFERRED ->
            recv_report(i, 0);
            recv_want[i] = 0;
            recv[i] = R_ENDED
        :: recv[i] == R_VOID && recv_id[i] == 0 && !recv_want[i] -> recv[i] = R_ENDED
        :: else -> recv_fail(i)
        fi;
        if
        :: early[i] -> c2p!DONE_FAIL, i, 0; early[i] = 0; early_dead[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* The producer has died: end all that waits for it. */
inline consumer_alone()
{
    c_alone = 1;
    i = 0;
    do
    :: i < N ->
        if
        :: recv[i] == R_NONE
#ifdef BREAK_DEATH_WANT
        :: recv[i] == R_WANTED
        :: recv[i] != R_NONE && recv[i] != R_WANTED ->
#else
        :: recv[i] != R_NONE ->
#endif
            recv_report(i, 0);
            recv_want[i] = 0; recv_cancel[i] = 0; recv_id[i] = 0;
            recv[i] = R_ENDED
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

#define RECV_CAN_FAIL(i_) \
    (recv[i_] == R_POSTED || recv[i_] == R_DEFERRED || (recv[i_] == R_WANTED && !recv_failing[i_]))

active proctype consumer()
{
    mtype what;
    byte number, id, i;
    bit known, ok, posted;
    drawn;
end:
    do
    :: atomic { !c_closed && recv_next < N -> /* post a receive */
        i = recv_next;
        recv_next++;
        recv[i] = R_POSTED;
        if
        :: c_alone -> recv_report(i, 0); recv[i] = R_ENDED
        :: !c_alone && early[i] ->
            early[i] = 0; data_deliver(i, !early_dead[i]); early_dead[i] = 0
#if !defined(BREAK_LAZY) || defined(LARGE)
        :: else -> recv_want[i] = 1
#else
        :: else
#endif
        fi;
        i = 0; ok = 0 }
    :: atomic { may_cancel_recv[0] && RECV_CAN_FAIL(0) && !c_closed ->
        may_cancel_recv[0] = 0; recv_fail(0) }
    :: atomic { may_cancel_recv[1] && RECV_CAN_FAIL(1) && !c_closed ->
        may_cancel_recv[1] = 0; recv_fail(1) }
    :: atomic { may_close_c && !c_closed -> consumer_close() }
    /* announce */
    :: atomic { recv_want[0] && wants_out < WANTS_MAX -> i = 0; goto announce }
    :: atomic { recv_want[1] && wants_out < WANTS_MAX -> i = 1; goto announce }
    :: atomic { recv_cancel[0] -> recv_cancel[0] = 0; c2p!CANCEL, 0, recv_id[0] }
    :: atomic { recv_cancel[1] -> recv_cancel[1] = 0; c2p!CANCEL, 1, recv_id[1] }
#ifdef DEATH
    :: atomic { may_die && !c_dead -> may_die = 0; c_dead = 1; goto dead }
    :: atomic { p_dead && !c_alone -> consumer_alone() }
#endif
#ifdef BREAK_DEATH_READ
    :: atomic { nempty(p2c) -> consumer_read(); what = 0; number = 0; id = 0; known = 0; ok = 0 }
#else
    :: atomic { nempty(p2c) && !c_alone -> consumer_read(); what = 0; number = 0; id = 0; known = 0; ok = 0 }
#endif
    /* a frame without records returns the quota when nothing else leaves */
    :: atomic { taken_up != 0 && empty(p2c) -> wants_out = wants_out - taken_up; taken_up = 0 }
    :: atomic { noted && RECVS_ENDED -> noted = 0; c2p!CLOSED_STEP, 0, 0 }
    /* the tick: a deferred receive announces itself again once the producer's step may
     * have closed */
#ifndef BREAK_CLOSED_DEFERRED
    :: atomic { p_closed && recv[0] == R_DEFERRED -> recv[0] = R_POSTED; recv_want[0] = 1 }
    :: atomic { p_closed && recv[1] == R_DEFERRED -> recv[1] = R_POSTED; recv_want[1] = 1 }
#endif
    od;
announce:
    atomic {
        recv_want[i] = 0;
        wants_out++;
        assert(id_next < IDS);
        recv_id[i] = id_next;
        if
        :: recv[i] == R_VOID -> c2p!WANT_VOID, i, id_next
        :: else -> recv[i] = R_WANTED; c2p!WANT, i, id_next
        fi;
        id_next++;
        i = 0
    }
    goto end;
dead:
    skip
}

/* ---- producer ---------------------------------------------------------------------- */

inline send_report(i_, ok_)
{
    if
    :: !send_reported[i_] -> send_reported[i_] = 1; send_ok[i_] = ok_
    :: else
    fi
}

inline want_meets(i_, id_, void_) /* producer_match */
{
    if
    :: void_ -> send_report(i_, 0); send[i_] = S_ENDED; send_offer[i_] = 0
    :: !void_ && send[i_] == S_VOID -> /* cancelled: the number leaves as a failed DATA */
        send[i_] = S_INLINE; send_offer[i_] = 0; p2c!DATA_FAIL, i_, id_
#ifdef LARGE
    :: !void_ && send[i_] != S_VOID ->
        send[i_] = S_MATCHED; send_want[i_] = id_; send_offer[i_] = 0
#else
    :: !void_ && send[i_] != S_VOID ->
        send[i_] = S_INLINE; send_offer[i_] = 0; p2c!DATA, i_, id_
#endif
    fi
}

inline want_read(void_)
{
    if
    :: p_closed -> p2c!CLOSED, number, id; taken_up++
    :: !p_closed && number < send_next && (send[number] == S_POSTED || send[number] == S_VOID) ->
        if
        :: void_ -> p2c!CANCELED, number, id
        :: else
        fi;
        taken_up++;
        want_meets(number, id, void_)
    :: !p_closed && number < send_next && send[number] != S_POSTED && send[number] != S_VOID ->
        taken_up++ /* its DATA is in flight and answers the WANT */
    :: !p_closed && number >= send_next && park_number == NOBODY ->
        park_number = number; park_id = id; park_void = void_; taken_up++;
        if
        :: void_ -> p2c!CANCELED, number, id
        :: else
        fi
    :: !p_closed && number >= send_next && park_number != NOBODY ->
        deferred = 1;
#ifndef BREAK_QUOTA
        taken_up++;
#endif
        p2c!DEFERRED, number, id
    fi
}

inline credit_return(i_)
{
    if
    :: send_eager[i_] -> send_eager[i_] = 0; eager_used--
    :: else
    fi
}

inline step_closed(i_) /* producer_step_closed */
{
    if
    :: send[i_] == S_POSTED ->
        send_report(i_, 0);
#ifdef BREAK_ASK_EARLY
        send[i_] = S_ENDED
#else
        send[i_] = S_VOID
#endif
    :: else
    fi
}

inline producer_read()
{
    c2p?what, number, id;
    if
    :: what == WANT -> want_read(0)
    :: what == WANT_VOID -> want_read(1)
    :: what == CANCEL ->
        if
        :: park_number == number && park_id == id && !park_void ->
#ifndef BREAK_CANCEL_PARKED
            p2c!CANCELED, number, id;
#endif
            park_void = 1
        /* no slice has started */
        :: send[number] == S_MATCHED && send_want[number] == id ->
            send_report(number, 0);
            send[number] = S_ENDED;
            p2c!CANCELED, number, id
        :: else /* the answer is in flight, or the bulk is the answer */
        fi
    :: what == DONE || what == DONE_FAIL ->
        assert(send[number] == S_INLINE);
#ifdef BREAK_CREDIT
        if
        :: what == DONE -> credit_return(number)
        :: else
        fi;
#else
        credit_return(number);
#endif
        told = told && what == DONE;
        send_report(number, (what == DONE));
        send[number] = S_ENDED
    :: what == CANCELED_SEND ->
        assert(send[number] == S_INLINE); /* DONE comes later */
        send_report(number, 0);
#ifdef BREAK_TAKE_BACK_CREDIT
        credit_return(number);
        send[number] = S_ENDED
#endif
    :: what == CLOSED_STEP ->
        asked = 0;
        step_closed(0);
        step_closed(1)
    :: what == BULK_DONE ->
        assert(send[number] == S_STARTED && send_want[number] == id);
        send_report(number, 1);
        send[number] = S_ENDED
    fi
}

/* True for DATA that has left and has no outcome yet. */
#define SEND_UNTAKEN(i_) (send[i_] == S_INLINE && send_eager[i_] && !send_reported[i_])

inline send_fail(i_) /* cancel or close */
{
    if
    :: send[i_] == S_POSTED ->
        send_report(i_, 0);
#ifdef BREAK_OFFER_CANCEL
        send_offer[i_] = 0;
#endif
        send[i_] = S_VOID
    :: send[i_] == S_MATCHED ->
        send_report(i_, 0); send[i_] = S_ENDED; p2c!CANCELED, i_, send_want[i_]
    :: SEND_UNTAKEN(i_) ->
        p2c!CANCEL_SEND, i_, 0
#ifdef BREAK_TAKE_BACK
        ; send_report(i_, 0)
#endif
    :: else
    fi
}

inline producer_close()
{
    p_closed = 1;
    if
    :: park_number != NOBODY ->
        if
        :: park_void /* answered already */
        :: else -> p2c!CLOSED, park_number, park_id
        fi;
        park_number = NOBODY; park_id = 0; park_void = 0
    :: else
    fi;
    i = 0;
    do
    :: i < N ->
        send_fail(i);
        if
        :: send[i] == S_VOID -> send[i] = S_ENDED; send_offer[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

/* The consumer has died: end all sends and drop the parked WANT. */
inline producer_alone()
{
    p_alone = 1;
    park_number = NOBODY; park_id = 0; park_void = 0;
    i = 0;
    do
    :: i < N ->
        if
        :: send[i] == S_NONE
#ifdef BREAK_DEATH
        :: send[i] == S_INLINE
        :: send[i] != S_NONE && send[i] != S_INLINE ->
#else
        :: send[i] != S_NONE ->
#endif
            credit_return(i);
            send_report(i, 0);
            send_offer[i] = 0;
            send[i] = S_ENDED
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

#define SEND_CAN_FAIL(i_) (send[i_] == S_POSTED || send[i_] == S_MATCHED || SEND_UNTAKEN(i_))

active proctype producer()
{
    mtype what;
    byte number, id, i;
    drawn;
end:
    do
    :: atomic { !p_closed && send_next < N -> /* post a send */
        i = send_next;
        send_next++;
        if
        :: p_alone -> send_report(i, 0); send[i] = S_ENDED
        :: !p_alone && park_number == i ->
            send[i] = S_POSTED;
            want_meets(i, park_id, park_void);
            park_number = NOBODY; park_id = 0; park_void = 0
        :: !p_alone && park_number != i && CAN_EAGER ->
            send[i] = S_INLINE; send_eager[i] = 1; eager_used++;
            id = (told -> 0 : NAMED);
            told = 1;
            p2c!DATA, i, id;
            id = 0
        :: !p_alone && park_number != i && !CAN_EAGER ->
            send[i] = S_POSTED;
#ifndef BREAK_OFFER
            if
            :: deferred -> send_offer[i] = 1
            :: else
            fi
#endif
        fi;
        i = 0 }
    :: atomic { may_cancel_send[0] && SEND_CAN_FAIL(0) && !p_closed ->
        may_cancel_send[0] = 0; send_fail(0) }
    :: atomic { may_cancel_send[1] && SEND_CAN_FAIL(1) && !p_closed ->
        may_cancel_send[1] = 0; send_fail(1) }
    :: atomic { may_close_p && !p_closed -> producer_close() }
    :: atomic { send_offer[0] -> send_offer[0] = 0; p2c!OFFER, 0, 0 }
    :: atomic { send_offer[1] -> send_offer[1] = 0; p2c!OFFER, 1, 0 }
    :: atomic { send[0] == S_MATCHED -> send[0] = S_STARTED; p2c!BULK, 0, send_want[0] }
    :: atomic { send[1] == S_MATCHED -> send[1] = S_STARTED; p2c!BULK, 1, send_want[1] }
#ifndef BREAK_ASK
    :: atomic { !p_closed && !asked && (send[0] == S_POSTED || send[1] == S_POSTED) ->
        asked = 1; p2c!ASK, 0, 0 }
#endif
#ifdef DEATH
    :: atomic { may_die && !p_dead -> may_die = 0; p_dead = 1; goto dead }
    :: atomic { c_dead && !p_alone -> producer_alone() }
#endif
    :: atomic { nempty(c2p) && !p_alone -> producer_read(); what = 0; number = 0; id = 0 }
    od;
dead:
    skip
}

/* ---- the draw, and what must hold in the end --------------------------------------- */

active proctype monitor()
{
    byte i;
    atomic {
        if :: may_close_c = 1 :: skip fi;
        if :: may_close_p = 1 :: skip fi;
        if :: may_cancel_recv[0] = 1 :: skip fi;
        if :: may_cancel_recv[1] = 1 :: skip fi;
        if :: may_cancel_send[0] = 1 :: skip fi;
        if :: may_cancel_send[1] = 1 :: skip fi;
#ifdef DEATH
        may_die = 1;
#endif
        drawn = 1
    }
    timeout;
    atomic {
        i = 0;
        do
        :: i < N ->
            assert(!send_ok[i] || recv_ok[i]);
            if
            :: c_dead -> assert(send[i] == S_NONE || (send[i] == S_ENDED && send_reported[i]))
            :: p_dead -> assert(recv[i] == R_NONE || (recv[i] == R_ENDED && recv_reported[i]))
            :: else ->
                assert(recv[i] == R_NONE || recv_reported[i] || (send[i] == S_NONE && !p_closed));
                assert(send[i] == S_NONE || send_reported[i] || (recv[i] == R_NONE && !c_closed));
                assert(send[i] != S_INLINE && send[i] != S_MATCHED && send[i] != S_STARTED);
                assert(!c_closed || recv[i] == R_NONE || recv[i] == R_ENDED);
                assert(!p_closed || send[i] == S_NONE || send[i] == S_ENDED);
                assert(recv_ok[i] == send_ok[i]);
            fi;
            i++
        :: else -> break
        od;
        i = 1;
        do
        :: i < id_next && !c_dead && !p_dead -> assert(answered[i] == 1); i++
        :: else -> break
        od;
        assert(c_dead || p_dead ||
               (eager_used == 0 && wants_out == 0 && empty(c2p) && empty(p2c)))
    }
}
