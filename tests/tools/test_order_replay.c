/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of a profile on a step with times that were computed by hand, and order_fuse
 * against all partitions of the operations, on random steps of data-parallel training. */
#include "order_check.h"

#include "tools/order/order.h"

/* ---- by hand ----------------------------------------------------------------------- */

/* A step of three layers. The backward pass takes 1 s a layer, the forward pass 2 s; the
 * network takes 3, 1 and 1 s for the gradients, which are ready after 1, 2 and 3 s. */
static const char step[] =
    NODES("{\"name\": \"b2\", \"seconds\": 1},"
          "{\"name\": \"g2\", \"bytes\": 3000, \"after\": [\"b2\"]},"
          "{\"name\": \"b1\", \"seconds\": 1, \"after\": [\"b2\"]},"
          "{\"name\": \"g1\", \"bytes\": 1000, \"after\": [\"b1\"]},"
          "{\"name\": \"b0\", \"seconds\": 1, \"after\": [\"b1\"]},"
          "{\"name\": \"g0\", \"bytes\": 1000, \"after\": [\"b0\"]},"
          "{\"name\": \"f0\", \"seconds\": 2, \"after\": [\"b0\", \"g0\"]},"
          "{\"name\": \"f1\", \"seconds\": 2, \"after\": [\"f0\", \"g1\"]},"
          "{\"name\": \"f2\", \"seconds\": 2, \"after\": [\"f1\", \"g2\"]}");

static const struct order_params kilo = {.network = {.bytes_per_s = 1000}};

static struct order_row replay(const struct order_profile *profile,
                               const struct order_params *params, enum order order)
{
    struct order_row row;
    assert_true(order_replay(profile, params, order, NULL, &row));
    return row;
}

/* FIFO sends g2 from 1 to 4, g1 to 5, g0 to 6: the end is at 6 + 6. PREEMPT sends g2 from
 * 1 to 2, g1 to 3, g0 to 4, the rest of g2 to 6: f0 runs to 6, f1 to 8, f2 to 10. */
static void orders(void **state)
{
    struct order_profile *profile = profile_parse(step);
    struct order_row fifo = replay(profile, &kilo, ORDER_FIFO),
                     whole = replay(profile, &kilo, ORDER_PRIORITY),
                     best = replay(profile, &kilo, ORDER_PREEMPT);
    near(fifo.seconds, 12);
    near(whole.seconds, 11); /* g2 to 4, g0 to 5, g1 to 6 */
    near(whole.spans[5].start_s, 4);
    near(best.seconds, 10);
    near(best.spans[1].start_s, 1);
    near(best.spans[1].end_s, 6);
    near(best.spans[5].ready_s, 3);
    assert_int_equal(best.pieces_count, 4);
    assert_int_equal(best.pieces[3].node, 1);
    near(best.pieces[3].from_s, 4);
    near(order_bound(profile, &kilo.network), 10);
    double *tails = order_tails(profile, &(struct oracle_network){1000, 0.5, 0});
    near(tails[1], 2.5);
    near(tails[5], 6.5);
    near(tails[8], 0);
    free(tails);
    order_row_free(&fifo);
    order_row_free(&whole);
    order_row_free(&best);
    order_profile_close(profile);
}

/* With buckets of 3,500 bytes after one of 1: {g2}, {g1, g0}. The second is ready at 3
 * and sent from 4 to 6; the forward pass begins then. One bucket of all is sent from 3
 * to 8. */
static void buckets(void **state)
{
    struct order_profile *profile = profile_parse(step);
    struct order_params params = kilo;
    params.bucket_bytes = 3500;
    params.first_bucket_bytes = 1;
    struct order_row row = replay(profile, &params, ORDER_BUCKETS);
    near(row.seconds, 12);
    near(row.spans[1].end_s, 4);
    near(row.spans[3].ready_s, 3);
    near(row.spans[5].start_s, 4);
    near(row.spans[3].end_s, 6);
    near(row.spans[6].start_s, 6);
    assert_int_equal(row.pieces_count, 2);
    assert_int_equal(row.pieces[1].node, 3);
    order_row_free(&row);
    params.first_bucket_bytes = 5000;
    row = replay(profile, &params, ORDER_BUCKETS);
    near(row.seconds, 14);
    order_row_free(&row);
    order_profile_close(profile);
    profile = profile_parse(NODES("{\"name\":\"a\",\"bytes\":1},"
                                  "{\"name\":\"b\",\"bytes\":1,\"after\":[\"a\"]}"));
    assert_false(order_replay(profile, &params, ORDER_BUCKETS, NULL, &row));
    row = replay(profile, &params, ORDER_PREEMPT);
    near(row.seconds, 0.002);
    order_row_free(&row);
    order_profile_close(profile);
}

/* ---- fusion ------------------------------------------------------------------------ */

enum { LAYERS_MAX = 4, OPERATIONS_MAX = 6, NODES_MAX = 64 };

struct writer {
    char text[4096];
    size_t bytes;
};

#define write_text(writer, ...)                         \
    ((writer)->bytes +=                                 \
     (size_t)snprintf((writer)->text + (writer)->bytes, \
                      sizeof(writer)->text - (writer)->bytes, __VA_ARGS__))

static struct order_profile *writer_parse(struct writer *writer)
{
    write_text(writer, "{\"name\":\"end\",\"seconds\":0}]}");
    struct order_profile *profile = profile_parse(writer->text);
    assert_true(profile->count <= NODES_MAX);
    return profile;
}

