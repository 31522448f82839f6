/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled plans as bytes; compiled.h has the layout.
 *
 * One idea: before the decoder allocates memory for a count, it checks that the bytes
 * left can hold as many items; it checks each index where it reads it. So a decoded plan
 * needs no further check.
 */
#include "compiled_wire.h"

#include <string.h>

#include "compiled_build.h"
#include "core/text/hash.h"

#define MAGIC          0x4e504354u /* "TCPN" in memory order */
#define RANKS_MAX      (1u << 20)
#define MEMBER_MAX     (1u << 20)
#define SHORT_MAX      65535u /* with at most this many ranks, a rank takes 2 bytes */
#define SLICE_LEAST    4096u
#define SLICE_MOST     (1u << 30)
#define SLICE_MULTIPLE 64u

uint64_t compiled_plan_digest(const uint8_t *bytes, size_t count)
{
    return hash_bytes(bytes, count);
}

/* ---- encode ------------------------------------------------------------------------ */

struct writer {
    uint8_t *bytes; /* NULL: count the bytes only */
    size_t at;
    uint32_t ranks_count;
};

static void put(struct writer *writer, uint64_t value, unsigned width)
{
    for (unsigned k = 0; k < width; k++, writer->at++)
        if (writer->bytes)
            writer->bytes[writer->at] = (uint8_t)(value >> 8 * k);
}

static void put32(struct writer *writer, uint32_t value)
{
    put(writer, value, 4);
}

static void put_rank(struct writer *writer, uint32_t rank)
{
    put(writer, rank, writer->ranks_count <= SHORT_MAX ? 2 : 4);
}

static void put_half(struct writer *writer, const struct compiled_half *half)
{
    for (uint32_t i = 0; i < writer->ranks_count; i++)
        put_rank(writer, half->parent[i]);
    for (uint32_t k = 0; k + 1 < writer->ranks_count; k++)
        put_rank(writer, half->child[k]);
}

static void put_tree(struct writer *writer, const struct compiled_tree *tree)
{
    bool alike = compiled_tree_alike(tree, writer->ranks_count);
    put32(writer, (tree->up.parent ? HALF_UP : 0) | (tree->down.parent ? HALF_DOWN : 0) |
                      (alike ? HALVES_ALIKE : 0));
    put32(writer, tree->root);
    if (tree->up.parent)
        put_half(writer, &tree->up);
    if (tree->down.parent && !alike)
        put_half(writer, &tree->down);
}

static void put_op(struct writer *writer, const struct compiled_op *op)
{
    put32(writer, op->op);
    put32(writer, op->classes_count);
    for (uint32_t c = 0; c < op->classes_count; c++) {
        const struct compiled_class *class = &op->classes[c];
        put(writer, class->bytes_max, 8);
        put(writer, class->bytes_per_s, 8);
        put32(writer, class->slice_bytes);
        put32(writer, class->flags);
        put32(writer, class->parts_count);
        for (uint32_t p = 0; p < class->parts_count; p++) {
            put32(writer, class->parts[p].tree);
            put32(writer, class->parts[p].cum_share);
        }
    }
}

static void put_plan(struct writer *writer, const struct compiled_plan *plan)
{
    const uint32_t head[] = {MAGIC,          COMPILED_VERSION,  plan->epoch,
                             plan->flags,    plan->ranks_count, plan->trees_count,
                             plan->ops_count};
    for (size_t k = 0; k < sizeof head / sizeof *head; k++)
        put32(writer, head[k]);
    put(writer, plan->bound_bytes_per_s, 8);
    for (uint32_t i = 0; i < plan->ranks_count; i++)
        put32(writer, plan->members[i]);
    for (uint32_t i = 0; i < plan->ranks_count; i++)
        put(writer, plan->out_bytes_per_s[i], 8);
    for (uint32_t t = 0; t < plan->trees_count; t++)
        put_tree(writer, &plan->trees[t]);
    for (uint32_t o = 0; o < plan->ops_count; o++)
        put_op(writer, &plan->ops[o]);
}

