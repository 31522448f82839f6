/* SPDX-License-Identifier: Apache-2.0 */
/* Traces are written and read back with core/source; the threaded tests are meant for
 * ThreadSanitizer too. */
#include "support/fake_clock.h"
#include "support/json_text.h"
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "core/log/trace.h"
#include "core/log/trace_json.h"
#include "core/log/trace_ring.h"
#include "core/log/trace_text.h"
#include "core/memory/alloc.h"

static const struct trace_labels labels3 = {.arg = {"a", "b", "c"}};
static const struct trace_labels labels1 = {.arg = {"bytes"}};

static struct trace *trace_of(size_t events, const struct clock *clock)
{
    struct trace *trace;
    assert_int_equal(trace_open(events, clock, &trace), TRYST_OK);
    return trace;
}

/* Return the list of the documents of several traces; the ranks are 0, 1, … */
static struct json *written(struct trace **traces, int count)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int rank = 0; rank < count; rank++) {
        fputc(rank ? ',' : '[', out);
        assert_int_equal(
            trace_write_json(traces[rank], out, &(struct origin){0, rank, 0}, NULL),
            TRYST_OK);
    }
    fputc(']', out);
    fclose(out);
    struct json *documents = json_of_text(text, bytes);
    free(text);
    return documents;
}

#define events_for_each(documents, event) \
    json_for_each (documents, document_)  \
        json_for_each (json_member(document_, "traceEvents"), event)

static const char *text_in(const struct json *event, const char *field)
{
    const char *text = json_string_of(json_member(event, field));
    return text ? text : "";
}

static int64_t number_in(const struct json *event, const char *field)
{
    return json_integer_of(json_member(event, field));
}

/* Return the nth event with that name and phase; NULL if there are fewer. */
static const struct json *event_find(const struct json *documents, const char *name,
                                     const char *phase, int nth)
{
    events_for_each (documents, event) {
        if (strcmp(text_in(event, "name"), name) == 0 &&
            strcmp(text_in(event, "ph"), phase) == 0 && nth-- == 0)
            return event;
    }
    return NULL;
}

static void assert_us(const struct json *event, const char *field, double us)
{
    double found = json_number_of(json_member(event, field));
    assert_true(found > us - 1e-4 && found < us + 1e-4);
}

/* ---- one thread -------------------------------------------------------------------- */

static void without_a_trace_nothing_happens(void **state)
{
    assert_int_equal(trace_now_ns(NULL), 0);
    trace_span(NULL, "x", NULL, 0, 1, 0, 0, 0);
    trace_async(NULL, "x", NULL, 0, 1, 0, 0, 0);
    trace_instant(NULL, "x", NULL, 0, 0, 0);
    trace_flow_begin(NULL, "x", 1, 0);
    trace_flow_end(NULL, "x", 1, 0);
    trace_counter(NULL, "x", NULL, 0, 0, 0);
    trace_thread_name(NULL, "x");
    trace_close(NULL);
}

static void each_kind_becomes_its_phase(void **state)
{
    struct clock_fake fake;
    clock_fake_init(&fake, 1234567);
    struct trace *trace = trace_of(64, &fake.clock);
    trace_span(trace, "span", &labels3, 1000, 4500, 1, 2, 3);
    trace_span(trace, "backwards", NULL, 5000, 4000, 0, 0, 0);
    trace_async(trace, "async", &labels1, 2000, 2001, 64, 0, 0);
    trace_async(trace, "async", &labels1, 2000, 2002, 65, 0, 0);
    trace_instant(trace, "instant", NULL, 0, 0, 0);
    trace_counter(trace, "plain", NULL, 42, 0, 0);
    trace_counter(trace, "series", &labels3, 1, 2, UINT64_MAX);
    struct json *document = written(&trace, 1);

    const struct json *event = event_find(document, "span", "X", 0);
    assert_us(event, "ts", 1.0);
    assert_us(event, "dur", 3.5);
    assert_int_equal(number_in(json_member(event, "args"), "b"), 2);
    assert_us(event_find(document, "backwards", "X", 0), "dur", 0);
    for (int i = 0; i < 2; i++) { /* ids used only in this process, each once */
        char id[24];
        snprintf(id, sizeof id, "0x%d", i + 1);
        event = event_find(document, "async", "b", i);
        assert_string_equal(text_in(json_member(event, "id2"), "local"), id);
        event = event_find(document, "async", "e", i);
        assert_string_equal(text_in(json_member(event, "id2"), "local"), id);
    }
    assert_us(event_find(document, "async", "e", 0), "ts", 2.001);
    assert_us(event_find(document, "instant", "i", 0), "ts", 1234.567);
    assert_null(json_member(event_find(document, "instant", "i", 0), "args"));
    event = event_find(document, "plain", "C", 0);
    assert_int_equal(number_in(json_member(event, "args"), "value"), 42);
    event = event_find(document, "series", "C", 0);
    assert_true(json_is(json_member(json_member(event, "args"), "c"), JSON_REAL));
    mem_free(document);
    trace_close(trace);
}

