/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA kernels' own sources, compiled for the host over the emulation. */
#include "support/emulated_cuda.h"

#include "pipeline/device/attention.cu"
#include "pipeline/device/column_sum.cu"
#include "pipeline/device/cross_entropy.cu"
#include "pipeline/device/elements.cu"
#include "pipeline/device/embedding.cu"
#include "pipeline/device/gelu.cu"
#include "pipeline/device/norm.cu"
#include "pipeline/device/update.cu"
