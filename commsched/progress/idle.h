/* SPDX-License-Identifier: Apache-2.0 */
/** @file idle.h
 *  A driver that finds nothing to do: how long it spins, and when it sleeps.
 *
 *  Idea: spin for about as long as it would take to be woken; then waiting costs at most twice what
 *  it has to. A descriptor wakes within some 50 us (TRYST_SPIN). Where there is none, or a transport
 *  had no room, the sleep is a nap of 1 ms, and one spins for four naps before the first: a receiver
 *  may copy a whole window before it says so (1.2 ms at 3.5 GB/s), and a sender that naps meanwhile
 *  makes its peer nap too. With 50 us a third of the bandwidth was left over libfabric's shm, with
 *  1 ms three quarters.
 *
 *      spin ── spin_ns ──▶ arm ──┬─ a descriptor ─────────────────────▶ sleep, then spin again
 *                                └─ none ── 4 ms in all ──▶ arm ──▶ nap ── spin_ns ──▶ nap …
 *
 *  Any event begins anew. Touches neither clock nor descriptors, so it is tested as a table
 *  (tests/commsched/test_idle.c). Caller: progress.c.
 */
#ifndef COMMSCHED_IDLE_H
#define COMMSCHED_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/os/clock.h"
#include "tryst/status.h"

/** Length of a nap, and for how long one spins before the first: longer where spin_ns is. */
#define IDLE_NAP_NS      (1 * NS_PER_MS)
#define IDLE_NAP_SPIN_NS (4 * IDLE_NAP_NS)

struct idle {
    uint64_t since_ns; /**< 0: idle_look was not called yet */
    uint64_t limit_ns; /**< spin that long */
    uint32_t passes;   /**< that found nothing */
    bool naps;         /**< it was long enough for naps */
};

/** Something happened, or nothing can have happened yet. */
static inline void idle_begin(struct idle *idle, uint64_t spin_ns)
{
    *idle = (struct idle){.limit_ns = spin_ns};
}

/** It is `now_ns`: true when it has spun long enough to arm the rails. */
static inline bool idle_look(struct idle *idle, uint64_t now_ns)
{
    idle->since_ns = idle->since_ns ? idle->since_ns : now_ns;
    return idle->passes && clock_since_ns(idle->since_ns, now_ns) >= idle->limit_ns;
}

/** It was due, and arming the rails answered `armed`: TRYST_OK, they will wake us; TRYST_AGAIN, there
 *  is something to do; else a sleep would be a nap. True: sleep now. False: spin on. */
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
