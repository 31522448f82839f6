/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of steps of simplifying; see plan_extras.h.
 */
#include "plan_extras.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_by_size.h"
#include "plan_report.h"

/* Relative difference that another order of summing may cause. */
#define NEAR 1e-9

bool number_is_near(double a, double b)
{
    return fabs(a - b) <= NEAR * fmax(fabs(a), fabs(b));
}

tryst_status number_member_read(const struct json *object, const char *what,
                                const char *member, struct err *err, double *number_p)
{
    const struct json *value = json_member(object, member);
    if (!json_is_number(value))
        return err_set(err, TRYST_E_INVALID, "%s%s\"%s\" must be a number", what,
                       *what ? ": " : "", member);
    *number_p = json_number_of(value);
    return TRYST_OK;
}

/* A member and its recomputed value. */
struct number {
    const char *member;
    double right;
};

static tryst_status numbers_check(const struct json *item, const char *what,
                                  const struct number *numbers, size_t count,
                                  struct err *err)
{
    for (size_t k = 0; k < count; k++) {
        double said = 0, right = numbers[k].right;
        tryst_status status =
            number_member_read(item, what, numbers[k].member, err, &said);
        if (status != TRYST_OK)
            return status;
        if (!number_is_near(said, right))
            return err_set(err, TRYST_E_INVALID, "%s: \"%s\" must be %.12g, not %.12g",
                           what, numbers[k].member, right, said);
    }
    return TRYST_OK;
}

static bool word_is(const struct json *item, const char *member, const char *word)
{
    const char *said = json_string_of(json_member(item, member));
    return said && strcmp(said, word) == 0;
}

/* ---- simplified -------------------------------------------------------------------- */

static tryst_status last_step_check(const struct plan *plan, const struct json *item,
                                    struct err *err)
{
    static const char what[] = "\"simplified\": the last step";
    struct plan_step step = {.s_per_byte = plan->s_per_byte};
    for (uint32_t t = 0; t < plan->trees_count; t++)
        plan_step_add(&step, plan->op, plan->ranks_count, plan->trees[t].depth,
                      plan->trees[t].share);
    const struct number numbers[] = {
        {"trees", step.trees_count},
        {"depth", step.depth},
        {"time_s_per_gbit", step.s_per_byte * BYTES_PER_GBIT},
        {"fill_s", plan_step_fill_s(&step)}};
    return numbers_check(item, what, numbers, 4, err);
}

static tryst_status steps_check(const struct plan *plan, const struct json *list,
                                struct err *err)
{
    static const char *const members[] = {"trees", "depth", "time_s_per_gbit", "fill_s"};
    if (!json_is(list, JSON_LIST) || json_count(list) != PLAN_STEPS)
        return err_set(err, TRYST_E_INVALID, "\"simplified\" must list %d steps",
                       PLAN_STEPS);
    for (size_t k = 0; k < PLAN_STEPS; k++) {
        const struct json *item = json_item(list, k);
        const char *name = plan_step_name((enum plan_step_kind)k);
        if (!word_is(item, "step", name))
            return err_set(err, TRYST_E_INVALID,
                           "\"simplified\": item %zu must be the step \"%s\"", k, name);
        for (size_t m = 0; m < sizeof members / sizeof *members; m++)
            if (!(json_number_of(json_member(item, members[m])) >= 0) ||
                !json_is_number(json_member(item, members[m])))
                return err_set(err, TRYST_E_INVALID,
                               "\"simplified\": \"%s\" of item %zu must be a number",
                               members[m], k);
    }
    return last_step_check(plan, json_item(list, PLAN_STEPS - 1), err);
}

tryst_status plan_extras_verify(struct overlay *overlay, const struct plan *plan,
                                uint32_t root, const struct json *document,
                                struct err *err)
{
    const struct json *steps = json_member(document, "simplified");
    tryst_status status = steps ? steps_check(plan, steps, err) : TRYST_OK;
    return status == TRYST_OK ? plan_by_size_verify(overlay, plan, root, document, err)
                              : status;
}