/* A chain of layers, backward and forward, with one or two gradients each. */
static struct order_profile *chain_draw(uint64_t *seed)
{
    struct writer writer = {.bytes = 0};
    unsigned layers = 1 + drawn(seed, LAYERS_MAX), second = 0;
    write_text(&writer, "{\"tryst_profile\":1,\"nodes\":[");
    for (unsigned i = layers; i-- > 0;) {
        write_text(&writer, "{\"name\":\"b%u\",\"seconds\":%u", i, drawn(seed, 5));
        if (i + 1 < layers)
            write_text(&writer, ",\"after\":[\"b%u\"]", i + 1);
        unsigned gradients = 1 + (second < OPERATIONS_MAX - LAYERS_MAX && drawn(seed, 2));
        second += gradients - 1;
        write_text(&writer, "},");
        for (unsigned g = 0; g < gradients; g++)
            write_text(&writer,
                       "{\"name\":\"g%u.%u\",\"bytes\":%u,\"after\":[\"b%u\"]},"
                       "{\"name\":\"u%u.%u\",\"seconds\":0,\"after\":[\"g%u.%u\"]},",
                       i, g, drawn(seed, 5), i, i, g, i, g);
        write_text(&writer, "{\"name\":\"f%u\",\"seconds\":%u,\"after\":[\"%c%u\"", i,
                   drawn(seed, 5), i > 0 ? 'f' : 'b', i > 0 ? i - 1 : 0);
        for (unsigned g = 0; g < gradients; g++)
            write_text(&writer, ",\"u%u.%u\"", i, g);
        write_text(&writer, "]},");
    }
    return writer_parse(&writer);
}

/* Return the time with the operations joined. */
static double seconds_with(const struct order_profile *profile,
                           const struct order_params *params,
                           const struct order_groups *groups)
{
    struct order_row row;
    assert_true(order_replay(profile, params, ORDER_PREEMPT, groups, &row));
    double seconds = row.seconds;
    order_row_free(&row);
    return seconds;
}

/* Return the shortest time over all partitions of the operations from node `i` on, where
 * those before are in `groups`. */
static double search(const struct order_profile *profile,
                     const struct order_params *params, struct order_groups *groups,
                     uint32_t i)
{
    double best = INFINITY;
    uint32_t used = groups->count;
    if (i == profile->count)
        return seconds_with(profile, params, groups);
    if (!profile->nodes[i].is_operation)
        return search(profile, params, groups, i + 1);
    for (uint32_t group = 0; group <= used; group++) {
        order_groups_put(groups, i, group);
        best = fmin(best, search(profile, params, groups, i + 1));
        groups->count = used;
    }
    return best;
}

static void chains(void **state)
{
    uint64_t seed = unit_seed();
    uint32_t joined = 0, alone = 0;
    for (uint64_t n = 0; n < unit_cases(1000); n++) {
        struct order_params params = {.network = {.bytes_per_s = 1,
                                                  .latency_s = drawn(&seed, 3),
                                                  .overhead_s = drawn(&seed, 4) * 0.5}};
        struct order_profile *profile = chain_draw(&seed);
        struct order_groups groups = order_fuse(profile, &params.network),
                            all = order_groups_open(profile);
        uint32_t operations = order_sum(profile).operations;
        joined += groups.count == 1 && operations > 1;
        alone += groups.count == operations && operations > 1;
        assert_float_equal(seconds_with(profile, &params, &groups),
                           search(profile, &params, &all, 0), 1e-6);
        order_groups_close(&groups);
        order_groups_close(&all);
        order_profile_close(profile);
    }
    assert_true(joined > 0 && alone > 0); /* both ends occur */
}

/* A chain of actions with operations that are needed anywhere behind them, in some steps
 * one operation behind another one. */
static struct order_profile *any_draw(uint64_t *seed)
{
    struct writer writer = {.bytes = 0};
    unsigned actions = 2 + drawn(seed, 6);
    write_text(&writer, "{\"tryst_profile\":1,\"nodes\":[");
    for (unsigned i = 0; i < actions; i++) {
        write_text(&writer, "{\"name\":\"a%u\",\"seconds\":%u", i, drawn(seed, 5));
        if (i > 0)
            write_text(&writer, ",\"after\":[\"a%u\"", i - 1);
        for (unsigned k = 0; k < i; k++)
            if (drawn(seed, 3) == 0)
                write_text(&writer, ",\"g%u\"", k);
        write_text(&writer, "%s},{\"name\":\"g%u\",\"bytes\":%u,\"after\":[\"a%u\"",
                   i > 0 ? "]" : "", i, drawn(seed, 5), i);
        if (i > 0 && drawn(seed, 6) == 0)
            write_text(&writer, ",\"g%u\"", drawn(seed, i));
        write_text(&writer, "]},");
    }
    return writer_parse(&writer);
}

/* Where joins may cost more than they save, or are not possible, the step is still not
 * longer than with each operation alone. */
static void others(void **state)
{
    uint64_t seed = unit_seed();
    unsigned joined = 0;
    for (int round = 0; round < 2000; round++) {
        struct order_profile *profile = any_draw(&seed);
        struct order_params params = {
            .network = {.bytes_per_s = 1 + drawn(&seed, 3),
                        .overhead_s = 0.5 * (1 + drawn(&seed, 6))}};
        struct order_figures figures = order_compute(profile, &params);
        assert_true(figures.fused_s <= figures.seconds[ORDER_PREEMPT] + 1e-9);
        joined += figures.fused_s < figures.seconds[ORDER_PREEMPT] - 1e-9;
        order_profile_close(profile);
    }
    assert_true(joined > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(buckets),
        cmocka_unit_test(chains),
        cmocka_unit_test(others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
