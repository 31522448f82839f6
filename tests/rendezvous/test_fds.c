/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that a peer sends where none belongs. */
#include "world.h"

#include "core/os/clock.h"
#include "core/os/foreign_fd.h"
#include "support/lingering.h"

static struct world world;

/* A descriptor with a message that has none, or for a transport that takes none: the peer
 * is given up. The close of such a descriptor may block, so the thread does it. */
static void test_descriptors(void **state)
{
    static const struct {
        uint8_t type;
        size_t bytes;
        bool faulty;
    } rows[] = {{LINK_HEARTBEAT, sizeof(struct link_heartbeat), true},
                {LINK_EP_OPEN, sizeof(struct link_ep), true},
                {LINK_DOORBELL, 0, true},
                {LINK_EP_MESSAGE, sizeof(struct link_ep), true},
                {LINK_EP_MESSAGE, sizeof(struct link_ep) - 1, false}};
    static const uint8_t zeros[64];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lingering socket = lingering_make();
        int fd = lingering_wrap(socket);
        world_open(&world, 2, NULL);
        world_join(&world, 0, 1);
        world.sides[1].still = true;
        struct peer *enemy = world_peer(&world, 0, 1);
        struct link *link = world_peer(&world, 1, 0)->link.link;
        assert_int_equal(link_send(link, rows[i].type, zeros, rows[i].bytes, fd),
                         TRYST_OK);
        close(fd);
        world_settle(&world);
        assert_false(foreign_fds_wait(0)); /* it still blocks, in the thread */
        assert_int_equal(enemy->life == PEER_ALIVE, !rows[i].faulty);
        if (rows[i].faulty)
            assert_non_null(strstr(enemy->liveness.gone_text, "sent a descriptor"));
        world_close(&world);
        close(socket.other);
        assert_true(foreign_fds_wait(10 * NS_PER_S));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_descriptors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
