/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: text, the errors of a text, and the orders on steps with times that were
 * computed by hand. */
#include "support/unit.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "tryst/profile.h"
#include "tryst/topo.h"
#include "tryst/tryst.h"

/* A step of three layers. The backward pass takes 1 s a layer, the forward pass 2 s; the
 * network takes 3, 1 and 1 s for the gradients, which are ready after 1, 2 and 3 s. */
static const char step[] =
    "{\"tryst_profile\": 1,\n"
    " \"nodes\": [\n"
    "  {\"name\": \"b2\", \"seconds\": 1},\n"
    "  {\"name\": \"g2\", \"bytes\": 3000, \"after\": [\"b2\"]},\n"
    "  {\"name\": \"b1\", \"seconds\": 1, \"after\": [\"b2\"]},\n"
    "  {\"name\": \"g1\", \"bytes\": 1000, \"after\": [\"b1\"]},\n"
    "  {\"name\": \"b0\", \"seconds\": 1, \"after\": [\"b1\"]},\n"
    "  {\"name\": \"g0\", \"bytes\": 1000, \"ready\": 3, \"first_use\": 4.5, \"after\": "
    "[\"b0\"]},\n"
    "  {\"name\": \"f0\", \"seconds\": 2, \"after\": [\"b0\", \"g0\"]},\n"
    "  {\"name\": \"f1\", \"seconds\": 2, \"after\": [\"f0\", \"g1\"]},\n"
    "  {\"name\": \"f2\", \"seconds\": 2, \"after\": [\"f1\", \"g2\"]}]}\n";

static tryst_profile *profile_parse(const char *text)
{
    tryst_profile *profile;
    if (tryst_profile_parse(text, strlen(text), "p", &profile) != TRYST_OK)
        fail_msg("%s", tryst_last_error());
    return profile;
}

static tryst_profile_replayed replay(tryst_profile *profile, tryst_profile_order order)
{
    tryst_profile_params params = {
        .struct_size = sizeof params, .bytes_per_s = 1000, .order = order};
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    if (tryst_profile_replay(profile, &params, &replayed) != TRYST_OK)
        fail_msg("%s", tryst_last_error());
    return replayed;
}

static void near(double value, double wanted)
{
    if (fabs(value - wanted) > 1e-12)
        fail_msg("%.17g is not %.17g", value, wanted);
}

/* FIFO sends g2 from 1 to 4, g1 to 5, g0 to 6: the end is at 6 + 6. PREEMPT sends g2 from
 * 1 to 2, g1 to 3, g0 to 4, the rest of g2 to 6: f0 runs to 6, f1 to 8, f2 to 10. */
static void orders(void **state)
{
    tryst_profile *profile = profile_parse(step);
    near(replay(profile, TRYST_PROFILE_FIFO).seconds, 12);
    tryst_profile_replayed whole = replay(profile, TRYST_PROFILE_PRIORITY);
    near(whole.seconds, 11); /* g2 to 4, g0 to 5, g1 to 6 */
    near(whole.spans[5].start_s, 4);
    tryst_profile_replayed best = replay(profile, TRYST_PROFILE_PREEMPT);
    near(best.seconds, 10);
    near(best.spans[1].start_s, 1);
    near(best.spans[1].end_s, 6);
    near(best.spans[5].ready_s, 3);
    assert_int_equal(best.pieces_count, 4);
    assert_int_equal(best.pieces[3].node, 1);
    near(best.pieces[3].from_s, 4);
    tryst_profile_params params = {.struct_size = sizeof params, .bytes_per_s = 1000};
    double bound, tails[9];
    assert_int_equal(tryst_profile_bound(profile, &params, &bound), TRYST_OK);
    near(bound, 10);
    params.latency_s = 0.5;
    assert_int_equal(tryst_profile_tails(profile, &params, tails), TRYST_OK);
    near(tails[1], 2.5);
    near(tails[5], 6.5);
    near(tails[8], 0);
    tryst_profile_close(profile);
}

