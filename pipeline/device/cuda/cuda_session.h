/* SPDX-License-Identifier: Apache-2.0 */
/* A session of the CUDA row: cuda_row.c sets it up and cuda_product.c uses it. */
#ifndef TRYST_PIPELINE_DEVICE_CUDA_CUDA_SESSION_H
#define TRYST_PIPELINE_DEVICE_CUDA_CUDA_SESSION_H

#include "cuda_row.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

/** Limit of the plans that a session keeps; a stage has products of about twenty
 *  shapes. */
enum { CUDA_PLANS_MAX = 64 };

/** The properties that decide which of cuBLASLt's algorithms runs. */
struct cuda_plan_key {
    int32_t m, n, k;
    uint8_t a_transposed, b_transposed, d_wide, biased, added, epilogue;
    uint8_t reserved[2];
};

/** What cuBLASLt computes besides the product: bias and GELU, the bias, or neither.
 *  Kernels of this folder compute the rest. */
enum cuda_fusion { CUDA_FUSED, CUDA_FUSED_BIAS, CUDA_UNFUSED };

/** The descriptors and the algorithm for products of one shape. */
struct cuda_plan {
    struct cuda_plan_key key;
    bool used;
    enum cuda_fusion fusion;
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
};

struct cuda_session {
    struct device_session base;
    cublasLtHandle_t lt;
    void *context; /**< the device's primary context, which the session retains */
    /** Functions of the driver; the runtime gives their addresses. */
    struct cuda_context_calls {
        int (*retain)(void **context_p, int device);
        int (*release)(int device);
        int (*push)(void *context);
        int (*pop)(void **context_p);
    } calls;
    bool entered;              /**< `context` is the thread's current one */
    bool opened[DEVICE_LANES]; /**< the lane's stream is open */
    struct cuda_plan plans[CUDA_PLANS_MAX];
    uint32_t plans_next; /**< plan that the next new shape replaces */
};

/** Record in the session that cuBLASLt failed with `status`. */
void cuda_product_failed(const struct device_lane *lane,
                         const struct device_product *product, cublasStatus_t status);

#endif
