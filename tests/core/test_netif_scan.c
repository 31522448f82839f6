/* SPDX-License-Identifier: Apache-2.0 */
/* From captured netlink bytes to a list of interfaces; and the same bytes, damaged. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/net/netif_scan.h"
#include "core/os/random.h"
#include "netlink_captured.h"

static const struct {
    const uint8_t *data;
    size_t bytes;
} captures[] = {{captured_links, sizeof captured_links},
                {captured_addresses, sizeof captured_addresses},
                {captured_routes4, sizeof captured_routes4},
                {captured_routes6, sizeof captured_routes6}};

static tryst_status captures_scan(struct netif_list **list_p)
{
    struct netif_scan scan = {0};
    tryst_status status = TRYST_OK;
    int error = 0;
    for (size_t i = 0; i < COUNT_OF(captures) && status == TRYST_OK; i++) {
        enum netlink_end end =
            netlink_walk(captures[i].data, captures[i].bytes, (uint32_t)i + 1,
                         netif_scan_message, &scan, &status, &error);
        if (status == TRYST_OK)
            assert_int_equal(end, NETLINK_DONE);
    }
    if (status == TRYST_OK)
        status = netif_scan_list(&scan, list_p);
    netif_scan_wipe(&scan);
    return status;
}

static void captured_bytes_give_the_list(void **state)
{
    static const struct {
        const char *name, *address;
        uint32_t prefix_bits, mtu, metric;
        bool up, loopback, scoped;
    } expected[] = {
        {"lo", "127.0.0.1", 8, 65536, NETIF_NO_DEFAULT, true, true, false},
        {"lo", "::1", 128, 65536, NETIF_NO_DEFAULT, true, true, false},
        {"a0", "10.9.0.1", 24, 1400, 100, true, false, false},
        {"a0", "10.9.0.9", 24, 1400, 100, true, false, false},
        {"a0", "fd00:9::1", 64, 1400, 50, true, false, false},
        {"a0", "fe80::ff:fe00:1", 64, 1400, 50, true, false, true},
        {"c0", "10.10.0.1", 16, 1500, NETIF_NO_DEFAULT, false, false, false},
        {"p0", "10.11.0.1", 32, 1500, NETIF_NO_DEFAULT, true, false, false},
        {"p0", "fe80::ff:fe00:4", 64, 1500, NETIF_NO_DEFAULT, true, false, true},
    };
    struct netif_list *list = NULL;
    assert_int_equal(captures_scan(&list), TRYST_OK);
    assert_int_equal(list->count, COUNT_OF(expected));
    for (size_t i = 0; i < list->count; i++) {
        const struct netif *item = &list->items[i];
        char text[INET6_ADDRSTRLEN];
        const struct sockaddr_in6 *v6 = (const void *)&item->address;
        const void *bytes =
            item->family == AF_INET
                ? (const void *)&((struct sockaddr_in *)&item->address)->sin_addr
                : (const void *)&v6->sin6_addr;
        assert_string_equal(item->name, expected[i].name);
        assert_non_null(inet_ntop(item->family, bytes, text, sizeof text));
        assert_string_equal(text, expected[i].address);
        assert_int_equal(item->address.ss_family, item->family);
        assert_int_equal(item->prefix_bits, expected[i].prefix_bits);
        assert_int_equal(item->mtu, expected[i].mtu);
        assert_int_equal(item->default_metric, expected[i].metric);
        assert_int_equal(item->up, expected[i].up);
        assert_int_equal(item->loopback, expected[i].loopback);
        if (item->family == AF_INET6)
            assert_int_equal(v6->sin6_scope_id, expected[i].scoped ? item->index : 0);
    }
    netif_list_close(list);
}

static tryst_status scan_and_close(void)
{
    struct netif_list *list = NULL;
    tryst_status status = captures_scan(&list);
    if (status == TRYST_OK)
        netif_list_close(list);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    WALK_ALLOCATIONS(scan_and_close());
}

static tryst_status count_messages(void *arg, const struct nlmsghdr *message)
{
    (void)message;
    ++*(int *)arg;
    return TRYST_OK;
}

static void messages_of_others_are_passed_over(void **state)
{
    tryst_status status;
    int error = 0, count = 0;
    assert_int_equal(netlink_walk(captured_links, sizeof captured_links, 77,
                                  count_messages, &count, &status, &error),
                     NETLINK_MORE);
    assert_int_equal(count, 0);
    assert_int_equal(netlink_walk(captured_links, sizeof captured_links, 1,
                                  count_messages, &count, &status, &error),
                     NETLINK_DONE);
    assert_int_equal(count, 4);
}

static void refusals_and_interruptions_are_seen(void **state)
{
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } refusal = {.header = {.nlmsg_len = sizeof refusal,
                            .nlmsg_type = NLMSG_ERROR,
                            .nlmsg_seq = 5},
                 .error = {.error = -EPERM}};
    struct nlmsghdr done = {.nlmsg_len = sizeof done,
                            .nlmsg_type = NLMSG_DONE,
                            .nlmsg_seq = 5,
                            .nlmsg_flags = NLM_F_MULTI | NLM_F_DUMP_INTR};
    tryst_status status;
    int error = 0, count = 0;
    assert_int_equal(netlink_walk(&refusal, sizeof refusal, 5, count_messages, &count,
                                  &status, &error),
                     NETLINK_ERROR);
    assert_int_equal(error, EPERM);
    assert_int_equal(
        netlink_walk(&done, sizeof done, 5, count_messages, &count, &status, &error),
        NETLINK_INTERRUPTED);
    /* An error message without room for its number. */
    refusal.header.nlmsg_len = sizeof refusal.header;
    assert_int_equal(netlink_walk(&refusal, sizeof refusal.header, 5, count_messages,
                                  &count, &status, &error),
                     NETLINK_ERROR);
    assert_int_equal(count, 0);
}

/* Truncated and flipped bytes: nothing behind the end is read (the sanitizers detect it),
 * and any resulting list is consistent. */
static void damaged_bytes_do_no_harm(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < 3000; round++) {
        struct netif_scan scan = {0};
        struct netif_list *list = NULL;
        for (size_t i = 0; i < COUNT_OF(captures); i++) {
            size_t bytes = (size_t)random_range(&random, captures[i].bytes + 1);
            uint8_t *data = malloc(bytes + 1);
            tryst_status status;
            int error = 0;
            memcpy(data, captures[i].data, bytes);
            for (int flip = 0; bytes && flip < 8; flip++)
                data[random_range(&random, bytes)] = (uint8_t)random_u64(&random);
            netlink_walk(data, bytes, (uint32_t)i + 1, netif_scan_message, &scan, &status,
                         &error);
            free(data);
        }
        assert_int_equal(netif_scan_list(&scan, &list), TRYST_OK);
        for (size_t i = 0; i < list->count; i++) {
            const struct netif *item = &list->items[i];
            assert_true(item->family == AF_INET || item->family == AF_INET6);
            assert_true(item->prefix_bits <= (item->family == AF_INET ? 32 : 128));
            assert_true(memchr(item->name, '\0', sizeof item->name) != NULL);
        }
        netif_list_close(list);
        netif_scan_wipe(&scan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_bytes_give_the_list),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(messages_of_others_are_passed_over),
        cmocka_unit_test(refusals_and_interruptions_are_seen),
        cmocka_unit_test(damaged_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
