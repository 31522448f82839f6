/* SPDX-License-Identifier: Apache-2.0 */
/* The dump: it reads back as an equal graph, which writes the same bytes. Mistakes are
 * refused with line, column and reason. */
#include "support/unit.h"

#include <float.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/growing_text.h"
#include "graph_equal.h"
#include "support/comma.h"
#include "topology/formats/graph_read.h"
#include "topology/formats/json_write.h"

static const char sample[] =
    "{\"tryst_graph\": 1,\n"
    " \"nodes\": [\n"
    "  {\"name\": \"m\", \"kind\": \"machine\", \"label\": \"a \\\"box\\\" of "
    "\\u00b5s\"},\n"
    "  {\"name\": \"numa0\", \"kind\": \"numa\", \"parent\": \"m\", \"os_index\": 0, "
    "\"cpus\": \"0-3\"},\n"
    "  {\"name\": \"gpu0\", \"kind\": \"gpu\", \"parent\": \"m\", \"pci\": "
    "\"0000:1b:00.0\"},\n"
    "  {\"name\": \"r0\", \"kind\": \"rank\", \"parent\": \"gpu0\"},\n"
    "  {\"name\": \"r1\", \"kind\": \"rank\", \"parent\": \"numa0\"}],\n"
    " \"links\": [\n"
    "  {\"from\": \"r0\", \"to\": \"gpu0\", \"kind\": \"attach\", \"bytes_per_s\": "
    "[\"unlimited\", \"none\"]},\n"
    "  {\"from\": \"gpu0\", \"to\": \"numa0\", \"kind\": \"pci\", \"generation\": 5, "
    "\"width\": 16,\n"
    "   \"down\": true, \"bytes_per_s\": [63015384615.384613, \"table\"], "
    "\"latency_ns\": [512.5, \"measured\"]},\n"
    "  {\"from\": \"numa0\", \"to\": \"r1\", \"kind\": \"attach\"}],\n"
    " \"routes\": [\n"
    "  {\"from\": \"r0\", \"to\": \"r1\", \"via\": [\"gpu0\", \"numa0\"]}]}\n";

static struct graph *graph_of(const char *text)
{
    struct err err = ERR_INIT;
    struct graph *graph;
    tryst_status status =
        graph_read(text, strlen(text), "sample", GRAPH_AUTO, &err, &graph);
    if (status != TRYST_OK)
        fail_msg("%s", err.text);
    return graph;
}

static char *text_of(const struct graph *graph)
{
    struct text text = {0};
    char *string;
    graph_json_write(graph, &text);
    assert_int_equal(text_release(&text, NULL, &string), TRYST_OK);
    return string;
}

static void comes_back(void **state)
{
    struct graph *first = graph_of(sample);
    char *dump = text_of(first);
    struct graph *second = graph_of(dump);
    char *again = text_of(second);
    assert_string_equal(dump, again);
    assert_true(graph_equal(first, second));
    assert_int_equal(first->ranks_count, 2);
    assert_string_equal(first->nodes[0].label, "a \"box\" of \xc2\xb5s");
    assert_true(first->links[0].bytes_per_s.value == GRAPH_UNLIMITED);
    assert_true(first->links[1].bytes_per_s.value == 63015384615.384613);
    assert_true(first->links[1].down);
    assert_int_equal(first->links[1].latency_ns.origin, ORIGIN_MEASURED);
    assert_true(first->links[2].bytes_per_s.value == GRAPH_UNKNOWN);
    assert_int_equal(first->routes[0].via_count, 2);
    mem_free(dump);
    mem_free(again);
    graph_close(first);
    graph_close(second);
}

/* The only mistake of a wrong text: `from` becomes `to`. */
struct wrong {
    const char *from, *to, *reason;
};