tryst_status compiled_plan_encode(const struct compiled_plan *plan, struct err *err,
                                  uint8_t **bytes_p, size_t *count_p)
{
    struct writer writer = {.ranks_count = plan->ranks_count};
    put_plan(&writer, plan);
    uint8_t *bytes = mem_alloc(writer.at);
    if (!bytes)
        return err_set(err, TRYST_E_NOMEM, "cannot encode a plan: out of memory");
    writer = (struct writer){.bytes = bytes, .ranks_count = plan->ranks_count};
    put_plan(&writer, plan);
    *bytes_p = bytes;
    *count_p = writer.at;
    return TRYST_OK;
}

/* ---- read -------------------------------------------------------------------------- */

struct reader {
    const uint8_t *bytes;
    size_t left;
    struct compiled_plan *plan;
    struct err *err;
    uint8_t *seen;       /* by rank: scratch */
    uint32_t *tree_seen; /* by tree: the last class with this tree, from 1 */
    uint32_t class_number;
};

#define refuse(reader, ...) err_set((reader)->err, TRYST_E_INVALID, __VA_ARGS__)

/* Read an integer. Beyond the end, return 0 and set `left` to SIZE_MAX for good. */
static uint64_t get(struct reader *reader, unsigned width)
{
    uint64_t value = 0;
    if (reader->left == SIZE_MAX || reader->left < width) {
        reader->left = SIZE_MAX;
        return 0;
    }
    for (unsigned k = 0; k < width; k++)
        value |= (uint64_t)*reader->bytes++ << 8 * k;
    reader->left -= width;
    return value;
}

static uint32_t get32(struct reader *reader)
{
    return (uint32_t)get(reader, 4);
}

static unsigned rank_width(const struct reader *reader)
{
    return reader->plan->ranks_count <= SHORT_MAX ? 2 : 4;
}

static uint32_t get_rank(struct reader *reader)
{
    unsigned width = rank_width(reader);
    uint64_t rank = get(reader, width);
    return rank == (width == 2 ? 0xffffu : UINT32_MAX) ? PLAN_NO_RANK : (uint32_t)rank;
}

/* True if `count` items of at least `bytes` bytes each can follow. */
static bool may_follow(const struct reader *reader, uint64_t count, uint64_t bytes)
{
    return reader->left != SIZE_MAX && count <= reader->left / bytes;
}

static tryst_status cut_short(struct reader *reader)
{
    return refuse(reader, "cannot read a compiled plan: the bytes end too early");
}

static tryst_status no_memory(struct reader *reader)
{
    return err_set(reader->err, TRYST_E_NOMEM,
                   "cannot read a compiled plan: out of memory");
}

/* ---- decode ------------------------------------------------------------------------ */

static tryst_status head_decode(struct reader *reader)
{
    struct compiled_plan *plan = reader->plan;
    uint32_t magic = get32(reader), version = get32(reader);
    plan->epoch = get32(reader);
    plan->flags = get32(reader);
    plan->ranks_count = get32(reader);
    plan->trees_count = get32(reader);
    plan->ops_count = get32(reader);
    plan->bound_bytes_per_s = get(reader, 8);
    if (reader->left == SIZE_MAX)
        return cut_short(reader);
    if (magic != MAGIC)
        return refuse(reader, "not a compiled plan: the magic is %08x", magic);
    if (version != COMPILED_VERSION)
        return refuse(reader,
                      "cannot read a compiled plan of version %u: this library has "
                      "version %u; use one version on all ranks",
                      version, COMPILED_VERSION);
    if (plan->flags & ~COMPILED_RATES_ASSUMED)
        return refuse(reader, "not valid flags of a compiled plan: %#x", plan->flags);
    if (plan->ranks_count < 2 || plan->ranks_count > RANKS_MAX)
        return refuse(
            reader,
            "cannot read a compiled plan: not a valid number of ranks: %u (2 to %u)",
            plan->ranks_count, RANKS_MAX);
    if (!may_follow(reader, plan->ranks_count, 12) ||
        !may_follow(reader, plan->trees_count, 8 + (uint64_t)plan->ranks_count) ||
        !may_follow(reader, plan->ops_count, 8))
        return cut_short(reader);
    return TRYST_OK;
}

