/* SPDX-License-Identifier: Apache-2.0 */
/* Small tensors as an acknowledged stream, as a spin model: one producer, one consumer, N
 * sends that meet N receives, two ordered channels of frames. The code is
 * rendezvous/numbers/stream.h; rendezvous.pml models the rest of the protocol.
 *
 * Each DATA takes the next number of the stream. The header of every frame of the
 * consumer reports which numbers are done: all below `base`, and those of the next WINDOW
 * - 1 behind `base` whose bit is set. A number that is left without a receive until
 * WINDOW others have come behind it gets a record (KEPT): the producer takes its send out
 * of the ring, `base` passes the number, and a later record (DONE) reports that it is
 * done. So `base` always moves on, whatever the receives do, and a ring of WINDOW + 1
 * sends is enough. A failure has a record too (REFUSED). A header reports a number only
 * when the number's record has left, in the same frame or before; the producer reads
 * records before the header.
 *
 * DATA costs credit (for CREDIT of them) until its send ends. A send without credit
 * waits, and the headers of the producer report that (BLOCKED). Receives announce
 * themselves (WANT) only while the last header reports BLOCKED; DATA that answers a WANT
 * costs no credit. Where nothing else leaves, a header leaves alone. (In the code
 * receives announce themselves at other times too, before a thread sleeps and at ticks.
 * With ANNOUNCE_ANY the model does so at any time. No operation may need that to end.)
 *
 * Receives are posted in any order, at any time; one of them, `after`, only when send
 * `before` has ended, as in a program that waits. A receive may be cancelled before its
 * DATA has come; its send then fails.
 *
 * What must hold:
 *   - a send ends with OK only when its receive has the bytes, and fails only when the
 *     receive failed;
 *   - when nothing can move any more, nothing is left over and all credit is back;
 *   - no send is put into a place of the ring that is taken.
 *
 * Broken variants, each of which must be found (stream.sh runs them):
 *   BREAK_MASK          the header reports only numbers that are done in order
 *   BREAK_BLOCKED       no header reports that credit is missing
 *   BREAK_BLOCKED_ALONE only frames that leave for another reason report BLOCKED
 *   BREAK_ACK_ALONE     only frames that leave for another reason report what is done
 *   BREAK_KEPT          base passes a number that is not done, without a KEPT record
 *   BREAK_DONE          no DONE record is sent for a number that base has passed
 *   BREAK_ORDER         the header reports a number as done before its REFUSED has left
 *   BREAK_RECORDS_LAST  the producer reads the header before the records
 *   BREAK_RING          a ring of WINDOW sends
 *   BREAK_VOID          a cancelled receive does not announce itself */

#define N 3
#ifndef CREDIT
#define CREDIT 2
#endif
/* numbers that a header reports one by one: base, which is not done, and a bit for the
 * other */
#define WINDOW 2
#ifdef BREAK_RING
#define RING WINDOW
#else
#define RING (WINDOW + 1)
#endif
#define NONE 255

#define EACH(does) does(0) does(1) does(2)
#define ANY(is) (is(0) || is(1) || is(2))
#define ROOM 2 /* frames in flight, in each direction */

mtype = { HEADER, DATA, WANT, WANT_VOID, KEPT, DONE, REFUSED };
mtype = { S_NEW, S_WAITS, S_SENT, S_OK, S_FAILED };
mtype = { R_NEW, R_POSTED, R_VOID, R_DONE, R_FAILED };

/* record, its send or number, BLOCKED */
chan p2c = [ROOM] of { mtype, byte, bit };
/* record, its send or number, base, mask */
chan c2p = [ROOM] of { mtype, byte, byte, byte };

mtype send[N] = S_NEW, recv[N] = R_NEW;
byte before = NONE, after = NONE;
bit drawn, may_cancel[N];

/* producer */
byte next, acked;            /* the next number; the base of the last header */
byte ring[RING] = NONE;      /* number modulo RING: its send */
byte late[N] = NONE;         /* number of a send that left the ring by KEPT */
byte used;                   /* credit in use */
bit charged[N];
bit parked[N], parked_void[N]; /* WANTs that wait for their send */
bit blocked_sent;

