/* SPDX-License-Identifier: Apache-2.0 */
/* TRYST_PORT_RANGE: an invalid range is refused at tryst_open, a range without a free
 * port at tryst_group_open; both texts give a remedy. (tests/netlab/lab_ports.sh checks
 * that ranks listen on no other port.) */
#include "support/unit.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tryst/tryst.h>

static tryst_status open_with(const char *range, tryst_ctx **ctx_p)
{
    tryst_config *config;
    assert_int_equal(tryst_config_open(&config), TRYST_OK);
    assert_int_equal(tryst_config_set(config, "port_range", range), TRYST_OK);
    tryst_open_params params = {.struct_size = sizeof params, .config = config};
    tryst_status status = tryst_open(&params, ctx_p);
    tryst_config_close(config);
    return status;
}

static tryst_status group_with(const char *range)
{
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_group_params params = {.struct_size = sizeof params};
    assert_int_equal(open_with(range, &ctx), TRYST_OK);
    tryst_status status = tryst_group_open(ctx, &params, &group);
    if (status == TRYST_OK)
        tryst_group_close(group);
    tryst_close(ctx);
    return status;
}

static void test_no_range(void **state)
{
    tryst_ctx *ctx;
    assert_int_equal(open_with("9-1", &ctx), TRYST_E_CONFIG);
    assert_non_null(strstr(tryst_last_error(), "TRYST_PORT_RANGE='9-1'"));
    assert_non_null(strstr(tryst_last_error(), "30000-30099"));
}

/* One port, which another socket uses at every address and then frees. */
static void test_taken(void **state)
{
    char range[16];
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    snprintf(range, sizeof range, "%u", ntohs(at.sin_port));
    assert_int_equal(group_with(range), TRYST_E_SYSTEM);
    assert_non_null(strstr(tryst_last_error(), "TRYST_PORT_RANGE"));
    close(fd);
    assert_int_equal(group_with(range), TRYST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_range),
                                       cmocka_unit_test(test_taken)};
    return cmocka_run_group_tests_name("ports", tests, NULL, NULL);
}
