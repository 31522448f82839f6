/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt without a GPU: the functions that the stages' module uses, as cublasLt.h and
 * the library's manual specify them, in plain loops; work runs in the streams of the fake
 * runtime.
 *
 * Requirements that a caller must meet: sizes of attributes; column-major layouts with
 * leading dimensions of at least their rows; combinations of types from the manual's
 * table; a bias as long as D's rows; an auxiliary matrix with a leading dimension that is
 * a multiple of 8; the alignment for which the algorithm was chosen; a workspace that
 * exists, is big enough and aligned to 256; C equal to D only with one layout; no product
 * that overwrites its factors. A long dimension k is split in two; the partial sums are
 * added in the workspace.
 *
 * FAKE_CUBLAS_LACKS lists epilogues for which the heuristic finds no algorithm,
 * FAKE_CUBLAS_REFUSES those for which the heuristic returns an algorithm that then fails:
 * gelu, dgelu, bias; separated by commas. FAKE_CUBLAS_REAL is the file of the real
 * library: descriptors can be made without a GPU, so the real library gets the same
 * calls, and the process ends where it disagrees about an attribute. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>

#include "fake_runtime.h"
#include "support/fake_cuda/fake_private.h"

enum { MAGIC_LAYOUT = 0x4c61796f, MAGIC_PRODUCT, MAGIC_PREFERENCE, MAGIC_ALGORITHM };
enum { WORKSPACE_ALIGN = 256, SPLIT_FROM = 48, AUX_LD_MULTIPLE = 8 };

struct layout {
    uint32_t magic;
    int32_t type;
    uint64_t rows, columns;
    int64_t ld;
};
_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");

struct product {
    uint32_t magic;
    int32_t compute, scale, first, second; /* transposed? */
    uint32_t epilogue;
    const void *bias;
    void *aux;
    int64_t aux_ld;
};
_Static_assert(sizeof(struct product) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");

struct wishes {
    uint32_t magic, schemes;
    uint64_t workspace_bytes;
    uint32_t align[4]; /* of A, B, C, D */
};
_Static_assert(sizeof(struct wishes) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits");

/* The complete configuration for which it was chosen; it fits no other. */
struct algorithm {
    uint32_t magic;
    uint16_t align[4], bias_align, aux_align;
    uint32_t epilogue, m, n, k, workspace_bytes;
    uint8_t compute, types, transposed, splits;
};
_Static_assert(sizeof(struct algorithm) <= sizeof(cublasLtMatmulAlgo_t), "fits");

struct cublasLtContext {
    int device;
};

#define BEGIN(function)                                              \
    do {                                                             \
        cublasStatus_t begun = (cublasStatus_t)fake_begin(function); \
        if (begun != CUBLAS_STATUS_SUCCESS) {                        \
            return begun;                                            \
        }                                                            \
    } while (0)

/* True if an epilogue is in the list of an environment variable. */
static bool is_listed(const char *variable, uint32_t epilogue)
{
    const char *list = getenv(variable);
    const char *name = epilogue == CUBLASLT_EPILOGUE_DGELU                  ? ",dgelu,"
                       : (epilogue & (uint32_t)CUBLASLT_EPILOGUE_GELU)      ? ",gelu,"
                       : (epilogue & (uint32_t)CUBLASLT_EPILOGUE_BIAS) != 0 ? ",bias,"
                                                                            : ",none,";
    char padded[64];
    (void)snprintf(padded, sizeof padded, ",%s,", list ? list : "");
    return strstr(padded, name) != NULL;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
           : status == CUBLAS_STATUS_INVALID_VALUE
               ? "CUBLAS_STATUS_INVALID_VALUE"
               : "a failure requested by FAKE_CUDA_FAIL or by the test";
}

/* ---- comparison with the real library ---------------------------------------------- */

static struct real {
    cublasStatus_t (*product_init)(cublasLtMatmulDesc_t, size_t, cublasComputeType_t,
                                   cudaDataType_t);
    cublasStatus_t (*product_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                                  const void *, size_t);
    cublasStatus_t (*layout_init)(cublasLtMatrixLayout_t, size_t, cudaDataType, uint64_t,
                                  uint64_t, int64_t);
    cublasStatus_t (*preference_init)(cublasLtMatmulPreference_t, size_t);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t, const void *,
                                     size_t);
} real;

static void real_find(void *library, const char *name, void *function_p)
{
    void *found = dlsym(library, name);
    if (!found) {
        abort();
    }
    memcpy(function_p, &found, sizeof found);
}

static void real_load(void)
{
    const char *file = getenv("FAKE_CUBLAS_REAL");
    void *library = file ? dlopen(file, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE) : NULL;
    if (!library) {
        if (file) {
            fprintf(stderr, "fake cuBLASLt: %s\n", dlerror());
            abort();
        }
        return;
    }
    real_find(library, "cublasLtMatmulDescInit_internal", &real.product_init);
    real_find(library, "cublasLtMatmulDescSetAttribute", &real.product_set);
    real_find(library, "cublasLtMatrixLayoutInit_internal", &real.layout_init);
    real_find(library, "cublasLtMatmulPreferenceInit_internal", &real.preference_init);
    real_find(library, "cublasLtMatmulPreferenceSetAttribute", &real.preference_set);
}

static bool is_real_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, real_load);
    return real.product_init != NULL;
}

