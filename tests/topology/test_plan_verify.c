/* SPDX-License-Identifier: Apache-2.0 */
/* A generated plan is verified, and with any one of its numbers changed it is refused.
 * The checker's own cheapest trees are compared with all trees of small groups. */
#include "support/json_text.h"
#include "support/unit.h"

#include <math.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/os/random.h"
#include "graph_new.h"
#include "topology/report/cheapest_tree.h"
#include "topology/report/plan_json.h"
#include "topology/report/plan_report.h"
#include "topology/report/plan_verify.h"
#include "topology/routes/overlay_price.h"

#define GRAPHS 60u

/* ---- building ---------------------------------------------------------------------- */

static double rate_draw(struct random *random)
{
    return 1e7 * (double)(1 + random_range(random, 8));
}

/* Draw ranks on a random tree of switches, and a few more wires. */
static struct graph *graph_draw(struct random *random, uint32_t ranks)
{
    uint32_t inner = 1 + (uint32_t)random_range(random, 3);
    struct graph *graph = graph_new(ranks, inner);
    for (uint32_t i = 0; i < ranks; i++)
        wire_new(graph, i, ranks + (uint32_t)random_range(random, inner),
                 rate_draw(random));
    for (uint32_t i = 1; i < inner; i++)
        wire_new(graph, ranks + i, ranks + (uint32_t)random_range(random, i),
                 rate_draw(random));
    for (uint64_t k = random_range(random, 4); k > 0; k--) {
        uint32_t a = (uint32_t)random_range(random, ranks + inner);
        uint32_t b = (uint32_t)random_range(random, ranks + inner);
        if (a != b)
            wire_new(graph, a, b, rate_draw(random));
    }
    return graph;
}

/* ---- the cheapest tree ------------------------------------------------------------- */

static bool parents_span(const uint32_t *parent, uint32_t n, uint32_t root)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i, steps = 0;
        while (at != root && steps++ <= n)
            at = parent[at];
        if (at != root)
            return false;
    }
    return true;
}

static double cheapest_of_all(const double *cost, uint32_t n, uint32_t root, bool inwards)
{
    uint32_t parent[6] = {0};
    double best = INFINITY;
    for (;;) {
        double sum = 0;
        for (uint32_t i = 0; i < n; i++)
            if (i != root)
                sum += inwards ? cost[i * n + parent[i]] : cost[parent[i] * n + i];
        if (sum < best && parents_span(parent, n, root))
            best = sum;
        uint32_t digit = 0;
        while (digit < n && ++parent[digit] == n)
            parent[digit++] = 0;
        if (digit == n)
            return best;
    }
}

static void cheapest_tree(void **state)
{
    struct random random;
    double cost[25], scratch[25], sums[10], costs[5];
    uint32_t numbers[25], connected = 0;
    random_seed(&random, unit_seed());
    for (int k = 0; k < 2000; k++) {
        uint32_t n = 1 + (uint32_t)random_range(&random, 5);
        for (uint32_t e = 0; e < n * n; e++)
            cost[e] =
                random_range(&random, 4) ? (double)random_range(&random, 20) : INFINITY;
        for (int inwards = 0; inwards < 2; inwards++)
            if (cheapest_tree_costs(cost, n, inwards, scratch, numbers, sums, costs)) {
                connected++;
                for (uint32_t root = 0; root < n; root++)
                    assert_true(cheapest_of_all(cost, n, root, inwards) == costs[root]);
            } else {
                uint32_t root = 0;
                while (root < n && isfinite(cheapest_of_all(cost, n, root, inwards)))
                    root++;
                assert_true(root < n);
            }
    }
    assert_in_range(connected, 1000, 4000);
}

/* A time and a bound that differ by the rounding of their sums alone have no gap. */
static void gap_without_rounding(void **state)
{
    assert_true(plan_gap(1 + 4e-16, 1) == 0);
    assert_true(plan_gap(1 + 1e-12, 1) == 0);
    assert_true(fabs(plan_gap(1.1, 1) - 0.1) < 1e-12);
    assert_true(plan_gap(1, 1.1) == 0);
}

/* ---- documents --------------------------------------------------------------------- */

static char *plan_json(struct graph *graph, enum plan_op op, uint32_t root)
{
    struct overlay *overlay = overlay_new(graph);
    struct plan_params params = {.op = op, .root = root};
    struct text text = {0};
    struct plan *plan;
    char *json;
    assert_int_equal(plan_open(overlay, &params, NULL, &plan), TRYST_OK);
    struct plan_report report = {
        .graph = graph, .overlay = overlay, .plan = plan, .root = root};
    struct plan_sizes *sizes;
    assert_int_equal(plan_sizes_open(overlay, plan, 7e9, NULL, &sizes), TRYST_OK);
    report.sizes = sizes;
    report.sizes_sum_bytes_per_s = 7e9;
    plan_json_write(&report, &text);
    assert_int_equal(text_release(&text, NULL, &json), TRYST_OK);
    plan_sizes_close(sizes);
    plan_close(plan);
    overlay_close(overlay);
    return json;
}

static tryst_status json_verify(const struct graph *graph, const char *text,
                                struct err *err)
{
    return plan_verify(graph, text, strlen(text), "p.json", err);
}

/* Return the text with `added` for `removed` bytes at `at`; it is freed by free. */
static char *edited(const char *text, size_t at, size_t removed, const char *added)
{
    size_t bytes = strlen(text) + strlen(added) + 1;
    char *result = malloc(bytes);
    assert_non_null(result);
    snprintf(result, bytes, "%.*s%s%s", (int)at, text, added, text + at + removed);
    return result;
}

