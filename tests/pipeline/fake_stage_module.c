/* SPDX-License-Identifier: Apache-2.0 */
/* A device stage module for the loader's test; FAKE_WHAT selects its defect. */
#include "pipeline/device/stage_module.h"

#include <signal.h>

enum { FAKE_GOOD, FAKE_OTHER_ABI, FAKE_NO_RECORD, FAKE_OTHER_KIND };

static void fake_handler(int number)
{
    (void)number;
}

/* Change signal handlers and the mask, as constructors of foreign libraries do. */
__attribute__((constructor)) static void fake_begin(void)
{
    (void)signal(SIGUSR2, fake_handler);
}

__attribute__((visibility("default"))) const struct tryst_stage_module *
tryst_stage_module_v1(const struct tryst_stage_host *host);

const struct tryst_stage_module *tryst_stage_module_v1(
    const struct tryst_stage_host *host)
{
    static const struct device_kernels kernels = {
        .struct_size = sizeof(kernels),
        .name = "fake",
        .memory = FAKE_WHAT == FAKE_OTHER_KIND ? TRYST_MEMORY_HOST : TRYST_MEMORY_CUDA};
    static const struct tryst_stage_module module = {
        .abi_id = FAKE_WHAT == FAKE_OTHER_ABI ? "0.0.0-other" : TRYST_STAGE_ABI_ID,
        .kernels = &kernels};
    (void)host;
    return FAKE_WHAT == FAKE_NO_RECORD ? NULL : &module;
}
