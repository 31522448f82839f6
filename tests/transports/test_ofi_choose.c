/* SPDX-License-Identifier: Apache-2.0 */
/* Which of libfabric's descriptions is chosen, and when one is chosen for device memory.
 * The descriptions are synthetic, because no test machine has the hardware. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <netinet/in.h>
#include <string.h>

#include "support/unit.h"
#include "transports/ofi/ofi_choose.h"

enum { IP_OTHER = 0x0a000001, IP_LO = INADDR_LOOPBACK };

/* An fi_info and everything that it points to. */
struct made {
    struct fi_info info;
    struct fi_tx_attr tx;
    struct fi_rx_attr rx;
    struct fi_ep_attr ep;
    struct fi_domain_attr domain;
    struct fi_fabric_attr fabric;
    struct sockaddr_in address;
};

/* Make a description; `ip` 0: a device with non-IP addresses. */
static struct fi_info *make(struct made *made, const char *provider, const char *domain,
                            uint32_t ip)
{
    *made = (struct made){.address = {.sin_family = AF_INET}};
    made->address.sin_addr.s_addr = htonl(ip);
    made->ep.max_msg_size = SIZE_MAX;
    made->domain.name = (char *)(uintptr_t)domain;
    made->fabric.prov_name = (char *)(uintptr_t)provider;
    made->info = (struct fi_info){.caps = FI_MSG | FI_TAGGED,
                                  .addr_format = ip ? FI_SOCKADDR_IN : FI_ADDR_EFA,
                                  .src_addrlen = ip ? sizeof made->address : 0,
                                  .src_addr = ip ? &made->address : NULL,
                                  .tx_attr = &made->tx,
                                  .rx_attr = &made->rx,
                                  .ep_attr = &made->ep,
                                  .domain_attr = &made->domain,
                                  .fabric_attr = &made->fabric};
    return &made->info;
}

static struct fi_info *claim(struct made *made, const char *provider, const char *domain,
                             uint32_t ip)
{
    struct fi_info *info = make(made, provider, domain, ip);
    info->caps |= FI_HMEM;
    made->tx.caps = made->rx.caps = FI_HMEM;
    made->domain.mr_mode = FI_MR_HMEM;
    return info;
}

static void the_best_is_taken(void **state)
{
    static const struct {
        const char *provider;
        uint32_t ip;
        bool named, own_shm;
        const char *interface_name;
        int score;
    } table[] = {
        {"efa", 0, false, true, "eth0", 6},
        {"efa", 0, false, true, "lo", 0}, /* leaves the host */
        {"verbs;ofi_rxm", IP_OTHER, false, true, "eth0", 6},
        {"tcp", IP_OTHER, false, true, "eth0", 4},
        {"net", IP_OTHER, false, true, "eth0", 4},
        {"tcp;ofi_rxm", IP_OTHER, false, true, "eth0", 2},
        {"tcp", IP_LO, false, true, "eth0", 1},
        {"sockets", IP_OTHER, false, true, "eth0", 0},
        {"sockets", IP_OTHER, true, true, "eth0", 6},
        {"shm", 0, false, true, "lo", 0},
        {"shm", 0, true, true, "lo", 6},
        {"shm", 0, true, false, "lo", 0}, /* excluded by TRYST_HOST_ID */
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        struct made made;
        const struct rail_params params = {.interface_name = table[i].interface_name,
                                           .own_shm_allowed = table[i].own_shm};
        make(&made, table[i].provider, "d", table[i].ip);
        if (ofi_info_score(&made.info, &params, table[i].named) != table[i].score)
            fail_msg("row %zu, %s: %d", i, table[i].provider,
                     ofi_info_score(&made.info, &params, table[i].named));
    }
}

static void rails_share_devices(void **state)
{
    static struct made made[4];
    static const char *const taken[] = {"rdmap0", "rdmap1", "rdmap2", "rdmap2"};
    (void)state;
    make(&made[0], "net", "eth0", IP_OTHER)->next = make(&made[1], "efa", "rdmap0", 0);
    made[1].info.next = make(&made[2], "efa", "rdmap1", 0);
    made[2].info.next = make(&made[3], "efa", "rdmap2", 0);
    for (uint32_t i = 0; i < COUNT_OF(taken); i++) {
        const struct rail_params params = {.interface_name = "eth0", .index = i};
        assert_string_equal(
            ofi_info_best(&made->info, &params, false, false)->domain_attr->name,
            taken[i]);
        assert_ptr_equal(ofi_info_best(&made->info, &params, false, true), made);
    }
}