/* consumer */
byte got;                    /* number of the next DATA */
byte base;
bit done[N];                 /* by number */
byte kept[N] = NONE;         /* by receive: number of the DATA that came earlier */
bit passed[N];               /* by number: base passed this number before it was done */
bit announced[N];
bit blocked;                 /* as in the last header of the producer */
bit ack_due;
byte refuse = NONE;          /* a number with its REFUSED to leave */
byte late_done = NONE;       /* a number with its DONE to leave */

hidden byte k, x, m, b, who;
hidden byte flag;
hidden mtype what;

/* ---- producer ---- */

#define WAITS(i) (send[i] == S_WAITS)

#ifdef BREAK_BLOCKED
#define BLOCKED 0
#else
#define BLOCKED ANY(WAITS)
#endif

/* End the send and give its credit back. */
inline send_end(i, how) {
    assert(send[i] == S_SENT || send[i] == S_WAITS);
    assert(how != S_OK || recv[i] == R_DONE);
    assert(how != S_FAILED || recv[i] == R_FAILED || recv[i] == R_VOID);
    send[i] = how;
    if :: charged[i] -> charged[i] = 0; used-- :: else fi
}

inline data_leaves(i, charge) {
    assert(ring[next % RING] == NONE);
    ring[next % RING] = i;
    next++;
    send[i] = S_SENT;
    charged[i] = charge;
    used = used + charge;
    blocked_sent = BLOCKED;
    p2c!DATA(i, blocked_sent)
}

/* The header reports this number as done; it may have been refused, kept or reported
 * before. */
inline number_acked(n) {
    who = ring[(n) % RING];
    if
    :: who != NONE -> ring[(n) % RING] = NONE; send_end(who, S_OK)
    :: else
    fi
}

inline header_read() {
    do
    :: acked < b -> number_acked(acked); acked++
    :: else -> break
    od;
    if :: m -> number_acked(acked + 1) :: else fi
}

/* Find the send with number x: one that left the ring by KEPT, else one in the ring. */
inline sender_find() {
    who = NONE;
    for (k : 0 .. N - 1) { if :: late[k] == x -> who = k :: else fi };
    if
    :: who != NONE -> late[who] = NONE
    :: else -> who = ring[x % RING]; ring[x % RING] = NONE
    fi;
    assert(who != NONE)
}

inline record_read() {
    if
    :: what == WANT && send[x] != S_SENT && send[x] != S_OK && send[x] != S_FAILED -> parked[x] = 1
    :: what == WANT_VOID && send[x] == S_NEW -> parked_void[x] = 1
    :: what == WANT_VOID && send[x] == S_WAITS -> send_end(x, S_FAILED)
    :: what == KEPT -> who = ring[x % RING]; assert(who != NONE); ring[x % RING] = NONE; late[who] = x
    :: what == DONE -> sender_find(); send_end(who, S_OK)
    :: what == REFUSED -> sender_find(); send_end(who, S_FAILED)
    :: else /* DATA of that receive is in flight, or the frame has no record */
    fi
}

#define HAS_PLACE (next - acked < RING && len(p2c) < ROOM)

/* Small sends leave in any order, since their keys differ. */
#define submit(i) :: atomic { send[i] == S_NEW -> send[i] = S_WAITS; \
                              if :: parked_void[i] -> send_end(i, S_FAILED) :: else fi }
#define leave_on_credit(i) :: atomic { send[i] == S_WAITS && used < CREDIT && HAS_PLACE -> data_leaves(i, 1) }
#define leave_on_want(i) :: atomic { send[i] == S_WAITS && parked[i] && HAS_PLACE -> \
                                     parked[i] = 0; data_leaves(i, 0) }

active proctype producer() {
    drawn;
end:
    do
    EACH(submit)
    EACH(leave_on_credit)
    EACH(leave_on_want)
#ifndef BREAK_BLOCKED_ALONE
    :: atomic { blocked_sent != BLOCKED && len(p2c) < ROOM ->
                blocked_sent = BLOCKED; p2c!HEADER(0, blocked_sent) }
#endif
    :: atomic { c2p?what, x, b, m ->
#ifdef BREAK_RECORDS_LAST
                header_read();
                record_read()
#else
                record_read();
                header_read()
#endif
              }
    od
}

/* ---- consumer ---- */

inline base_move() {
    do
    :: base < got && done[base] -> base++
    :: else -> break
    od
}

