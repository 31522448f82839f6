/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies matrices by cuBLASLt.
 *
 * cuBLASLt's matrices are column-major, so a row-major D [m, n] = A · B is the
 * column-major Dᵀ [n, m] = Bᵀ · Aᵀ: its first factor is our B, its second our A, and its
 * bias, one number for each of its rows, is one for each of our columns.
 *
 * Each shape is set up once (a plan). The algorithm is the first that cuBLASLt's
 * heuristic returns, so it is the same in each run; partial sums of a split k are added
 * in fp32 only. The heuristic gets the alignment of the arrays but no address, so equal
 * shapes get equal algorithms wherever the arrays are. If no algorithm supports the GELU
 * (for odd widths, for example), or not even the bias, the product runs without it, and
 * our kernels compute the rest. */
#include "cuda_product.h"
#include "cuda_session.h"

#include <string.h>

/* Alignment of all arrays (stage.h). */
enum { PRODUCT_ALIGN_BYTES = 64 };

static cudaDataType_t type_of(tryst_dtype dtype)
{
    return dtype == TRYST_DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue_of(const struct cuda_plan *plan)
{
    const struct cuda_plan_key *key = &plan->key;
    if (plan->fusion == CUDA_FUSED && key->epilogue == DEVICE_EPILOGUE_GELU) {
        return key->biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    }
    if (plan->fusion == CUDA_FUSED && key->epilogue == DEVICE_EPILOGUE_DGELU) {
        return CUBLASLT_EPILOGUE_DGELU;
    }
    return key->biased && plan->fusion != CUDA_UNFUSED ? CUBLASLT_EPILOGUE_BIAS
                                                       : CUBLASLT_EPILOGUE_DEFAULT;
}

/* ---- plans ------------------------------------------------------------------------- */

/* Set one attribute of a plan's product, unless *status is an earlier failure. */
static void product_set(struct cuda_plan *plan, cublasLtMatmulDescAttributes_t attribute,
                        const void *value, size_t bytes, cublasStatus_t *status)
{
    if (*status == CUBLAS_STATUS_SUCCESS) {
        *status = cublasLtMatmulDescSetAttribute(&plan->product, attribute, value, bytes);
    }
}

static cublasStatus_t product_set_pointers(struct cuda_plan *plan, const void *bias,
                                           void *aux)
{
    const struct cuda_plan_key *key = &plan->key;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (key->biased && plan->fusion != CUDA_UNFUSED) {
        product_set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias),
                    &status);
    }
    if (key->epilogue != DEVICE_EPILOGUE_NONE && plan->fusion == CUDA_FUSED) {
        product_set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof(aux),
                    &status);
    }
    return status;
}

static cublasStatus_t plan_describe(struct cuda_plan *plan,
                                    const struct device_session *session)
{
    const struct cuda_plan_key *key = &plan->key;
    cublasComputeType_t compute = session->precision == TRYST_PRECISION_TF32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = key->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = key->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(plan);
    int64_t aux_ld = key->n;
    /* any aligned address; product_run sets the real ones */
    void *aligned = (void *)(uintptr_t)PRODUCT_ALIGN_BYTES;
    cublasStatus_t status = cublasLtMatmulDescInit(&plan->product, compute, CUDA_R_32F);
    product_set(plan, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first), &status);
    product_set(plan, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second), &status);
    product_set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue),
                &status);
    if (plan->fusion == CUDA_FUSED && key->epilogue != DEVICE_EPILOGUE_NONE) {
        product_set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_ld, sizeof(aux_ld),
                    &status);
    }
    return status == CUBLAS_STATUS_SUCCESS ? product_set_pointers(plan, aligned, aligned)
                                           : status;
}

static cublasStatus_t plan_layouts(struct cuda_plan *plan,
                                   const struct device_session *session)
{
    const struct cuda_plan_key *key = &plan->key;
    uint64_t m = (uint64_t)key->m, n = (uint64_t)key->n, k = (uint64_t)key->k;
    cudaDataType_t type = type_of(session->dtype);
    cudaDataType_t d_type = key->d_wide ? type_of(session->wide) : type;
    cublasStatus_t status = cublasLtMatrixLayoutInit(
        &plan->b, type, key->b_transposed ? k : n, key->b_transposed ? n : k,
        (int64_t)(key->b_transposed ? k : n));
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatrixLayoutInit(&plan->a, type, key->a_transposed ? m : k,
                                          key->a_transposed ? k : m,
                                          (int64_t)(key->a_transposed ? m : k));
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatrixLayoutInit(&plan->d, d_type, n, m, (int64_t)n);
    }
    return status;
}

static cublasStatus_t plan_choose(struct cuda_plan *plan, cublasLtHandle_t lt)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result;
    uint64_t workspace = DEVICE_WORKSPACE_BYTES;
    uint32_t align = PRODUCT_ALIGN_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align, sizeof(align)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align, sizeof(align)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align, sizeof(align)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align, sizeof(align)},
    };
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceInit(&preference);
    for (size_t i = 0;
         status == CUBLAS_STATUS_SUCCESS && i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        status = cublasLtMatmulPreferenceSetAttribute(&preference, wishes[i].attribute,
                                                      wishes[i].value, wishes[i].bytes);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoGetHeuristic(lt, &plan->product, &plan->b, &plan->a,
                                                &plan->d, &plan->d, &preference, 1,
                                                &result, &found);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = found > 0 ? result.state : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        plan->algorithm = result.algo;
    }
    return status;
}

