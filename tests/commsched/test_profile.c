/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: text, the errors of a text, and the public functions. */
#include "profile_check.h"

#include <unistd.h>

#include "tryst/tryst.h"

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
    struct err err = ERR_INIT;
    tryst_profile *profile;
    if (profile_read(text, &err, &profile) != TRYST_OK)
        fail_msg("%s", err.text);
    return profile;
}

/* ---- text -------------------------------------------------------------------------- */

static void writes_what_it_reads(void **state)
{
    tryst_profile *profile = profile_parse(step);
    tryst_profile_node node = {.struct_size = sizeof node};
    assert_int_equal(tryst_profile_nodes(profile), 9);
    assert_int_equal(tryst_profile_node_get(profile, 5, &node), TRYST_OK);
    assert_string_equal(node.name, "g0");
    assert_true(node.is_operation && node.bytes == 1000 && node.after_count == 1);
    assert_int_equal(node.after[0], 4);
    near(node.ready_s, 3);
    near(node.first_use_s, 4.5);
    assert_true(node.matched_s < 0 && node.done_s < 0);
    char *first = profile_text(profile);
    tryst_profile_close(profile);
    profile = profile_parse(first);
    char *second = profile_text(profile);
    assert_string_equal(first, second);
    mem_free(first);
    mem_free(second);
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
        struct err err = ERR_INIT;
        uint64_t before = alloc_live_count();
        tryst_status status = profile_read(wrong[i].text, &err, &profile);
        if (status != TRYST_E_INVALID)
            fail_msg("%s: status %d", wrong[i].text, status);
        if (!strstr(err.text, wrong[i].refusal))
            fail_msg("%s\n  text: %s\n  not:  %s", wrong[i].text, err.text,
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

static void wrong_arguments_are_refused(void **state)
{
    tryst_profile *profile = profile_parse(step);
    tryst_profile_node node = {.struct_size = sizeof node};
    assert_int_equal(tryst_profile_node_get(NULL, 0, &node), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_node_get(profile, 9, &node), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "there is no node 9, but 9 nodes"));
    assert_int_equal(tryst_profile_node_get(profile, 0, NULL), TRYST_E_INVALID);
    node.struct_size = 0;
    assert_int_equal(tryst_profile_node_get(profile, 0, &node), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_load(NULL, &profile), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_nodes(NULL), 0);
    tryst_profile_close(profile);
    tryst_profile_close(NULL);
}

/* ---- memory ------------------------------------------------------------------------ */

static tryst_status walk(void)
{
    struct err err = ERR_INIT;
    tryst_profile *profile = NULL;
    tryst_status status = profile_read(step, &err, &profile);
    char *text = status == TRYST_OK ? profile_text(profile) : NULL;
    if (status == TRYST_OK && !text)
        status = TRYST_E_NOMEM;
    mem_free(text);
    tryst_profile_close(profile);
    return status;
}

static void memory_may_fail(void **state)
{
    WALK_ALLOCATIONS(walk());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(wrong_text_is_refused),
        cmocka_unit_test(files),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