/* Send a frame with this record. */
inline frame_leaves(type, about) {
    m = 0;
#ifndef BREAK_MASK
    if :: base + 1 < N && done[base + 1] -> m = 1 :: else fi;
#endif
    ack_due = 0;
    c2p!type(about, base, m)
}

inline number_done(n) {
    if
    :: passed[n] -> late_done = n
    :: else -> done[n] = 1; base_move(); ack_due = 1
    fi
}

/* The number counts as done only once its record has left. */
inline number_refused(n) {
    refuse = n;
#ifdef BREAK_ORDER
    done[n] = 1; base_move(); ack_due = 1
#endif
}

inline refusal_leaves() {
    x = refuse;
    refuse = NONE;
    done[x] = 1;
    base_move();
    frame_leaves(REFUSED, x)
}

inline base_passes() {
    x = base;
    passed[x] = 1;
    base++;
    base_move();
#ifdef BREAK_KEPT
    frame_leaves(HEADER, 0)
#else
    frame_leaves(KEPT, x)
#endif
}

inline data_read(i) {
    got++;
    if
    :: recv[i] == R_POSTED -> recv[i] = R_DONE; number_done(got - 1)
    :: recv[i] == R_VOID -> recv[i] = R_FAILED; number_refused(got - 1)
    :: else -> assert(recv[i] == R_NEW && kept[i] == NONE); kept[i] = got - 1
    fi
}

/* In the code, operations keep records until these leave; here they leave before any
 * other event. */
#define IDLE (refuse == NONE && late_done == NONE)
#define MAY_POST(i) (recv[i] == R_NEW && (i != after || send[before] == S_OK || send[before] == S_FAILED))
#ifdef ANNOUNCE_ANY
#define UNSAID(i) (!announced[i] && len(c2p) < ROOM)
#else
#define UNSAID(i) (blocked && !announced[i] && len(c2p) < ROOM)
#endif

#define post(i) :: atomic { IDLE && MAY_POST(i) -> \
                            if \
                            :: kept[i] != NONE -> x = kept[i]; kept[i] = NONE; recv[i] = R_DONE; number_done(x) \
                            :: else -> recv[i] = R_POSTED \
                            fi }
#define cancel(i) :: atomic { IDLE && recv[i] == R_POSTED && may_cancel[i] && !announced[i] -> recv[i] = R_VOID }
#define announce(i) :: atomic { IDLE && recv[i] == R_POSTED && UNSAID(i) -> announced[i] = 1; frame_leaves(WANT, i) }
#ifdef BREAK_VOID
#define announce_void(i)
#else
#define announce_void(i) :: atomic { IDLE && recv[i] == R_VOID && UNSAID(i) -> \
                                     announced[i] = 1; frame_leaves(WANT_VOID, i) }
#endif

active proctype consumer() {
    drawn;
end:
    do
    :: atomic { refuse != NONE && len(c2p) < ROOM -> refusal_leaves() }
#ifndef BREAK_DONE
    :: atomic { late_done != NONE && len(c2p) < ROOM -> x = late_done; late_done = NONE; frame_leaves(DONE, x) }
#else
    :: atomic { late_done != NONE -> late_done = NONE }
#endif
#ifndef BREAK_ACK_ALONE
    :: atomic { ack_due && len(c2p) < ROOM -> frame_leaves(HEADER, 0) }
#endif
    :: atomic { got - base > WINDOW && IDLE && len(c2p) < ROOM -> base_passes() }
    EACH(post)
    EACH(cancel)
    EACH(announce)
    EACH(announce_void)
    :: atomic { IDLE && got - base <= WINDOW && nempty(p2c) ->
                p2c?what, x, flag;
                blocked = flag;
                if :: what == DATA -> data_read(x) :: else fi }
    od
}

/* ---- what must hold at the end ---- */

init {
    atomic {
        for (k : 0 .. N - 1) { if :: may_cancel[k] = 1 :: skip fi };
        if
        :: skip
        :: after = 0; before = 1
        :: after = 0; before = 2
        :: after = 1; before = 2
        fi;
        drawn = 1
    }
    atomic {
        timeout;
        for (k : 0 .. N - 1) {
            assert(send[k] == S_OK || send[k] == S_FAILED);
            assert(send[k] == S_FAILED || recv[k] == R_DONE)
        }
        assert(used == 0 && next == got)
    }
}