static void arguments_beyond_doubles_stay_exact(void **state)
{
    struct trace *trace = trace_of(64, NULL);
    trace_instant(trace, "x", &labels3, UINT64_C(1) << 53, UINT64_MAX, 0);
    struct json *document = written(&trace, 1);
    const struct json *args = json_member(event_find(document, "x", "i", 0), "args");
    assert_true(number_in(args, "a") == INT64_C(1) << 53);
    assert_string_equal(text_in(args, "b"), "0xffffffffffffffff");
    mem_free(document);
    trace_close(trace);
}

/* Texts are copied, one copy of each, and serve as names and arguments. Without memory a
 * substitute appears. */
static void texts_are_kept(void **state)
{
    static const struct trace_labels labels = {.arg = {"bytes", "key"}, .texts = 1u << 1};
    struct trace *trace = trace_of(64, NULL);
    char text[] = "act\"0";
    const char *kept = trace_text(trace, text);
    assert_ptr_equal(trace_text(trace, text), kept);
    assert_ptr_not_equal(trace_text(trace, "act1"), kept);
    trace_async(trace, kept, &labels, 1, 2, 7, (uint64_t)(uintptr_t)kept, 0);
    memset(text, 'x', sizeof text - 1);
    struct json *document = written(&trace, 1);
    const struct json *args = json_member(event_find(document, "act\"0", "b", 0), "args");
    assert_int_equal(number_in(args, "bytes"), 7);
    assert_string_equal(text_in(args, "key"), "act\"0");
    mem_free(document);
    alloc_fail_at(1);
    assert_string_equal(trace_text(trace, "new"), "(no memory for this name)");
    assert_true(alloc_fail_off());
    assert_string_equal(trace_text(trace, "new"), "new");
    assert_string_equal(trace_text(NULL, "any"), "any");
    trace_close(trace);
}

/* More texts than one table holds, each found again. */
static void many_texts_are_kept(void **state)
{
    enum { MANY = 5000 };
    static const char *kept[MANY];
    struct trace *trace = trace_of(16, NULL);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < MANY; i++) {
            char text[24];
            snprintf(text, sizeof text, "text %d", i);
            const char *now = trace_text(trace, text);
            assert_string_equal(now, text);
            assert_true(turn == 0 || now == kept[i]);
            kept[i] = now;
        }
    trace_close(trace);
}

static void an_arrow_joins_two_ranks(void **state)
{
    struct trace *traces[2] = {trace_of(64, NULL), trace_of(64, NULL)};
    trace_flow_begin(traces[0], "transfer", UINT64_C(0xfedcba9876543210), 100);
    trace_flow_end(traces[1], "transfer", UINT64_C(0xfedcba9876543210), 200);
    struct json *document = written(traces, 2);
    const struct json *begin = event_find(document, "transfer", "s", 0);
    const struct json *end = event_find(document, "transfer", "f", 0);
    assert_int_equal(number_in(begin, "pid"), 0);
    assert_int_equal(number_in(end, "pid"), 1);
    assert_string_equal(text_in(begin, "id"), "0xfedcba9876543210");
    assert_string_equal(text_in(begin, "id"), text_in(end, "id"));
    assert_string_equal(text_in(begin, "cat"), text_in(end, "cat"));
    assert_string_equal(text_in(end, "bp"), "e");
    const struct json *process = event_find(document, "process_name", "M", 1);
    assert_string_equal(text_in(json_member(process, "args"), "name"), "rank 1");
    mem_free(document);
    trace_close(traces[0]);
    trace_close(traces[1]);
}

static void names_may_hold_anything(void **state)
{
    static const char nasty[] =
        "q\" b\\ n\n \x01 \x7f \xc3\xa9 \xff\xc3( \xf0\x9f\x8e\x89 \xc0\x80\xed\xa0\x80";
    struct trace *trace = trace_of(64, NULL);
    trace_instant(trace, nasty, NULL, 0, 0, 0);
    trace_thread_name(trace, "a\"b");
    struct json *document = written(&trace, 1);
    const struct json *thread = event_find(document, "thread_name", "M", 0);
    assert_string_equal(text_in(json_member(thread, "args"), "name"), "a\"b");
    assert_non_null(event_find(document,
                               "q\" b\\ n\n \x01 \x7f \xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd( "
                               "\xf0\x9f\x8e\x89 \xef\xbf\xbd\xef\xbf\xbd"
                               "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
                               "i", 0));
    mem_free(document);
    trace_close(trace);
}

