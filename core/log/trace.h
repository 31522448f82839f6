/* SPDX-License-Identifier: Apache-2.0 */
/* Events with their times, for a timeline (Chrome's and Perfetto's JSON).
 *
 * One idea: each thread writes events of fixed size into its own ring, so recording takes
 * no lock, no allocation and no system call but the clock, except a thread's first event,
 * which makes the ring. The newest events are kept. Invariant: a ring has one writer; a
 * reader takes only events that were whole before and after their copy, and counts the
 * lost ones. A NULL trace (tracing off) costs one branch.
 *
 * `name`, the labels and the texts among the arguments are pointers to strings that
 * outlive the trace: literals, or texts from trace_text. */
#ifndef TRYST_CORE_LOG_TRACE_H
#define TRYST_CORE_LOG_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/os/clock.h"
#include "tryst/status.h"

#define TRACE_ARGS_MAX 3

/** Names of an event's arguments; NULL ends a shorter list. The trace keeps a pointer to
 *  the struct, so make it static const. */
struct trace_labels {
    const char *arg[TRACE_ARGS_MAX];
    unsigned texts; /**< bit i: argument i is a pointer to a text */
};

/** Kinds of events. `ph` is the letter of the kind in Chrome's JSON. */
enum trace_kind {
    TRACE_SPAN,       /**< ph X: from `at_ns` for `extra` ns; spans of one thread nest */
    TRACE_ASYNC,      /**< ph b and e: may overlap others; drawn in rows by name */
    TRACE_INSTANT,    /**< ph i: a point in time */
    TRACE_FLOW_BEGIN, /**< ph s: an arrow leaves the span around `at_ns`; extra = id */
    TRACE_FLOW_END,   /**< ph f: the arrow of that id ends in the span around `at_ns` */
    TRACE_COUNTER     /**< ph C: each argument is a sample of one series */
};

struct trace_event {
    uint64_t at_ns;
    uint64_t extra; /**< span, async: length in ns; flow: id */
    const char *name;
    const struct trace_labels *labels; /**< NULL: no arguments (counter: one, "value") */
    uint64_t arg[TRACE_ARGS_MAX];
    uint64_t kind; /**< enum trace_kind */
};

struct trace;

/** Open a trace. `events_per_thread` is rounded up to a power of two; a thread's ring is
 *  allocated by its first event. `clock` NULL: the machine's. Returns TRYST_OK,
 *  TRYST_E_NOMEM, TRYST_E_INVALID (0 events, or more than 2^32). */
tryst_status trace_open(size_t events_per_thread, const struct clock *clock,
                        struct trace **trace_p);

/** Close a trace. No thread may record in it any more. NULL is allowed. */
void trace_close(struct trace *trace);

/** Name the calling thread in the timeline; the text is copied. */
void trace_thread_name(struct trace *trace, const char *name);

/** Return the number of events overwritten, or dropped for want of memory for a ring. */
uint64_t trace_lost_count(struct trace *trace);

/** Record an event; read the trace's clock. Callers use the inline forms below. */
void trace_record(struct trace *trace, const struct trace_event *event);
uint64_t trace_clock_ns(const struct trace *trace);

/** Return the trace's time; 0, without reading a clock, if `trace` is NULL. */
static inline uint64_t trace_now_ns(const struct trace *trace)
{
    return trace ? trace_clock_ns(trace) : 0;
}

static inline uint64_t trace_length(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

/** Record an event; without a trace none of the arguments is evaluated. */
#define TRACE_PUT(trace, ...)                                          \
    do {                                                               \
        if (trace)                                                     \
            trace_record((trace), &(struct trace_event){__VA_ARGS__}); \
    } while (0)

static inline void trace_span(struct trace *trace, const char *name,
                              const struct trace_labels *labels, uint64_t begin_ns,
                              uint64_t end_ns, uint64_t a0, uint64_t a1, uint64_t a2)
{
    TRACE_PUT(trace, begin_ns, trace_length(begin_ns, end_ns), name, labels, {a0, a1, a2},
              TRACE_SPAN);
}

/** Record an interval that may overlap others (a transfer in flight). */
static inline void trace_async(struct trace *trace, const char *name,
                               const struct trace_labels *labels, uint64_t begin_ns,
                               uint64_t end_ns, uint64_t a0, uint64_t a1, uint64_t a2)
{
    TRACE_PUT(trace, begin_ns, trace_length(begin_ns, end_ns), name, labels, {a0, a1, a2},
              TRACE_ASYNC);
}

static inline void trace_instant(struct trace *trace, const char *name,
                                 const struct trace_labels *labels, uint64_t a0,
                                 uint64_t a1, uint64_t a2)
{
    TRACE_PUT(trace, trace_clock_ns(trace), 0, name, labels, {a0, a1, a2}, TRACE_INSTANT);
}

/** Record one end of an arrow. Both ends compute the same `id` (the hash of key, step and
 *  number, say) and use the same name. `at_ns` must lie inside a span of the calling
 *  thread: arrows join spans. */
static inline void trace_flow_begin(struct trace *trace, const char *name, uint64_t id,
                                    uint64_t at_ns)
{
    TRACE_PUT(trace, at_ns, id, name, NULL, {0}, TRACE_FLOW_BEGIN);
}

static inline void trace_flow_end(struct trace *trace, const char *name, uint64_t id,
                                  uint64_t at_ns)
{
    TRACE_PUT(trace, at_ns, id, name, NULL, {0}, TRACE_FLOW_END);
}

/** Record a sample of up to three series, one for each label. `labels` NULL: one series,
 *  "value". */
static inline void trace_counter(struct trace *trace, const char *name,
                                 const struct trace_labels *labels, uint64_t a0,
                                 uint64_t a1, uint64_t a2)
{
    TRACE_PUT(trace, trace_clock_ns(trace), 0, name, labels, {a0, a1, a2}, TRACE_COUNTER);
}

#endif
