/* SPDX-License-Identifier: Apache-2.0 */
/* See windows.h. */
#include "windows.h"
#include "pipeline/base/random.h"

tryst_status windows_feed(void *arg, uint64_t step, int32_t microbatch, void *input,
                          uint8_t *target)
{
    const struct windows *self = arg;
    const tryst_model *model = self->model;
    uint64_t n = step * (uint64_t)self->step_microbatches + (uint64_t)microbatch;
    uint64_t stream = random_stream(7, n, 0);
    uint64_t bytes = (uint64_t)model->microbatch_size * (uint64_t)model->seq;
    for (uint64_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)random_below(random_at(stream, i), 16);
        if (input) {
            ((uint8_t *)input)[i] = byte;
        }
        if (target) {
            target[i] = (uint8_t)(byte / 2 + 1);
        }
    }
    return TRYST_OK;
}