static void a_long_thread_name_is_cut(void **state)
{
    struct trace *trace = trace_of(64, NULL);
    trace_thread_name(trace, "first name, which is longer than the next");
    trace_thread_name(trace, "012345678901234567890123456789\xc3\xa9");
    struct json *document = written(&trace, 1);
    const struct json *thread = event_find(document, "thread_name", "M", 0);
    assert_string_equal(text_in(json_member(thread, "args"), "name"),
                        "012345678901234567890123456789\xef\xbf\xbd");
    mem_free(document);
    trace_close(trace);
}

static void the_oldest_are_overwritten_and_counted(void **state)
{
    struct trace *trace = trace_of(100, NULL); /* rounded up to 128 */
    for (uint64_t i = 0; i < 128; i++)
        trace_instant(trace, "x", &labels1, i, 0, 0);
    assert_int_equal(trace_lost_count(trace), 0);
    for (uint64_t i = 128; i < 300; i++)
        trace_instant(trace, "x", &labels1, i, 0, 0);
    assert_int_equal(trace_lost_count(trace), 300 - 128);
    struct json *document = written(&trace, 1);
    for (int i = 0; i < 128; i++) {
        const struct json *args = json_member(event_find(document, "x", "i", i), "args");
        assert_int_equal(number_in(args, "bytes"), 300 - 128 + i);
    }
    assert_null(event_find(document, "x", "i", 128));
    const struct json *lost = event_find(document, "events lost before this", "i", 0);
    assert_int_equal(number_in(json_member(lost, "args"), "count"), 300 - 128);
    mem_free(document);
    trace_close(trace);
}

/* The moments of a writer at which threads would meet only by chance, staged one by
 * one. */
static void a_copy_fails_from_the_moment_that_its_slot_is_taken(void **state)
{
    enum { CAPACITY = 16 };
    struct trace *trace = trace_of(CAPACITY, NULL);
    struct trace_event event;
    for (uint64_t i = 0; i < CAPACITY; i++)
        trace_instant(trace, "x", NULL, i, 0, 0);
    struct trace_ring *ring = trace_rings(trace);
    assert_int_equal(trace_ring_ended(ring), CAPACITY);
    assert_true(trace_ring_copy(ring, 0, &event));
    assert_int_equal(event.arg[0], 0);
    ring->begun++; /* event 16 has begun, and takes slot 0 */
    assert_false(trace_ring_copy(ring, 0, &event));
    assert_true(trace_ring_copy(ring, 1, &event));
    assert_int_equal(event.arg[0], 1);
    ring->begun--;
    for (uint64_t i = CAPACITY; i < 3 * CAPACITY; i++)
        trace_instant(trace, "x", NULL, i, 0, 0);
    for (uint64_t i = 0; i < 3 * CAPACITY; i++)
        assert_int_equal(trace_ring_copy(ring, i, &event), i >= 2 * CAPACITY);
    trace_close(trace);
}

static void traces_of_one_thread_keep_apart(void **state)
{
    struct trace *a = trace_of(16, NULL), *b = trace_of(16, NULL);
    for (int i = 0; i < 5; i++) {
        trace_instant(a, "in a", NULL, 0, 0, 0);
        trace_instant(b, "in b", NULL, 0, 0, 0);
    }
    struct json *document = written(&a, 1);
    assert_non_null(event_find(document, "in a", "i", 4));
    assert_null(event_find(document, "in b", "i", 0));
    mem_free(document);
    trace_close(a);
    a = trace_of(16, NULL); /* perhaps at the same address */
    trace_instant(a, "again", NULL, 0, 0, 0);
    document = written(&a, 1);
    assert_null(event_find(document, "in a", "i", 0));
    assert_non_null(event_find(document, "again", "i", 0));
    mem_free(document);
    trace_close(a);
    trace_close(b);
}

static void an_empty_trace_is_a_document_too(void **state)
{
    struct trace *trace = trace_of(16, NULL);
    struct json *document = written(&trace, 1);
    assert_non_null(event_find(document, "process_name", "M", 0));
    mem_free(document);
    trace_close(trace);
}