/* Return the text with another number instead of `value`. */
static char *number_changed(const char *text, const struct json *value, double number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.17g", number);
    return edited(text, value->offset, strspn(text + value->offset, "+-.0123456789eE"),
                  digits);
}

/* Change each number below `value` in turn; each time the document must be refused. */
static void numbers_change(const struct graph *graph, const char *text,
                           const struct json *value)
{
    struct err err = ERR_INIT;
    const struct json *share = json_member(value, "share");
    const char *step = json_string_of(json_member(value, "step"));
    double number = json_number_of(value);
    if (step && strcmp(step, "round shares") != 0)
        return; /* the solution's earlier steps: a checker cannot verify these */
    if (share && json_number_of(share) < 1e-6)
        return; /* a tree with a negligible share may be any tree */
    if (json_is(value, JSON_LIST) || json_is(value, JSON_OBJECT))
        json_for_each (value, part)
            numbers_change(graph, text, part);
    if (!json_is_number(value))
        return;
    bool whole = value->kind == JSON_WHOLE;
    char *changed =
        number_changed(text, value, whole ? number + 1 : number * (1 + 1e-6) + 1e-7);
    if (json_verify(graph, changed, &err) != TRYST_E_INVALID)
        fail_msg("%.17g was changed, and the plan still holds:\n%s", number, changed);
    assert_memory_equal(err.text, "p.json: ", 8);
    free(changed);
}

static void changed_plans_fail(void **state)
{
    uint64_t seed = unit_seed();
    for (uint32_t k = 0; k < GRAPHS; k++) {
        struct random random;
        struct err err = ERR_INIT;
        random_seed(&random, seed + k);
        uint32_t n = 2 + (uint32_t)random_range(&random, 4);
        enum plan_op op = (enum plan_op)(k % PLAN_OPS);
        bool rooted = op == PLAN_BROADCAST || op == PLAN_REDUCE;
        struct graph *graph = graph_draw(&random, n);
        assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
        char *text =
            plan_json(graph, op, rooted ? (uint32_t)random_range(&random, n) : 0);
        if (plan_verify(graph, text, strlen(text), "p.json", &err) != TRYST_OK)
            fail_msg("%s\n%s", err.text, text);
        struct json *root = json_of_text(text, strlen(text));
        numbers_change(graph, text, root);
        mem_free(root);
        mem_free(text);
        graph_close(graph);
    }
}

/* Make a star of three ranks. */
static struct graph *star_make(void)
{
    struct graph *graph = graph_new(3, 1);
    for (uint32_t i = 0; i < 3; i++)
        wire_new(graph, i, 3, 1e8);
    assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    return graph;
}

/* Return the text with these prices of the first two links, and 0 of the others. */
static char *priced(const char *text, double first, double second)
{
    struct json *root = json_of_text(text, strlen(text));
    const struct json *links = json_member(root, "links");
    char *result = edited(text, 0, 0, "");
    for (size_t i = json_count(links); i-- > 0;) { /* so that earlier offsets stay */
        const struct json *price = json_member(json_item(links, i), "price");
        char *before = result;
        result = number_changed(before, price, i == 0 ? first : i == 1 ? second : 0);
        free(before);
    }
    mem_free(root);
    return result;
}

/* Prices that sum to 1, one below 0 and one above 1: a bound at such prices is forged. */
static void prices_out_of_range(void **state)
{
    struct graph *graph = star_make();
    struct err err = ERR_INIT;
    char *text = plan_json(graph, PLAN_ALLREDUCE, 0);
    char *below = priced(text, -0.5, 1.5), *beyond = priced(text, 1.5, -0.5);
    assert_int_equal(json_verify(graph, below, &err), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "not a valid price: -0.5 (0 to 1)"));
    assert_int_equal(json_verify(graph, beyond, &err), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "not a valid price: 1.5 (0 to 1)"));
    free(below);
    free(beyond);
    mem_free(text);
    graph_close(graph);
}

/* The plan with `added` before the value at `at` must be refused, by the name `name`. */
static void addition_check(const struct graph *graph, const char *text, size_t at,
                           const char *added, const char *name)
{
    struct err err = ERR_INIT;
    char *wrong = edited(text, at, 0, added);
    assert_int_equal(json_verify(graph, wrong, &err), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, name));
    free(wrong);
}

/* Members that are missing or have another type. */
static void parts_missing(void **state)
{
    static const char *const names[] = {
        "op", "time_s_per_gbit", "lower_bound_s_per_gbit", "gap", "trees", "links", NULL};
    struct graph *graph = star_make();
    struct err err = ERR_INIT;
    char *text = plan_json(graph, PLAN_ALLREDUCE, 0);
    struct json *root = json_of_text(text, strlen(text));
    for (int k = 0; names[k]; k++) {
        size_t at = json_member(root, names[k])->offset;
        /* the name in the text, its quote, a colon and a blank are before the value */
        addition_check(graph, text, at - strlen(names[k]) - 3, "no ", names[k]);
        addition_check(graph, text, at, "\"x\", \"other\": ", names[k]);
    }
    addition_check(graph, text, json_member(root, "links")->offset + 1, "{}, ", "links");
    mem_free(root);
    assert_int_equal(plan_verify(graph, "[1,", 3, "p.json", &err), TRYST_E_INVALID);
    assert_non_null(strstr(err.text, "p.json:1:"));
    assert_int_equal(plan_verify(graph, "[]", 2, "p.json", &err), TRYST_E_INVALID);
    WALK_ALLOCATIONS(plan_verify(graph, text, strlen(text), "p.json", NULL));
    mem_free(text);
    graph_close(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheapest_tree),       cmocka_unit_test(gap_without_rounding),
        cmocka_unit_test(parts_missing),       cmocka_unit_test(changed_plans_fail),
        cmocka_unit_test(prices_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
