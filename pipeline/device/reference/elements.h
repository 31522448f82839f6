/* SPDX-License-Identifier: Apache-2.0 */
/* One element at a time, of the reference row (elements.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_ELEMENTS_H
#define PIPELINE_DEVICE_REFERENCE_ELEMENTS_H

#include "pipeline/device/device_kernels.h"

void reference_add(const device_lane *lane, uint64_t count, const void *a, const void *b,
                   void *y);
void reference_duplicate(const device_lane *lane, uint64_t count, const void *x, void *y);
void reference_round(const device_lane *lane, uint64_t count, const void *wide, void *y);

#endif
