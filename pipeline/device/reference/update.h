/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer's update, of the reference row (update.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_UPDATE_H
#define PIPELINE_DEVICE_REFERENCE_UPDATE_H

#include "pipeline/device/device_kernels.h"

void reference_update(const device_lane *lane, const device_update *update);

#endif
