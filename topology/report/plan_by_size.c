/* SPDX-License-Identifier: Apache-2.0 */
/* The trees that a plan runs by size: table, JSON, check; see plan_by_size.h. */
#include "plan_by_size.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan_extras.h"
#include "plan_json_member.h"

#define CELL_BYTES 32

/* ---- table ------------------------------------------------------------------------- */

static const char *time_cell(double s, char cell_p[CELL_BYTES])
{
    if (!isfinite(s))
        snprintf(cell_p, CELL_BYTES, "-");
    else if (s >= 1)
        snprintf(cell_p, CELL_BYTES, "%.4g s", s);
    else
        snprintf(cell_p, CELL_BYTES, "%.4g %s", s >= 1e-3 ? s * 1e3 : s * 1e6,
                 s >= 1e-3 ? "ms" : "us");
    return cell_p;
}

static const char *bytes_cell(uint64_t bytes, char cell_p[CELL_BYTES])
{
    bool mib = bytes >= 1u << 20;
    snprintf(cell_p, CELL_BYTES, "%llu %s", (unsigned long long)bytes >> (mib ? 20 : 10),
             mib ? "MiB" : "KiB");
    return cell_p;
}

/* Count the trees with a share: all but perhaps tree 0. */
static uint32_t trees_used(const struct plan_size *size)
{
    return size->trees_count - !(size->trees[0].share > 0);
}

static double bound_s(const struct plan_sizes *sizes, const struct plan_size *size)
{
    return (double)size->bytes * sizes->bound_s_per_byte;
}

static double ratio_of(const struct plan_sizes *sizes, const struct plan_size *size)
{
    double bound = bound_s(sizes, size);
    return bound > 0 ? size->predicted_s / bound : INFINITY;
}

static void row_text(const struct plan_report *report, uint32_t s, struct text *text)
{
    const struct plan_size *size = &report->sizes->sizes[s];
    char cells[4][CELL_BYTES];
    text_addf(
        text, "    %-8s%6u%7u  %-9s%-11s%-11s%.4g\n", bytes_cell(size->bytes, cells[0]),
        trees_used(size), size->depth, bytes_cell(size->slice_bytes, cells[1]),
        time_cell(size->predicted_s, cells[2]),
        time_cell(bound_s(report->sizes, size), cells[3]), ratio_of(report->sizes, size));
}

void plan_by_size_text(const struct plan_report *report, struct text *text)
{
    if (!report->sizes || !report->sizes->count)
        return;
    text_add(text, "  by size\n    size     trees  depth  slice    predicted  bound      "
                   "ratio\n");
    for (uint32_t s = 0; s < report->sizes->count; s++)
        row_text(report, s, text);
    text_addf(text, "  digest       %016llx\n",
              (unsigned long long)report->sizes->digest);
}

/* ---- JSON -------------------------------------------------------------------------- */

/* The distinct trees of all sizes. */
struct tree_list {
    struct arrays arrays;
    uint32_t n;
    const struct plan_tree **trees;
    uint32_t count;
};

/* Return the number of a tree, or list->count if it is not listed. */
static uint32_t list_find(const struct tree_list *list, const struct plan_tree *tree)
{
    uint32_t k = 0;
    while (k < list->count && !plan_tree_same(list->trees[k], tree, list->n))
        k++;
    return k;
}

/* List the distinct trees of all sizes. Returns false if out of memory. */
static bool list_make(struct tree_list *list, const struct plan_sizes *sizes)
{
    uint32_t room = 0;
    for (uint32_t s = 0; s < sizes->count; s++)
        room += sizes->sizes[s].trees_count;
    *list = (struct tree_list){.n = sizes->ranks_count};
    list->trees = arrays_alloc(&list->arrays, room, sizeof *list->trees);
    for (uint32_t s = 0; list->trees && s < sizes->count; s++)
        for (uint32_t t = 0; t < sizes->sizes[s].trees_count; t++)
            if (list_find(list, &sizes->sizes[s].trees[t]) == list->count)
                list->trees[list->count++] = &sizes->sizes[s].trees[t];
    return list->trees != NULL;
}