static void what_cannot_be_used(void **state)
{
    struct made made;
    (void)state;
    assert_true(ofi_info_is_usable(make(&made, "efa", "d", 0)));
    made.ep.mem_tag_format = UINT64_MAX >> 16;
    assert_true(ofi_info_is_usable(&made.info));
    made.ep.mem_tag_format = UINT64_MAX >> 17;
    assert_false(ofi_info_is_usable(&made.info));
    make(&made, "efa", "d", 0);
    made.ep.max_msg_size = OFI_MESSAGE_MAX - 1;
    assert_false(ofi_info_is_usable(&made.info));
    make(&made, "cxi", "d", 0);
    made.domain.mr_mode = FI_MR_ENDPOINT;
    assert_true(ofi_info_is_usable(&made.info));
    made.domain.mr_mode = FI_MR_ENDPOINT | FI_MR_LOCAL;
    assert_false(ofi_info_is_usable(&made.info));
    made.domain.mr_mode = FI_MR_ENDPOINT | FI_MR_HMEM;
    assert_false(ofi_info_is_usable(&made.info));
}

/* Device memory uses the same fabric, and only where each part of the description claims
 * device memory. */
static void device_memory(void **state)
{
    static struct made plain, made[5];
    (void)state;
    make(&plain, "verbs;ofi_rxm", "mlx5_1", IP_OTHER);
    assert_null(ofi_info_device(&plain.info, NULL));
    claim(&made[0], "verbs;ofi_rxm", "mlx5_0", IP_OTHER)->next =
        claim(&made[1], "psm3", "mlx5_1", IP_OTHER);
    made[1].info.next = claim(&made[2], "verbs;ofi_rxm", "mlx5_1", IP_OTHER + 1);
    assert_null(ofi_info_device(&plain.info, &made->info));
    made[2].info.next = claim(&made[3], "verbs;ofi_rxm", "mlx5_1", IP_OTHER);
    assert_ptr_equal(ofi_info_device(&plain.info, &made->info), &made[3]);
    made[3].rx.caps = 0; /* sends from device memory and does not receive into it */
    assert_null(ofi_info_device(&plain.info, &made->info));
    made[3].rx.caps = FI_HMEM;
    made[3].domain.mr_mode |= FI_MR_ENDPOINT;
    assert_null(ofi_info_device(&plain.info, &made->info));
    made[3].info.next = claim(&made[4], "verbs;ofi_rxm", "mlx5_1", IP_OTHER);
    assert_ptr_equal(ofi_info_device(&plain.info, &made->info), &made[4]);
}

static void device_memory_without_ip(void **state)
{
    static struct made plain, made[2];
    (void)state;
    make(&plain, "efa", "rdmap1", 0);
    claim(&made[0], "efa", "rdmap0", 0)->next = claim(&made[1], "efa", "rdmap1", 0);
    made[1].info.src_addr = &made[1].address; /* a new address for each query */
    made[1].info.src_addrlen = sizeof made[1].address;
    assert_ptr_equal(ofi_info_device(&plain.info, &made->info), &made[1]);
}

static void what_must_be_registered(void **state)
{
    struct made made;
    (void)state;
    claim(&made, "efa", "d", 0);
    assert_true(ofi_info_claims_device(&made.info));
    assert_true(ofi_info_registers_device(&made.info));
    made.domain.mr_mode = FI_MR_LOCAL;
    assert_true(ofi_info_registers_device(&made.info));
    made.domain.mr_mode = 0;
    assert_false(ofi_info_registers_device(&made.info));
    assert_false(ofi_info_claims_device(make(&made, "efa", "d", 0)));
}

/* Slices and window are limited only where rxm runs over TCP. */
static void slices_and_window_of_rxm(void **state)
{
    struct made made;
    (void)state;
    assert_int_equal(ofi_info_slice_bytes(make(&made, "tcp;ofi_rxm", "d", IP_OTHER)),
                     512 << 10);
    assert_int_equal(ofi_info_slice_bytes(make(&made, "verbs;ofi_rxm", "d", IP_OTHER)),
                     0);
    assert_int_equal(ofi_info_slice_bytes(make(&made, "net", "d", IP_OTHER)), 0);
    assert_int_equal(ofi_info_slice_bytes(make(&made, "efa", "d", 0)), 0);
    assert_int_equal(ofi_info_window_bytes(make(&made, "tcp;ofi_rxm", "d", IP_OTHER)),
                     8 << 20);
    assert_int_equal(ofi_info_window_bytes(make(&made, "net", "d", IP_OTHER)), 0);
}

/* Which endpoints stay open until the rail closes. */
static void closing(void **state)
{
    static const struct {
        const char *provider;
        bool parks, is_rxm;
    } table[] = {
        {"tcp", true, false},          {"net", true, false},  {"tcp;ofi_rxm", true, true},
        {"verbs;ofi_rxm", true, true}, {"efa", false, false}, {"shm", false, false},
    };
    struct made made;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        make(&made, table[i].provider, "d", IP_OTHER);
        assert_int_equal(ofi_info_parks(&made.info), table[i].parks);
        assert_int_equal(ofi_info_is_rxm(&made.info), table[i].is_rxm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_taken),
        cmocka_unit_test(slices_and_window_of_rxm),
        cmocka_unit_test(closing),
        cmocka_unit_test(rails_share_devices),
        cmocka_unit_test(what_cannot_be_used),
        cmocka_unit_test(device_memory),
        cmocka_unit_test(device_memory_without_ip),
        cmocka_unit_test(what_must_be_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
