/* SPDX-License-Identifier: Apache-2.0 */
/* tryst_profile_fuse against all partitions of the operations, on random steps of
 * data-parallel training. */
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "core/text/text.h"
#include "tryst/profile.h"
#include "tryst/tryst.h"

enum { LAYERS_MAX = 4, OPERATIONS_MAX = 6, NODES_MAX = 2 * LAYERS_MAX + OPERATIONS_MAX };

struct writer {
    char text[4096];
    size_t bytes;
};

#define write_text(writer, ...) \
    ((writer)->bytes = text_append((writer)->text, sizeof(writer)->text, __VA_ARGS__))

static tryst_profile *writer_parse(struct writer *writer)
{
    tryst_profile *profile;
    write_text(writer, "{\"name\":\"end\",\"seconds\":0}]}");
    assert_true(writer->bytes < sizeof writer->text);
    if (tryst_profile_parse(writer->text, writer->bytes, "p", &profile) != TRYST_OK)
        fail_msg("%s\n%s", tryst_last_error(), writer->text);
    return profile;
}

static unsigned draw(struct random *random, unsigned below)
{
    return (unsigned)random_range(random, below);
}

/* A chain of layers, backward and forward, with one or two gradients each. */
static tryst_profile *chain_draw(struct random *random)
{
    struct writer writer = {.bytes = 0};
    unsigned layers = 1 + draw(random, LAYERS_MAX), second = 0;
    write_text(&writer, "{\"tryst_profile\":1,\"nodes\":[");
    for (unsigned i = layers; i-- > 0;) {
        write_text(&writer, "{\"name\":\"b%u\",\"seconds\":%u", i, draw(random, 5));
        if (i + 1 < layers)
            write_text(&writer, ",\"after\":[\"b%u\"]", i + 1);
        unsigned gradients =
            1 + (second < OPERATIONS_MAX - LAYERS_MAX && draw(random, 2));
        second += gradients - 1;
        write_text(&writer, "},");
        for (unsigned g = 0; g < gradients; g++)
            write_text(&writer,
                       "{\"name\":\"g%u.%u\",\"bytes\":%u,\"after\":[\"b%u\"]},"
                       "{\"name\":\"u%u.%u\",\"seconds\":0,\"after\":[\"g%u.%u\"]},",
                       i, g, draw(random, 5), i, i, g, i, g);
        write_text(&writer, "{\"name\":\"f%u\",\"seconds\":%u,\"after\":[\"%c%u\"", i,
                   draw(random, 5), i > 0 ? 'f' : 'b', i > 0 ? i - 1 : 0);
        for (unsigned g = 0; g < gradients; g++)
            write_text(&writer, ",\"u%u.%u\"", i, g);
        write_text(&writer, "]},");
    }
    return writer_parse(&writer);
}

static double seconds_with(tryst_profile *profile, tryst_profile_params params,
                           const uint32_t *groups)
{
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    params.groups = groups;
    if (tryst_profile_replay(profile, &params, &replayed) != TRYST_OK)
        fail_msg("%s", tryst_last_error());
    return replayed.seconds;
}

/* Return the shortest time over all partitions of the operations from node `i` on, where
 * those before are in groups below `used`. */
static double search(tryst_profile *profile, const tryst_profile_params *params,
                     uint32_t *groups, uint32_t i, uint32_t used)
{
    double best = INFINITY;
    tryst_profile_node node = {.struct_size = sizeof node};
    if (i == tryst_profile_nodes(profile))
        return seconds_with(profile, *params, groups);
    assert_int_equal(tryst_profile_node_get(profile, i, &node), TRYST_OK);
    if (!node.is_operation)
        return search(profile, params, groups, i + 1, used);
    for (uint32_t group = 0; group <= used; group++) {
        groups[i] = group;
        best = fmin(best, search(profile, params, groups, i + 1, used + (group == used)));
    }
    return best;
}

static void chains(void **state)
{
    struct random random;
    uint32_t joined = 0, alone = 0;
    random_seed(&random, unit_seed());
    for (uint64_t n = 0; n < unit_cases(1000); n++) {
        tryst_profile_params params = {.struct_size = sizeof params,
                                       .bytes_per_s = 1,
                                       .latency_s = draw(&random, 3),
                                       .overhead_s = draw(&random, 4) * 0.5,
                                       .order = TRYST_PROFILE_PREEMPT};
        tryst_profile *profile = chain_draw(&random);
        uint32_t groups[NODES_MAX * 2], all[NODES_MAX * 2] = {0}, count, operations = 0;
        assert_true(tryst_profile_nodes(profile) <= NODES_MAX * 2);
        if (tryst_profile_fuse(profile, &params, groups, &count) != TRYST_OK)
            fail_msg("%s", tryst_last_error());
        for (uint32_t i = 0; i < tryst_profile_nodes(profile); i++)
            operations += groups[i] != UINT32_MAX;
        joined += count == 1 && operations > 1;
        alone += count == operations && operations > 1;
        double seconds = seconds_with(profile, params, groups);
        assert_float_equal(seconds, search(profile, &params, all, 0, 0), 1e-6);
        tryst_profile_close(profile);
    }
    assert_true(joined > 0 && alone > 0); /* both ends occur */
}

