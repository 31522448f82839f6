/* SPDX-License-Identifier: Apache-2.0 */
/** @file live.h
 *  tryst-info --live: shows what the ranks of this host are doing, from their live pages
 *  (tryst/live.h) and from /proc, without help from the ranks.
 *
 *  This header has the description of a rank, and live_main, the whole command.
 *  live_read.h finds pages and copies them, live_tree.h finds the ranks below a launcher,
 *  live_proc.h reads /proc, live_print.h prints a rank, live_compare.h compares two
 *  samples, live_job.h follows the waits of a job to one sentence, live_json.h writes
 *  JSON.
 *
 *  A page may be torn (its process was killed or stopped in the middle of a record) or
 *  invalid: live_read checks each page once, and its output is always within bounds. */
#ifndef TRYST_TOOLS_LIVE_LIVE_H
#define TRYST_TOOLS_LIVE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <tryst/live.h>
#include <tryst/tryst.h>

/** State of a process in the kernel, and of the thread that drove the library last. */
struct live_proc {
    char command[64];
    char state;    /**< state of that thread, as in /proc/PID/stat; 0: unknown */
    int tracer;    /**< pid of the attached debugger; 0: none */
    char call[32]; /**< kernel call that the thread is in; "": none, or unknown */
    /** Kernel function that the thread sleeps in; "": none, or unknown. */
    char wchan[64];
    bool call_refused; /**< the kernel did not permit reading the call */
};

/** The activity of a rank, as seen from outside. */
enum live_place {
    LIVE_ENDED,   /**< a zombie */
    LIVE_STOPPED, /**< by a stop signal such as SIGSTOP */
    LIVE_TRACED,  /**< by a debugger */
    LIVE_GATHERS, /**< in tryst_group_open */
    LIVE_CLOSES,  /**< in tryst_group_close */
    LIVE_WAITS,   /**< the program or its progress thread sleeps in tryst_wait */
    LIVE_ARMED,   /**< its own loop sleeps on the event descriptor */
    LIVE_DRIVES,  /**< the engine ran within the last seconds */
    LIVE_STUCK,   /**< a thread is inside the engine, but the engine makes no progress */
    LIVE_OUTSIDE  /**< in the program's own code */
};

struct live_op {
    struct tryst_live_op record;
    /** Terminated; ends in "..." where the key was cut. */
    char key[TRYST_LIVE_KEY_MAX + 4];
    double age_s;
    /** the process stopped or ended while it wrote this record, which may mix two */
    bool torn;
    uint32_t place; /**< index among the page's records of operations */
    bool stood;     /**< true: the operation is in both samples (live_compare) */
};

struct live_rank {
    pid_t pid;
    struct tryst_live_header header;
    struct tryst_live_peer *peers; /**< header.peers_count of them */
    struct live_op *ops;           /**< oldest first */
    size_t ops_count;
    struct live_proc proc;
    uint64_t read_ns; /**< time of the copy, by the clock of the rank's namespace */
    enum live_place place;
    double place_s; /**< seconds in `place` so far, at least; < 0: unknown */
    /** LIVE_WAITS: the operation waited for; NULL: any */
    const struct live_op *waits_for;
    bool torn;     /**< true: some record of the page is torn */
    bool compared; /**< true: compared with an earlier sample (live_compare) */
    /** compared: nothing completed between the samples and, if they are
     *  LIVE_COMPARE_TICKS_S or more apart, the engine ran */
    bool idle;
};

struct live_ranks {
    struct live_rank *items;
    size_t count;
    bool compared;  /**< true: compared with an earlier sample */
    double apart_s; /**< compared: time between the two samples */
    bool ended;     /**< true: a later sample found no rank of the job */
};

/** Run `tryst-info --live` and return the exit status. `target` NULL: with `job`, the
 *  only job of this host. */
int live_main(const char *target, bool job, bool json);

#endif
