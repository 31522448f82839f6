/* SPDX-License-Identifier: Apache-2.0 */
/* The processors of the background thread, as a table over folders that imitate /sys. The
 * mask that the process was given must be respected. */
#include "support/file_put.h"
#include "support/unit.h"

#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/text/growing_text.h"
#include "rendezvous/progress/bind.h"

/* ---- a machine --------------------------------------------------------------------- */

static char root[256];

static void put(const char *file, const char *text)
{
    file_put(root, file, text);
}

static void node_put(int node, const char *cpus)
{
    char file[64];
    snprintf(file, sizeof file, "devices/system/node/node%d/cpulist", node);
    put(file, cpus);
}

/* A PCI device at `path` below /sys/devices. */
static void pci_put(const char *path, const char *class, const char *vendor, int node,
                    const char *cpus)
{
    const char *address = strrchr(path, '/') + 1;
    const char *const names[] = {"class", "vendor", "device", "local_cpulist"};
    const char *const texts[] = {class, vendor, "0x2330\n", cpus};
    char file[512], target[256], number[16];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(file, sizeof file, "devices/%s/%s", path, names[i]);
        put(file, texts[i]);
    }
    snprintf(file, sizeof file, "devices/%s/numa_node", path);
    snprintf(number, sizeof number, "%d\n", node);
    put(file, number);
    snprintf(target, sizeof target, "../../../devices/%s", path);
    snprintf(file, sizeof file, "%s/bus/pci/devices/%s", root, address);
    assert_int_equal(symlink(target, file), 0);
}

static void gpu_put(const char *path, int node, const char *cpus)
{
    pci_put(path, "0x030200\n", "0x10de\n", node, cpus);
}

static void nic_put(const char *path, int node, const char *cpus)
{
    pci_put(path, "0x020000\n", "0x15b3\n", node, cpus);
}

static void root_make(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/tryst-bind-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(root));
    put("bus/pci/devices/README", "");
    node_put(0, "0-7\n");
    node_put(4, "8-15\n");
    node_put(5, "\n"); /* a GPU's memory */
}

static void root_remove(void)
{
    char command[512];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

/* ---- decisions --------------------------------------------------------------------- */

struct row {
    uint32_t place;
    const char *given;  /* the mask that the process was given */
    const char *chosen; /* chosen processors; "": none */
    const char *nic;
    bool second; /* not near the NIC, or not bound */
};

static void rows_check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct index_set given, expected;
        struct bind_choice choice;
        assert_true(index_set_parse(rows[i].given, &given));
        assert_true(index_set_parse(rows[i].chosen, &expected));
        assert_int_equal(bind_choose(root, rows[i].place, &given, &choice), TRYST_OK);
        if (memcmp(&expected, &choice.cpus, sizeof expected) != 0 ||
            (choice.why != NULL) != rows[i].second)
            fail_msg("row %zu: %u processors, %s", i, index_set_count(&choice.cpus),
                     choice.why ? choice.why : "as wanted");
        assert_string_equal(choice.nic, rows[i].nic);
    }
}

/* Two NUMA nodes with a GPU each, and a NIC at the first. */
static void the_mask_is_respected(void **state)
{
    static const char nic[] = "0000:0c:00.0";
    static const struct row rows[] = {
        {0, "0-15", "0-7", nic, false},
        {1, "0-15", "0-7", nic, false},     /* its NIC is at the other node */
        {1, "8-15", "8-15", nic, true},     /* taskset: nothing near the NIC */
        {0, "2-3,8-15", "2-3", nic, false}, /* cgroup: only a part */
        {0, "3,8-15", "", nic, true},       /* a single processor is not chosen */
        {1, "3,8-15", "8-15", nic, true},
        {3, "3,8-15", "8-15", nic, true}, /* more processes than GPUs */
        {0, "100-120", "", nic, true},
    };
    root_make();
    gpu_put("pci0000:0a/0000:0a:00.0", 0, "0-7\n");
    gpu_put("pci0000:8a/0000:8a:00.0", 4, "8-15\n");
    nic_put("pci0000:0c/0000:0c:00.0", 0, "0-7\n");
    pci_put("pci0000:0d/0000:0d:00.0", "0x030000\n", "0x1a03\n", 0,
            "0-7\n"); /* console */
    rows_check(rows, COUNT_OF(rows));
    root_remove();
}