static cublasStatus_t agreed(cublasStatus_t ours, cublasStatus_t theirs, const char *what,
                             int attribute)
{
    if (ours != theirs) {
        fprintf(stderr,
                "fake cuBLASLt: %s, attribute %d: the real library returns %d, not %d\n",
                what, attribute, (int)theirs, (int)ours);
        abort();
    }
    return ours;
}

/* ---- handles and descriptors ------------------------------------------------------- */

static int handles;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    BEGIN("cublasLtCreate");
    if (fake_current() < 0) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    struct cublasLtContext *self = malloc(sizeof *self);
    if (!self) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    self->device = fake_current();
    __atomic_add_fetch(&handles, 1, __ATOMIC_RELAXED);
    *handle = self;
    return CUBLAS_STATUS_SUCCESS;
}

/* Wait for the device, as the manual documents. */
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    pthread_mutex_lock(&fake_lock);
    fake_synchronize(handle->device);
    pthread_mutex_unlock(&fake_lock);
    free(handle);
    __atomic_sub_fetch(&handles, 1, __ATOMIC_RELAXED);
    return (cublasStatus_t)fake_begin("cublasLtDestroy");
}

__attribute__((destructor)) static void at_exit(void)
{
    if (handles != 0) {
        fprintf(stderr, "fake cuBLASLt: %d handles left\n", handles);
        _Exit(FAKE_CUDA_EXIT);
    }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t to, size_t size,
                                                 cudaDataType type, uint64_t rows,
                                                 uint64_t cols, int64_t ld)
{
    const struct layout made = {MAGIC_LAYOUT, (int32_t)type, rows, cols, ld};
    BEGIN("cublasLtMatrixLayoutInit");
    if (size < sizeof *to) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    if (is_real_there()) {
        cublasLtMatrixLayoutOpaque_t theirs;
        (void)agreed(CUBLAS_STATUS_SUCCESS,
                     real.layout_init(&theirs, size, type, rows, cols, ld), "a layout",
                     (int)type);
    }
    memcpy(to, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t to, size_t size,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    const struct product made = {.magic = MAGIC_PRODUCT,
                                 .compute = (int32_t)compute,
                                 .scale = (int32_t)scale,
                                 .first = CUBLAS_OP_N,
                                 .second = CUBLAS_OP_N,
                                 .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    BEGIN("cublasLtMatmulDescInit");
    if (size < sizeof *to) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    memcpy(to, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

/* Store one attribute in its field; `bytes` must be the size of the field. */
static cublasStatus_t attribute_put(void *field, size_t field_bytes, const void *value,
                                    size_t bytes)
{
    if (!value || bytes != field_bytes) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

#define PUT(field) attribute_put(&(field), sizeof(field), value, bytes)

static cublasStatus_t product_put(struct product *self,
                                  cublasLtMatmulDescAttributes_t attribute,
                                  const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return PUT(self->first);
    case CUBLASLT_MATMUL_DESC_TRANSB: return PUT(self->second);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return PUT(self->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return PUT(self->bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return PUT(self->aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return PUT(self->aux_ld);
    default: abort(); /* not supported here */
    }
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    struct product *self = (struct product *)(void *)descriptor;
    BEGIN("cublasLtMatmulDescSetAttribute");
    if (self->magic != MAGIC_PRODUCT) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = product_put(self, attribute, value, bytes);
    cublasLtMatmulDescOpaque_t theirs;
    if (!is_real_there() ||
        real.product_init(&theirs, sizeof theirs, (cublasComputeType_t)self->compute,
                          (cudaDataType_t)self->scale) != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    return agreed(status, real.product_set(&theirs, attribute, value, bytes), "a product",
                  (int)attribute);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t to,
                                                     size_t size)
{
    const struct wishes made = {
        MAGIC_PREFERENCE, CUBLASLT_REDUCTION_SCHEME_MASK, 0, {256, 256, 256, 256}};
    BEGIN("cublasLtMatmulPreferenceInit");
    if (size < sizeof *to) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    memcpy(to, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t preference_write(struct wishes *self,
                                       cublasLtMatmulPreferenceAttributes_t attribute,
                                       const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return PUT(self->workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return PUT(self->schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return PUT(self->align[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return PUT(self->align[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return PUT(self->align[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return PUT(self->align[3]);
    default: abort(); /* not supported here */
    }
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    const void *value, size_t bytes)
{
    struct wishes *self = (struct wishes *)(void *)preference;
    BEGIN("cublasLtMatmulPreferenceSetAttribute");
    if (self->magic != MAGIC_PREFERENCE) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = preference_write(self, attribute, value, bytes);
    cublasLtMatmulPreferenceOpaque_t theirs;
    if (!is_real_there() ||
        real.preference_init(&theirs, sizeof theirs) != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    return agreed(status, real.preference_set(&theirs, attribute, value, bytes), "a wish",
                  (int)attribute);
}

/* ---- compatible arguments ---------------------------------------------------------- */

/* A product with its matrices: D (m, n) of A's (m, k) and B's (k, n), after
 * transposing. */
struct problem {
    struct product product;
    struct layout a, b, c, d;
    uint64_t m, n, k;
};

static bool layout_good(const struct layout *self)
{
    return self->magic == MAGIC_LAYOUT && self->rows > 0 && self->columns > 0 &&
           self->rows <= INT32_MAX && self->columns <= INT32_MAX &&
           self->ld >= (int64_t)self->rows;
}

static bool layouts_equal(const struct layout *a, const struct layout *b)
{
    return a->type == b->type && a->rows == b->rows && a->columns == b->columns &&
           a->ld == b->ld;
}

/* The rows of the manual's table for CUBLAS_COMPUTE_32F and _32F_FAST_TF32 that Tryst
 * uses. */
static bool types_good(const struct problem *p)
{
    int32_t in = p->a.type, out = p->d.type;
    bool plain = p->product.compute == CUBLAS_COMPUTE_32F;
    if (p->product.scale != CUDA_R_32F || p->b.type != in || p->c.type != out) {
        return false;
    }
    if (in == CUDA_R_16BF) {
        return plain && (out == CUDA_R_16BF || out == CUDA_R_32F);
    }
    return in == CUDA_R_32F && out == CUDA_R_32F &&
           (plain || p->product.compute == CUBLAS_COMPUTE_32F_FAST_TF32);
}

static bool has_aux(uint32_t epilogue)
{
    return (epilogue & 128u) != 0;
}

static cublasStatus_t epilogue_check(const struct problem *p)
{
    switch (p->product.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: break;
    case CUBLASLT_EPILOGUE_BIAS: break;
    case CUBLASLT_EPILOGUE_GELU_AUX: break;
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS: break;
    case CUBLASLT_EPILOGUE_DGELU: break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED; /* here */
    }
    if ((p->product.epilogue & (uint32_t)CUBLASLT_EPILOGUE_BIAS) && !p->product.bias) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!has_aux(p->product.epilogue)) {
        return CUBLAS_STATUS_SUCCESS;
    }
    if (!p->product.aux || p->product.aux_ld < (int64_t)p->m) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return p->product.aux_ld % AUX_LD_MULTIPLE ? CUBLAS_STATUS_NOT_SUPPORTED
                                               : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t problem_read(struct problem *p, cublasLtMatmulDesc_t product,
                                   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    memcpy(&p->product, product, sizeof p->product);
    memcpy(&p->a, a, sizeof p->a);
    memcpy(&p->b, b, sizeof p->b);
    memcpy(&p->c, c, sizeof p->c);
    memcpy(&p->d, d, sizeof p->d);
    if (p->product.magic != MAGIC_PRODUCT || !layout_good(&p->a) || !layout_good(&p->b) ||
        !layout_good(&p->c) || !layout_good(&p->d)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    bool first = p->product.first == CUBLAS_OP_T,
         second = p->product.second == CUBLAS_OP_T;
    p->m = first ? p->a.columns : p->a.rows;
    p->k = first ? p->a.rows : p->a.columns;
    p->n = second ? p->b.rows : p->b.columns;
    if ((second ? p->b.columns : p->b.rows) != p->k || p->d.rows != p->m ||
        p->d.columns != p->n || p->c.rows != p->m || p->c.columns != p->n) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return types_good(p) ? epilogue_check(p) : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- choosing ---------------------------------------------------------------------- */

/* Return the largest power of two up to 256 that divides an address. */
static uint16_t align_of(const void *pointer)
{
    uintptr_t lowest = (uintptr_t)pointer & (~(uintptr_t)pointer + 1);
    return lowest == 0 || lowest > 256 ? 256 : (uint16_t)lowest;
}

static struct algorithm algorithm_of(const struct problem *p, const struct wishes *wishes)
{
    uint64_t partials = 2 * p->m * p->n * sizeof(float);
    bool split = p->k >= SPLIT_FROM && partials <= wishes->workspace_bytes &&
                 (wishes->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    struct algorithm made = {.magic = MAGIC_ALGORITHM,
                             .epilogue = p->product.epilogue,
                             .m = (uint32_t)p->m,
                             .n = (uint32_t)p->n,
                             .k = (uint32_t)p->k,
                             .workspace_bytes = split ? (uint32_t)partials : 0,
                             .compute = (uint8_t)p->product.compute,
                             .types = (uint8_t)(p->a.type * 16 + p->d.type),
                             .transposed =
                                 (uint8_t)(p->product.first * 2 + p->product.second),
                             .splits = split ? 2 : 1};
    for (int i = 0; i < 4; i++) {
        made.align[i] = (uint16_t)wishes->align[i];
    }
    made.bias_align = align_of(p->product.bias);
    made.aux_align = align_of(p->product.aux);
    return made;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int *count)
{
    struct problem p;
    struct wishes wishes;
    BEGIN("cublasLtMatmulAlgoGetHeuristic");
    memcpy(&wishes, preference, sizeof wishes);
    *count = 0;
    if (!handle || wanted < 1 || wishes.magic != MAGIC_PREFERENCE) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublasStatus_t status = problem_read(&p, product, a, b, c, d);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    if (is_listed("FAKE_CUBLAS_LACKS", p.product.epilogue)) {
        return CUBLAS_STATUS_SUCCESS; /* no algorithm */
    }
    const struct algorithm made = algorithm_of(&p, &wishes);
    memset(&results[0], 0, sizeof results[0]);
    memcpy(&results[0].algo, &made, sizeof made);
    results[0].workspaceSize = made.workspace_bytes;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- running ----------------------------------------------------------------------- */

struct task {
    struct problem p;
    struct algorithm algorithm;
    float alpha, beta;
    const void *a, *b, *c;
    void *d, *workspace;
};

static size_t type_bytes(int32_t type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

static size_t layout_bytes(const struct layout *self)
{
    return ((size_t)self->ld * (self->columns - 1) + self->rows) * type_bytes(self->type);
}

static float get(const void *data, int32_t type, size_t at)
{
    float number;
    if (type == CUDA_R_32F) {
        return ((const float *)data)[at];
    }
    uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void put(void *data, int32_t type, size_t at, float number)
{
    uint32_t bits;
    if (type == CUDA_R_32F) {
        ((float *)data)[at] = number;
        return;
    }
    memcpy(&bits, &number, sizeof bits);
    bits = isnan(number) ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    ((uint16_t *)data)[at] = (uint16_t)(bits >> 16);
}

/* Round to the 10 bits of TF32's mantissa. */
static float tf32(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Return a factor as [outer][k] in fp32, whatever its layout. */
static float *factor_of(const struct task *t, const void *data,
                        const struct layout *layout, bool k_is_rows)
{
    size_t k = t->p.k, outer = k_is_rows ? layout->columns : layout->rows;
    float *made = malloc(outer * k * sizeof *made);
    if (!made) {
        abort();
    }
    for (size_t o = 0; o < outer; o++) {
        for (size_t l = 0; l < k; l++) {
            size_t row = k_is_rows ? l : o, column = k_is_rows ? o : l;
            float number = get(data, layout->type, column * (size_t)layout->ld + row);
            made[o * k + l] = t->p.product.compute == CUBLAS_COMPUTE_32F_FAST_TF32
                                  ? tf32(number)
                                  : number;
        }
    }
    return made;
}

static float gelu_tanh(float x)
{
    return tanhf(0.79788456f * (x + 0.044715f * x * x * x));
}

static float gelu(float x)
{
    return 0.5f * x * (1 + gelu_tanh(x));
}

static float gelu_slope(float x)
{
    float t = gelu_tanh(x);
    return 0.5f * (1 + t) +
           0.5f * x * (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * x * x);
}

static float dot(const float *a, const float *b, size_t first, size_t last)
{
    float sum = 0;
    for (size_t l = first; l < last; l++) {
        sum += a[l] * b[l];
    }
    return sum;
}

/* Apply the epilogue to one element. `aux` and `bias` are host addresses. */
static float epilogue(const struct task *t, float value, size_t row, size_t column,
                      const void *bias, void *aux)
{
    uint32_t which = t->p.product.epilogue;
    int32_t type = t->p.d.type; /* also the type of bias and aux by default */
    size_t aux_at = column * (size_t)t->p.product.aux_ld + row;
    if (which & (uint32_t)CUBLASLT_EPILOGUE_BIAS) {
        value += get(bias, type, row);
    }
    if (which == CUBLASLT_EPILOGUE_DGELU) {
        return value * gelu_slope(get(aux, type, aux_at));
    }
    if (which & (uint32_t)CUBLASLT_EPILOGUE_GELU) {
        put(aux, type, aux_at, value);
        return gelu(value);
    }
    return value;
}

/* Compute the sums of each part of k, where the workspace is in use. */
static void partials_make(const struct task *t, const float *a, const float *b,
                          float *partials)
{
    size_t m = t->p.m, n = t->p.n, k = t->p.k;
    for (size_t part = 0; part < 2; part++) {
        for (size_t j = 0; j < n; j++) {
            for (size_t i = 0; i < m; i++) {
                partials[(part * n + j) * m + i] =
                    dot(a + i * k, b + j * k, part * (k / 2), part ? k : k / 2);
            }
        }
    }
}

static float *workspace_reach(const struct task *t)
{
    return t->algorithm.splits == 1
               ? NULL
               : fake_runtime_reach(t->workspace, t->algorithm.workspace_bytes,
                                    "a product's workspace");
}

static void *side_reach(const void *data, size_t elements, int32_t type, bool is_used)
{
    return is_used ? fake_runtime_reach(data, elements * type_bytes(type),
                                        "a product's bias or auxiliary matrix")
                   : NULL;
}

static void task_do(const struct task *t, const float *a, const float *b)
{
    const struct problem *p = &t->p;
    uint32_t which = p->product.epilogue;
    const void *c =
        t->beta == 0 ? NULL : fake_runtime_reach(t->c, layout_bytes(&p->c), "C");
    void *d = fake_runtime_reach(t->d, layout_bytes(&p->d), "D");
    const void *bias = side_reach(p->product.bias, p->m, p->d.type,
                                  which & (uint32_t)CUBLASLT_EPILOGUE_BIAS);
    void *aux = side_reach(p->product.aux, (size_t)p->product.aux_ld * (p->n - 1) + p->m,
                           p->d.type, has_aux(which));
    float *partials = workspace_reach(t);
    if (partials) {
        partials_make(t, a, b, partials);
    }
    for (size_t j = 0; j < p->n; j++) {
        for (size_t i = 0; i < p->m; i++) {
            size_t at = j * (size_t)p->d.ld + i;
            float sum = partials
                            ? partials[j * p->m + i] + partials[(p->n + j) * p->m + i]
                            : dot(a + i * p->k, b + j * p->k, 0, p->k);
            float value = t->alpha * sum + (c ? t->beta * get(c, p->c.type, at) : 0);
            put(d, p->d.type, at, epilogue(t, value, i, j, bias, aux));
        }
    }
}

static void task_run(void *arg, int skip)
{
    struct task *t = arg;
    const struct problem *p = &t->p;
    if (!skip) {
        float *a = factor_of(t, fake_runtime_reach(t->a, layout_bytes(&p->a), "A"), &p->a,
                             p->product.first == CUBLAS_OP_T);
        float *b = factor_of(t, fake_runtime_reach(t->b, layout_bytes(&p->b), "B"), &p->b,
                             p->product.second != CUBLAS_OP_T);
        task_do(t, a, b);
        free(a);
        free(b);
    }
    free(t);
}

static bool is_aligned(const void *pointer, unsigned align)
{
    return (uintptr_t)pointer % align == 0;
}

static bool is_apart(const void *one, size_t one_bytes, const void *other,
                     size_t other_bytes)
{
    uintptr_t a = (uintptr_t)one, b = (uintptr_t)other;
    return a + one_bytes <= b || b + other_bytes <= a;
}

static bool pointers_good(const struct task *t)
{
    const struct algorithm *fit = &t->algorithm;
    const struct problem *p = &t->p;
    size_t d_bytes = layout_bytes(&p->d);
    return is_aligned(t->a, fit->align[0]) && is_aligned(t->b, fit->align[1]) &&
           is_aligned(t->c, fit->align[2]) && is_aligned(t->d, fit->align[3]) &&
           is_aligned(p->product.bias, fit->bias_align) &&
           is_aligned(p->product.aux, fit->aux_align) &&
           (t->c != t->d || layouts_equal(&p->c, &p->d)) &&
           is_apart(t->a, layout_bytes(&p->a), t->d, d_bytes) &&
           is_apart(t->b, layout_bytes(&p->b), t->d, d_bytes);
}

/* True if the algorithm was chosen for this configuration and has enough workspace. */
static bool algorithm_good(const struct task *t, size_t workspace_bytes)
{
    const struct algorithm *fit = &t->algorithm;
    const struct problem *p = &t->p;
    return fit->magic == MAGIC_ALGORITHM && fit->epilogue == p->product.epilogue &&
           fit->m == p->m && fit->n == p->n && fit->k == p->k &&
           fit->compute == (uint8_t)p->product.compute &&
           fit->types == (uint8_t)(p->a.type * 16 + p->d.type) &&
           fit->transposed == (uint8_t)(p->product.first * 2 + p->product.second) &&
           fit->workspace_bytes <= workspace_bytes &&
           (workspace_bytes == 0 ||
            (t->workspace && is_aligned(t->workspace, WORKSPACE_ALIGN)));
}

static cublasStatus_t task_check(const struct task *t, size_t workspace_bytes)
{
    int device;
    if (fake_current() < 0 || fake_usable(&device) != CUDA_SUCCESS) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (is_listed("FAKE_CUBLAS_REFUSES", t->p.product.epilogue)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return algorithm_good(t, workspace_bytes) && pointers_good(t)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    struct task task = {.a = a, .b = b, .c = c, .d = d, .workspace = workspace};
    BEGIN("cublasLtMatmul");
    if (!handle || !algorithm || !a || !b || !d) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(&task.alpha, alpha, sizeof task.alpha); /* both are fp32, on the host */
    memcpy(&task.beta, beta, sizeof task.beta);
    memcpy(&task.algorithm, algorithm, sizeof task.algorithm);
    cublasStatus_t status =
        problem_read(&task.p, product, a_layout, b_layout, c_layout, d_layout);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = task_check(&task, workspace_bytes);
    }
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    struct task *queued = malloc(sizeof *queued);
    if (!queued) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *queued = task;
    fake_cuda_load((const void *)task_run); /* one kernel for all products */
    fake_runtime_enqueue(stream, task_run, queued);
    return CUBLAS_STATUS_SUCCESS;
}
