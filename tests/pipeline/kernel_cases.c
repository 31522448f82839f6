/* SPDX-License-Identifier: Apache-2.0 */
/* See kernel_cases.h. */
#include "kernel_cases.h"

#include <math.h>
#include <string.h>

#include "pipeline/device/device_finish.h"
#include "pipeline/device/reference/number.h"
#include "support/unit.h"

/* The seed of all arrays' contents. */
enum { SEED = 29 };

/* ---- arrays ------------------------------------------------------------------------ */

static tryst_dtype operand_dtype(const struct device_session *session,
                                 const struct operand *o)
{
    return o->type == OPERAND_T     ? session->dtype
           : o->type == OPERAND_F64 ? TRYST_DTYPE_F64
                                    : session->wide;
}

static uint64_t operand_bytes(const struct device_session *session,
                              const struct operand *o)
{
    return o->type == OPERAND_BYTES
               ? o->count
               : o->count * device_dtype_bytes(operand_dtype(session, o));
}

uint64_t kernel_arrays_bytes(const struct kernel_arrays *arrays, int i)
{
    return operand_bytes(arrays->session, &arrays->operands[i]);
}

static double next_unit(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

static void *operand_contents(const struct device_session *session,
                              const struct operand *o, uint64_t *state)
{
    uint8_t *data = calloc(operand_bytes(session, o) + 1, 1);
    assert_non_null(data);
    for (uint64_t i = 0; i < o->count; i++) {
        double unit = next_unit(state);
        if (o->type == OPERAND_BYTES) {
            data[i] = (uint8_t)(unit * o->bound);
        } else {
            number_put(data, operand_dtype(session, o), i,
                       o->bound > 0 ? o->bound * (2 * unit - 1) : unit);
        }
    }
    return data;
}

void kernel_workspace_open(struct device_session *session)
{
    const struct device_kernels *k = session->kernels;
    k->enter(session);
    for (int i = 0; i < DEVICE_LANES; i++) {
        assert_int_equal(
            k->alloc(session, DEVICE_WORKSPACE_BYTES, &session->lanes[i].workspace),
            TRYST_OK);
    }
    assert_int_equal(device_session_finish(session, "a workspace"), TRYST_OK);
    k->leave(session);
}

void kernel_workspace_close(struct device_session *session)
{
    const struct device_kernels *k = session->kernels;
    k->enter(session);
    for (int i = 0; i < DEVICE_LANES; i++) {
        k->free(session, session->lanes[i].workspace);
    }
    k->leave(session);
}

struct kernel_arrays kernel_arrays_open(struct device_session *session,
                                        const struct kernel_case *with,
                                        const int32_t *shape, uint64_t seed)
{
    const struct device_kernels *k = session->kernels;
    struct kernel_arrays arrays = {
        .session = session,
        .run = {.kernels = k, .lane = &session->lanes[DEVICE_COMPUTE], .shape = shape}};
    arrays.operands_count = with->describe(shape, arrays.operands);
    k->enter(session);
    for (int i = 0; i < arrays.operands_count; i++) {
        uint64_t bytes = operand_bytes(session, &arrays.operands[i]);
        void *contents = operand_contents(session, &arrays.operands[i], &seed);
        assert_int_equal(k->alloc(session, bytes, &arrays.run.at[i]), TRYST_OK);
        k->copy(session, arrays.run.at[i], contents, bytes);
        assert_int_equal(device_session_finish(session, "an operand"), TRYST_OK);
        free(contents);
    }
    k->leave(session);
    return arrays;
}

void kernel_arrays_close(struct kernel_arrays *arrays)
{
    arrays->run.kernels->enter(arrays->session);
    for (int i = 0; i < arrays->operands_count; i++) {
        arrays->run.kernels->free(arrays->session, arrays->run.at[i]);
    }
    arrays->run.kernels->leave(arrays->session);
}

void *kernel_arrays_fetch(struct kernel_arrays *arrays, int i)
{
    uint64_t bytes = kernel_arrays_bytes(arrays, i);
    void *data = calloc(bytes + 1, 1);
    assert_non_null(data);
    arrays->run.kernels->enter(arrays->session);
    arrays->run.kernels->copy(arrays->session, data, arrays->run.at[i], bytes);
    assert_int_equal(device_session_finish(arrays->session, "an operand"), TRYST_OK);
    arrays->run.kernels->leave(arrays->session);
    return data;
}

void kernel_arrays_run(struct kernel_arrays *arrays, const struct kernel_case *with)
{
    const struct device_kernels *k = arrays->run.kernels;
    k->enter(arrays->session);
    with->run(&arrays->run);
    tryst_status status = device_session_finish(arrays->session, with->name);
    k->leave(arrays->session);
    if (status != TRYST_OK) {
        fail_msg("%s: %s", with->name, arrays->session->text);
    }
}

/* ---- comparing --------------------------------------------------------------------- */

enum { FEW = 16 };

/* fp32 sums differ by order; TF32 rounds factors to 11 bits, bf16 to 8. */
static double tolerance_of(tryst_precision precision)
{
    return precision == TRYST_PRECISION_F32    ? 2e-5
           : precision == TRYST_PRECISION_TF32 ? 2e-3
                                               : 1e-2;
}

static void outputs_compare(const char *name, const struct kernel_arrays *arrays, int i,
                            const void *got, const void *expected)
{
    const struct operand *o = &arrays->operands[i];
    tryst_dtype dtype = operand_dtype(arrays->session, o);
    double error = 0, size = 0;
    for (uint64_t j = 0; j < o->count; j++) {
        double e = number_get(expected, dtype, j);
        double d = number_get(got, dtype, j) - e;
        error += d * d;
        size += e * e;
    }
    /* Numbers are of the order of one. With few of them, all may be the difference of two
     * that nearly cancel. */
    if (o->count < FEW && size < (double)o->count) {
        size = (double)o->count;
    }
    double distance = size > 0 ? sqrt(error / size) : sqrt(error);
    if (!(distance <= tolerance_of(arrays->session->precision))) {
        const int32_t *s = arrays->run.shape;
        fail_msg("%s [%d, %d, %d, %d], operand %d: %.3g from the reference", name,
                 (int)s[0], (int)s[1], (int)s[2], (int)s[3], i, distance);
    }
}

static void outputs_check(struct kernel_arrays *got, struct kernel_arrays *reference,
                          const char *name)
{
    for (int i = 0; i < got->operands_count; i++) {
        void *values = kernel_arrays_fetch(got, i);
        void *expected = kernel_arrays_fetch(reference, i);
        if (got->operands[i].is_output) {
            outputs_compare(name, got, i, values, expected);
        } else {
            assert_memory_equal(values, expected, kernel_arrays_bytes(got, i));
        }
        free(values);
        free(expected);
    }
}

void kernel_case_check(struct device_session *session, const struct kernel_case *with,
                       const int32_t *shape)
{
    struct device_session *plain = NULL;
    assert_int_equal(
        device_kernels_reference.open(0, session->precision, &plain, NULL, 0), TRYST_OK);
    struct kernel_arrays got = kernel_arrays_open(session, with, shape, SEED);
    struct kernel_arrays reference = kernel_arrays_open(plain, with, shape, SEED);
    kernel_arrays_run(&got, with);
    kernel_arrays_run(&reference, with);
    outputs_check(&got, &reference, with->name);
    kernel_arrays_close(&got);
    kernel_arrays_close(&reference);
    plain->kernels->close(plain);
}

void kernel_case_check_repeats(struct device_session *session,
                               const struct kernel_case *with, const int32_t *shape,
                               void (*between)(void))
{
    struct kernel_arrays first = kernel_arrays_open(session, with, shape, SEED);
    struct kernel_arrays second = kernel_arrays_open(session, with, shape, SEED);
    kernel_arrays_run(&first, with);
    if (between) {
        between();
    }
    kernel_arrays_run(&second, with);
    for (int i = 0; i < first.operands_count; i++) {
        void *values = kernel_arrays_fetch(&first, i);
        void *again = kernel_arrays_fetch(&second, i);
        assert_memory_equal(values, again, kernel_arrays_bytes(&first, i));
        free(values);
        free(again);
    }
    kernel_arrays_close(&first);
    kernel_arrays_close(&second);
}

/* ---- products: m, n, k ------------------------------------------------------------- */

static uint64_t area(int32_t rows, int32_t columns)
{
    return (uint64_t)rows * (uint64_t)columns;
}

static double product_flops(const int32_t *s)
{
    return 2.0 * s[0] * s[1] * s[2];
}

static const int32_t product_shapes[][SHAPE_MAX] = {
    {1, 1, 1}, {5, 7, 3}, {64, 32, 16}, {33, 65, 17}, {64, 96, 64}, {40, 24, 80}};

/* a, b, bias, aux, d */
static int product_describe(const int32_t *s, struct operand *o)
{
    o[0] = (struct operand){OPERAND_T, false, area(s[0], s[2]), 1};
    o[1] = (struct operand){OPERAND_T, false, area(s[1], s[2]), 1};
    o[2] = (struct operand){OPERAND_T, false, (uint64_t)s[1], 1};
    o[3] = (struct operand){OPERAND_T, true, area(s[0], s[1]), 1};
    o[4] = (struct operand){OPERAND_T, true, area(s[0], s[1]), 1};
    return 5;
}

static struct device_product product_of(const struct kernel_run *r)
{
    return (struct device_product){.m = r->shape[0],
                                   .n = r->shape[1],
                                   .k = r->shape[2],
                                   .a = r->at[0],
                                   .b = r->at[1],
                                   .d = r->at[4]};
}

static void product_run_linear(const struct kernel_run *r)
{
    struct device_product p = product_of(r);
    p.b_transposed = true;
    p.bias = r->at[2];
    r->kernels->product(r->lane, &p);
}

static void product_run_residual(const struct kernel_run *r)
{
    struct device_product p = product_of(r);
    p.b_transposed = true;
    p.bias = r->at[2];
    p.add = r->at[3];
    r->kernels->product(r->lane, &p);
}

static void product_run_gelu(const struct kernel_run *r)
{
    struct device_product p = product_of(r);
    p.b_transposed = true;
    p.bias = r->at[2];
    p.epilogue = DEVICE_EPILOGUE_GELU;
    p.aux = r->at[3];
    r->kernels->product(r->lane, &p);
}

static void product_run_plain(const struct kernel_run *r)
{
    const struct device_product p = product_of(r);
    r->kernels->product(r->lane, &p);
}

static void product_run_dgelu(const struct kernel_run *r)
{
    struct device_product p = product_of(r);
    p.epilogue = DEVICE_EPILOGUE_DGELU;
    p.aux = r->at[3];
    r->kernels->product(r->lane, &p);
}

/* a, b, d: D += Aᵀ·B */
static int product_describe_weight(const int32_t *s, struct operand *o)
{
    o[0] = (struct operand){OPERAND_T, false, area(s[0], s[2]), 1};
    o[1] = (struct operand){OPERAND_T, false, area(s[1], s[2]), 1};
    o[2] = (struct operand){OPERAND_WIDE, true, area(s[0], s[1]), 1};
    return 3;
}

static void product_run_weight(const struct kernel_run *r)
{
    const struct device_product p = {.m = r->shape[0],
                                     .n = r->shape[1],
                                     .k = r->shape[2],
                                     .a_transposed = true,
                                     .d_wide = true,
                                     .a = r->at[0],
                                     .b = r->at[1],
                                     .add = r->at[2],
                                     .d = r->at[2]};
    r->kernels->product(r->lane, &p);
}

/* ---- rows and columns -------------------------------------------------------------- */

static const int32_t matrix_shapes[][SHAPE_MAX] = {{1, 1},   {3, 5},    {33, 32},
                                                   {70, 39}, {31, 257}, {4, 300}};

static int column_sum_describe(const int32_t *s, struct operand *o)
{
    o[0] = (struct operand){OPERAND_T, false, area(s[0], s[1]), 1};
    o[1] = (struct operand){OPERAND_WIDE, true, (uint64_t)s[1], 1};
    return 2;
}

static void column_sum_run(const struct kernel_run *r)
{
    r->kernels->column_sum(r->lane, r->shape[0], r->shape[1], r->at[0], r->at[1]);
}

/* x, gain, bias, y, mean, rstd, dy, residual, dx, dgain, dbias: forward, both
 * backwards. */
static int norm_describe(const int32_t *s, struct operand *o)
{
    uint64_t count = area(s[0], s[1]), rows = (uint64_t)s[0], width = (uint64_t)s[1];
    o[0] = (struct operand){OPERAND_T, false, count, 3};
    o[1] = (struct operand){OPERAND_T, false, width, 1};
    o[2] = (struct operand){OPERAND_T, false, width, 1};
    o[3] = (struct operand){OPERAND_T, true, count, 1};
    o[4] = (struct operand){OPERAND_WIDE, true, rows, 1};
    o[5] = (struct operand){OPERAND_WIDE, true, rows, 1};
    o[6] = (struct operand){OPERAND_T, false, count, 1};
    o[7] = (struct operand){OPERAND_T, false, count, 1};
    o[8] = (struct operand){OPERAND_T, true, count, 1};
    o[9] = (struct operand){OPERAND_WIDE, true, width, 1};
    o[10] = (struct operand){OPERAND_WIDE, true, width, 1};
    return 11;
}

static void norm_run(const struct kernel_run *r)
{
    int32_t rows = r->shape[0], width = r->shape[1];
    void *const *p = r->at;
    r->kernels->norm_forward(r->lane, rows, width, p[0], p[1], p[2], p[3], p[4], p[5]);
    r->kernels->norm_backward_input(r->lane, rows, width, p[0], p[1], p[4], p[5], p[6],
                                    p[7], p[8]);
    r->kernels->norm_backward_weight(r->lane, rows, width, p[0], p[4], p[5], p[6], p[9],
                                     p[10]);
}

/* Run the same without a residual, in place. */
static void norm_run_alone(const struct kernel_run *r)
{
    int32_t rows = r->shape[0], width = r->shape[1];
    void *const *p = r->at;
    r->kernels->norm_forward(r->lane, rows, width, p[0], p[1], p[2], p[3], p[4], p[5]);
    r->kernels->norm_backward_input(r->lane, rows, width, p[0], p[1], p[4], p[5], p[6],
                                    NULL, p[8]);
}

enum { VOCABULARY = 16 };

/* Shape: windows, seq, hidden, 1 with positions. Operands: bytes, token, position, y, dy,
 * dtoken, dposition. */
static const int32_t embedding_shapes[][SHAPE_MAX] = {
    {1, 1, 1, 1}, {2, 5, 7, 1}, {3, 40, 130, 1}, {2, 33, 48, 0}};

static int embedding_describe(const int32_t *s, struct operand *o)
{
    uint64_t rows = area(s[0], s[1]), hidden = (uint64_t)s[2];
    o[0] = (struct operand){OPERAND_BYTES, false, rows, VOCABULARY};
    o[1] = (struct operand){OPERAND_T, false, VOCABULARY * hidden, 1};
    o[2] = (struct operand){OPERAND_T, false, (uint64_t)s[1] * hidden, 1};
    o[3] = (struct operand){OPERAND_T, true, rows * hidden, 1};
    o[4] = (struct operand){OPERAND_T, false, rows * hidden, 1};
    o[5] = (struct operand){OPERAND_WIDE, true, VOCABULARY * hidden, 1};
    o[6] = (struct operand){OPERAND_WIDE, true, (uint64_t)s[1] * hidden, 1};
    return 7;
}

static void embedding_run(const struct kernel_run *r)
{
    int32_t rows = r->shape[0] * r->shape[1], seq = r->shape[1], hidden = r->shape[2];
    bool positions = r->shape[3] != 0;
    void *const *p = r->at;
    r->kernels->embedding_forward(r->lane, rows, seq, hidden, p[0], p[1],
                                  positions ? p[2] : NULL, p[3]);
    r->kernels->embedding_backward(r->lane, rows, seq, hidden, VOCABULARY, p[0], p[4],
                                   p[5], positions ? p[6] : NULL);
}

/* ---- attention: windows, seq, heads, width ----------------------------------------- */

static const int32_t attention_shapes[][SHAPE_MAX] = {
    {1, 1, 1, 1},    {2, 9, 3, 4},    {1, 64, 1, 64},  {1, 65, 2, 33},
    {1, 130, 1, 64}, {1, 40, 1, 128}, {2, 33, 1, 100}, {1, 21, 1, 200}};

/* qkv, attended, lse, dattended, delta, dqkv */
static int attention_describe(const int32_t *s, struct operand *o)
{
    uint64_t rows = area(s[0], s[1]), hidden = area(s[2], s[3]);
    uint64_t sums = rows * (uint64_t)s[2];
    o[0] = (struct operand){OPERAND_T, false, rows * 3 * hidden, 2};
    o[1] = (struct operand){OPERAND_T, true, rows * hidden, 1};
    o[2] = (struct operand){OPERAND_WIDE, true, sums, 1};
    o[3] = (struct operand){OPERAND_T, false, rows * hidden, 1};
    o[4] = (struct operand){OPERAND_WIDE, true, sums, 1};
    o[5] = (struct operand){OPERAND_T, true, rows * 3 * hidden, 1};
    return 6;
}

static struct device_attention attention_of(const struct kernel_run *r)
{
    return (struct device_attention){.batch = r->shape[0],
                                     .seq = r->shape[1],
                                     .heads = r->shape[2],
                                     .width = r->shape[3],
                                     .qkv = r->at[0],
                                     .attended = r->at[1],
                                     .lse = r->at[2],
                                     .dattended = r->at[3],
                                     .delta = r->at[4],
                                     .dqkv = r->at[5]};
}

static void attention_run_forward(const struct kernel_run *r)
{
    const struct device_attention a = attention_of(r);
    r->kernels->attention_forward(r->lane, &a);
}

static void attention_run_backward(const struct kernel_run *r)
{
    const struct device_attention a = attention_of(r);
    r->kernels->attention_forward(r->lane, &a);
    r->kernels->attention_backward(r->lane, &a);
}

/* Half of the scores lie behind their query. Backward computes them twice: seven
 * products. */
static double attention_forward_flops(const int32_t *s)
{
    return 2.0 * s[0] * s[1] * s[1] * s[2] * s[3];
}

static double attention_backward_flops(const int32_t *s)
{
    return 9.0 / 2 * attention_forward_flops(s);
}

/* ---- losses: rows, classes --------------------------------------------------------- */

static const int32_t loss_shapes[][SHAPE_MAX] = {{1, 256}, {7, 256}, {40, 256}};

/* logits, target, losses, lse, dlogits, mean */
static int loss_describe(const int32_t *s, struct operand *o)
{
    o[0] = (struct operand){OPERAND_WIDE, false, area(s[0], s[1]), 9};
    o[1] = (struct operand){OPERAND_BYTES, false, (uint64_t)s[0], 256};
    o[2] = (struct operand){OPERAND_WIDE, true, (uint64_t)s[0], 1};
    o[3] = (struct operand){OPERAND_WIDE, true, (uint64_t)s[0], 1};
    o[4] = (struct operand){OPERAND_T, true, area(s[0], s[1]), 1};
    o[5] = (struct operand){OPERAND_F64, true, 1, 1};
    return 6;
}

static void loss_run(const struct kernel_run *r)
{
    int32_t rows = r->shape[0], classes = r->shape[1];
    void *const *p = r->at;
    r->kernels->cross_entropy_forward(r->lane, rows, classes, p[0], p[1], p[2], p[3]);
    r->kernels->loss_mean(r->lane, rows, p[2], p[5]);
    r->kernels->cross_entropy_backward(r->lane, rows, classes, 1.0 / rows, p[0], p[1],
                                       p[3], p[4]);
}

/* ---- whole arrays: count ----------------------------------------------------------- */

static const int32_t array_shapes[][SHAPE_MAX] = {{1}, {255}, {257}, {1000}};

/* a, b, sum, gelu's gradient, copy, wide, rounded */
static int elements_describe(const int32_t *s, struct operand *o)
{
    uint64_t count = (uint64_t)s[0];
    for (int i = 0; i < 7; i++) {
        o[i] = (struct operand){i == 5 ? OPERAND_WIDE : OPERAND_T, i > 1 && i != 5, count,
                                4};
    }
    return 7;
}

static void elements_run(const struct kernel_run *r)
{
    uint64_t count = (uint64_t)r->shape[0];
    void *const *p = r->at;
    r->kernels->add(r->lane, count, p[0], p[1], p[2]);
    r->kernels->gelu_backward(r->lane, count, p[0], p[1], p[3]);
    r->kernels->duplicate(r->lane, count, p[3], p[4]);
    r->kernels->add(r->lane, count, p[2], p[4], p[4]); /* in place */
    r->kernels->round(r->lane, count, p[5], p[6]);
}

/* from, to, rounded, gradients, first, second (not negative) */
static int update_describe(const int32_t *s, struct operand *o)
{
    uint64_t count = (uint64_t)s[0];
    for (int i = 0; i < 6; i++) {
        o[i] = (struct operand){i == 2 ? OPERAND_T : OPERAND_WIDE, i > 0, count,
                                i == 5 ? 0 : 1};
    }
    return 6;
}

static struct device_update update_of(const struct kernel_run *r, bool adam)
{
    return (struct device_update){.adam = adam,
                                  .count = (uint64_t)r->shape[0],
                                  .scale = 0.25,
                                  .lr = 0.1,
                                  .momentum = 0.9,
                                  .rate = 0.01,
                                  .root = 3.0,
                                  .beta1 = 0.9,
                                  .beta1_rest = 1 - 0.9,
                                  .beta2 = 0.999,
                                  .beta2_rest = 1 - 0.999,
                                  .epsilon = 1e-8,
                                  .from = r->at[0],
                                  .to = r->at[1],
                                  .rounded = r->at[2],
                                  .gradients = r->at[3],
                                  .first = r->at[4],
                                  .second = r->at[5]};
}

static void update_run_adam(const struct kernel_run *r)
{
    const struct device_update u = update_of(r, true);
    r->kernels->update(r->lane, &u);
}

static void update_run_sgd(const struct kernel_run *r)
{
    const struct device_update u = update_of(r, false);
    r->kernels->update(r->lane, &u);
}

/* weights, delta, rounded, gradients, first, second (not negative) */
static int delta_describe(const int32_t *s, struct operand *o)
{
    int count = update_describe(s, o);
    o[0].is_output = true;
    return count;
}

/* Update in place, with large steps and the mean change. */
static void delta_run(const struct kernel_run *r, bool adam)
{
    struct device_update u = update_of(r, adam);
    u.lr = 1;
    u.rate = 1;
    u.to = r->at[0];
    u.decay = 0.6;
    u.decay_rest = 1 - 0.6;
    u.delta = r->at[1];
    r->kernels->update(r->lane, &u);
}

static void delta_run_adam(const struct kernel_run *r)
{
    delta_run(r, true);
}

static void delta_run_sgd(const struct kernel_run *r)
{
    delta_run(r, false);
}

/* from, first, second (not negative), to: along `first`, back, and along Adam's step */
static int predict_describe(const int32_t *s, struct operand *o)
{
    uint64_t count = (uint64_t)s[0];
    for (int i = 0; i < 6; i++) {
        o[i] = (struct operand){i < 3 ? OPERAND_WIDE : OPERAND_T, i > 2, count,
                                i == 2 ? 0 : 1};
    }
    return 6;
}

static void predict_run(const struct kernel_run *r)
{
    struct device_prediction p = {.count = (uint64_t)r->shape[0],
                                  .scale = 2.5,
                                  .root = 3.0,
                                  .epsilon = 0.125,
                                  .from = r->at[0],
                                  .first = r->at[1],
                                  .to = r->at[3]};
    r->kernels->predict(r->lane, &p);
    p.scale = -0.75;
    p.to = r->at[4];
    r->kernels->predict(r->lane, &p);
    p.adam = true;
    p.second = r->at[2];
    p.to = r->at[5];
    r->kernels->predict(r->lane, &p);
}

/* ---- the table --------------------------------------------------------------------- */

#define SHAPES(list) .shapes = (list), .shapes_count = COUNT_OF(list)

/* `large`: GPT-2 small, 8 windows of 1024. */
const struct kernel_case kernel_cases[] = {
    {"product_linear", product_describe, product_run_linear, SHAPES(product_shapes),
     .large = {8192, 2304, 768}, .flops = product_flops},
    {"product_residual", product_describe, product_run_residual, SHAPES(product_shapes),
     .large = {8192, 768, 3072}, .flops = product_flops},
    {"product_gelu", product_describe, product_run_gelu, SHAPES(product_shapes),
     .large = {8192, 3072, 768}, .flops = product_flops},
    {"product_plain", product_describe, product_run_plain, SHAPES(product_shapes),
     .large = {8192, 768, 2304}, .flops = product_flops},
    {"product_dgelu", product_describe, product_run_dgelu, SHAPES(product_shapes),
     .large = {8192, 3072, 768}, .flops = product_flops},
    {"product_weight", product_describe_weight, product_run_weight,
     SHAPES(product_shapes), .large = {3072, 768, 8192}, .flops = product_flops},
    {"column_sum", column_sum_describe, column_sum_run, SHAPES(matrix_shapes),
     .large = {8192, 3072}},
    {"norm", norm_describe, norm_run, SHAPES(matrix_shapes), .large = {8192, 768}},
    {"norm_alone", norm_describe, norm_run_alone, SHAPES(matrix_shapes),
     .large = {8192, 768}},
    {"embedding", embedding_describe, embedding_run, SHAPES(embedding_shapes),
     .large = {8, 1024, 768, 1}},
    {"attention_forward", attention_describe, attention_run_forward,
     SHAPES(attention_shapes), .large = {8, 1024, 12, 64},
     .flops = attention_forward_flops},
    {"attention_both_ways", attention_describe, attention_run_backward,
     SHAPES(attention_shapes), .large = {8, 1024, 12, 64},
     .flops = attention_backward_flops},
    {"loss", loss_describe, loss_run, SHAPES(loss_shapes), .large = {8192, 256}},
    {"elements", elements_describe, elements_run, SHAPES(array_shapes),
     .large = {25165824}},
    {"adam", update_describe, update_run_adam, SHAPES(array_shapes), .large = {25000000}},
    {"sgd", update_describe, update_run_sgd, SHAPES(array_shapes), .large = {25000000}},
    {"adam_delta", delta_describe, delta_run_adam, SHAPES(array_shapes),
     .large = {25000000}},
    {"sgd_delta", delta_describe, delta_run_sgd, SHAPES(array_shapes),
     .large = {25000000}},
    {"predict", predict_describe, predict_run, SHAPES(array_shapes), .large = {25000000}},
};
const int kernel_cases_count = COUNT_OF(kernel_cases);