/* A NIC behind the GPU's switch, then one of its node, then any other; equal ones take
 * turns. */
static void the_nearest_nic(void **state)
{
    static const struct row rows[] = {
        {0, "0-15", "8-15", "0000:12:00.0", false},
        {1, "0-15", "8-15", "0000:81:00.0", false},
        {2, "0-15", "0-7", "0000:21:00.0", false},
        {5, "0-15", "0-7", "0000:22:00.0", false},
    };
    root_make();
    gpu_put("pci0000:10/0000:10:01.0/0000:11:00.0", 0, "0-7\n");
    gpu_put("pci0000:80/0000:80:00.0", 4, "8-15\n");
    gpu_put("pci0000:90/0000:90:00.0", 0, "0-7\n");
    /* (The lists of this NIC and its GPU differ, so that the choice shows.) */
    nic_put("pci0000:10/0000:10:01.0/0000:12:00.0", 4, "8-15\n");
    nic_put("pci0000:20/0000:20:01.0/0000:22:00.0", 0, "0-7\n");
    nic_put("pci0000:20/0000:20:02.0/0000:21:00.0", 0, "0-7\n");
    nic_put("pci0000:81/0000:81:00.0", 4, "8-15\n");
    rows_check(rows, COUNT_OF(rows));
    root_remove();
}

static void without_gpus(void **state)
{
    static const struct row rows[] = {
        {0, "0-15", "0-7", "0000:21:00.0", false},
        {1, "0-15", "8-15", "0000:81:00.0", false},
        {2, "0-15", "0-7", "0000:21:00.0", false},
    };
    root_make();
    nic_put("pci0000:20/0000:21:00.0", 0, "0-7\n");
    nic_put("pci0000:80/0000:81:00.0", 4, "8-15\n");
    rows_check(rows, COUNT_OF(rows));
    root_remove();
}

static void without_nics(void **state)
{
    static const struct row rows[] = {
        {0, "0-15", "0-7", "", true},
        {1, "0-15", "8-15", "", true},
        {0, "3", "", "", true},
    };
    root_make();
    rows_check(rows, COUNT_OF(rows));
    root_remove();
    rows_check(&(const struct row){0, "0-15", "", "", true}, 1); /* no /sys at all */
}

static tryst_status choose_once(void)
{
    struct index_set given = {{0}};
    struct bind_choice choice;
    return bind_choose(root, 0, &given, &choice);
}

static void memory_may_fail(void **state)
{
    root_make();
    nic_put("pci0000:20/0000:21:00.0", 0, "0-7\n");
    WALK_ALLOCATIONS(choose_once());
    root_remove();
}

/* ---- this machine ------------------------------------------------------------------ */

static char *list_of(const struct index_set *set)
{
    struct text text = {0};
    char *list;
    index_set_write(set, &text);
    assert_int_equal(text_release(&text, NULL, &list), TRYST_OK);
    return list;
}

static struct index_set affinity(void)
{
    struct index_set set = {{0}};
    assert_int_equal(sched_getaffinity(0, sizeof set.words, (void *)set.words), 0);
    return set;
}

/* On this machine the chosen processors must be among the given ones, and the report must
 * be true. */
static void this_machine(void **state)
{
    struct err err = ERR_INIT;
    struct index_set given = affinity();
    char told[256] = "";
    if (bind_thread(3, &err, told, sizeof told) != TRYST_OK)
        fail_msg("%s", err.text);
    struct index_set after = affinity();
    char *list = list_of(&after);
    if (strncmp(told, "left where it is: ", 18) == 0)
        assert_memory_equal(&after, &given, sizeof after);
    else
        assert_non_null(strstr(told, list));
    mem_free(list);
    assert_true(index_set_count(&after) > 0);
    for (size_t i = 0; i < COUNT_OF(after.words); i++)
        assert_int_equal(after.words[i] & ~given.words[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mask_is_respected), cmocka_unit_test(the_nearest_nic),
        cmocka_unit_test(without_gpus),          cmocka_unit_test(without_nics),
        cmocka_unit_test(memory_may_fail),       cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