static tryst_status members_decode(struct reader *reader)
{
    struct compiled_plan *plan = reader->plan;
    struct arrays scratch = {0};
    uint8_t *seen = arrays_alloc(&scratch, MEMBER_MAX, 1);
    tryst_status status = TRYST_OK;
    plan->members = arrays_alloc(&plan->arrays, plan->ranks_count, sizeof *plan->members);
    reader->seen = arrays_alloc(&plan->arrays, plan->ranks_count, 1);
    if (!seen || plan->arrays.status)
        status = no_memory(reader);
    for (uint32_t i = 0; status == TRYST_OK && i < plan->ranks_count; i++) {
        plan->members[i] = get32(reader);
        if (plan->members[i] >= MEMBER_MAX || seen[plan->members[i]])
            status = refuse(reader, "member %u of a compiled plan is rank %u %s", i,
                            plan->members[i],
                            plan->members[i] < MEMBER_MAX ? "again" : "of no job");
        else
            seen[plan->members[i]] = 1;
    }
    arrays_free(&scratch);
    return status;
}

static tryst_status out_rates_decode(struct reader *reader)
{
    struct compiled_plan *plan = reader->plan;
    bool assumed = plan->flags & COMPILED_RATES_ASSUMED;
    plan->out_bytes_per_s =
        arrays_alloc(&plan->arrays, plan->ranks_count, sizeof *plan->out_bytes_per_s);
    if (!plan->out_bytes_per_s)
        return no_memory(reader);
    for (uint32_t i = 0; i < plan->ranks_count; i++) {
        uint64_t rate = plan->out_bytes_per_s[i] = get(reader, 8);
        if (rate > COMPILED_RATE_MOST || (assumed && rate))
            return refuse(
                reader, "rank %u of a compiled plan sends %llu bytes/s to the network%s",
                i, (unsigned long long)rate,
                assumed ? ", though all rates are assumed" : "");
    }
    return TRYST_OK;
}

/* True if each rank's path up ends at the root. `seen` is 1 on ranks with such a path, 2
 * on the present path. */
static bool half_spans(struct reader *reader, const uint32_t *parent, uint32_t root)
{
    uint32_t n = reader->plan->ranks_count;
    memset(reader->seen, 0, n);
    reader->seen[root] = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; reader->seen[at] == 0; at = parent[at])
            reader->seen[at] = 2;
        if (reader->seen[at] == 2)
            return false;
        for (at = i; reader->seen[at] == 2; at = parent[at])
            reader->seen[at] = 1;
    }
    return true;
}

static tryst_status parents_decode(struct reader *reader, uint32_t t, uint32_t root,
                                   uint32_t *parent)
{
    uint32_t n = reader->plan->ranks_count;
    for (uint32_t i = 0; i < n; i++) {
        parent[i] = get_rank(reader);
        if (reader->left == SIZE_MAX)
            return cut_short(reader);
        if (i == root ? parent[i] != PLAN_NO_RANK : parent[i] >= n)
            return refuse(reader,
                          "tree %u of a compiled plan: rank %u has no such parent", t, i);
    }
    return half_spans(reader, parent, root)
               ? TRYST_OK
               : refuse(reader, "tree %u of a compiled plan has a cycle", t);
}

/* Read the children, by rising parent, each once. */
static tryst_status children_decode(struct reader *reader, uint32_t t,
                                    struct compiled_half *half)
{
    uint32_t n = reader->plan->ranks_count, at = 0;
    memset(reader->seen, 0, n);
    for (uint32_t k = 0; k + 1 < n; k++) {
        uint32_t child = get_rank(reader);
        if (reader->left == SIZE_MAX)
            return cut_short(reader);
        if (child >= n || reader->seen[child] || half->parent[child] == PLAN_NO_RANK ||
            half->parent[child] < at)
            return refuse(reader,
                          "tree %u of a compiled plan: item %u of the children is not "
                          "a child, or out of order",
                          t, k);
        reader->seen[child] = 1;
        for (; at < half->parent[child]; at++)
            half->first[at + 1] = k;
        half->child[k] = child;
    }
    for (; at < n; at++)
        half->first[at + 1] = n - 1;
    return TRYST_OK;
}

