/* SPDX-License-Identifier: Apache-2.0 */
/* Implements models as users describe them: parsing, defaults, checks, the split into
 * stages; and picks the stage for a model.
 *
 * Invariant: every field of a resolved model is in range, and only the seed and the sleep
 * times can be zero. So the stages check no field again. */
#include <tryst/stage.h>

#include "pipeline/base/params.h"
#include "pipeline/base/refuse.h"
#include "pipeline/device/device_module.h"
#include "pipeline/device/device_stage.h"
#include "pipeline/host/host.h"
#include "pipeline/host/sleep_stage.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- model ------------------------------------------------------------------------- */

const char *tryst_model_kind_name(tryst_model_kind kind)
{
    switch (kind) {
    case TRYST_MODEL_MLP: return "mlp";
    case TRYST_MODEL_GPT: return "gpt";
    case TRYST_MODEL_SLEEP: return "sleep";
    case TRYST_MODEL_INVALID: break;
    }
    return "invalid";
}

/* Convert the number of milliseconds at the beginning of `text` ("12.5") to nanoseconds.
 * Returns the rest of the text, or NULL if the number is not valid. */
static const char *parse_ms(const char *text, uint64_t *time_ns_p)
{
    char *end = NULL;
    double ms = strtod(text, &end);
    if (end == text || !isfinite(ms) || ms < 0 || ms > 1e9) {
        return NULL;
    }
    *time_ns_p = (uint64_t)(ms * 1e6 + 0.5);
    return end;
}

/* Read the times of F and B, or of F, I and W. */
static tryst_status parse_sleep(const char *times, tryst_model *model)
{
    uint64_t times_ns[3] = {0, 0, 0};
    int count = 0;
    const char *rest = parse_ms(times, &times_ns[count++]);
    while (rest && *rest == ',' && count < 3) {
        rest = parse_ms(rest + 1, &times_ns[count++]);
    }
    if (!rest || *rest || count < 2) {
        return TRYST_E_CONFIG;
    }
    model->kind = TRYST_MODEL_SLEEP;
    model->sleep_forward_ns = times_ns[0];
    model->sleep_backward_ns = times_ns[1] + times_ns[2];
    model->sleep_input_grad_ns = count == 3 ? times_ns[1] : 0;
    model->sleep_weight_grad_ns = times_ns[2];
    return TRYST_OK;
}

static tryst_status model_parse(const char *text, tryst_model *model)
{
    if (strcmp(text, "mlp") == 0) {
        model->kind = TRYST_MODEL_MLP;
        return TRYST_OK;
    }
    if (strcmp(text, "gpt") == 0) {
        model->kind = TRYST_MODEL_GPT;
        return TRYST_OK;
    }
    if (strncmp(text, "sleep:", 6) == 0 && parse_sleep(text + 6, model) == TRYST_OK) {
        return TRYST_OK;
    }
    return refuse(TRYST_E_CONFIG,
                  "cannot parse the model \"%s\": unknown kind; use mlp, gpt, or "
                  "sleep:F_ms,B_ms with the "
                  "milliseconds of a forward and of a backward (sleep:10,20), or "
                  "sleep:F_ms,I_ms,W_ms with those of a backward's two parts",
                  text);
}

tryst_status tryst_model_parse(const char *text, tryst_model *model)
{
    tryst_model own;
    if (!text || !model) {
        return refuse_null("read a model", text ? "model" : "text");
    }
    tryst_status status = params_read(&own, sizeof(own), model, "tryst_model");
    if (status == TRYST_OK) {
        status = model_parse(text, &own);
    }
    if (status == TRYST_OK) {
        (void)tryst_sized_write(model, &own, sizeof(own));
    }
    return status;
}

static void model_default(int32_t *field, int32_t value)
{
    *field = *field == 0 ? value : *field;
}

static void model_fill(tryst_model *model)
{
    model_default(&model->layers, 8);
    model_default(&model->hidden, 64);
    model_default(&model->heads, 4);
    model_default(&model->seq, 64);
    model_default(&model->microbatch_size, 4);
    model_default(&model->vocabulary, 256);
    if (model->sleep_activation_bytes == 0) {
        model->sleep_activation_bytes = 4096;
    }
    if (model->sleep_backward_ns == 0) {
        model->sleep_backward_ns =
            model->sleep_input_grad_ns + model->sleep_weight_grad_ns;
    }
}

