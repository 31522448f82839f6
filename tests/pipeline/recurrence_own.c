/* SPDX-License-Identifier: Apache-2.0 */
/* See recurrence_own.h. */
#include "recurrence_own.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WEIGHTS, FIRST, SECOND, DELTA, ARRAYS };

struct own {
    tryst_stage *stage;
    uint64_t count;            /* weights */
    tryst_optimizer optimizer; /* resolved */
    double delta_decay;
    int64_t newest;
    double *history; /* [versions][ARRAYS][count] */
};

static double *array_at(const struct own *own, int64_t version, int array)
{
    return own->history + ((uint64_t)version * ARRAYS + (uint64_t)array) * own->count;
}

static double setting(double value, double preset)
{
    return value == 0 ? preset : (value < 0 ? 0 : value);
}

static tryst_optimizer settings_of(const tryst_optimizer *given)
{
    tryst_optimizer o = given ? *given : (tryst_optimizer){0};
    bool is_sgd = o.kind == TRYST_OPTIMIZER_SGD;
    o.kind = is_sgd ? TRYST_OPTIMIZER_SGD : TRYST_OPTIMIZER_ADAM;
    o.lr = setting(o.lr, is_sgd ? 0.1 : 0.001);
    o.momentum = setting(o.momentum, 0.9);
    o.beta1 = setting(o.beta1, 0.9);
    o.beta2 = setting(o.beta2, 0.999);
    o.epsilon = setting(o.epsilon, 1e-8);
    return o;
}

/* ---- between the stage's tensors and one array ------------------------------------- */

struct copy {
    double *next;
    enum { READ_VALUE, WRITE_VALUE, TAKE_GRADIENT } what;
};

static int copy_one(void *arg, const tryst_parameter *parameter)
{
    struct copy *copy = arg;
    float *value = parameter->value, *gradient = parameter->gradient;
    assert_int_equal(parameter->dtype, TRYST_DTYPE_F32);
    for (uint64_t i = 0; i < parameter->count; i++) {
        switch (copy->what) {
        case READ_VALUE: copy->next[i] = value[i]; break;
        case WRITE_VALUE: value[i] = (float)copy->next[i]; break;
        case TAKE_GRADIENT:
            copy->next[i] = gradient[i];
            gradient[i] = 0;
            break;
        }
    }
    copy->next += parameter->count;
    return 0;
}

static void copy_all(struct own *own, double *array, int what)
{
    struct copy copy = {.next = array, .what = what};
    assert_int_equal(own->stage->ops->parameter_visit(own->stage, copy_one, &copy), 0);
    assert_true(copy.next == array + own->count);
}

/* ---- the optimiser ----------------------------------------------------------------- */

struct own *own_open(tryst_stage *stage, const tryst_optimizer *optimizer,
                     double delta_decay, int64_t updates_max)
{
    struct own *own = calloc(1, sizeof *own);
    assert_non_null(own);
    own->stage = stage;
    own->count = stage->info.weights_count;
    own->optimizer = settings_of(optimizer);
    own->delta_decay = delta_decay;
    own->history =
        calloc((uint64_t)(updates_max + 1) * ARRAYS * own->count, sizeof(double));
    assert_non_null(own->history);
    copy_all(own, array_at(own, 0, WEIGHTS), READ_VALUE);
    return own;
}

void own_close(struct own *own)
{
    if (own) {
        free(own->history);
        free(own);
    }
}

/* The change of weight i that the optimiser makes from its moments after `updates`
 * updates, at least one. */
static double step_of(const struct own *own, int64_t updates, double first, double second)
{
    const tryst_optimizer *o = &own->optimizer;
    if (o->kind == TRYST_OPTIMIZER_SGD) {
        return -o->lr * first;
    }
    double mean = first / (1 - pow(o->beta1, (double)updates));
    double square = second / (1 - pow(o->beta2, (double)updates));
    return -o->lr * mean / (sqrt(square) + o->epsilon);
}

void own_write(struct own *own, const struct recurrence_read *read)
{
    int64_t v = read->version;
    const double *weights = array_at(own, v, WEIGHTS), *delta = array_at(own, v, DELTA);
    const double *first = array_at(own, v, FIRST), *second = array_at(own, v, SECOND);
    double *moved = malloc(own->count * sizeof *moved);
    assert_non_null(moved);
    assert_true(v <= own->newest);
    for (uint64_t i = 0; i < own->count; i++) {
        moved[i] = weights[i];
        if (read->slot > 0 && v > 0) {
            moved[i] += read->ahead * (read->direction == TRYST_DIRECTION_DELTA
                                           ? delta[i]
                                           : step_of(own, v, first[i], second[i]));
        }
    }
    copy_all(own, moved, WRITE_VALUE);
    free(moved);
}

void own_write_newest(struct own *own)
{
    const struct recurrence_read newest = {.version = own->newest};
    own_write(own, &newest);
}

/* Make element i of version `newest` from the one before and the mean gradient. */
static void update_one(struct own *own, uint64_t i, double gradient, double rate)
{
    const tryst_optimizer *o = &own->optimizer;
    int64_t new = own->newest, old = new - 1;
    double first = array_at(own, old, FIRST)[i], second = array_at(own, old, SECOND)[i];
    if (o->kind == TRYST_OPTIMIZER_SGD) {
        first = o->momentum * first + gradient;
    } else {
        first = o->beta1 * first + (1 - o->beta1) * gradient;
        second = o->beta2 * second + (1 - o->beta2) * gradient * gradient;
    }
    double change = rate * step_of(own, new, first, second);
    array_at(own, new, FIRST)[i] = first;
    array_at(own, new, SECOND)[i] = second;
    array_at(own, new, WEIGHTS)[i] = array_at(own, old, WEIGHTS)[i] + change;
    array_at(own, new, DELTA)[i] =
        own->delta_decay * array_at(own, old, DELTA)[i] + (1 - own->delta_decay) * change;
}

void own_update(struct own *own, int microbatches_count, double rate)
{
    double *gradients = malloc(own->count * sizeof *gradients);
    assert_non_null(gradients);
    copy_all(own, gradients, TAKE_GRADIENT);
    own->newest++;
    for (uint64_t i = 0; i < own->count; i++) {
        update_one(own, i, gradients[i] / microbatches_count, rate);
    }
    free(gradients);
}