static void size_write(const struct plan_report *report, uint32_t s,
                       const struct tree_list *list, struct text *text)
{
    const struct plan_size *size = &report->sizes->sizes[s];
    text_addf(text, "%s{\"bytes\": %llu, \"bytes_max\": ", s ? ",\n  " : "\n  ",
              (unsigned long long)size->bytes);
    if (size->bytes_max == UINT64_MAX)
        text_add(text, "null");
    else
        text_addf(text, "%llu", (unsigned long long)size->bytes_max);
    text_addf(text, ", \"slice_bytes\": %u, \"depth\": %u", size->slice_bytes,
              size->depth);
    plan_json_number(text, "predicted_s", size->predicted_s);
    plan_json_number(text, "lower_bound_s", bound_s(report->sizes, size));
    plan_json_number(text, "ratio", ratio_of(report->sizes, size));
    text_add(text, ", \"trees\": [");
    for (uint32_t t = 0; t < size->trees_count; t++) {
        text_addf(text, "%s{\"tree\": %u", t ? ", " : "",
                  list_find(list, &size->trees[t]));
        plan_json_number(text, "share", size->trees[t].share);
        text_add(text, "}");
    }
    text_add(text, "]}");
}

void plan_by_size_json(const struct plan_report *report, struct text *text)
{
    const struct plan_sizes *sizes = report->sizes;
    struct tree_list list;
    if (!sizes || !sizes->count)
        return;
    if (!list_make(&list, sizes)) {
        text->failed = true;
        return;
    }
    text_add(text, ",\n \"size_trees\": [");
    for (uint32_t k = 0; k < list.count; k++) {
        text_addf(text, "%s{\"root\": %u", k ? ",\n  " : "\n  ", list.trees[k]->root);
        plan_json_parents(text, "broadcast_parent", list.trees[k]->broadcast_parent,
                          list.n);
        plan_json_parents(text, "reduce_parent", list.trees[k]->reduce_parent, list.n);
        text_add(text, "}");
    }
    text_add(text, "],\n \"by_size\": [");
    for (uint32_t s = 0; s < sizes->count; s++)
        size_write(report, s, &list, text);
    arrays_free(&list.arrays);
    text_add(text, "]");
    if (plan_op_sums(report->plan->op)) {
        double rate = report->sizes_sum_bytes_per_s;
        plan_json_number(text, "size_sum_gb_per_s", rate > 0 ? rate / 1e9 : INFINITY);
    }
    text_addf(text, ",\n \"digest\": \"%016llx\"", (unsigned long long)sizes->digest);
}

/* ---- check ------------------------------------------------------------------------- */

struct reading {
    struct arrays arrays;
    struct overlay *overlay;
    const struct plan *plan;
    uint32_t root;
    const struct json *document;
    struct err *err;
    struct plan_tree *trees; /* those of "size_trees" */
    uint32_t trees_count;
    double sum_bytes_per_s;
    struct plan_sizes sizes;
};

#define WRONG(reading, ...) err_set((reading)->err, TRYST_E_INVALID, __VA_ARGS__)

static bool spans(const uint32_t *parent, uint32_t root, uint32_t n, uint32_t *depth_p)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t steps = 0;
        for (uint32_t at = i; at != root; at = parent[at])
            if (parent[at] >= n || ++steps >= n)
                return false;
        *depth_p = steps > *depth_p ? steps : *depth_p;
    }
    return parent[root] == GRAPH_NONE;
}

static tryst_status half_read(struct reading *reading, const struct json *item,
                              uint32_t t, const char *member, struct plan_tree *tree,
                              uint32_t **parent_p)
{
    const struct json *list = json_member(item, member);
    uint32_t n = reading->plan->ranks_count;
    uint32_t *parent = arrays_alloc(&reading->arrays, n, sizeof *parent);
    if (!parent)
        return TRYST_E_NOMEM;
    const struct json *entry = json_item(list, 0);
    for (uint32_t i = 0; i < n; i++, entry = json_next(entry)) {
        int64_t number = -1;
        if (!json_whole_get(entry, -1, n - 1, &number) || json_count(list) != n)
            return WRONG(reading,
                         "\"size_trees\": \"%s\" of tree %u must list %u parents, each a "
                         "rank from 0 to %u, or -1 for none",
                         member, t, n, n - 1);
        parent[i] = number < 0 ? GRAPH_NONE : (uint32_t)number;
    }
    if (!spans(parent, tree->root, n, &tree->depth))
        return WRONG(reading, "\"size_trees\": \"%s\" of tree %u does not span", member,
                     t);
    *parent_p = parent;
    return TRYST_OK;
}

