/* SPDX-License-Identifier: Apache-2.0 */
/* TRYST_NET and TRYST_PORT_RANGE, as tables. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/net/netif_choose.h"
#include "core/net/port_range.h"

/* "eth0 10.0.0.1/24 up 10G": name, address, flags (up, down, lo, tunnel, default: the
 * default route's), speed in Gbit/s. */
struct entry {
    const char *name, *address;
    unsigned prefix_bits;
    const char *flags;
    unsigned gigabits;
};

#define ENTRIES_MAX 8

static struct netif_list *host_make(const struct entry *entries)
{
    struct netif_list *list =
        test_calloc(1, sizeof *list + ENTRIES_MAX * sizeof list->items[0]);
    for (size_t i = 0; i < ENTRIES_MAX && entries[i].name; i++) {
        struct netif *item = &list->items[list->count++];
        struct sockaddr_in *v4 = (void *)&item->address;
        struct sockaddr_in6 *v6 = (void *)&item->address;
        snprintf(item->name, sizeof item->name, "%s", entries[i].name);
        item->family = strchr(entries[i].address, ':') ? AF_INET6 : AF_INET;
        item->address.ss_family = (sa_family_t)item->family;
        assert_int_equal(inet_pton(item->family, entries[i].address,
                                   item->family == AF_INET ? (void *)&v4->sin_addr
                                                           : (void *)&v6->sin6_addr),
                         1);
        item->index = (uint32_t)i + 1;
        item->prefix_bits = entries[i].prefix_bits;
        item->up = strcmp(entries[i].flags, "down") != 0;
        item->loopback = strcmp(entries[i].flags, "lo") == 0;
        item->tunnel = strcmp(entries[i].flags, "tunnel") == 0;
        item->default_metric =
            strcmp(entries[i].flags, "default") == 0 ? 100 : NETIF_NO_DEFAULT;
        item->speed_bits_per_s = entries[i].gigabits * 1000000000ull;
    }
    return list;
}

static const struct entry machine[ENTRIES_MAX] = {
    {"lo", "127.0.0.1", 8, "lo", 0},        {"lo", "::1", 128, "lo", 0},
    {"eth0", "10.0.0.1", 24, "up", 10},     {"eth0", "fd00::1", 64, "up", 10},
    {"eth0", "fe80::1", 64, "up", 10},      {"ib0", "192.168.7.1", 16, "up", 100},
    {"docker0", "172.17.0.1", 16, "up", 0}, {"eth1", "10.0.1.1", 24, "down", 10},
};

/* Write the addresses of a selection, separated by blanks. */
static void selection_text(const struct netif_list *list, char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        char address[NETIF_TEXT_BYTES];
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", i ? " " : "",
                 netif_address_text((struct sockaddr *)&list->items[i].address, address));
    }
}

