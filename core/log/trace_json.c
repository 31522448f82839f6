/* SPDX-License-Identifier: Apache-2.0 */
/* A trace in the Trace Event Format that Chrome and Perfetto read ("Trace Event Format",
 * Google, 2016): one object a line, process = rank, thread = ring.
 *
 * Events are copied out one at a time, so writing allocates nothing and threads may
 * record meanwhile. Events that they overwrite before the copy are counted; the next
 * event that was copied is preceded by an instant event with that count. */
#include "trace_json.h"

#include <inttypes.h>

#include "core/text/text.h"
#include "trace_ring.h"

/* Readers store numbers as doubles: larger ones would be rounded. */
#define EXACT_MAX ((uint64_t)1 << 53)

struct writer {
    FILE *out;
    int rank, row;
    int64_t shift_ns;
    bool first; /* no event written yet: no comma */
    uint64_t async_count;
};

/* ------------------------------------------------------------------------- primitives */

static void write_string(FILE *out, const char *text)
{
    char piece[TEXT_PIECE_BYTES];
    size_t bytes;
    fputc('"', out);
    while ((bytes = text_json_piece(&text, piece)) > 0)
        fwrite(piece, 1, bytes, out);
    fputc('"', out);
}

static void write_us(FILE *out, const char *field, uint64_t ns)
{
    fprintf(out, ",\"%s\":%" PRIu64 ".%03" PRIu64, field, ns / NS_PER_US, ns % NS_PER_US);
}

static void write_number(FILE *out, uint64_t number, bool as_series)
{
    if (number <= EXACT_MAX)
        fprintf(out, "%" PRIu64, number);
    /* "e0" makes it a real number, without the decimal point that depends on the
     * locale */
    else if (as_series)
        fprintf(out, "%" PRIu64 "e0", number);
    else
        fprintf(out, "\"0x%" PRIx64 "\"", number);
}

/* ------------------------------------------------------------------ parts of an event */

static void event_open(struct writer *writer, const char *name, const char *phase)
{
    fputs(writer->first ? "{\"name\":" : ",\n{\"name\":", writer->out);
    writer->first = false;
    write_string(writer->out, name);
    fprintf(writer->out, ",\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", phase, writer->rank,
            writer->row);
}

static void event_close(struct writer *writer)
{
    fputc('}', writer->out);
}

static void write_args(struct writer *writer, const struct trace_event *event)
{
    static const struct trace_labels value = {.arg = {"value"}};
    bool counter = event->kind == TRACE_COUNTER;
    const struct trace_labels *labels = event->labels;
    if (!labels && counter)
        labels = &value;
    if (!labels)
        return;
    fputs(",\"args\":{", writer->out);
    for (int i = 0; i < TRACE_ARGS_MAX && labels->arg[i]; i++) {
        if (i > 0)
            fputc(',', writer->out);
        write_string(writer->out, labels->arg[i]);
        fputc(':', writer->out);
        if (labels->texts >> i & 1)
            write_string(writer->out, (const char *)(uintptr_t)event->arg[i]);
        else
            write_number(writer->out, event->arg[i], counter);
    }
    fputc('}', writer->out);
}

/* Write the id of an arrow, by which its two ends meet across processes, or of an async
 * span, which only this process uses. */
static void write_id(struct writer *writer, const struct trace_event *event)
{
    if (event->kind == TRACE_ASYNC)
        fprintf(writer->out, ",\"cat\":\"async\",\"id2\":{\"local\":\"0x%" PRIx64 "\"}",
                writer->async_count);
    else if (event->kind == TRACE_FLOW_BEGIN || event->kind == TRACE_FLOW_END)
        fprintf(writer->out, ",\"cat\":\"flow\",\"id\":\"0x%016" PRIx64 "\"",
                event->extra);
}

/* -------------------------------------------------------------------------- one event */

static const struct {
    const char *phase;
    const char *more; /* members that all events of the kind have */
} kinds[] = {
    [TRACE_SPAN] = {"X", ""},
    [TRACE_ASYNC] = {"b", ""},
    [TRACE_INSTANT] = {"i", ",\"s\":\"t\""},
    [TRACE_FLOW_BEGIN] = {"s", ""},
    [TRACE_FLOW_END] = {"f", ",\"bp\":\"e\""}, /* ends in the enclosing span */
    [TRACE_COUNTER] = {"C", ""},
};

