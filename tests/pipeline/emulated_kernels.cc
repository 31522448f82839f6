/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of the CUDA kernels, compiled for the host over the emulation. */
#include "support/emulated_cuda.h"

#include "pipeline/device/cuda/attention.cu"
#include "pipeline/device/cuda/column_sum.cu"
#include "pipeline/device/cuda/cross_entropy.cu"
#include "pipeline/device/cuda/elements.cu"
#include "pipeline/device/cuda/embedding.cu"
#include "pipeline/device/cuda/gelu.cu"
#include "pipeline/device/cuda/norm.cu"
#include "pipeline/device/cuda/predict.cu"
#include "pipeline/device/cuda/update.cu"
