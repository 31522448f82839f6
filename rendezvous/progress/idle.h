/* SPDX-License-Identifier: Apache-2.0 */
/** @file idle.h
 *  How long a driving thread without events spins, and when it sleeps.
 *
 *  Idea: spin for as long as a wake-up takes; then a wait costs at most twice its
 *  minimum. A descriptor wakes a thread within about 50 us (TRYST_SPIN). Without a
 *  descriptor, or after a transport had no room, the sleep is a nap of 1 ms, and the
 *  thread spins for four naps before the first one: a receiver may copy a whole window
 *  before it acknowledges (1.2 ms at 3.5 GB/s), and a sender that naps meanwhile makes
 *  its peer nap, too. Over libfabric's shm, 50 us in place of the 4 ms gave a third of
 *  the bandwidth, and 1 ms three quarters.
 *
 *  spin ── spin_ns ──▶ arm ──┬─ a descriptor ─────────────────────▶ sleep, then spin
 *  again
 *                            └─ none ── 4 ms in all ──▶ arm ──▶ nap ── spin_ns ──▶ nap …
 *
 *  Each event restarts the spin. This header reads neither clock nor descriptors, so
 *  tests check it as a table (tests/rendezvous/test_idle.c).
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_IDLE_H
#define TRYST_RENDEZVOUS_PROGRESS_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/os/clock.h"
#include "tryst/status.h"

/** Length of a nap, and of the spin before the first nap. A longer spin_ns replaces
 *  the second. */
#define IDLE_NAP_NS      (1 * NS_PER_MS)
#define IDLE_NAP_SPIN_NS (4 * IDLE_NAP_NS)

struct idle {
    uint64_t since_ns; /**< begin of the spin; 0: before the first idle_poll */
    uint64_t limit_ns; /**< length of the spin */
    uint32_t passes;   /**< passes without an event */
    bool naps;         /**< a nap was due since idle_begin */
};

/** Start the spin: at the begin of a wait, and after each event. */
static inline void idle_begin(struct idle *idle, uint64_t spin_ns)
{
    *idle = (struct idle){.limit_ns = spin_ns};
}

/** True if at `now_ns` the spin is over, and the rails are to be armed. */
static inline bool idle_poll(struct idle *idle, uint64_t now_ns)
{
    idle->since_ns = idle->since_ns ? idle->since_ns : now_ns;
    return idle->passes && clock_since_ns(idle->since_ns, now_ns) >= idle->limit_ns;
}

/** True if the thread sleeps now; false: it spins on. `armed` is the result of arming
 *  the rails: TRYST_OK, the rails wake the thread; TRYST_AGAIN, there is work to do;
 *  any other status, a sleep is a nap. */
static inline bool idle_sleeps(struct idle *idle, uint64_t spin_ns, tryst_status armed)
{
    bool nap = armed != TRYST_OK && armed != TRYST_AGAIN;
    if (nap && !idle->naps) {
        idle->naps = true;
        if (spin_ns && spin_ns < IDLE_NAP_SPIN_NS) {
            idle->limit_ns = IDLE_NAP_SPIN_NS;
            return false;
        }
    }
    idle->limit_ns = spin_ns;
    idle->since_ns = 0;
    return armed != TRYST_AGAIN;
}

#endif