/* With buckets of 3,500 bytes after one of 1: {g2}, {g1, g0}. The second is ready at 3
 * and sent from 4 to 6; the forward pass begins then. One bucket of all is sent from 3
 * to 8. */
static void buckets(void **state)
{
    tryst_profile *profile = profile_parse(step);
    tryst_profile_params params = {.struct_size = sizeof params,
                                   .bytes_per_s = 1000,
                                   .order = TRYST_PROFILE_BUCKETS,
                                   .bucket_bytes = 3500,
                                   .first_bucket_bytes = 1};
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_OK);
    near(replayed.seconds, 12);
    near(replayed.spans[1].end_s, 4);
    near(replayed.spans[3].ready_s, 3);
    near(replayed.spans[5].start_s, 4);
    near(replayed.spans[3].end_s, 6);
    near(replayed.spans[6].start_s, 6);
    assert_int_equal(replayed.pieces_count, 2);
    assert_int_equal(replayed.pieces[1].node, 3);
    params.first_bucket_bytes = params.bucket_bytes = 0; /* the defaults hold all */
    assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_OK);
    near(replayed.seconds, 14);
    tryst_profile_close(profile);
    profile =
        profile_parse("{\"tryst_profile\":1,\"nodes\":[{\"name\":\"a\",\"bytes\":1},"
                      "{\"name\":\"b\",\"bytes\":1,\"after\":[\"a\"]}]}");
    assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "comes after another one"));
    near(replay(profile, TRYST_PROFILE_PREEMPT).seconds, 0.002);
    tryst_profile_close(profile);
}

/* ---- text -------------------------------------------------------------------------- */

static void writes_what_it_reads(void **state)
{
    tryst_profile *profile = profile_parse(step);
    tryst_profile_node node = {.struct_size = sizeof node};
    char *first, *second;
    assert_int_equal(tryst_profile_nodes(profile), 9);
    assert_int_equal(tryst_profile_node_get(profile, 5, &node), TRYST_OK);
    assert_string_equal(node.name, "g0");
    assert_true(node.is_operation && node.bytes == 1000 && node.after_count == 1);
    assert_int_equal(node.after[0], 4);
    near(node.ready_s, 3);
    near(node.first_use_s, 4.5);
    assert_true(node.matched_s < 0 && node.done_s < 0);
    assert_int_equal(tryst_profile_write(profile, &first), TRYST_OK);
    tryst_profile_close(profile);
    profile = profile_parse(first);
    assert_int_equal(tryst_profile_write(profile, &second), TRYST_OK);
    assert_string_equal(first, second);
    near(replay(profile, TRYST_PROFILE_PREEMPT).seconds, 10);
    tryst_text_free(first);
    tryst_text_free(second);
    tryst_profile_close(profile);
}

#define ORIGIN(members) "{\"tryst_profile\":2," members ",\"nodes\":[]}"
#define NODES(nodes)    "{\"tryst_profile\":1,\n\"nodes\":[" nodes "]}"
#define A               "{\"name\":\"a\",\"seconds\":1}"