/* True if a matrix of a stage would have too many elements for BLAS and the stages, which
 * count in int. The largest matrices are [rows, 4·hidden], [4·hidden, hidden],
 * [rows, vocabulary] and [seq, seq]. */
static int model_is_too_large(const tryst_model *model)
{
    double rows = (double)model->microbatch_size * model->seq;
    double wide = 4.0 * model->hidden;
    return rows * wide > INT32_MAX || wide * model->hidden > INT32_MAX ||
           rows * model->vocabulary > INT32_MAX ||
           (double)model->seq * model->seq > INT32_MAX;
}

/* Check the times of both parts of a backward that sleeps. */
static tryst_status sleep_check(const tryst_model *model)
{
    uint64_t input_ns = model->sleep_input_grad_ns;
    uint64_t weight_ns = model->sleep_weight_grad_ns;
    if ((input_ns == 0 && weight_ns == 0) ||
        input_ns + weight_ns == model->sleep_backward_ns) {
        return TRYST_OK;
    }
    return refuse(TRYST_E_INVALID,
                  "cannot use the model: its backward sleeps %" PRIu64
                  " ns, but the parts of it %" PRIu64 " and %" PRIu64
                  " ns; let them add up, or the backward be 0",
                  model->sleep_backward_ns, input_ns, weight_ns);
}

static tryst_status model_check(const tryst_model *model)
{
    const struct {
        const char *name;
        int32_t value;
    } fields[] = {{"layers", model->layers},
                  {"hidden", model->hidden},
                  {"heads", model->heads},
                  {"seq", model->seq},
                  {"microbatch_size", model->microbatch_size}};
    if (model->kind < TRYST_MODEL_MLP || model->kind > TRYST_MODEL_SLEEP) {
        return refuse(
            TRYST_E_INVALID,
            "cannot use the model: kind %d does not exist; use mlp, gpt or sleep",
            (int)model->kind);
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].value < 1) {
            return refuse(TRYST_E_INVALID,
                          "cannot use the model: its %s is %d, but must be at least 1",
                          fields[i].name, (int)fields[i].value);
        }
    }
    if (model->vocabulary != 256) {
        return refuse(
            TRYST_E_INVALID,
            "cannot use the model: its vocabulary is %d, but models read bytes; use 256",
            (int)model->vocabulary);
    }
    if (model->kind == TRYST_MODEL_GPT && model->hidden % model->heads != 0) {
        return refuse(TRYST_E_INVALID,
                      "cannot use the model: hidden %d does not divide "
                      "into %d heads; choose a multiple",
                      (int)model->hidden, (int)model->heads);
    }
    if (model_is_too_large(model)) {
        return refuse(TRYST_E_INVALID, "cannot use the model: a matrix of it would have "
                                       "2^31 elements or more; make hidden, "
                                       "seq or microbatch_size smaller");
    }
    return sleep_check(model);
}

/* Resolve `model` into this version's struct, with its struct_size set. */
static tryst_status model_resolve(const tryst_model *model, tryst_model *resolved_p)
{
    tryst_status status =
        params_read(resolved_p, sizeof(*resolved_p), model, "tryst_model");
    if (status == TRYST_OK) {
        model_fill(resolved_p);
        status = model_check(resolved_p);
    }
    return status;
}

tryst_status tryst_model_resolve(const tryst_model *model, tryst_model *resolved_p)
{
    tryst_model resolved;
    if (!params_writable(resolved_p, "tryst_model")) {
        return TRYST_E_INVALID;
    }
    tryst_status status = model_resolve(model, &resolved);
    if (status == TRYST_OK) {
        (void)tryst_sized_write(resolved_p, &resolved, sizeof(resolved));
    }
    return status;
}

