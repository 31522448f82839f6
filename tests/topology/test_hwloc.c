/* SPDX-License-Identifier: Apache-2.0 */
/* This machine by hwloc, which imitates machines (HWLOC_SYNTHETIC). */
#include "support/unit.h"

#include <string.h>

#include "topology/machine/hwloc_machine.h"

static const struct imitated {
    const char *text;
    unsigned packages, numas;
    const char *cpus; /* of the last NUMA node */
} imitated[] = {
    {"pack:2 numa:2 l3:1 core:4 pu:1", 2, 4, "12-15"},
    {"pack:1 core:2 pu:2", 1, 1, "0-3"},
    {"numa:4 core:1 pu:1", 0, 4, "3"},
    {"pack:3 l2:4 pu:2", 3, 1, "0-23"},
};

static void processors_are_read(void **state)
{
    for (size_t i = 0; i < COUNT_OF(imitated); i++) {
        struct machine machine = MACHINE_INIT;
        struct err err = ERR_INIT;
        setenv("HWLOC_SYNTHETIC", imitated[i].text, 1);
        tryst_status status = hwloc_machine_read(NULL, &err, &machine);
        unsetenv("HWLOC_SYNTHETIC");
        if (status == TRYST_E_UNSUPPORTED) {
            print_message("%s\n", err.text);
            skip();
        }
        assert_int_equal(status, TRYST_OK);
        assert_int_equal(machine.packages_count, imitated[i].packages);
        assert_int_equal(machine.numas_count, imitated[i].numas);
        assert_string_equal(machine.numas[machine.numas_count - 1].cpus,
                            imitated[i].cpus);
        machine_drop(&machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