static tryst_status half_decode(struct reader *reader, uint32_t t, uint32_t root,
                                struct compiled_half *half)
{
    struct arrays *arrays = &reader->plan->arrays;
    uint32_t n = reader->plan->ranks_count;
    if (!may_follow(reader, 2ul * n - 1, rank_width(reader)))
        return cut_short(reader);
    half->parent = arrays_alloc(arrays, n, sizeof *half->parent);
    half->first = arrays_alloc(arrays, n + 1ul, sizeof *half->first);
    half->child = arrays_alloc(arrays, n, sizeof *half->child);
    if (arrays->status)
        return no_memory(reader);
    tryst_status status = parents_decode(reader, t, root, half->parent);
    return status ? status : children_decode(reader, t, half);
}

static tryst_status tree_decode(struct reader *reader, uint32_t t)
{
    struct compiled_plan *plan = reader->plan;
    struct compiled_tree *tree = &plan->trees[t];
    uint32_t halves = get32(reader), both = HALF_UP | HALF_DOWN;
    tryst_status status = TRYST_OK;
    tree->root = get32(reader);
    if (reader->left == SIZE_MAX)
        return cut_short(reader);
    if (tree->root >= plan->ranks_count || !(halves & both) ||
        (halves & HALVES_ALIKE && (halves & both) != both) ||
        halves & ~(both | HALVES_ALIKE))
        return refuse(reader,
                      "tree %u of a compiled plan: not valid: root %u, halves %#x", t,
                      tree->root, halves);
    if (halves & HALF_UP)
        status = half_decode(reader, t, tree->root, &tree->up);
    if (status || !(halves & HALF_DOWN))
        return status;
    if (!(halves & HALVES_ALIKE))
        return half_decode(reader, t, tree->root, &tree->down);
    tree->down.parent = tree->up.parent;
    status =
        compiled_half_reverse(&plan->arrays, plan->ranks_count, &tree->up, &tree->down);
    return status ? no_memory(reader) : TRYST_OK;
}

/* True if the tree has the halves that the operation runs. */
static bool tree_serves(const struct compiled_tree *tree, uint32_t op)
{
    bool up = op != PLAN_BROADCAST, down = op != PLAN_REDUCE;
    return (!up || tree->up.parent) && (!down || tree->down.parent);
}

static tryst_status parts_decode(struct reader *reader, uint32_t op,
                                 struct compiled_class *class)
{
    uint32_t before = 0;
    reader->class_number++;
    for (uint32_t p = 0; p < class->parts_count; p++) {
        struct compiled_part *part = &class->parts[p];
        part->tree = get32(reader);
        part->cum_share = get32(reader);
        if (part->tree >= reader->plan->trees_count ||
            !tree_serves(&reader->plan->trees[part->tree], op))
            return refuse(
                reader,
                "part %u of a compiled plan's class: tree %u does not exist, or "
                "lacks a half",
                p, part->tree);
        if (part->cum_share < before ||
            (p + 1 == class->parts_count && part->cum_share != UINT32_MAX))
            return refuse(reader,
                          "part %u of a compiled plan's class: not a valid cumulative "
                          "share: %u",
                          p, part->cum_share);
        if (reader->tree_seen[part->tree] == reader->class_number)
            return refuse(reader, "a compiled plan's class has tree %u twice",
                          part->tree);
        reader->tree_seen[part->tree] = reader->class_number;
        before = part->cum_share;
    }
    return TRYST_OK;
}