static tryst_status tree_read(struct reading *reading, const struct json *item,
                              uint32_t t)
{
    struct plan_tree *tree = &reading->trees[t];
    enum plan_op op = reading->plan->op;
    int64_t root;
    tryst_status status = TRYST_OK;
    if (!json_whole_get(json_member(item, "root"), 0, reading->plan->ranks_count - 1,
                        &root) ||
        (op != PLAN_ALLREDUCE && (uint64_t)root != reading->root))
        return WRONG(reading,
                     "\"size_trees\": \"root\" of tree %u must be a rank, and "
                     "for broadcast and reduce the plan's root",
                     t);
    tree->root = (uint32_t)root;
    if (op != PLAN_REDUCE)
        status = half_read(reading, item, t, "broadcast_parent", tree,
                           &tree->broadcast_parent);
    if (!status && op != PLAN_BROADCAST)
        status = half_read(reading, item, t, "reduce_parent", tree, &tree->reduce_parent);
    return status;
}

static tryst_status trees_read(struct reading *reading)
{
    const struct json *list = json_member(reading->document, "size_trees");
    tryst_status status = TRYST_OK;
    reading->trees_count = (uint32_t)json_count(list);
    reading->trees =
        arrays_alloc(&reading->arrays, reading->trees_count, sizeof *reading->trees);
    if (!reading->trees)
        return TRYST_E_NOMEM;
    const struct json *item = json_item(list, 0);
    for (uint32_t t = 0; t < reading->trees_count && !status; t++, item = json_next(item))
        status = tree_read(reading, item, t);
    return status;
}

static tryst_status shares_read(struct reading *reading, const struct json *list,
                                uint32_t s)
{
    struct plan_size *size = &reading->sizes.sizes[s];
    double sum = 0;
    uint32_t count = (uint32_t)json_count(list);
    size->trees = arrays_alloc(&reading->arrays, count, sizeof *size->trees);
    if (!size->trees)
        return TRYST_E_NOMEM;
    const struct json *item = json_item(list, 0);
    for (; size->trees_count < count; size->trees_count++, item = json_next(item)) {
        const struct json *share = json_member(item, "share");
        struct plan_tree *tree = &size->trees[size->trees_count];
        int64_t number;
        if (!json_whole_get(json_member(item, "tree"), 0,
                            (int64_t)reading->trees_count - 1, &number) ||
            (size->trees_count == 0 && number != 0))
            return WRONG(reading,
                         "\"by_size\": item %u: tree %u must be a number of "
                         "\"size_trees\", and the first one 0",
                         s, size->trees_count);
        *tree = reading->trees[number];
        tree->share = json_number_of(share);
        if (!json_is_number(share) || !(tree->share >= 0))
            return WRONG(reading, "\"by_size\": item %u: share %u must be at least 0", s,
                         size->trees_count);
        sum += tree->share;
        if (tree->share > 0 && tree->depth > size->depth)
            size->depth = tree->depth;
    }
    return number_is_near(sum, 1)
               ? TRYST_OK
               : WRONG(reading,
                       "\"by_size\": the shares of item %u must sum to "
                       "1; they sum to %.12g",
                       s, sum);
}

static tryst_status size_read(struct reading *reading, const struct json *item,
                              uint32_t s)
{
    struct plan_size *size = &reading->sizes.sizes[s];
    const struct json *most = json_member(item, "bytes_max");
    int64_t bytes, bytes_max = 0, slice, depth;
    size->bytes = plan_size_steps[s].bytes;
    size->bytes_max = plan_size_steps[s].bytes_max;
    bool last = size->bytes_max == UINT64_MAX;
    if (!json_whole_get(json_member(item, "bytes"), 1, INT64_MAX, &bytes) ||
        (uint64_t)bytes != size->bytes ||
        (last ? !json_is(most, JSON_NULL)
              : !json_whole_get(most, 1, INT64_MAX, &bytes_max) ||
                    (uint64_t)bytes_max != size->bytes_max))
        return WRONG(reading, "\"by_size\": item %u must be for %llu bytes", s,
                     (unsigned long long)size->bytes);
    if (!json_whole_get(json_member(item, "slice_bytes"), PLAN_SLICE_BYTES_MIN,
                        PLAN_SLICE_BYTES_MAX, &slice) ||
        slice & (slice - 1))
        return WRONG(reading,
                     "\"by_size\": \"slice_bytes\" of item %u must be a power of "
                     "two, %u to %u",
                     s, PLAN_SLICE_BYTES_MIN, PLAN_SLICE_BYTES_MAX);
    size->slice_bytes = (uint32_t)slice;
    tryst_status status = shares_read(reading, json_member(item, "trees"), s);
    if (!status && (!json_whole_get(json_member(item, "depth"), 0, UINT32_MAX, &depth) ||
                    (uint64_t)depth != size->depth))
        return WRONG(reading, "\"by_size\": \"depth\" of item %u must be %u", s,
                     size->depth);
    return status;
}

