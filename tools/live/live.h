/* SPDX-License-Identifier: Apache-2.0 */
/** @file live.h
 *  tryst-info --live: what the ranks of this host are doing, from their live pages (tryst/live.h) and
 *  from /proc, without their help.
 *
 *  Here is what is known of a rank, and live_main, which is all of it. live_read.h finds pages and
 *  copies them, live_tree.h finds the ranks below a launcher, live_proc.h reads /proc, live_print.h prints a
 *  rank, live_compare.h compares two samples, live_job.h follows the waits of a job to one sentence, live_json.h is
 *  for programs.
 *
 *  What is read may be torn (a process killed or stopped in the middle of a record) or nonsense: it
 *  is checked here once, and what comes out of live_read keeps within its bounds.
 */
#ifndef TOOLS_LIVE_H
#define TOOLS_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <tryst/live.h>
#include <tryst/tryst.h>

/** What the kernel says of a process, and of the thread that drove the library last. */
struct live_proc {
    char command[64];
    char state;        /**< of that thread, as in /proc/PID/stat; 0: not known */
    int tracer;        /**< pid of a debugger that is attached, 0 */
    char call[32];     /**< kernel call that it is in; "" none, or not to be known */
    char wchan[64];    /**< where in the kernel it sleeps; "" likewise */
    bool call_refused; /**< the kernel does not let us see the call */
};

/** Where a rank is, as far as it can be seen. */
enum live_place {
    LIVE_ENDED,   /**< a zombie */
    LIVE_STOPPED, /**< by SIGSTOP and its like */
    LIVE_TRACED,  /**< by a debugger */
    LIVE_GATHERS, /**< in tryst_group_open */
    LIVE_CLOSES,  /**< in tryst_group_close */
    LIVE_WAITS,   /**< asleep in tryst_wait, or its progress thread is */
    LIVE_ARMED,   /**< its own loop sleeps on the event descriptor */
    LIVE_DRIVES,  /**< the engine ran within the last seconds */
    LIVE_STUCK,   /**< inside the engine, which does not run */
    LIVE_OUTSIDE  /**< in the program's own code */
};

struct live_op {
    struct tryst_live_op record;
    char key[TRYST_LIVE_KEY_MAX + 4]; /**< terminated; ends in "..." where it was cut */
    double age_s;
    bool torn; /**< the process ended inside this record: it may be mixed from two */
    uint32_t place;
    bool stood; /**< in both samples (live_compare) */
};

struct live_rank {
    pid_t pid;
    struct tryst_live_header header;
    struct tryst_live_peer *peers; /**< header.peers_count of them */
    struct live_op *ops;           /**< oldest first */
    size_t ops_count;
    struct live_proc proc;
    enum live_place place;
    double place_s;                  /**< for how long, at least; < 0: not known */
    const struct live_op *waits_for; /**< LIVE_WAITS: what for, NULL: anything */
    bool torn;                       /**< some record of the page is */
    bool compared;                   /**< with an earlier sample (live_compare) */
    bool idle; /**< compared: no completion between the samples (live_compare) */
};

struct live_ranks {
    struct live_rank *items;
    size_t count;
    bool compared;  /**< with an earlier sample */
    double apart_s; /**< compared: time between the two samples */
    bool ended;     /**< a later sample found no rank of the job */
};

/** The whole of `tryst-info --live`; returns the exit status. `target` NULL: with `job`, the only
 *  job of this host. */
int live_main(const char *target, bool job, bool json);

#endif