static void a_full_disk_is_a_status(void **state)
{
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        skip();
    struct trace *trace = trace_of(16, NULL);
    assert_int_equal(trace_write_json(trace, full, &(struct origin){0}, NULL),
                     TRYST_E_IO);
    fclose(full);
    trace_close(trace);
}

static void no_memory_loses_events_and_counts_them(void **state)
{
    struct trace *trace = NULL;
    assert_int_equal(trace_open(0, NULL, &trace), TRYST_E_INVALID);
    alloc_fail_at(1);
    assert_int_equal(trace_open(16, NULL, &trace), TRYST_E_NOMEM);
    assert_true(alloc_fail_off());
    assert_null(trace);
    trace = trace_of(16, NULL);
    alloc_fail_at(1);
    for (int i = 0; i < 3; i++)
        trace_instant(trace, "x", NULL, 0, 0, 0);
    trace_thread_name(trace, "x");
    assert_true(alloc_fail_off());
    assert_int_equal(trace_lost_count(trace), 3);
    mem_free(written(&trace, 1));
    trace_close(trace);
}

/* ---- threads ----------------------------------------------------------------------- */

enum { THREADS = 3 };

struct scene {
    struct trace *trace;
    _Atomic int go_on, recorded;
};

/* Record events with arguments that belong together: a mixed event would be detected. */
static void *record(void *arg)
{
    struct scene *scene = arg;
    uint64_t i = 0;
    trace_thread_name(scene->trace, "recorder");
    while (scene->go_on) {
        trace_instant(scene->trace, "whole", &labels3, i, i * 3, i + 7);
        if (++i == 1000)
            scene->recorded++;
        if (i % 256 == 0)
            sched_yield();
    }
    return NULL;
}

static void assert_all_whole(const struct json *document)
{
    events_for_each (document, event) {
        if (strcmp(text_in(event, "name"), "whole") != 0)
            continue;
        const struct json *args = json_member(event, "args");
        int64_t a = number_in(args, "a");
        assert_true(number_in(args, "b") == a * 3);
        assert_true(number_in(args, "c") == a + 7);
    }
}

static void reading_while_others_write_gives_whole_events(void **state)
{
    struct scene scene = {.trace = trace_of(256, NULL), .go_on = 1};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record, &scene), 0);
    while (scene.recorded < THREADS) /* every ring has wrapped */
        sched_yield();
    for (int i = 0; i < 50; i++) {
        struct json *document = written(&scene.trace, 1);
        assert_all_whole(document);
        mem_free(document);
        (void)trace_lost_count(scene.trace);
    }
    scene.go_on = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct json *document = written(&scene.trace, 1);
    assert_all_whole(document);
    assert_non_null(event_find(document, "thread_name", "M", THREADS - 1));
    assert_non_null(event_find(document, "whole", "i", THREADS * 256 - 1));
    mem_free(document);
    trace_close(scene.trace);
}

static void *record_one(void *arg)
{
    trace_instant(arg, "short", NULL, 0, 0, 0);
    return NULL;
}

/* A thread may exist in the kernel for a moment after its join, so some rings are not
 * reused. */
static void threads_that_come_and_go_share_rings(void **state)
{
    enum { COMERS = 200 };
    struct trace *trace = trace_of(256, NULL);
    uint64_t live = alloc_live_count();
    for (int i = 0; i < COMERS; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, record_one, trace), 0);
        pthread_join(thread, NULL);
    }
    assert_in_range(alloc_live_count() - live, 1, COMERS / 4);
    struct json *document = written(&trace, 1);
    assert_non_null(event_find(document, "short", "i", COMERS - 1));
    mem_free(document);
    trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_trace_nothing_happens),
        cmocka_unit_test(each_kind_becomes_its_phase),
        cmocka_unit_test(arguments_beyond_doubles_stay_exact),
        cmocka_unit_test(texts_are_kept),
        cmocka_unit_test(many_texts_are_kept),
        cmocka_unit_test(an_arrow_joins_two_ranks),
        cmocka_unit_test(names_may_hold_anything),
        cmocka_unit_test(a_long_thread_name_is_cut),
        cmocka_unit_test(the_oldest_are_overwritten_and_counted),
        cmocka_unit_test(a_copy_fails_from_the_moment_that_its_slot_is_taken),
        cmocka_unit_test(traces_of_one_thread_keep_apart),
        cmocka_unit_test(an_empty_trace_is_a_document_too),
        cmocka_unit_test(a_full_disk_is_a_status),
        cmocka_unit_test(no_memory_loses_events_and_counts_them),
        cmocka_unit_test(reading_while_others_write_gives_whole_events),
        cmocka_unit_test(threads_that_come_and_go_share_rings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
