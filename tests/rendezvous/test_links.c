/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that come, leave and die before all their links are up: nobody who left is called dead,
 * nobody who died is called anything else, and an abort reaches those who come late. */
#include "world.h"

#define LARGE (64u << 10) /* beyond eager_max */

static struct world world;
static uint8_t out[1 << 16];

/* The operation failed because of rank `rank`, of which `text` is said. */
static void check_failed(tryst_op *op, int rank, const char *text)
{
    tryst_error error;
    assert_int_equal(tryst_op_error(op, &error), TRYST_E_PEER);
    assert_int_equal(error.origin_rank, rank);
    if (!strstr(error.text, text))
        fail_msg("%s", error.text);
    tryst_op_release(op);
}

/* A listener whose queue is full is tried again, up to the deadline. */
static void test_connect_again(void **state)
{
    static const struct world_setting settings[] = {{"connect_timeout", "5s"}, {0}};
    for (int never = 0; never < 2; never++) {
        world_open(&world, 3, settings);
        world_settle(&world);
        tryst_step *step = world_step(&world, 1, 1);
        tryst_op *send =
            world_send(&world, 1, step, world_key(&world, 1, 2, "a"), out, LARGE, NULL);
        world.link_again = never ? UINT32_MAX : 3;
        world_settle(&world);
        assert_int_equal(world_peer(&world, 1, 2)->link_state, PEER_LINK_CONNECTING);
        for (int i = 0; i < 12; i++)
            world_advance(&world, NS_PER_S / 2);
        if (never)
            check_failed(send, 2,
                         "could not be connected to within TRYST_CONNECT_TIMEOUT");
        else
            assert_int_equal(world_peer(&world, 1, 2)->ep_state, PEER_EP_READY);
        tryst_step_close(step, NULL);
        world_settle(&world);
        if (!never)
            world_done(send, TRYST_E_CANCELED);
        world_close(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_connect_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