/* Compare a member with its recomputed value; INFINITY is null in the document. */
static tryst_status number_check(struct reading *reading, const struct json *item,
                                 uint32_t s, const char *member, double right)
{
    const struct json *value = json_member(item, member);
    if (isfinite(right)
            ? json_is_number(value) && number_is_near(json_number_of(value), right)
            : json_is(value, JSON_NULL))
        return TRYST_OK;
    return WRONG(reading, "\"by_size\": \"%s\" of item %u must be %.12g", member, s,
                 right);
}

static tryst_status numbers_check(struct reading *reading, const struct json *item,
                                  uint32_t s)
{
    const struct plan_size *size = &reading->sizes.sizes[s];
    const struct {
        const char *member;
        double right;
    } numbers[] = {{"predicted_s", size->predicted_s},
                   {"lower_bound_s", bound_s(&reading->sizes, size)},
                   {"ratio", ratio_of(&reading->sizes, size)}};
    tryst_status status = TRYST_OK;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers && !status; k++)
        status = number_check(reading, item, s, numbers[k].member, numbers[k].right);
    return status;
}

static tryst_status predicted_find(struct reading *reading)
{
    struct tree_costing costing;
    uint32_t most = 1;
    for (uint32_t s = 0; s < PLAN_SIZES; s++)
        if (reading->sizes.sizes[s].trees_count > most)
            most = reading->sizes.sizes[s].trees_count;
    tryst_status status = tree_costing_init(&costing, reading->overlay, reading->plan->op,
                                            most, reading->sum_bytes_per_s);
    for (uint32_t s = 0; !status && s < PLAN_SIZES; s++)
        reading->sizes.sizes[s].predicted_s =
            plan_size_time(&costing, &reading->sizes.sizes[s]);
    tree_costing_free(&costing);
    return status;
}

static tryst_status digest_check(struct reading *reading)
{
    const char *said = json_string_of(json_member(reading->document, "digest"));
    struct plan plan = *reading->plan;
    char digest[17];
    tryst_status status = plan_digest(&plan);
    if (!status)
        status = plan_sizes_digest(&reading->sizes, plan.digest);
    if (status)
        return status;
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)reading->sizes.digest);
    return said && strcmp(said, digest) == 0
               ? TRYST_OK
               : WRONG(reading, "\"digest\" must be \"%s\"", digest);
}

static tryst_status sum_rate_read(struct reading *reading)
{
    const struct json *rate = json_member(reading->document, "size_sum_gb_per_s");
    if (rate && !json_is(rate, JSON_NULL) && !(json_number_of(rate) > 0))
        return WRONG(reading, "\"size_sum_gb_per_s\" must be above 0, or null");
    reading->sum_bytes_per_s = json_number_of(rate) * 1e9;
    return TRYST_OK;
}

static tryst_status sizes_check(struct reading *reading)
{
    const struct json *list = json_member(reading->document, "by_size");
    if (!json_is(list, JSON_LIST) || json_count(list) != PLAN_SIZES)
        return WRONG(reading, "\"by_size\" must list %d sizes", PLAN_SIZES);
    tryst_status status = sum_rate_read(reading);
    if (!status)
        status = trees_read(reading);
    for (uint32_t s = 0; s < PLAN_SIZES && !status; s++)
        status = size_read(reading, json_item(list, s), s);
    if (!status)
        status = predicted_find(reading);
    for (uint32_t s = 0; s < PLAN_SIZES && !status; s++)
        status = numbers_check(reading, json_item(list, s), s);
    return status ? status : digest_check(reading);
}

tryst_status plan_by_size_verify(struct overlay *overlay, const struct plan *plan,
                                 uint32_t root, const struct json *document,
                                 struct err *err)
{
    static const char *const members[] = {"by_size", "size_trees", "size_sum_gb_per_s",
                                          "digest"};
    struct reading reading = {.overlay = overlay,
                              .plan = plan,
                              .root = root,
                              .document = document,
                              .err = err,
                              .sizes = {.op = plan->op,
                                        .ranks_count = plan->ranks_count,
                                        .count = PLAN_SIZES,
                                        .bound_s_per_byte = plan->bound_s_per_byte}};
    bool any = false;
    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        any |= json_member(document, members[k]) != NULL;
    tryst_status status = any ? sizes_check(&reading) : TRYST_OK;
    arrays_free(&reading.arrays);
    return status;
}
