/* SPDX-License-Identifier: Apache-2.0 */
/* See bind.h. */
#include "bind.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/fd.h"
#include "core/os/pci_class.h"
#include "core/text/growing_text.h"

/* A GPU, a NIC or a NUMA node. */
struct device {
    enum pci_use use;              /* PCI_USE_OTHER: a NUMA node */
    char name[BIND_ADDRESS_BYTES]; /* PCI address, or "node0" */
    long node;                     /* NUMA node; -1: unknown */
};

struct machine {
    const char *root;
    struct device *devices;
    size_t count, room;
};

/* ---- files of the kernel ----------------------------------------------------------- */

/* Read the first line of a file in a device's folder; "" if it cannot be read. */
static void line_read(const struct machine *machine, const char *folder, const char *name,
                      const char *file, char *line, int bytes)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/%s/%s", machine->root, folder, name, file);
    line[0] = '\0';
    FILE *stream = fd_file_open(path, "re");
    if (stream && !fgets(line, bytes, stream))
        line[0] = '\0';
    if (stream)
        (void)fclose(stream);
}

#define PCI_FOLDER  "bus/pci/devices"
#define NODE_FOLDER "devices/system/node"

static long number_of(const struct machine *machine, const char *address,
                      const char *file, long unknown)
{
    char line[32];
    line_read(machine, PCI_FOLDER, address, file, line, sizeof line);
    return *line ? strtol(line, NULL, 0) : unknown;
}

/* Read the processors near a device; empty if they are unknown. */
static void cpus_read(const struct machine *machine, const struct device *device,
                      struct index_set *cpus_p)
{
    char line[8192];
    bool node = device->use == PCI_USE_OTHER;
    line_read(machine, node ? NODE_FOLDER : PCI_FOLDER, device->name,
              node ? "cpulist" : "local_cpulist", line, sizeof line);
    if (!index_set_parse(line, cpus_p))
        *cpus_p = (struct index_set){{0}};
}

static bool pci_is_wanted(const struct machine *machine, const char *address,
                          struct device *device)
{
    const struct pci_id id = {
        .class = (unsigned)number_of(machine, address, "class", 0) >> 8,
        .maker = (unsigned)number_of(machine, address, "vendor", 0),
        .device = (unsigned)number_of(machine, address, "device", 0)};
    device->use = pci_use(&id);
    device->node = number_of(machine, address, "numa_node", -1);
    return device->use == PCI_USE_GPU || device->use == PCI_USE_NIC;
}

static bool node_is_wanted(const struct machine *machine, const char *name,
                           struct device *device)
{
    struct index_set cpus;
    if (strncmp(name, "node", 4) != 0 || name[4] < '0' || name[4] > '9')
        return false;
    device->node = strtol(name + 4, NULL, 10);
    cpus_read(machine, device, &cpus);
    return index_set_count(&cpus) > 0;
}

/* Add the wanted entries of a folder. Returns TRYST_OK or TRYST_E_NOMEM. */
static tryst_status folder_read(struct machine *machine, const char *folder,
                                bool (*is_wanted)(const struct machine *machine,
                                                  const char *name,
                                                  struct device *device))
{
    char path[PATH_MAX];
    tryst_status status = TRYST_OK;
    snprintf(path, sizeof path, "%s/%s", machine->root, folder);
    DIR *dir = fd_folder_open(path);
    for (struct dirent *entry; !status && dir && (entry = readdir(dir));) {
        struct device device = {.use = PCI_USE_OTHER};
        if (strlen(entry->d_name) >= sizeof device.name)
            continue;
        strcpy(device.name, entry->d_name);
        if (!is_wanted(machine, entry->d_name, &device))
            continue;
        if (mem_reserve(&machine->devices, &machine->room, machine->count + 1,
                        sizeof *machine->devices))
            machine->devices[machine->count++] = device;
        else
            status = TRYST_E_NOMEM;
    }
    if (dir)
        (void)closedir(dir);
    return status;
}

/* Order NUMA nodes by number, PCI devices by address. */
static int device_order(const void *a, const void *b)
{
    const struct device *x = a, *y = b;
    if (x->use == PCI_USE_OTHER && y->use == PCI_USE_OTHER)
        return x->node < y->node ? -1 : x->node > y->node;
    return strcmp(x->name, y->name);
}

/* ---- decision ---------------------------------------------------------------------- */

/* Return device number `number` modulo their count of those with this use; NULL: there is
 * none. */
static const struct device *device_of(const struct machine *machine, enum pci_use use,
                                      uint32_t number)
{
    uint32_t count = 0;
    for (size_t i = 0; i < machine->count; i++)
        count += machine->devices[i].use == use;
    for (size_t i = 0; count && i < machine->count; i++)
        if (machine->devices[i].use == use && number-- % count == 0)
            return &machine->devices[i];
    return NULL;
}

/* Return the number of folders that the real paths of two PCI devices share: the bridges
 * above both. */
static unsigned bridges_shared(const struct machine *machine, const struct device *a,
                               const struct device *b)
{
    char path[PATH_MAX], real_a[PATH_MAX], real_b[PATH_MAX];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/" PCI_FOLDER "/%s", machine->root, a->name);
    if (!realpath(path, real_a))
        return 0;
    snprintf(path, sizeof path, "%s/" PCI_FOLDER "/%s", machine->root, b->name);
    if (!realpath(path, real_b))
        return 0;
    for (size_t i = 0; real_a[i] && real_a[i] == real_b[i]; i++)
        count += real_a[i] == '/';
    return count;
}