static const struct {
    const char *text, *refusal;
} wrong[] = {
    {"", "p:1:1: invalid JSON"},
    {"[]", "p:1:1: a profile must be an object"},
    {"{\"nodes\":[]}", "\"tryst_profile\" must be 1 or 2"},
    {"{\"tryst_profile\":3,\"nodes\":[]}", "p:1:18: \"tryst_profile\" must be 1 or 2"},
    {ORIGIN("\"rank\":0,\"size\":1"), "\"run\" is missing"},
    {ORIGIN("\"run\":\"12\",\"rank\":0,\"size\":1"), "\"run\" must have 16 digits"},
    {ORIGIN("\"run\":\"0000000000000000\",\"rank\":0,\"size\":1"), "not all 0"},
    {ORIGIN("\"run\":\"00000000000000FF\",\"rank\":0,\"size\":1"), "a to f"},
    {ORIGIN("\"run\":\"00000000000000ff\",\"rank\":0"), "\"size\" must be"},
    {ORIGIN("\"run\":\"00000000000000ff\",\"rank\":2,\"size\":2"), "from 0 to 1"},
    {ORIGIN("\"run\":\"00000000000000ff\",\"rank\":-1,\"size\":2"), "from 0 to 1"},
    {ORIGIN("\"run\":\"00000000000000ff\",\"size\":2000000"), "from 0 to 1048576"},
    {"{\"tryst_profile\":1}", "\"nodes\" is missing"},
    {"{\"tryst_profile\":1,\"nodes\":{}}", "\"nodes\" must be a list"},
    {"{\"tryst_profile\":1,\"nodes\":[],\"edges\":[]}", "no member \"edges\""},
    {NODES("7"), "p:2:10: a node must be an object"},
    {NODES("{\"seconds\":1}"), "p:2:10: \"name\" is missing"},
    {NODES("{\"name\":1,\"seconds\":1}"), "p:2:18: \"name\" must be a string"},
    {NODES("{\"name\":\"a\"}"), "p:2:10: a node has either"},
    {NODES("{\"name\":\"a\",\"seconds\":1,\"bytes\":1}"), "not both"},
    {NODES("{\"name\":\"a\",\"seconds\":-1}"), "\"seconds\" is -1: it must be 0 or more"},
    {NODES("{\"name\":\"a\",\"seconds\":2e9}"), "at most 1e+09"},
    {NODES("{\"name\":\"a\",\"bytes\":1.5}"), "\"bytes\" must be a whole number"},
    {NODES("{\"name\":\"a\",\"bytes\":-1}"), "\"bytes\" must be a whole number"},
    {NODES("{\"name\":\"a\",\"bytes\":9007199254740993}"), "p:2:30: \"bytes\" must be"},
    {NODES("{\"name\":\"a\",\"second\":1}"), "a node has no member \"second\""},
    {NODES("{\"name\":\"a\",\"seconds\":1,\"done\":1}"), "of operations alone"},
    {NODES("{\"name\":\"a\",\"bytes\":1,\"done\":-1}"), "\"done\" is -1"},
    {NODES(A "," A), "p:2:43: the name \"a\" is used twice"},
    {NODES("{\"name\":\"b\",\"bytes\":1,\"after\":\"a\"}"), "\"after\" must be a list"},
    {NODES("{\"name\":\"b\",\"bytes\":1,\"after\":[1]}"), "the name of a node is needed"},
    {NODES(A ",{\"name\":\"b\",\"bytes\":1,\"after\":[\"a\",\"c\"]}"),
     "p:2:70: there is no node \"c\""},
    {NODES("{\"name\":\"a\",\"seconds\":1,\"after\":[\"a\"]}"),
     "p:2:10: \"a\" comes after itself"},
    {NODES(A ",{\"name\":\"b\",\"bytes\":1,\"after\":[\"c\"]},"
             "{\"name\":\"c\",\"bytes\":1,\"after\":[\"b\"]}"),
     "p:2:35: \"b\" comes after itself"},
};

static void wrong_text_is_refused(void **state)
{
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        tryst_profile *profile = NULL;
        uint64_t before = alloc_live_count();
        tryst_status status =
            tryst_profile_parse(wrong[i].text, strlen(wrong[i].text), "p", &profile);
        if (status != TRYST_E_INVALID)
            fail_msg("%s: status %d", wrong[i].text, status);
        if (!strstr(tryst_last_error(), wrong[i].refusal))
            fail_msg("%s\n  text: %s\n  not:  %s", wrong[i].text, tryst_last_error(),
                     wrong[i].refusal);
        assert_null(profile);
        assert_int_equal(alloc_live_count(), before);
    }
}

static void files(void **state)
{
    tryst_profile *profile = NULL;
    char path[] = "/tmp/tryst_profile_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, step, sizeof step - 1), sizeof step - 1);
    close(fd);
    assert_int_equal(tryst_profile_load(path, &profile), TRYST_OK);
    assert_int_equal(tryst_profile_nodes(profile), 9);
    tryst_profile_close(profile);
    unlink(path);
    assert_int_equal(tryst_profile_load(path, &profile), TRYST_E_IO);
    assert_non_null(strstr(tryst_last_error(), "cannot open /tmp/tryst_profile_"));
    assert_int_equal(tryst_profile_load("/", &profile), TRYST_E_IO);
}

