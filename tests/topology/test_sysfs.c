/* SPDX-License-Identifier: Apache-2.0 */
/* /sys, from folders that imitate it: the description without hwloc, the greatest and the
 * present speed of a link, ports' rates; then the tables of links and NVLinks as the
 * driver reports them. */
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
#include "topology/machine/sysfs_machine.h"

static char root[256];

/* Make all folders on the way (mkdir -p), then the file. */
static void put(const char *file, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, file);
    for (char *slash = path + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

/* Make a device below `above`, and the link to it in bus/pci/devices. */
static void put_device(const char *address, const char *above, const char *class,
                       const char *vendor, const char *max, const char *width)
{
    char file[256], target[256], link[512];
    const char *const names[] = {"class",          "vendor",
                                 "max_link_speed", "current_link_width",
                                 "numa_node",      "current_link_speed"};
    const char *const texts[] = {class, vendor, max, width, "1\n", "2.5 GT/s PCIe\n"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(file, sizeof file, "devices/%s/%s/%s", above, address, names[i]);
        put(file, texts[i]);
    }
    put("bus/pci/devices/none", "");
    snprintf(target, sizeof target, "../../../devices/%s/%s", above, address);
    snprintf(link, sizeof link, "%s/bus/pci/devices/%s", root, address);
    assert_int_equal(symlink(target, link), 0);
}

static void machine_put(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/tryst-sysfs-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(root));
    put("devices/system/node/online", "0-1\n");
    put("devices/system/node/node0/cpulist", "0-3\n");
    put("devices/system/node/node1/cpulist", "4-7\n");
    put("devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
    put("devices/system/cpu/cpu4/topology/physical_package_id", "1\n");
    put("devices/system/cpu/cpu4/topology/package_cpus_list", "4-7\n");
    put_device("0000:80:01.0", "pci0000:80", "0x060400\n", "0x8086\n", "32.0 GT/s PCIe\n",
               "16\n");
    put_device("0000:81:00.0", "pci0000:80/0000:80:01.0", "0x030200\n", "0x10de\n",
               "64.0 GT/s PCIe\n", "8\n");
    put_device("0000:82:00.0", "pci0000:80", "0x020700\n", "0x15b3\n", "16.0 GT/s PCIe\n",
               "16\n");
    put_device("0000:83:00.0", "pci0000:80", "0x030000\n", "0x1a03\n", "", "");
    put("devices/pci0000:80/0000:82:00.0/infiniband/mlx5_0/x", "");
    put("class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    put("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
}

static void machine_remove(void)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

static void described(void **state)
{
    struct machine machine = MACHINE_INIT;
    machine_put();
    assert_int_equal(sysfs_machine_read(root, &machine), TRYST_OK);
    sysfs_pci_fill(root, &machine);
    sysfs_ports_fill(root, &machine);
    assert_int_equal(machine.packages_count, 2);
    assert_int_equal(machine.numas_count, 2);
    assert_int_equal(machine.numas[1].package, 1);
    assert_string_equal(machine.packages[1].cpus, "4-7");
    assert_int_equal(machine.pci_count,
                     4); /* a host bridge, a bridge, a GPU, a NIC; no console */
    const struct machine_pci *gpu =
        &machine.pci[machine_pci_find(&machine, "0000:81:00.0")];
    const struct machine_pci *nic =
        &machine.pci[machine_pci_find(&machine, "0000:82:00.0")];
    assert_int_equal(gpu->kind, PCI_GPU);
    assert_string_equal(machine.pci[gpu->parent].address, "0000:80:01.0");
    assert_string_equal(machine.pci[machine.pci[gpu->parent].parent].address, "0000:80");
    assert_int_equal(gpu->package, 1);
    assert_int_equal(gpu->generation,
                     5); /* the speed that the port above supports, not the idle one */
    assert_int_equal(gpu->width, 8); /* the present width */
    assert_int_equal(nic->generation, 4);
    assert_string_equal(nic->name, "mlx5_0");
    assert_int_equal(machine.ports_count, 1);
    assert_int_equal(machine.ports[0].kind, WIRE_INFINIBAND);
    assert_true(machine.ports[0].bytes_per_s.value == 25e9);
    assert_int_equal(machine.ports[0].bytes_per_s.origin, ORIGIN_DETECTED);
    machine_drop(&machine);
    machine_remove();
}

static tryst_status read_once(void)
{
    struct machine machine = MACHINE_INIT;
    tryst_status status = sysfs_machine_read(root, &machine);
    machine_drop(&machine);
    return status;
}

static void memory_may_fail(void **state)
{
    machine_put();
    WALK_ALLOCATIONS(read_once());
    machine_remove();
}

/* An empty folder: nothing is known, and that is not an error. */
static void nothing_known(void **state)
{
    struct machine machine = MACHINE_INIT;
    assert_int_equal(sysfs_machine_read("/nowhere", &machine), TRYST_OK);
    assert_int_equal(machine.numas_count + machine.pci_count, 0);
    machine_drop(&machine);
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
        cmocka_unit_test(described),     cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(nothing_known), cmocka_unit_test(tables),
        cmocka_unit_test(nvlinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
