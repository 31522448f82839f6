/* SPDX-License-Identifier: Apache-2.0 */
/* Lines "name=value" are set, or refused with an error text. The value of a setting reads
 * back, and its printed form parses to the same value. The settings with grammars of
 * their own (TRYST_NET, TRYST_PORT_RANGE) go to their parsers. */
#include "fuzz.h"

#include <arpa/inet.h>

#include "core/config/config.h"
#include "core/net/netif.h"
#include "core/net/netif_choose.h"
#include "core/net/port_range.h"

static struct netif_list *interfaces;

static void interfaces_make(void)
{
    static const struct {
        const char *name, *address;
        uint32_t prefix_bits;
    } rows[] = {{"lo", "127.0.0.1", 8},     {"eth0", "10.0.0.7", 24},
                {"eth0", "fd00::7", 64},    {"eth0", "fe80::7", 64},
                {"ib0", "192.168.7.1", 16}, {"docker0", "172.17.0.1", 16}};
    size_t count = sizeof rows / sizeof *rows;
    interfaces = calloc(1, sizeof *interfaces + count * sizeof interfaces->items[0]);
    FUZZ_CHECK(interfaces != NULL);
    interfaces->count = count;
    for (size_t i = 0; i < count; i++) {
        struct netif *item = &interfaces->items[i];
        struct sockaddr_in *v4 = (void *)&item->address;
        struct sockaddr_in6 *v6 = (void *)&item->address;
        item->family = strchr(rows[i].address, ':') ? AF_INET6 : AF_INET;
        item->address.ss_family = (sa_family_t)item->family;
        inet_pton(item->family, rows[i].address,
                  item->family == AF_INET ? (void *)&v4->sin_addr
                                          : (void *)&v6->sin6_addr);
        snprintf(item->name, sizeof item->name, "%s", rows[i].name);
        item->prefix_bits = rows[i].prefix_bits;
        item->up = true;
        item->loopback = i == 0;
    }
}

/* Check that an accepted value prints as a text that parses to the value. */
static void number_check(struct config *config, const char *name)
{
    uint64_t value, again;
    char text[64];
    if (!config_get_number(config, name, &value))
        return;
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (strcasecmp(config_name(id), name) != 0 &&
            strcasecmp(config_environment(id), name) != 0)
            continue;
        config_format(id, value, text, sizeof text);
        FUZZ_CHECK(config_set(config, config_name(id), text, NULL) == TRYST_OK);
        FUZZ_CHECK(config_get_number(config, name, &again) && again == value);
    }
}

static void line_set(struct config *config, char *line)
{
    struct err err = ERR_INIT;
    char *value = strchr(line, '=');
    if (!value)
        return;
    *value++ = '\0';
    tryst_status status = config_set(config, line, value, &err);
    FUZZ_CHECK(status == TRYST_OK || (status == TRYST_E_CONFIG && err.text[0]));
    if (status == TRYST_OK) {
        FUZZ_CHECK(strcmp(config_get_string(config, line), value) == 0);
        number_check(config, line);
    }
}

static void grammars_read(struct config *config, const char *text)
{
    struct err err = ERR_INIT;
    struct port_range ports;
    struct netif_list *chosen;
    tryst_status status = port_range_parse(text, &err, &ports);
    FUZZ_CHECK(status == TRYST_OK || (status == TRYST_E_CONFIG && err.text[0]));
    FUZZ_CHECK(status != TRYST_OK || ports.first <= ports.last);
    status = netif_select(interfaces, text, &err, &chosen);
    FUZZ_CHECK(status == TRYST_OK || (status == TRYST_E_CONFIG && err.text[0]));
    if (status == TRYST_OK)
        netif_list_close(chosen);
    /* A size and a time, whatever the line of settings was. */
    (void)config_set(config, "window_bytes", text, NULL);
    (void)config_set(config, "connect_timeout", text, NULL);
}

static int item_size_add(void *arg, const tryst_config_item *item)
{
    *(size_t *)arg += strlen(item->name) + strlen(item->value);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes), *rest = text, *line;
    struct config *config, *copy;
    struct config_difference difference;
    uint64_t values[2][CONFIG_COUNT];
    size_t seen = 0;
    if (!interfaces)
        interfaces_make();
    FUZZ_CHECK(config_open_defaults(&config) == TRYST_OK);
    grammars_read(config, text);
    while ((line = strsep(&rest, "\n")) != NULL)
        line_set(config, line);
    FUZZ_CHECK(config_copy(config, &copy) == TRYST_OK);
    size_t count = config_agreed(config, values[0], CONFIG_COUNT);
    FUZZ_CHECK(config_agreed(copy, values[1], CONFIG_COUNT) == count);
    FUZZ_CHECK(!config_agreed_differ(values[0], values[1], count, &difference));
    FUZZ_CHECK(config_visit(copy, item_size_add, &seen) == 0 && seen > 0);
    config_close(copy);
    config_close(config);
    free(text);
    return 0;
}