tryst_status tryst_model_split(const tryst_model *model, int32_t stages, int32_t stage,
                               tryst_layers *layers_p)
{
    tryst_model resolved;
    tryst_status status = model_resolve(model, &resolved);
    if (status != TRYST_OK) {
        return status;
    }
    if (stages < 1 || stage < 0 || stage >= stages) {
        return refuse(
            TRYST_E_INVALID,
            "cannot split the model: stage %d of %d does not exist; stages count from 0",
            (int)stage, (int)stages);
    }
    if (stages > resolved.layers) {
        return refuse(TRYST_E_INVALID,
                      "cannot split the model: %d stages need at least %d "
                      "layers, but the model has %d; use fewer "
                      "ranks or more layers",
                      (int)stages, (int)stages, (int)resolved.layers);
    }
    int32_t share = resolved.layers / stages, more = resolved.layers % stages;
    int32_t first = stage * share + (stage < more ? stage : more);
    *layers_p = (tryst_layers){.first = first, .last = first + share + (stage < more)};
    return TRYST_OK;
}

/* ---- stage ------------------------------------------------------------------------- */

/* Check the params of predicted weights. */
static tryst_status stage_check_predictions(const tryst_stage_params *p)
{
    if (p->slots_count < 0) {
        return refuse(TRYST_E_INVALID,
                      "cannot open a stage: slots_count is %d; use 0 or more",
                      (int)p->slots_count);
    }
    if (!(p->delta_decay >= 0 && p->delta_decay < 1)) {
        return refuse(TRYST_E_INVALID,
                      "cannot open a stage: delta_decay is %g; use a number above 0 and "
                      "below 1, or 0 to keep no mean change",
                      p->delta_decay);
    }
    return TRYST_OK;
}

/* Check model, layers and params, and fill in the defaults that all kinds of stage share.
 * The optimiser and the params of device stages stay unresolved. */
static tryst_status stage_resolve(const tryst_model *model, tryst_layers layers,
                                  const tryst_stage_params *params, tryst_model *resolved,
                                  tryst_stage_params *p)
{
    tryst_status status = params_read(p, sizeof(*p), params, "tryst_stage_params");
    if (status == TRYST_OK) {
        p->versions_count = p->versions_count == 0 ? 1 : p->versions_count;
        status = model_resolve(model, resolved);
    }
    if (status != TRYST_OK) {
        return status;
    }
    if (layers.first < 0 || layers.first >= layers.last ||
        layers.last > resolved->layers) {
        return refuse(
            TRYST_E_INVALID,
            "cannot open a stage: layers %d to %d are not part of a model of %d layers",
            (int)layers.first, (int)layers.last, (int)resolved->layers);
    }
    if (p->versions_count < 1) {
        return refuse(TRYST_E_INVALID,
                      "cannot open a stage: versions_count is %d; it must "
                      "hold at least one weight version",
                      (int)p->versions_count);
    }
    return stage_check_predictions(p);
}

static int stage_is_device(const tryst_stage_params *p)
{
    return p->memory != TRYST_MEMORY_HOST || p->reference;
}

/* Check and resolve the params that only device stages have. */
static tryst_status stage_resolve_device(const tryst_model *resolved,
                                         tryst_stage_params *p)
{
    if (p->precision == TRYST_PRECISION_DEFAULT) {
        p->precision = p->reference ? TRYST_PRECISION_F32 : TRYST_PRECISION_BF16;
    }
    if (resolved->kind == TRYST_MODEL_SLEEP) {
        return refuse(
            TRYST_E_INVALID,
            "cannot open a stage: a sleep stage runs on the host, not on a device");
    }
    if (p->reference && p->memory != TRYST_MEMORY_HOST) {
        return refuse(TRYST_E_INVALID,
                      "cannot open a stage: the reference kernels compute "
                      "in host memory, not in kind %d",
                      (int)p->memory);
    }
    if (p->precision < TRYST_PRECISION_BF16 || p->precision > TRYST_PRECISION_F64 ||
        (p->precision == TRYST_PRECISION_F64 && !p->reference)) {
        return refuse(TRYST_E_INVALID,
                      "cannot open a stage: a device stage computes in "
                      "bf16, f32 or tf32, not in precision %d",
                      (int)p->precision);
    }
    return TRYST_OK;
}

