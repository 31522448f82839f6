/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, by cuBLASLt (cuda_product.c). */
#ifndef TRYST_PIPELINE_DEVICE_CUDA_CUDA_PRODUCT_H
#define TRYST_PIPELINE_DEVICE_CUDA_CUDA_PRODUCT_H

#include "pipeline/device/device_kernels.h"

void cuda_product(const struct device_lane *lane, const struct device_product *product);

#endif