static void what_tryst_net_selects(void **state)
{
    static const struct {
        const char *wanted, *selected; /* the selection, or the error's text */
        tryst_status status;
    } cases[] = {
        {NULL, "10.0.0.1 fd00::1 192.168.7.1", TRYST_OK},
        {"", "10.0.0.1 fd00::1 192.168.7.1", TRYST_OK},
        {" , ", "10.0.0.1 fd00::1 192.168.7.1", TRYST_OK},
        {"eth0", "10.0.0.1 fd00::1", TRYST_OK},
        {"ib0,eth0", "10.0.0.1 fd00::1 192.168.7.1", TRYST_OK},
        {"eth0, eth0", "10.0.0.1 fd00::1", TRYST_OK},
        {"10.0.0.0/8", "10.0.0.1", TRYST_OK},
        {"10.0.0.0/8,fd00::/8", "10.0.0.1 fd00::1", TRYST_OK},
        {"192.168.7.1", "192.168.7.1", TRYST_OK},
        {"fd00::1", "fd00::1", TRYST_OK},
        {"lo", "127.0.0.1 ::1", TRYST_OK},
        {"127.0.0.0/8", "127.0.0.1", TRYST_OK},
        {"docker0", "172.17.0.1", TRYST_OK},
        {"fe80::/10", "fe80::1", TRYST_OK},
        {"0.0.0.0/0", "127.0.0.1 10.0.0.1 192.168.7.1 172.17.0.1", TRYST_OK},
        {"eth7", "'eth7' matches no interface", TRYST_E_CONFIG},
        {"eth", "'eth' matches no interface", TRYST_E_CONFIG},
        {"eth0,eth7", "'eth7' matches no interface", TRYST_E_CONFIG},
        {"eth1", "'eth1' names only interfaces that are down", TRYST_E_CONFIG},
        {"10.0.1.0/24", "'10.0.1.0/24' names only interfaces that are down",
         TRYST_E_CONFIG},
        {"11.0.0.0/8", "'11.0.0.0/8' matches no interface", TRYST_E_CONFIG},
        {"10.0.0.0/33", "'10.0.0.0/33' is not a CIDR block", TRYST_E_CONFIG},
        {"10.0.0.0/", "'10.0.0.0/' is not a CIDR block", TRYST_E_CONFIG},
        {"10.0.0/8", "'10.0.0/8' is not a CIDR block", TRYST_E_CONFIG},
        {"fd00::/129", "'fd00::/129' is not a CIDR block", TRYST_E_CONFIG},
        {"10.0.0.0/8x", "'10.0.0.0/8x' is not a CIDR block", TRYST_E_CONFIG},
        {"10.0.0.0/-1", "'10.0.0.0/-1' is not a CIDR block", TRYST_E_CONFIG},
    };
    struct netif_list *list = host_make(machine);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct netif_list *selected = NULL;
        struct err err = ERR_INIT;
        tryst_status status = netif_select(list, cases[i].wanted, &err, &selected);
        if (status != cases[i].status)
            print_error("case %zu: %s\n", i, err.text);
        assert_int_equal(status, cases[i].status);
        if (status != TRYST_OK) {
            assert_non_null(strstr(err.text, cases[i].selected));
            assert_non_null(strstr(err.text, "eth0 10.0.0.1/24"));
            assert_non_null(strstr(err.text, "eth1 10.0.1.1/24 (down)"));
            continue;
        }
        char text[512];
        selection_text(selected, text, sizeof text);
        assert_string_equal(text, cases[i].selected);
        netif_list_close(selected);
    }
    test_free(list);
}