static cublasStatus_t plan_make(struct cuda_plan *plan, struct cuda_session *session,
                                enum cuda_fusion fusion)
{
    plan->fusion = fusion;
    cublasStatus_t status = plan_describe(plan, &session->base);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = plan_layouts(plan, &session->base);
    }
    return status == CUBLAS_STATUS_SUCCESS ? plan_choose(plan, session->lt) : status;
}

/* Make the plan with as much fused into the product as an algorithm supports, but not
 * more than `fusion`. */
static cublasStatus_t plan_settle(struct cuda_plan *plan, struct cuda_session *session,
                                  enum cuda_fusion fusion)
{
    cublasStatus_t status = plan_make(plan, session, fusion);
    while (status != CUBLAS_STATUS_SUCCESS && fusion < CUDA_UNFUSED) {
        status = plan_make(plan, session, ++fusion);
    }
    plan->used = status == CUBLAS_STATUS_SUCCESS;
    return status;
}

static struct cuda_plan_key key_of(const struct device_product *p)
{
    return (struct cuda_plan_key){.m = p->m,
                                  .n = p->n,
                                  .k = p->k,
                                  .a_transposed = p->a_transposed,
                                  .b_transposed = p->b_transposed,
                                  .d_wide = p->d_wide,
                                  .biased = p->bias != NULL,
                                  .added = p->add != NULL,
                                  .epilogue = (uint8_t)p->epilogue};
}

/* Return the plan of this shape, and make it if there is none; *status receives the
 * result. If all plans are in use, a new shape replaces the oldest. */
static struct cuda_plan *plan_get(struct cuda_session *session,
                                  const struct device_product *p, cublasStatus_t *status)
{
    const struct cuda_plan_key key = key_of(p);
    *status = CUBLAS_STATUS_SUCCESS;
    for (int32_t i = 0; i < CUDA_PLANS_MAX; i++) {
        struct cuda_plan *plan = &session->plans[i];
        if (plan->used && memcmp(&plan->key, &key, sizeof(key)) == 0) {
            return plan;
        }
    }
    struct cuda_plan *plan = &session->plans[session->plans_next++ % CUDA_PLANS_MAX];
    *plan = (struct cuda_plan){.key = key};
    *status = plan_settle(plan, session, CUDA_FUSED);
    return plan;
}

/* ---- running ----------------------------------------------------------------------- */

/* Return the array to which cuBLASLt writes: aux if our kernel computes the GELU from
 * it, else d. */
static void *product_target(const struct cuda_plan *plan, const struct device_product *p)
{
    return plan->fusion != CUDA_FUSED && p->epilogue == DEVICE_EPILOGUE_GELU ? p->aux
                                                                             : p->d;
}

static cublasStatus_t product_run(const struct device_lane *lane, struct cuda_plan *plan,
                                  const struct device_product *p)
{
    float one = 1, beta = p->add ? 1 : 0;
    void *d = product_target(plan, p);
    cublasStatus_t status = product_set_pointers(plan, p->bias, p->aux);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    return cublasLtMatmul(((struct cuda_session *)lane->session)->lt, &plan->product,
                          &one, p->b, &plan->b, p->a, &plan->a, &beta,
                          p->add ? p->add : d, &plan->d, d, &plan->d, &plan->algorithm,
                          lane->workspace, DEVICE_WORKSPACE_BYTES,
                          (cudaStream_t)lane->stream);
}

/* Run our kernels for bias and GELU where cuBLASLt did not compute them. */
static void product_finish(const struct device_lane *lane, const struct cuda_plan *plan,
                           const struct device_product *p)
{
    uint64_t count = (uint64_t)p->m * (uint64_t)p->n;
    if (plan->fusion == CUDA_UNFUSED && p->bias) {
        cuda_bias_add(lane, p->m, p->n, p->bias, product_target(plan, p));
    }
    if (plan->fusion == CUDA_FUSED) {
        return;
    }
    if (p->epilogue == DEVICE_EPILOGUE_GELU) {
        cuda_gelu_forward(lane, count, p->aux, p->d);
    } else if (p->epilogue == DEVICE_EPILOGUE_DGELU) {
        cuda_gelu_backward(lane, count, p->aux, p->d, p->d);
    }
}

/* True if cuBLASLt refused to run the algorithm, although its heuristic had returned it.
 * Nothing has been enqueued then. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

void cuda_product(const struct device_lane *lane, const struct device_product *p)
{
    struct cuda_session *session = (struct cuda_session *)lane->session;
    cublasStatus_t status;
    struct cuda_plan *plan = plan_get(session, p, &status);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = product_run(lane, plan, p);
    }
    while (plan->used && is_refusal(status) && plan->fusion < CUDA_UNFUSED) {
        status = plan_settle(plan, session, (enum cuda_fusion)(plan->fusion + 1));
        if (status == CUBLAS_STATUS_SUCCESS) {
            status = product_run(lane, plan, p);
        }
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        product_finish(lane, plan, p);
    } else {
        cuda_product_failed(lane, p, status);
    }
}