/* Two operations that cost 1 s each beside their bytes. */
/* A chain of actions with operations that are needed anywhere behind them, in some steps
 * one operation behind another one. */
static tryst_profile *any_draw(struct random *random)
{
    struct writer writer = {.bytes = 0};
    unsigned actions = 2 + draw(random, 6);
    write_text(&writer, "{\"tryst_profile\":1,\"nodes\":[");
    for (unsigned i = 0; i < actions; i++) {
        write_text(&writer, "{\"name\":\"a%u\",\"seconds\":%u", i, draw(random, 5));
        if (i > 0)
            write_text(&writer, ",\"after\":[\"a%u\"", i - 1);
        for (unsigned k = 0; k < i; k++)
            if (draw(random, 3) == 0)
                write_text(&writer, ",\"g%u\"", k);
        write_text(&writer, "%s},{\"name\":\"g%u\",\"bytes\":%u,\"after\":[\"a%u\"",
                   i > 0 ? "]" : "", i, draw(random, 5), i);
        if (i > 0 && draw(random, 6) == 0)
            write_text(&writer, ",\"g%u\"", draw(random, i));
        write_text(&writer, "]},");
    }
    return writer_parse(&writer);
}

/* Where joins may cost more than they save, or are not possible, the step is still not
 * longer than with each operation alone. */
static void others(void **state)
{
    struct random random;
    unsigned joined = 0;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 2000; round++) {
        tryst_profile *profile = any_draw(&random);
        uint32_t groups[64], count;
        assert_in_range(tryst_profile_nodes(profile), 1, COUNT_OF(groups));
        tryst_profile_params params = {.struct_size = sizeof params,
                                       .bytes_per_s = 1 + draw(&random, 3),
                                       .overhead_s = draw(&random, 4),
                                       .order = TRYST_PROFILE_PREEMPT};
        tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
        assert_int_equal(tryst_profile_fuse(profile, &params, groups, &count), TRYST_OK);
        assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_OK);
        double alone_s = replayed.seconds;
        params.groups = groups;
        assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_OK);
        assert_true(replayed.seconds <= alone_s + 1e-9);
        joined += replayed.seconds < alone_s - 1e-9;
        tryst_profile_close(profile);
    }
    assert_true(joined > 100);
}

static void arguments(void **state)
{
    static const char text[] =
        "{\"tryst_profile\":1,\"nodes\":[{\"name\":\"a\",\"bytes\":1},"
        "{\"name\":\"b\",\"bytes\":1},{\"name\":\"c\",\"seconds\":1,\"after\":[\"a\"]}]}";
    tryst_profile_params params = {.struct_size = sizeof params,
                                   .bytes_per_s = 1,
                                   .overhead_s = 1,
                                   .order = TRYST_PROFILE_PREEMPT};
    tryst_profile_replayed replayed = {.struct_size = sizeof replayed};
    tryst_profile *profile;
    uint32_t groups[3] = {0}, count;
    assert_int_equal(tryst_profile_parse(text, sizeof text - 1, "p", &profile), TRYST_OK);
    assert_int_equal(tryst_profile_fuse(profile, &params, groups, &count), TRYST_OK);
    assert_int_equal(groups[2], UINT32_MAX);
    assert_float_equal(seconds_with(profile, params, NULL), 4, 1e-9);
    assert_float_equal(seconds_with(profile, params, (uint32_t[]){2, 2, 9}), 4, 1e-9);
    assert_float_equal(seconds_with(profile, params, (uint32_t[]){2, 1, 0}), 4, 1e-9);
    params.groups = (uint32_t[]){0, 3, 0};
    assert_int_equal(tryst_profile_replay(profile, &params, &replayed), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "the group of operation 1 is 3"));
    assert_int_equal(tryst_profile_fuse(NULL, &params, groups, &count), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_fuse(profile, NULL, groups, &count), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_fuse(profile, &params, NULL, &count), TRYST_E_INVALID);
    assert_int_equal(tryst_profile_fuse(profile, &params, groups, NULL), TRYST_E_INVALID);
    params.overhead_s = -1;
    assert_int_equal(tryst_profile_fuse(profile, &params, groups, &count),
                     TRYST_E_INVALID);
    tryst_profile_close(profile);
}

static void memory_may_fail(void **state)
{
    static const char text[] =
        "{\"tryst_profile\":1,\"nodes\":[{\"name\":\"a\",\"bytes\":1}]}";
    tryst_profile_params params = {.struct_size = sizeof params, .bytes_per_s = 1};
    for (uint64_t n = 1;; n++) {
        tryst_profile *profile;
        uint32_t groups[1], count;
        uint64_t before = alloc_live_count();
        assert_int_equal(tryst_profile_parse(text, sizeof text - 1, "p", &profile),
                         TRYST_OK);
        alloc_fail_at(n);
        tryst_status status = tryst_profile_fuse(profile, &params, groups, &count);
        bool failed = alloc_fail_off();
        tryst_profile_close(profile);
        assert_int_equal(alloc_live_count(), before);
        assert_int_equal(status, failed ? TRYST_E_NOMEM : TRYST_OK);
        if (!failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains),
        cmocka_unit_test(others),
        cmocka_unit_test(arguments),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
