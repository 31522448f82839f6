/* SPDX-License-Identifier: Apache-2.0 */
/* What happened when, for a timeline (Chrome's and Perfetto's JSON).
 *
 * One idea: each thread writes fixed-size events into a ring of its own, so recording
 * takes no lock, no allocation and no system call but the clock; what is kept is the
 * newest. Invariant: a ring has one writer; a reader takes only events that were whole
 * before and after it copied them, and counts what it lost. Callers: every layer, with
 * the context's trace; NULL (tracing off) costs one branch.
 *
 * `name`, the labels and the texts among the arguments are pointers to strings that outlive
 * the trace: literals, or what trace_text keeps. */
#ifndef TRYST_CORE_TRACE_H
#define TRYST_CORE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/os/clock.h"
#include "tryst/status.h"

#define TRACE_ARGS_MAX 3

/* Names of an event's arguments; NULL ends the list early. Make it static const. */
struct trace_labels {
    const char *arg[TRACE_ARGS_MAX];
    unsigned texts; /* bit i: argument i is the address of a text */
};

enum trace_kind {
    TRACE_SPAN,       /* ph X: from `at_ns` for `extra` ns; spans of a thread nest */
    TRACE_ASYNC,      /* ph b and e: may overlap others; drawn in rows by name */
    TRACE_INSTANT,    /* ph i */
    TRACE_FLOW_BEGIN, /* ph s: an arrow leaves the span around this moment; extra = id */
    TRACE_FLOW_END,   /* ph f: and ends in the span around this one */
    TRACE_COUNTER     /* ph C: the arguments are series */
};

struct trace_event {
    uint64_t at_ns;
    uint64_t extra; /* span: length in ns; flow: id */
    const char *name;
    const struct trace_labels *labels; /* NULL: none (counter: "value") */
    uint64_t arg[TRACE_ARGS_MAX];
    uint64_t kind; /* enum trace_kind */
};

struct trace;

/* `events_per_thread` is rounded up to a power of two; a thread's ring is made by its
 * first event. `clock` may be NULL. TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (0 events).
 */
tryst_status trace_open(size_t events_per_thread, const struct clock *clock,
                        struct trace **trace_p);

/* No thread may be recording. NULL is allowed. */
void trace_close(struct trace *trace);

/* Names the calling thread in the picture; the text is copied. */
void trace_thread_name(struct trace *trace, const char *name);

/* Events overwritten, or dropped because there was no memory for a ring. */
uint64_t trace_lost_count(struct trace *trace);

/* The recording itself; use the inline forms below. */
void trace_record(struct trace *trace, const struct trace_event *event);
uint64_t trace_clock_ns(const struct trace *trace);

/* The trace's time, 0 without a trace (nobody will look at it). */
static inline uint64_t trace_now_ns(const struct trace *trace)
{
    return trace ? trace_clock_ns(trace) : 0;
}

static inline uint64_t trace_length(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

/* An event, of which nothing is evaluated without a trace. */
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

/* For what overlaps (transfers in flight). */
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

/* Both ends of an arrow compute the same `id` (the hash of key, step and number, say) and
 * use the same name. `at_ns` must lie inside a span of the calling thread: arrows join
 * spans. */
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

/* A sample of up to three series; with NULL labels one, called "value". */
static inline void trace_counter(struct trace *trace, const char *name,
                                 const struct trace_labels *labels, uint64_t a0,
                                 uint64_t a1, uint64_t a2)
{
    TRACE_PUT(trace, trace_clock_ns(trace), 0, name, labels, {a0, a1, a2}, TRACE_COUNTER);
}

#endif
