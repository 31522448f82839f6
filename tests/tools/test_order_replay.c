/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of a profile on a step with times that were computed by hand. */
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
    assert_true(order_replay(profile, params, order, &row));
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
    double *tails = order_tails(profile, &(struct oracle_network){1000, 0.5});
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
    assert_false(order_replay(profile, &params, ORDER_BUCKETS, &row));
    row = replay(profile, &params, ORDER_PREEMPT);
    near(row.seconds, 0.002);
    order_row_free(&row);
    order_profile_close(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders),
        cmocka_unit_test(buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