static tryst_status class_decode(struct reader *reader, const struct compiled_op *op,
                                 uint32_t c)
{
    struct compiled_plan *plan = reader->plan;
    struct compiled_class *class = &op->classes[c];
    class->bytes_max = get(reader, 8);
    class->bytes_per_s = get(reader, 8);
    class->slice_bytes = get32(reader);
    class->flags = get32(reader);
    class->parts_count = get32(reader);
    if (!may_follow(reader, class->parts_count, 8))
        return cut_short(reader);
    if (c > 0 && class->bytes_max <= op->classes[c - 1].bytes_max)
        return refuse(reader,
                      "class %u of a compiled plan ends at %llu bytes, not above the "
                      "class before, which ends at %llu",
                      c, (unsigned long long)class->bytes_max,
                      (unsigned long long)op->classes[c - 1].bytes_max);
    if (c + 1 == op->classes_count && class->bytes_max != UINT64_MAX)
        return refuse(reader,
                      "class %u of a compiled plan, the last one, ends at %llu bytes; "
                      "it must have no end",
                      c, (unsigned long long)class->bytes_max);
    if (class->bytes_per_s == 0 || class->slice_bytes < SLICE_LEAST ||
        class->slice_bytes > SLICE_MOST || class->slice_bytes % SLICE_MULTIPLE)
        return refuse(
            reader,
            "class %u of a compiled plan: not valid: slices of %u bytes at %llu "
            "bytes/s",
            c, class->slice_bytes, (unsigned long long)class->bytes_per_s);
    if (class->flags & ~COMPILED_EXCHANGE)
        return refuse(reader, "class %u of a compiled plan: not valid flags: %#x", c,
                      class->flags);
    if (class->parts_count == 0 || class->parts_count > plan->trees_count)
        return refuse(reader,
                      "class %u of a compiled plan: not a valid number of parts: %u", c,
                      class->parts_count);
    class->parts = arrays_alloc(&plan->arrays, class->parts_count, sizeof *class->parts);
    if (!class->parts)
        return no_memory(reader);
    tryst_status status = parts_decode(reader, op->op, class);
    if (status == TRYST_OK && class->parts[0].tree != op->classes[0].parts[0].tree)
        return refuse(reader, "class %u of a compiled plan has another tree 0", c);
    return status;
}

static tryst_status op_decode(struct reader *reader, uint32_t o)
{
    struct compiled_plan *plan = reader->plan;
    struct compiled_op *op = &plan->ops[o];
    tryst_status status = TRYST_OK;
    op->op = get32(reader);
    op->classes_count = get32(reader);
    if (!may_follow(reader, op->classes_count, 36))
        return cut_short(reader);
    if (op->op >= PLAN_OPS || (o > 0 && op->op <= plan->ops[o - 1].op) ||
        op->classes_count == 0)
        return refuse(
            reader,
            "operation %u of a compiled plan, of %u classes, is unknown, empty or "
            "out of order",
            op->op, op->classes_count);
    op->classes = arrays_alloc(&plan->arrays, op->classes_count, sizeof *op->classes);
    if (!op->classes)
        return no_memory(reader);
    for (uint32_t c = 0; c < op->classes_count && status == TRYST_OK; c++)
        status = class_decode(reader, op, c);
    return status;
}

static tryst_status plan_decode(struct reader *reader)
{
    struct compiled_plan *plan = reader->plan;
    tryst_status status = head_decode(reader);
    if (!status)
        status = members_decode(reader);
    if (!status)
        status = out_rates_decode(reader);
    if (status)
        return status;
    plan->trees = arrays_alloc(&plan->arrays, plan->trees_count, sizeof *plan->trees);
    plan->ops = arrays_alloc(&plan->arrays, plan->ops_count, sizeof *plan->ops);
    reader->tree_seen =
        arrays_alloc(&plan->arrays, plan->trees_count, sizeof *reader->tree_seen);
    if (plan->arrays.status)
        return no_memory(reader);
    for (uint32_t t = 0; t < plan->trees_count && !status; t++)
        status = tree_decode(reader, t);
    for (uint32_t o = 0; o < plan->ops_count && !status; o++)
        status = op_decode(reader, o);
    if (!status && reader->left > 0)
        return refuse(reader, "cannot read a compiled plan: %zu bytes follow its end",
                      reader->left);
    return status;
}

tryst_status compiled_plan_decode(const uint8_t *bytes, size_t count, struct err *err,
                                  struct compiled_plan **plan_p)
{
    struct reader reader = {.bytes = bytes,
                            .left = count,
                            .plan = mem_zalloc(sizeof *reader.plan),
                            .err = err};
    if (!reader.plan)
        return no_memory(&reader);
    tryst_status status = plan_decode(&reader);
    if (status) {
        compiled_plan_close(reader.plan);
        return status;
    }
    *plan_p = reader.plan;
    return TRYST_OK;
}
