/* SPDX-License-Identifier: Apache-2.0 */
/* /sys, from folders that imitate it: the greatest and the present speed of a link,
 * ports' rates; then the tables of links and NVLinks as the
 * driver reports them. */
#include "support/file_put.h"
#include "support/unit.h"

#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "topology/base/link_table.h"
#include "topology/machine/machine.h"
#include "topology/machine/nvml.h"
#include "topology/machine/sysfs.h"

static char root[256];

static void put(const char *file, const char *text)
{
    file_put(root, file, text);
}

static void device_put(const char *address, const char *max, const char *width)
{
    static const char *const names[] = {"max_link_speed", "current_link_width",
                                        "current_link_speed"};
    const char *const texts[] = {max, width, "2.5 GT/s PCIe\n"};
    char file[256];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(file, sizeof file, "bus/pci/devices/%s/%s", address, names[i]);
        put(file, texts[i]);
    }
}

/* A GPU behind a port of a slower generation and on half the lanes, and an InfiniBand
 * NIC. */
static void machine_put(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/tryst-sysfs-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(root));
    device_put("0000:80:01.0", "32.0 GT/s PCIe\n", "16\n");
    device_put("0000:81:00.0", "64.0 GT/s PCIe\n", "8\n");
    device_put("0000:82:00.0", "16.0 GT/s PCIe\n", "16\n");
    put("class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    put("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    put("class/net/eth0/speed", "10000\n");
}

static void machine_remove(void)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void numbers_are_filled(void **state)
{
    static const enum machine_pci_kind kinds[] = {PCI_BRIDGE, PCI_GPU, PCI_NIC};
    static const char *const addresses[] = {"0000:80:01.0", "0000:81:00.0",
                                            "0000:82:00.0"};
    static const char *const ports[] = {"mlx5_0", "eth0", "eth1"};
    struct machine machine = MACHINE_INIT;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        machine_pci_add(&machine, kinds[i])->address = addresses[i];
        machine_port_add(&machine)->name = ports[i];
    }
    machine.pci[1].parent = 0;
    machine_put();
    sysfs_pci_fill(root, &machine);
    sysfs_ports_fill(root, &machine);
    /* the speed that the port above supports, not the idle one; the current width */
    assert_int_equal(machine.pci[1].generation, 5);
    assert_int_equal(machine.pci[1].width, 8);
    assert_int_equal(machine.pci[2].generation, 4);
    assert_int_equal(machine.ports[0].kind, WIRE_INFINIBAND);
    assert_true(machine.ports[0].bytes_per_s.value == 25e9);
    assert_int_equal(machine.ports[0].bytes_per_s.origin, ORIGIN_DETECTED);
    assert_true(machine.ports[1].bytes_per_s.value == 1.25e9);
    assert_true(machine.ports[2].bytes_per_s.value == GRAPH_UNKNOWN);
    machine_drop(&machine);
    machine_remove();
}

static bool near(double a, double b)
{
    return a > b * 0.999 && a < b * 1.001;
}

static void tables(void **state)
{
    static const double pci[] = {4, 8, 15.754, 31.508, 63.015, 121};
    for (unsigned i = 0; i < COUNT_OF(pci); i++)
        assert_true(near(table_pci_bytes_per_s(i + 1, 16), pci[i] * 1e9));
    assert_true(table_pci_bytes_per_s(0, 16) == GRAPH_UNKNOWN);
    assert_true(table_pci_bytes_per_s(7, 16) == GRAPH_UNKNOWN);
    assert_true(table_nvlink_bytes_per_s(4, 18) == 450e9);
    assert_true(table_nvlink_bytes_per_s(6, 1) == GRAPH_UNKNOWN);
    assert_int_equal(table_pci_generation("2.5 GT/s PCIe"), 1);
    assert_int_equal(table_pci_generation("5 GT/s"), 2);
    assert_int_equal(table_pci_generation("8.0 GT/s PCIe"), 3);
    assert_int_equal(table_pci_generation("64.0 GT/s PCIe"), 6);
    assert_int_equal(table_pci_generation("Unknown"), 0);
    assert_true(table_infiniband_bytes_per_s("400 Gb/sec (4X NDR)") == 50e9);
    assert_true(near(table_infiniband_bytes_per_s("2.5 Gb/sec (1X SDR)"), 0.25e9));
    assert_true(table_infiniband_bytes_per_s("fast") == GRAPH_UNKNOWN);
    assert_true(table_upi_bytes_per_s("x86_64", "AMD EPYC 9654") == 16e9);
    assert_true(table_upi_bytes_per_s("x86_64", NULL) == GRAPH_UNKNOWN);
}

/* Four links between two GPUs, listed at both; eighteen to switches, of which a virtual
 * machine shows no address. */
static void nvlinks(void **state)
{
    struct machine machine = MACHINE_INIT;
    const char *const addresses[] = {"0000:01:00.0", "0000:02:00.0"};
    for (int i = 0; i < 2; i++)
        machine_pci_add(&machine, PCI_GPU)->address = addresses[i];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(nvml_link_add(&machine, 0, addresses[1], 2), TRYST_OK);
        assert_int_equal(nvml_link_add(&machine, 1, addresses[0], 2), TRYST_OK);
    }
    for (int i = 0; i < 18; i++)
        assert_int_equal(nvml_link_add(&machine, 1, i % 2 ? "" : "0000:c0:00.0", 4),
                         TRYST_OK);
    assert_int_equal(machine.nvlinks_count, 2);
    assert_int_equal(machine.nvlinks[0].to, 1);
    assert_int_equal(machine.nvlinks[0].count, 4);
    assert_int_equal(machine.nvlinks[1].to, MACHINE_NONE);
    assert_int_equal(machine.nvlinks[1].count, 18);
    machine_drop(&machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_filled),
        cmocka_unit_test(tables),
        cmocka_unit_test(nvlinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