/* Refuse params that only device stages support. */
static tryst_status stage_check_host(const tryst_stage_params *p)
{
    if (p->recompute || p->memory_bytes_max ||
        (p->precision != TRYST_PRECISION_DEFAULT &&
         p->precision != TRYST_PRECISION_F32)) {
        return refuse(
            TRYST_E_UNSUPPORTED,
            "cannot open a stage: host stages compute in f32, keep what forward saves "
            "and have no "
            "memory limit; a device stage does the rest (memory, or reference)");
    }
    return TRYST_OK;
}

static tryst_status stage_open_host(const tryst_model *resolved, tryst_layers layers,
                                    tryst_stage_params *p, tryst_stage **stage_p)
{
    tryst_status status = stage_check_host(p);
    if (status != TRYST_OK) {
        return status;
    }
    if (resolved->kind == TRYST_MODEL_SLEEP) {
        status = sleep_stage_open(resolved, layers, p, stage_p);
        return status == TRYST_OK ? status
                                  : refuse(status,
                                           "cannot open a stage: out of memory for a "
                                           "stage of layers %d to %d",
                                           (int)layers.first, (int)layers.last);
    }
    p->precision = host_precision;
    p->device = 0;
    return device_stage_open(resolved, layers, p, &device_kernels_host, stage_p);
}

static tryst_status stage_open_device(const tryst_model *resolved, tryst_layers layers,
                                      tryst_stage_params *p, tryst_stage **stage_p)
{
    const struct device_kernels *kernels = &device_kernels_reference;
    tryst_status status = stage_resolve_device(resolved, p);
    if (status == TRYST_OK && !p->reference) {
        status = device_module_kernels(p->memory, &kernels);
    }
    return status == TRYST_OK ? device_stage_open(resolved, layers, p, kernels, stage_p)
                              : status;
}

tryst_status tryst_stage_open(const tryst_model *model, tryst_layers layers,
                              const tryst_stage_params *params, tryst_stage **stage_p)
{
    tryst_stage_params p;
    tryst_model resolved;
    tryst_status status = stage_resolve(model, layers, params, &resolved, &p);
    if (status != TRYST_OK) {
        return status;
    }
    return stage_is_device(&p) ? stage_open_device(&resolved, layers, &p, stage_p)
                               : stage_open_host(&resolved, layers, &p, stage_p);
}

static tryst_status layout_open(const tryst_model *resolved, tryst_layers layers,
                                const tryst_stage_params *p,
                                const struct optimizer_state *optimizer,
                                struct device_layout *layout)
{
    tryst_status status = device_layout_open(resolved, layers, p, optimizer, layout);
    return status == TRYST_OK ? TRYST_OK
                              : refuse(status,
                                       "cannot open a stage: out of memory for the "
                                       "layout of layers %d to %d",
                                       (int)layers.first, (int)layers.last);
}

tryst_status tryst_stage_memory_need(const tryst_model *model, tryst_layers layers,
                                     const tryst_stage_params *params,
                                     tryst_stage_memory *memory_p)
{
    tryst_stage_params p;
    tryst_model resolved;
    struct optimizer_state optimizer;
    struct device_layout layout;
    tryst_status status = stage_resolve(model, layers, params, &resolved, &p);
    if (status == TRYST_OK && !params_writable(memory_p, "tryst_stage_memory")) {
        return TRYST_E_INVALID;
    }
    if (status == TRYST_OK && !stage_is_device(&p)) {
        return refuse(
            TRYST_E_UNSUPPORTED,
            "cannot give a stage's need of memory: it is known for device stages only");
    }
    if (status == TRYST_OK) {
        status = stage_resolve_device(&resolved, &p);
    }
    if (status == TRYST_OK) {
        status = optimizer_init(p.optimizer, &optimizer);
    }
    if (status == TRYST_OK) {
        status = layout_open(&resolved, layers, &p, &optimizer, &layout);
    }
    if (status == TRYST_OK) {
        (void)tryst_sized_write(memory_p, &layout.memory, sizeof(layout.memory));
        device_layout_close(&layout);
    }
    return status;
}

void tryst_stage_close(tryst_stage *stage)
{
    if (stage) {
        stage->ops->close(stage);
    }
}

double tryst_loss_mean(const double *losses, int32_t losses_count)
{
    double sum = 0;
    for (int32_t i = 0; i < losses_count; i++) {
        sum += losses[i];
    }
    return losses_count > 0 ? sum / losses_count : 0;
}
