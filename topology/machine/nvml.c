/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See nvml.h. The types are declared here, as in NVIDIA's header nvml.h (API version 2 of
 * init, PCI information 3), so the build needs nothing of CUDA.
 */
#include "nvml.h"

#include <string.h>

#include "topology/base/library.h"
#include "topology/base/link_table.h"

#define NVML_OK        0
#define NVLINKS_MAX    18 /* NVML_NVLINK_MAX_LINKS */
#define CAPABILITY_P2P 0  /* NVML_NVLINK_CAP_P2P_SUPPORTED */

struct nvml_device;

struct nvml_pci_info {
    char old_address[16];
    unsigned domain, bus, device, ids, subsystem_ids;
    char address[32]; /* "00000000:3B:00.0" */
};

static struct {
    int (*init)(void);
    int (*shutdown)(void);
    int (*device_by_pci)(const char *address, struct nvml_device **device_p);
    int (*device_name)(struct nvml_device *device, char *name, unsigned bytes);
    int (*link_state)(struct nvml_device *device, unsigned link, unsigned *active_p);
    int (*link_version)(struct nvml_device *device, unsigned link, unsigned *version_p);
    int (*link_capability)(struct nvml_device *device, unsigned link, unsigned which,
                           unsigned *value_p);
    int (*link_remote)(struct nvml_device *device, unsigned link,
                       struct nvml_pci_info *far_p);
} calls;

static const struct library_symbol symbols[] = {
    {"nvmlInit_v2", (void **)&calls.init},
    {"nvmlShutdown", (void **)&calls.shutdown},
    {"nvmlDeviceGetHandleByPciBusId_v2", (void **)&calls.device_by_pci},
    {"nvmlDeviceGetName", (void **)&calls.device_name},
    {"nvmlDeviceGetNvLinkState", (void **)&calls.link_state},
    {"nvmlDeviceGetNvLinkVersion", (void **)&calls.link_version},
    {"nvmlDeviceGetNvLinkCapability", (void **)&calls.link_capability},
    {"nvmlDeviceGetNvLinkRemotePciInfo_v2", (void **)&calls.link_remote},
    {NULL, NULL}};
static struct library library = LIBRARY_INIT("libnvidia-ml.so.1", symbols);

tryst_status nvml_link_add(struct machine *machine, uint32_t gpu, const char *far,
                           unsigned generation)
{
    uint32_t to = machine_pci_find(machine, far);
    if (to != MACHINE_NONE && machine->pci[to].kind != PCI_GPU)
        to = MACHINE_NONE;
    /* a hypervisor writes the GPU's address for an address that it hides */
    if (to == gpu)
        return machine_skip(machine, far, "NVLinks from this GPU to itself")
                   ? TRYST_OK
                   : TRYST_E_NOMEM;
    if (to != MACHINE_NONE && to < gpu)
        return TRYST_OK; /* the GPU with the lower index adds both directions */
    struct machine_nvlink more = {.from = gpu,
                                  .to = to,
                                  .generation = (uint16_t)generation,
                                  .count = 1,
                                  .bytes_per_s = MACHINE_UNKNOWN};
    return machine_nvlink_join(machine, &more) ? TRYST_OK : TRYST_E_NOMEM;
}

static tryst_status links_fill(struct machine *machine, uint32_t gpu,
                               struct nvml_device *device)
{
    tryst_status status = TRYST_OK;
    for (unsigned link = 0; status == TRYST_OK && link < NVLINKS_MAX; link++) {
        unsigned active = 0, peer = 0, version = 0;
        struct nvml_pci_info far = {.address = ""};
        char address[MACHINE_ADDRESS_BYTES];
        if (calls.link_state(device, link, &active) != NVML_OK || !active ||
            calls.link_capability(device, link, CAPABILITY_P2P, &peer) != NVML_OK ||
            !peer)
            continue;
        if (calls.link_version(device, link, &version) != NVML_OK)
            version = 0;
        if (calls.link_remote(device, link, &far) != NVML_OK)
            far.address[0] = '\0';
        far.address[sizeof far.address - 1] = '\0';
        machine_address(far.address, address);
        status = nvml_link_add(machine, gpu, address, version <= 5 ? version : 0);
    }
    return status;
}

static tryst_status gpu_fill(struct machine *machine, uint32_t gpu)
{
    struct nvml_device *device;
    char name[96] = "";
    if (!machine->pci[gpu].address ||
        calls.device_by_pci(machine->pci[gpu].address, &device) != NVML_OK)
        return TRYST_OK;
    if (calls.device_name(device, name, sizeof name) == NVML_OK && *name) {
        name[sizeof name - 1] = '\0';
        const char *kept = machine_string(machine, name);
        if (!kept)
            return TRYST_E_NOMEM;
        machine->pci[gpu].label = kept;
    }
    return links_fill(machine, gpu, device);
}

tryst_status nvml_fill(struct machine *machine)
{
    bool any = false;
    tryst_status status = TRYST_OK;
    for (uint32_t i = 0; i < machine->pci_count; i++)
        any = any || machine->pci[i].kind == PCI_GPU;
    if (!any || library_need(&library, NULL) != TRYST_OK || calls.init() != NVML_OK)
        return TRYST_OK;
    for (uint32_t i = 0; status == TRYST_OK && i < machine->pci_count; i++)
        if (machine->pci[i].kind == PCI_GPU)
            status = gpu_fill(machine, i);
    calls.shutdown();
    return status;
}
