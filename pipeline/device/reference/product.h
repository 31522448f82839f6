/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, of the reference row (product.c); device_kernels.h says what each does. */
#ifndef PIPELINE_DEVICE_REFERENCE_PRODUCT_H
#define PIPELINE_DEVICE_REFERENCE_PRODUCT_H

#include "pipeline/device/device_kernels.h"

void reference_product(const device_lane *lane, const device_product *product);

#endif