static void what_is_chosen_where_there_is_little(void **state)
{
    static const struct {
        struct entry entries[ENTRIES_MAX];
        const char *wanted, *selected;
    } cases[] = {
        {{{"lo", "127.0.0.1", 8, "lo", 0}}, NULL, "127.0.0.1"},
        {{{"lo", "127.0.0.1", 8, "lo", 0}, {"eth0", "10.0.0.1", 24, "down", 0}},
         NULL,
         "127.0.0.1"},
        {{{"lo", "127.0.0.1", 8, "lo", 0}, {"docker0", "172.17.0.1", 16, "up", 0}},
         NULL,
         "172.17.0.1"},
        {{{"lo", "127.0.0.1", 8, "lo", 0}, {"eth0", "fe80::5", 64, "up", 0}},
         NULL,
         "fe80::5"},
        {{{"lo", "127.0.0.1", 8, "lo", 0}, {"docker0", "fe80::5", 64, "up", 0}},
         NULL,
         "127.0.0.1"},
        {{{"lo", "127.0.0.1", 8, "lo", 0}, {"eth0", "fe80::5", 64, "up", 0}},
         "eth0",
         "fe80::5"},
        /* IPv4 link-local: alone, beside a network, beside a bridge */
        {{{"lo", "127.0.0.1", 8, "lo", 0}, {"eth0", "169.254.7.1", 16, "up", 0}},
         NULL,
         "169.254.7.1"},
        {{{"lo", "127.0.0.1", 8, "lo", 0},
          {"eth0", "10.0.0.1", 24, "up", 0},
          {"usb0", "169.254.3.1", 24, "up", 0}},
         NULL,
         "10.0.0.1"},
        {{{"usb0", "169.254.3.1", 24, "up", 0}, {"nerdctl0", "10.4.0.1", 24, "up", 0}},
         NULL,
         "10.4.0.1"},
        /* a routed host: its address is on lo */
        {{{"lo", "10.0.0.1", 32, "lo", 0},
          {"lo", "127.0.0.1", 8, "lo", 0},
          {"lo", "::1", 128, "lo", 0},
          {"eth0", "169.254.7.1", 16, "up", 0},
          {"eth0", "fe80::5", 64, "up", 0}},
         NULL,
         "10.0.0.1"},
        {{{"lo", "127.0.0.1", 8, "lo", 0},
          {"lo", "fd00::1", 128, "lo", 0},
          {"eth0", "10.0.0.1", 31, "up", 0}},
         NULL,
         "fd00::1 10.0.0.1"},
        {{{NULL, NULL, 0, NULL, 0}}, NULL, ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct netif_list *list = host_make(cases[i].entries), *selected = NULL;
        char text[512];
        assert_int_equal(netif_select(list, cases[i].wanted, NULL, &selected), TRYST_OK);
        selection_text(selected, text, sizeof text);
        assert_string_equal(text, cases[i].selected);
        netif_list_close(selected);
        test_free(list);
    }
}

static tryst_status select_and_close(const struct netif_list *list)
{
    struct netif_list *selected = NULL;
    tryst_status status = netif_select(list, "eth0", NULL, &selected);
    netif_list_close(selected);
    return status;
}

static void selection_without_memory(void **state)
{
    struct netif_list *list = host_make(machine);
    WALK_ALLOCATIONS(select_and_close(list));
    test_free(list);
}

static void prefixes_hold_addresses(void **state)
{
    static const struct {
        const char *block, *address;
        uint32_t bits;
        bool holds;
    } cases[] = {
        {"10.0.0.0", "10.255.0.1", 8, true}, {"10.0.0.0", "11.0.0.1", 8, false},
        {"10.0.0.0", "10.0.0.1", 31, true},  {"10.0.0.0", "10.0.0.2", 31, false},
        {"10.0.0.1", "10.0.0.1", 32, true},  {"10.0.0.1", "10.0.0.1", 33, false},
        {"1.2.3.4", "250.0.0.1", 0, true},   {"fd00::", "fd12::1", 8, true},
        {"fd00::", "fe80::1", 8, false},     {"fd00::", "fd00::1", 127, true},
        {"fd00::", "fd00::2", 127, false},   {"::", "fd00::2", 129, false},
        {"0.0.0.0", "::1", 0, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct entry entries[ENTRIES_MAX] = {{"x", cases[i].block, 0, "up", 0},
                                             {"y", cases[i].address, 0, "up", 0}};
        struct netif_list *list = host_make(entries);
        assert_int_equal(netif_prefix_holds((struct sockaddr *)&list->items[0].address,
                                            cases[i].bits,
                                            (struct sockaddr *)&list->items[1].address),
                         cases[i].holds);
        test_free(list);
    }
}

static void public_addresses(void **state)
{
    static const struct {
        const char *address;
        bool is_public;
    } cases[] = {
        {"8.8.8.8", true},      {"9.255.255.255", true}, {"10.0.0.1", false},
        {"11.0.0.0", true},     {"100.63.0.1", true},    {"100.64.0.1", false},
        {"100.127.0.1", false}, {"100.128.0.1", true},   {"127.0.0.1", false},
        {"169.254.1.1", false}, {"172.15.0.1", true},    {"172.16.0.1", false},
        {"172.31.9.9", false},  {"172.32.0.1", true},    {"192.167.0.1", true},
        {"192.168.0.1", false}, {"192.169.0.1", true},   {"0.0.0.0", false},
        {"::1", false},         {"fe80::1", false},      {"fd12::1", false},
        {"2001:db8::1", true},  {"febf::1", false},      {"fec0::1", true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct entry entries[ENTRIES_MAX] = {{"x", cases[i].address, 0, "up", 0}};
        struct netif_list *list = host_make(entries);
        if (netif_address_is_public((struct sockaddr *)&list->items[0].address) !=
            cases[i].is_public)
            fail_msg("%s", cases[i].address);
        test_free(list);
    }
}

/* A rail for each interface and family: networks, then tunnels, then lo; the default
 * route's interface first. */
static void test_rails(void **state)
{
    static const struct {
        struct entry entries[ENTRIES_MAX];
        const char *rails;
    } cases[] = {
        {{{"lo", "10.9.9.9", 32, "lo", 0},
          {"lo", "127.0.0.1", 8, "lo", 0},
          {"tun0", "10.8.0.1", 24, "tunnel", 0},
          {"eth0", "10.0.0.1", 24, "up", 0},
          {"eth0", "10.0.0.9", 24, "up", 0},
          {"eth0", "fe80::1", 64, "up", 0},
          {"eth0", "fd00::1", 64, "up", 0},
          {"eth1", "10.0.1.1", 24, "default", 0}},
         "10.0.1.1 10.0.0.1 fd00::1 10.8.0.1 10.9.9.9"},
        {{{"eth0", "169.254.0.1", 16, "up", 0},
          {"eth0", "10.0.0.1", 24, "up", 0},
          {"eth1", "fe80::1", 64, "up", 0},
          {"eth1", "fe80::2", 64, "up", 0}},
         "10.0.0.1 fe80::1"},
    };
    char text[256];
    struct err err = ERR_INIT;
    struct netif_list *rails;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct netif_list *list = host_make(cases[i].entries);
        assert_int_equal(netif_rails(list, &err, &rails), TRYST_OK);
        selection_text(rails, text, sizeof text);
        assert_string_equal(text, cases[i].rails);
        netif_list_close(rails);
        uint64_t before = alloc_live_count();
        for (uint64_t nth = 1; nth <= 2; nth++) {
            alloc_fail_at(nth);
            assert_int_equal(netif_rails(list, &err, &rails), TRYST_E_NOMEM);
            assert_true(alloc_fail_off());
            assert_int_equal(alloc_live_count(), before);
        }
        test_free(list);
    }
}

static void test_port_range(void **state)
{
    static const struct {
        const char *text;
        uint16_t first, last; /* both 0 and accepted: any port */
        bool good;
    } cases[] = {
        {"", 0, 0, true},           {"30000-30099", 30000, 30099, true},
        {"4711", 4711, 4711, true}, {"1-65535", 1, 65535, true},
        {"7-7", 7, 7, true},        {"0", 0, 0, false},
        {"0-10", 0, 0, false},      {"10-9", 0, 0, false},
        {"1-65536", 0, 0, false},   {"-5", 0, 0, false},
        {"5-", 0, 0, false},        {"5-6-7", 0, 0, false},
        {" 5", 0, 0, false},        {"5 - 6", 0, 0, false},
        {"http", 0, 0, false},      {"00000000005", 0, 0, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err err = ERR_INIT;
        struct port_range range = {9, 9};
        tryst_status status = port_range_parse(cases[i].text, &err, &range);
        if ((status == TRYST_OK) != cases[i].good)
            fail_msg("'%s': status %d", cases[i].text, status);
        if (!cases[i].good) {
            assert_int_equal(status, TRYST_E_CONFIG);
            assert_non_null(strstr(err.text, "TRYST_PORT_RANGE"));
        } else {
            assert_int_equal(range.first, cases[i].first);
            assert_int_equal(range.last, cases[i].last);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rails),
        cmocka_unit_test(test_port_range),
        cmocka_unit_test(what_tryst_net_selects),
        cmocka_unit_test(what_is_chosen_where_there_is_little),
        cmocka_unit_test(selection_without_memory),
        cmocka_unit_test(prefixes_hold_addresses),
        cmocka_unit_test(public_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