/* ---- arguments --------------------------------------------------------------------- */

static void refuses(tryst_profile *profile, tryst_profile_params params, const char *text)
{
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed, .seconds = 7};
    double seconds;
    assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), text));
    near(replayed.seconds, 7);
    assert_int_equal(tryst_profile_bound(profile, &params, &seconds), TRYST_E_INVALID);
}

static void wrong_arguments_are_refused(void **state)
{
    tryst_profile *profile = profile_parse(step);
    tryst_profile_params params = {.struct_size = sizeof params, .bytes_per_s = 1000};
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    tryst_profile_node node = {.struct_size = sizeof node};
    double values[9];
    char *text;
    refuses(profile, (tryst_profile_params){.struct_size = sizeof params}, "above 0");
    refuses(profile, (tryst_profile_params){.bytes_per_s = 1}, "struct_size");
    params.latency_s = -1;
    refuses(profile, params, "latency_s is -1");
    params.latency_s = (double)NAN;
    refuses(profile, params, "latency_s is");
    params.latency_s = 0;
    params.bytes_per_s = (double)INFINITY;
    refuses(profile, params, "bytes_per_s is inf");
    params.bytes_per_s = 1;
    params.order = (tryst_profile_order)9;
    refuses(profile, params, "no order 9");
    params.order = TRYST_PROFILE_FIFO;
    assert_int_equal(tryst_profile_replay(NULL, &params, &replayed), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_replay(profile, NULL, &replayed), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_replay(profile, &params, NULL), TRYST_E_INVALID);
    replayed.struct_size = 0;
    assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_bound(NULL, &params, values), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_bound(profile, NULL, values), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_bound(profile, &params, NULL), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_tails(NULL, &params, values), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_tails(profile, NULL, values), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_tails(profile, &params, NULL), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_node_get(NULL, 0, &node), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_node_get(profile, 9, &node), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "there is no node 9, but 9 nodes"));
    assert_int_equal(tryst_profile_node_get(profile, 0, NULL), TRYST_E_INVALID);
    node.struct_size = 0;
    assert_int_equal(tryst_profile_node_get(profile, 0, &node), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_write(NULL, &text), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_write(profile, NULL), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_parse(NULL, 0, "p", &profile), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_load(NULL, &profile), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_nodes(NULL), 0);
    assert_null(tryst_profile_order_name((tryst_profile_order)-1));
    assert_string_equal(tryst_profile_order_name(TRYST_PROFILE_BUCKETS), "buckets");
    tryst_profile_close(profile);
    tryst_profile_close(NULL);
}

/* ---- memory ------------------------------------------------------------------------ */

static tryst_status walk(tryst_profile_order order)
{
    tryst_profile_params params = {
        .struct_size = sizeof params, .bytes_per_s = 1000, .order = order};
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    tryst_profile *profile = NULL;
    char *text = NULL;
    tryst_status status = tryst_profile_parse(step, sizeof step - 1, "p", &profile);
    if (status == TRYST_OK)
        status = tryst_profile_replay(profile, &params, &replayed);
    if (status == TRYST_OK)
        status = tryst_profile_write(profile, &text);
    tryst_text_free(text);
    tryst_profile_close(profile);
    return status;
}

static void memory_may_fail(void **state)
{
    for (int order = TRYST_PROFILE_FIFO; order <= TRYST_PROFILE_PREEMPT; order++)
        for (uint64_t n = 1;; n++) {
            uint64_t before = alloc_live_count();
            alloc_fail_at(n);
            tryst_status status = walk((tryst_profile_order)order);
            bool failed = alloc_fail_off();
            assert_int_equal(alloc_live_count(), before);
            if (!failed) {
                assert_int_equal(status, TRYST_OK);
                assert_true(n > 20);
                break;
            }
            assert_int_equal(status, TRYST_E_NOMEM);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(buckets),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(wrong_text_is_refused),
        cmocka_unit_test(files),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