/* Return how near a NIC is to the process at `rank`, which may be NULL; 0 for other
 * devices. */
static unsigned nearness(const struct machine *machine, const struct device *rank,
                         const struct device *nic)
{
    if (nic->use != PCI_USE_NIC)
        return 0;
    if (!rank)
        return 1;
    bool same_node = rank->node >= 0 && rank->node == nic->node;
    bool gpu = rank->use == PCI_USE_GPU;
    return 1 + 2 * (gpu ? bridges_shared(machine, rank, nic) : 0) + same_node;
}

/* Return the nearest NIC of the process at `rank`, or any if `rank` is NULL; of several
 * equally near ones number `place` modulo their count. NULL: there is none. */
static const struct device *nic_choose(const struct machine *machine,
                                       const struct device *rank, uint32_t place)
{
    unsigned most = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < machine->count; i++) {
        unsigned near = nearness(machine, rank, &machine->devices[i]);
        if (near > most) {
            most = near;
            count = 0;
        }
        count += near == most;
    }
    for (size_t i = 0; most && i < machine->count; i++)
        if (nearness(machine, rank, &machine->devices[i]) == most && place-- % count == 0)
            return &machine->devices[i];
    return NULL;
}

/* Choose the processors near `device` that the process may use. Returns false if these
 * are fewer than two: a single processor would be the rank's own. */
static bool cpus_choose(const struct machine *machine, const struct device *device,
                        const struct index_set *given, struct index_set *cpus_p)
{
    struct index_set near;
    if (!device)
        return false;
    cpus_read(machine, device, &near);
    index_set_meet(&near, given);
    if (index_set_count(&near) < 2)
        return false;
    *cpus_p = near;
    return true;
}

static void machine_decide(const struct machine *machine, uint32_t place,
                           const struct index_set *given, struct bind_choice *choice)
{
    const struct device *rank = device_of(machine, PCI_USE_GPU, place);
    if (!rank)
        rank = device_of(machine, PCI_USE_OTHER, place);
    const struct device *nic = nic_choose(machine, rank, place);
    if (nic)
        strcpy(choice->nic, nic->name);
    if (cpus_choose(machine, nic, given, &choice->cpus))
        return;
    choice->why = cpus_choose(machine, rank, given, &choice->cpus)
                      ? "near the rank, fewer than two usable ones are near the NIC"
                      : "fewer than two usable processors near the NIC and the rank";
}

tryst_status bind_choose(const char *root, uint32_t place, const struct index_set *given,
                         struct bind_choice *choice_p)
{
    struct machine machine = {.root = root};
    tryst_status status = folder_read(&machine, PCI_FOLDER, pci_is_wanted);
    if (status == TRYST_OK)
        status = folder_read(&machine, NODE_FOLDER, node_is_wanted);
    if (status == TRYST_OK) {
        *choice_p = (struct bind_choice){.why = NULL};
        if (machine.count)
            qsort(machine.devices, machine.count, sizeof *machine.devices, device_order);
        machine_decide(&machine, place, given, choice_p);
    }
    mem_free(machine.devices);
    return status;
}

/* ---- the calling thread ------------------------------------------------------------ */

/* A cpu_set_t, too, is an array of longs with a bit for each processor. */
static tryst_status given_read(struct err *err, struct index_set *given_p)
{
    struct index_set given = {{0}};
    if (sched_getaffinity(0, sizeof given.words, (void *)given.words) != 0)
        return err_set(err, TRYST_E_SYSTEM,
                       "cannot read the affinity of the progress thread: %s",
                       strerror(errno));
    *given_p = given;
    return TRYST_OK;
}

/* Bind this thread, if the choice is not empty. */
static tryst_status choice_apply(const struct bind_choice *choice, struct err *err)
{
    const struct index_set *cpus = &choice->cpus;
    if (!index_set_count(cpus) ||
        sched_setaffinity(0, sizeof cpus->words, (const void *)cpus->words) == 0)
        return TRYST_OK;
    return err_set(err, TRYST_E_SYSTEM, "cannot bind the progress thread: %s",
                   strerror(errno));
}

#define LIST_MAX "%.90s"

static tryst_status choice_describe(const struct bind_choice *choice, struct err *err,
                                    char *text, size_t capacity)
{
    struct text list_text = {0};
    char *list;
    index_set_write(&choice->cpus, &list_text);
    tryst_status status = text_release(&list_text, err, &list);
    if (status != TRYST_OK)
        return status;
    if (!*list)
        snprintf(text, capacity, "left where it is: %s", choice->why);
    else if (choice->why)
        snprintf(text, capacity, "on processors " LIST_MAX ": %s", list, choice->why);
    else
        snprintf(text, capacity, "on processors " LIST_MAX ", near the NIC %s", list,
                 choice->nic);
    mem_free(list);
    return TRYST_OK;
}

tryst_status bind_thread(uint32_t place, struct err *err, char *text,
                         size_t text_capacity)
{
    struct index_set given;
    struct bind_choice choice;
    tryst_status status = given_read(err, &given);
    if (status == TRYST_OK && (status = bind_choose("/sys", place, &given, &choice)))
        err_set(err, status, "cannot bind the progress thread: out of memory");
    if (status == TRYST_OK)
        status = choice_describe(&choice, err, text, text_capacity);
    if (status == TRYST_OK)
        status = choice_apply(&choice, err);
    return status;
}