static void write_event(struct writer *writer, const struct trace_event *event)
{
    writer->async_count += event->kind == TRACE_ASYNC;
    event_open(writer, event->name, kinds[event->kind].phase);
    write_id(writer, event);
    write_us(writer->out, "ts", event->at_ns);
    if (event->kind == TRACE_SPAN)
        write_us(writer->out, "dur", event->extra);
    fputs(kinds[event->kind].more, writer->out);
    write_args(writer, event);
    event_close(writer);
    if (event->kind != TRACE_ASYNC)
        return;
    event_open(writer, event->name, "e");
    write_id(writer, event);
    write_us(writer->out, "ts", event->at_ns + event->extra);
    event_close(writer);
}

/* --------------------------------------------------------------------------- document */

static void write_metadata(struct writer *writer, const char *what, const char *text)
{
    event_open(writer, what, "M");
    fputs(",\"args\":{\"name\":", writer->out);
    write_string(writer->out, text);
    fputs("}", writer->out);
    event_close(writer);
}

static void write_process(struct writer *writer)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d", writer->rank);
    write_metadata(writer, "process_name", name);
    event_open(writer, "process_sort_index", "M");
    fprintf(writer->out, ",\"args\":{\"sort_index\":%d}", writer->rank);
    event_close(writer);
}

static void write_thread(struct writer *writer, struct trace *trace,
                         struct trace_ring *ring)
{
    char name[TRACE_NAME_BYTES];
    trace_ring_name(trace, ring, name);
    if (!name[0])
        snprintf(name, sizeof name, "thread %d", ring->row);
    write_metadata(writer, "thread_name", name);
}

static void lost_events_write(struct writer *writer, uint64_t at_ns, uint64_t count)
{
    static const struct trace_labels labels = {.arg = {"count"}};
    write_event(writer, &(struct trace_event){.at_ns = at_ns,
                                              .name = "events lost before this",
                                              .labels = &labels,
                                              .arg = {count},
                                              .kind = TRACE_INSTANT});
}

static void write_ring(struct writer *writer, struct trace_ring *ring)
{
    uint64_t ended = trace_ring_ended(ring);
    uint64_t begin = ended > ring->capacity ? ended - ring->capacity : 0;
    uint64_t lost = begin;
    for (uint64_t n = begin; n < ended; n++) {
        struct trace_event event;
        if (!trace_ring_copy(ring, n, &event)) {
            lost++;
            continue;
        }
        event.at_ns += (uint64_t)writer->shift_ns;
        if (lost > 0)
            lost_events_write(writer, event.at_ns, lost);
        lost = 0;
        write_event(writer, &event);
    }
}

/* Write the clock of the times: as a label beside the process's name, and as numbers for
 * programs. */
static void write_shift(struct writer *writer, const struct trace_shift *shift)
{
    char label[128];
    if (!shift->known)
        snprintf(label, sizeof label, "local clock: rank 0's clock is unknown");
    else if (shift->offset_ns == 0 && shift->error_ns == 0)
        snprintf(label, sizeof label, "rank 0's clock");
    else
        snprintf(label, sizeof label,
                 "rank 0's clock: local clock %+.3f us, within %.3f us",
                 (double)shift->offset_ns / 1e3, (double)shift->error_ns / 1e3);
    event_open(writer, "process_labels", "M");
    fputs(",\"args\":{\"labels\":", writer->out);
    write_string(writer->out, label);
    if (shift->known)
        fprintf(writer->out,
                ",\"clock_offset_ns\":%" PRId64 ",\"clock_error_ns\":%" PRIu64,
                shift->offset_ns, shift->error_ns);
    fputc('}', writer->out);
    event_close(writer);
}

static void head_write(FILE *out, const struct origin *origin)
{
    fputs("{\"displayTimeUnit\":\"ns\",", out);
    if (origin->run)
        fprintf(out,
                "\"otherData\":{\"tryst_run\":\"" ORIGIN_RUN
                "\",\"rank\":%d,\"size\":%d},",
                origin->run, origin->rank, origin->size);
    fputs("\"traceEvents\":[\n", out);
}

tryst_status trace_write_json(struct trace *trace, FILE *out, const struct origin *origin,
                              const struct trace_shift *shift)
{
    int rank = origin->rank < 0 ? 0 : origin->rank;
    struct writer writer = {.out = out, .rank = rank, .row = 0, .first = true};
    head_write(out, origin);
    write_process(&writer);
    if (shift) {
        writer.shift_ns = shift->offset_ns;
        write_shift(&writer, shift);
    }
    for (struct trace_ring *ring = trace_rings(trace); ring; ring = ring->next) {
        writer.row = ring->row;
        write_thread(&writer, trace, ring);
        write_ring(&writer, ring);
    }
    fputs("\n]}\n", out);
    return fflush(out) == 0 && !ferror(out) ? TRYST_OK : TRYST_E_IO;
}
