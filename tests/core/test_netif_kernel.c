/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces of a real kernel: in a separate network namespace where that is permitted
 * (label lab), else at least the loopback. The namespace ends with this process. */
#include "support/unit.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/net/netif.h"

static bool in_namespace;

static const struct netif *item_find(const struct netif_list *list, const char *address)
{
    for (size_t i = 0; i < list->count; i++) {
        char text[NETIF_TEXT_BYTES];
        const struct sockaddr *at = (const struct sockaddr *)&list->items[i].address;
        if (strcmp(netif_address_text(at, text), address) == 0)
            return &list->items[i];
    }
    return NULL;
}

static void loopback_is_there(void **state)
{
    struct netif_list *list = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(netif_list_open(&err, &list), TRYST_OK);
    const struct netif *lo = item_find(list, "127.0.0.1");
    if (!lo) {
        netif_list_close(list);
        print_message("skipped: the loopback has no address here\n");
        skip();
    }
    assert_true(lo->loopback && lo->up);
    assert_int_equal(lo->prefix_bits, 8);
    assert_int_equal(lo->speed_bits_per_s, 0);
    netif_list_close(list);
}

static tryst_status open_and_close(void)
{
    struct netif_list *list = NULL;
    tryst_status status = netif_list_open(NULL, &list);
    if (status == TRYST_OK)
        netif_list_close(list);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    WALK_ALLOCATIONS(open_and_close());
}

static void namespace_needed(void)
{
    if (in_namespace)
        return;
    print_message("skipped: no network namespace of our own is permitted here\n");
    skip();
}

static void addresses_of_the_lab(void **state)
{
    struct netif_list *list = NULL;
    struct err err = ERR_INIT;
    namespace_needed();
    assert_int_equal(netif_list_open(&err, &list), TRYST_OK);
    const struct netif *v4 = item_find(list, "10.9.0.1"),
                       *v6 = item_find(list, "fd00:9::1");
    const struct netif *down = item_find(list, "10.10.0.1");
    assert_true(v4 && v6 && down);
    assert_string_equal(v4->name, "a0");
    assert_int_equal(v4->mtu, 1400);
    assert_int_equal(v4->prefix_bits, 24);
    assert_int_equal(v4->default_metric, 100);
    assert_int_equal(v6->prefix_bits, 64);
    assert_int_equal(v6->index, v4->index);
    assert_true(v4->up && !v4->loopback && !down->up);
    assert_true(v4->speed_bits_per_s > 0); /* veth reports 10 Gbit/s */
    netif_list_close(list);
}

static int lab_open(void **state)
{
    static const char *const commands[] = {
        "ip link set lo up",
        "ip link add a0 type veth peer name b0",
        "ip link set b0 up",
        "ip link set a0 up mtu 1400",
        "ip addr add 10.9.0.1/24 dev a0",
        "ip -6 addr add fd00:9::1/64 dev a0 nodad",
        "ip link add c0 type veth peer name d0",
        "ip addr add 10.10.0.1/16 dev c0",
        "ip route add default via 10.9.0.254 metric 100",
        "ip -6 route add default via fd00:9::fe",
    };
    if (unshare(CLONE_NEWNET) != 0)
        return 0;
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (system(commands[i]) != 0) {
            print_message("this did not work: %s\n", commands[i]);
            return 0;
        }
    in_namespace = true;
    return 0;
}

int main(void)
{
    const struct CMUnitTest anywhere[] = {
        cmocka_unit_test(loopback_is_there),
        cmocka_unit_test(every_allocation_may_fail),
    };
    const struct CMUnitTest lab[] = {
        cmocka_unit_test(loopback_is_there),
        cmocka_unit_test(addresses_of_the_lab),
        cmocka_unit_test(every_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(anywhere, NULL, NULL);
    return failed + cmocka_run_group_tests(lab, lab_open, NULL);
}