static const struct wrong wrongs[] = {
    {"\"tryst_graph\": 1", "\"tryst_graph\": 2",
     "sample:1:17: \"tryst_graph\" must be 1"},
    {"\"kind\": \"numa\"", "\"kind\": \"nume\"", "sample:4:29: unknown kind \"nume\""},
    {"\"parent\": \"gpu0\"", "\"parent\": \"gpu9\"",
     "sample:6:44: unknown node \"gpu9\"; a parent comes before"},
    {"\"width\": 16", "\"width\": -1", "sample:10:76: \"width\" must be a whole number"},
    {"\"width\"", "\"widht\"", "sample:10:76: a link has no member \"widht\""},
    {"[63015384615.384613,", "[0,", "sample:11:33: \"bytes_per_s\" must be above 0"},
    {"\"table\"]", "\"desk\"]", "sample:11:33: unknown origin \"desk\""},
    {"[\"unlimited\", \"none\"]", "[\"unlimited\"]",
     "sample:9:65: \"bytes_per_s\" must be ["},
    {"\"numa0\"]}]", "\"numa7\"]}]", "sample:14:46: \"via\" must list names of nodes"},
    {"\"name\": \"r1\"", "\"name\": \"r0\"",
     "sample:7:3: the node name \"r0\" is used twice"},
    {"\"name\": \"r1\", ", "", "sample:7:3: \"name\" is missing: a string"},
    {" \"links\": [", " \"links\": 3, \"x\": [", "sample:8:"},
    {"\"to\": \"r1\", \"kind\": \"attach\"}]", "\"to\": \"r1\", \"kind\": \"attach\"",
     "sample:14:"},
};

static void wrong_is_placed(void **state)
{
    for (size_t i = 0; i < COUNT_OF(wrongs); i++) {
        char text[2 * sizeof sample];
        const char *at = strstr(sample, wrongs[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sample), sample, wrongs[i].to,
                 at + strlen(wrongs[i].from));
        struct err err = ERR_INIT;
        struct graph *graph = NULL;
        assert_int_equal(
            graph_read(text, strlen(text), "sample", GRAPH_JSON, &err, &graph),
            TRYST_E_INVALID);
        assert_null(graph);
        if (strncmp(err.text, wrongs[i].reason, strlen(wrongs[i].reason)) != 0)
            fail_msg("%s: %s\nwanted: %s", wrongs[i].to, err.text, wrongs[i].reason);
    }
}

/* Every prefix of a valid text, and the text with any byte changed, must give a graph or
 * an error text. */
static void no_crash(void **state)
{
    char text[sizeof sample];
    for (size_t i = 0; i < 2 * sizeof sample - 2; i++) {
        memcpy(text, sample, sizeof sample);
        size_t bytes = i < sizeof sample ? i : sizeof sample - 1;
        if (i >= sizeof sample)
            text[i - sizeof sample] ^= 0x15;
        struct err err = ERR_INIT;
        struct graph *graph;
        tryst_status status = graph_read(text, bytes, "t", GRAPH_JSON, &err, &graph);
        assert_true(status == TRYST_OK || (status == TRYST_E_INVALID && err.text[0]));
        if (status == TRYST_OK)
            graph_close(graph);
    }
}

static tryst_status there_and_back(void)
{
    struct graph *graph;
    struct text text = {0};
    char *string;
    tryst_status status =
        graph_read(sample, strlen(sample), "sample", GRAPH_JSON, NULL, &graph);
    if (status != TRYST_OK)
        return status;
    graph_json_write(graph, &text);
    status = text_release(&text, NULL, &string);
    graph_close(graph);
    if (status == TRYST_OK)
        mem_free(string);
    return status;
}

static void memory_may_fail(void **state)
{
    WALK_ALLOCATIONS(there_and_back());
}

static void number_check(double value)
{
    struct text text = {0};
    text_add_number(&text, value);
    assert_null(strchr(text.data, ','));
    setlocale(LC_NUMERIC, "C");
    assert_true(strtod(text.data, NULL) == value);
    text_drop(&text);
}

static void numbers_are_exact(void **state)
{
    static const double values[] = {0.1,     1e9,     1.0 / 3, 63015384615.384613,
                                    DBL_MAX, DBL_MIN, 5e-324};
    for (size_t i = 0; i < COUNT_OF(values); i++)
        number_check(values[i]);
}

static void a_comma_is_no_point(void **state)
{
    struct text text = {0};
    bool comma = comma_set();
    text_addf(&text, "%.4g %.1f", 0.5, 2.25);
    number_check(0.1); /* back to "C" */
    assert_string_equal(text.data, "0.5 2.2");
    text_drop(&text);
    if (!comma)
        skip();
}

static void text_is_escaped(void **state)
{
    struct text text = {0};
    text_add_json(&text, "a\"\\\n\xff\xc3\xa9\xed\xa0\x80");
    assert_string_equal(text.data,
                        "\"a\\\"\\\\\\u000a\\ufffd\xc3\xa9\\ufffd\\ufffd\\ufffd\"");
    text_drop(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(wrong_is_placed),
        cmocka_unit_test(no_crash),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(a_comma_is_no_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
