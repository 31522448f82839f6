/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_items.h. Sections: kinds, the part of one rank, its check, networks. */
#include "coll_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    GUARD_BYTE = 0xA7,
    UNUSED_BYTE = 0x5C,
    POISON_BYTE = 0xEE,
    SAMPLED = 16384,
    SAMPLE = 16
};

uint64_t coll_below(uint64_t *random, uint64_t n)
{
    return (harness_random(random) >> 8) % n;
}

/* ---- kinds ------------------------------------------------------------------------- */

static uint64_t count_all(const struct coll_item *item, int rank)
{
    (void)rank;
    return item->count;
}

static uint64_t count_root(const struct coll_item *item, int rank)
{
    return rank == item->root ? item->count : 0;
}

static struct coll_source source_all(const struct coll_item *item, int rank,
                                     uint64_t index)
{
    (void)item, (void)rank;
    return (struct coll_source){COLL_ALL_RANKS, index};
}

static struct coll_source source_root(const struct coll_item *item, int rank,
                                      uint64_t index)
{
    (void)rank;
    return (struct coll_source){item->root, index};
}

static tryst_status allreduce_start(const struct coll_item *item, tryst_step *step,
                                    const tryst_tensor *in, const tryst_tensor *out,
                                    const tryst_op_params *params, tryst_op **op_p)
{
    return tryst_allreduce(step, item->name, in, out, item->reference.reduce, params,
                           op_p);
}

static tryst_status reduce_start(const struct coll_item *item, tryst_step *step,
                                 const tryst_tensor *in, const tryst_tensor *out,
                                 const tryst_op_params *params, tryst_op **op_p)
{
    return tryst_reduce(step, item->name, in, out, item->reference.reduce, item->root,
                        params, op_p);
}

static tryst_status broadcast_start(const struct coll_item *item, tryst_step *step,
                                    const tryst_tensor *in, const tryst_tensor *out,
                                    const tryst_op_params *params, tryst_op **op_p)
{
    (void)in;
    return tryst_broadcast(step, item->name, out, item->root, params, op_p);
}

static tryst_status barrier_start(const struct coll_item *item, tryst_step *step,
                                  const tryst_tensor *in, const tryst_tensor *out,
                                  const tryst_op_params *params, tryst_op **op_p)
{
    (void)in, (void)out;
    return tryst_barrier(step, item->name, params, op_p);
}

const struct coll_kind coll_kinds[] = {
    {"allreduce", TRYST_COLL_ALLREDUCE, true, false, count_all, count_all, source_all,
     allreduce_start},
    {"reduce", TRYST_COLL_REDUCE, true, true, count_all, count_root, source_all,
     reduce_start},
    {"broadcast", TRYST_COLL_BROADCAST, false, true, count_root, count_all, source_root,
     broadcast_start},
    {"barrier", TRYST_COLL_BARRIER, false, false, NULL, NULL, NULL, barrier_start},
};
const int coll_kinds_count = sizeof coll_kinds / sizeof coll_kinds[0];

/* ---- the part of one rank ---------------------------------------------------------- */

static uint64_t hash(const uint8_t *data, size_t bytes)
{
    uint64_t sum = 0xCBF29CE484222325ull ^ bytes, word = 0;
    for (; bytes >= 8; bytes -= 8, data += 8) {
        memcpy(&word, data, 8);
        sum = (sum ^ word) * 0x9E3779B97F4A7C15ull;
        sum ^= sum >> 29;
    }
    for (; bytes; bytes--)
        sum = (sum ^ *data++) * 0x100000001B3ull;
    return sum;
}

/* Make a room with guards; in a third of the cases one that peers of the host map. */
static uint8_t *room_new(tryst_ctx *ctx, size_t bytes, int fill, uint64_t *random,
                         tryst_mem **mem_p)
{
    void *memory = NULL;
    if (coll_below(random, 3) == 0)
        CHECK_STATUS(tryst_mem_alloc(ctx, bytes + 2 * COLL_GUARD, TRYST_MEMORY_HOST, 0,
                                     &memory, mem_p),
                     TRYST_OK);
    uint8_t *room = *mem_p ? memory : malloc(bytes + 2 * COLL_GUARD);
    CHECK(room);
    memset(room, GUARD_BYTE, COLL_GUARD);
    memset(room + COLL_GUARD, fill, bytes);
    memset(room + COLL_GUARD + bytes, GUARD_BYTE, COLL_GUARD);
    return room;
}

static void room_free(uint8_t *room, tryst_mem *mem)
{
    if (mem)
        tryst_mem_release(mem);
    else
        free(room);
}

static void input_fill(const struct coll_part *part)
{
    const struct reference *reference = &part->item->reference;
    size_t element = tryst_dtype_bytes(reference->dtype);
    for (size_t i = 0; i * element < part->in_bytes; i++) {
        uint64_t bits = reference_draw(reference, part->rank, i);
        memcpy(part->in + i * element, &bits, element);
    }
}

/* True if the rank's input and output are the same memory. */
static bool part_is_in_place(const struct coll_part *part)
{
    return part->item->kind->kind == TRYST_COLL_BROADCAST ||
           (part->item->in_place && part->in_bytes && part->out_bytes);
}

void coll_part_open(struct coll_part *part, const struct coll_item *item,
                    const struct harness_rank *at, uint64_t *random)
{
    static const size_t shifts[] = {0, 0, 0, 1, 3, 8, 36};
    size_t element = tryst_dtype_bytes(item->reference.dtype);
    int rank = at->rank;
    *part = (struct coll_part){.item = item, .rank = rank};
    part->in_shift = shifts[coll_below(random, 7)];
    part->out_shift = shifts[coll_below(random, 7)];
    if (!item->kind->source)
        return;
    part->in_bytes = item->kind->in_count(item, rank) * element;
    part->out_bytes = item->kind->out_count(item, rank) * element;
    part->out_room = room_new(at->ctx, part->out_bytes + part->out_shift, UNUSED_BYTE,
                              random, &part->out_mem);
    part->out = part->out_room + COLL_GUARD + part->out_shift;
    twin_open(&part->out_twin, at, part->out_room,
              part->out_bytes + part->out_shift + 2 * COLL_GUARD, random);
    part->in = part->out;
    if (!part_is_in_place(part)) {
        part->in_room = room_new(at->ctx, part->in_bytes + part->in_shift, UNUSED_BYTE,
                                 random, &part->in_mem);
        part->in = part->in_room + COLL_GUARD + part->in_shift;
        twin_open(&part->in_twin, at, part->in_room,
                  part->in_bytes + part->in_shift + 2 * COLL_GUARD, random);
    }
    input_fill(part);
    part->in_hash = hash(part->in, part->in_bytes);
}

void coll_part_close(struct coll_part *part)
{
    tryst_coll_release(part->prepared);
    twin_close(&part->in_twin);
    twin_close(&part->out_twin);
    room_free(part->in_room, part->in_mem);
    room_free(part->out_room, part->out_mem);
    *part = (struct coll_part){0};
}

void coll_part_prepare(struct coll_part *part, tryst_group *group)
{
    const struct coll_item *item = part->item;
    tryst_coll_params params = {.struct_size = sizeof params,
                                .kind = item->kind->kind,
                                .root = item->root,
                                .name = item->name};
    if (item->kind->reduces)
        params.reduce = item->reference.reduce;
    if (item->kind->source) {
        params.count = item->count;
        params.dtype = item->reference.dtype;
    }
    if (tryst_coll_prepare(group, &params, &part->prepared) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s: %s", item->name, tryst_last_error());
}

static tryst_tensor part_tensor(const struct coll_part *part, uint8_t *data, size_t bytes,
                                tryst_mem *mem, const struct twin *twin)
{
    tryst_dtype dtype = part->item->reference.dtype;
    bool names_mem = bytes && part->item->reference.seed & 4;
    tryst_tensor tensor = {.struct_size = sizeof(tryst_tensor),
                           .data = bytes || part->item->reference.seed & 2 ? data : NULL,
                           .mem = names_mem ? mem : NULL,
                           .count = bytes / tryst_dtype_bytes(dtype),
                           .dtype = dtype};
    twin_tensor(twin, names_mem, &tensor);
    return tensor;
}

/* Bring the bytes to where the twins have them. */
static void part_begin(struct coll_part *part)
{
    twin_begin(&part->out_twin, part->out_twin.bytes);
    twin_begin(&part->in_twin, part->in_twin.bytes);
}

tryst_status coll_part_start(struct coll_part *part, tryst_step *step,
                             const tryst_op_params *params)
{
    const struct coll_item *item = part->item;
    bool apart = part->in_room;
    tryst_tensor in =
        part_tensor(part, part->in, part->in_bytes, apart ? part->in_mem : part->out_mem,
                    apart ? &part->in_twin : &part->out_twin);
    tryst_tensor out =
        part_tensor(part, part->out, part->out_bytes, part->out_mem, &part->out_twin);
    bool has_data = item->kind->source;
    bool has_out = has_data && (part->out_bytes || !item->count);
    bool has_in = has_data && item->kind->kind != TRYST_COLL_BROADCAST;
    tryst_op_params own = params ? *params : (tryst_op_params){.struct_size = sizeof own};
    own.factor = item->reference.factors[part->rank];
    if (has_in && part_is_in_place(part) && item->reference.seed & 1)
        /* true unless the item is in place and passes NULL as its input */
        has_in = false;
    const tryst_tensor *in_p = has_in ? &in : NULL, *out_p = has_out ? &out : NULL;
    part_begin(part);
    tryst_status status =
        part->prepared
            ? tryst_coll_start(step, part->prepared, in_p, out_p, &own, &part->op)
            : item->kind->start(item, step, in_p, out_p, &own, &part->op);
    if (status == TRYST_OK) {
        twin_await(&part->in_twin, part->op);
        twin_await(&part->out_twin, part->op);
    }
    return status;
}

void coll_part_poison(struct coll_part *part)
{
    if (part->out_room)
        memset(part->out, POISON_BYTE, part->out_bytes);
    if (part->in_room)
        memset(part->in, POISON_BYTE, part->in_bytes);
    twin_push(&part->in_twin);
    twin_push(&part->out_twin);
}

static void part_pull(struct coll_part *part)
{
    twin_pull(&part->in_twin);
    twin_pull(&part->out_twin);
}

static bool is_all(const uint8_t *data, size_t bytes, uint8_t value)
{
    return !bytes || (data[0] == value && memcmp(data, data + 1, bytes - 1) == 0);
}

bool coll_part_is_poisoned(struct coll_part *part)
{
    part_pull(part);
    return is_all(part->out, part->out_bytes, POISON_BYTE) &&
           is_all(part->in_room ? part->in : part->out,
                  part->in_room ? part->in_bytes : part->out_bytes, POISON_BYTE);
}

/* ---- the check of a part ----------------------------------------------------------- */

static _Noreturn void part_fail(const struct coll_part *part, uint64_t index,
                                const char *fault)
{
    const struct coll_item *item = part->item;
    const struct reference *reference = &item->reference;
    char inputs[512];
    size_t element = tryst_dtype_bytes(reference->dtype), at = 0;
    uint64_t got = 0;
    if ((index + 1) * element <= part->out_bytes)
        memcpy(&got, part->out + index * element, element);
    struct coll_source source = item->kind->source(item, part->rank, index);
    for (int rank = 0; rank < reference->size; rank++)
        at += (size_t)snprintf(
            inputs + at, sizeof inputs - at, " %llx",
            (unsigned long long)reference_draw(reference, rank, source.index));
    harness_fail(
        __FILE__, __LINE__,
        "%s: %s of %llu %s, reduction %d, root %d, %s, shifts %zu %zu, memory %s %s, %s: "
        "element %llu is 0x%llx of%s: %s",
        item->name, item->kind->name, (unsigned long long)item->count,
        tryst_dtype_name(reference->dtype), reference->reduce, item->root,
        item->in_place ? "in place" : "not in place", part->in_shift, part->out_shift,
        twin_name(&part->in_twin), twin_name(&part->out_twin),
        part->prepared ? "prepared" : "not prepared", (unsigned long long)index,
        (unsigned long long)got, inputs, fault);
}

static bool guards_are_whole(const uint8_t *room, size_t bytes)
{
    for (size_t i = 0; room && i < COLL_GUARD; i++)
        if (room[i] != GUARD_BYTE || room[COLL_GUARD + bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

static bool shift_is_whole(const uint8_t *room, size_t shift)
{
    for (size_t i = 0; room && i < shift; i++)
        if (room[COLL_GUARD + i] != UNUSED_BYTE)
            return false;
    return true;
}

void coll_part_check_around(struct coll_part *part)
{
    part_pull(part);
    if (!guards_are_whole(part->in_room, part->in_shift + part->in_bytes) ||
        !guards_are_whole(part->out_room, part->out_shift + part->out_bytes) ||
        !shift_is_whole(part->in_room, part->in_shift) ||
        !shift_is_whole(part->out_room, part->out_shift))
        part_fail(part, 0, "bytes beside a tensor were written");
    if (part->in_room && hash(part->in, part->in_bytes) != part->in_hash)
        part_fail(part, 0, "the input was written");
}

static const char *element_fault(const struct coll_part *part, uint64_t index,
                                 bool thorough, struct reference_line *line)
{
    const struct reference *reference = &part->item->reference;
    size_t element = tryst_dtype_bytes(reference->dtype);
    struct coll_source source = part->item->kind->source(part->item, part->rank, index);
    uint64_t got = 0;
    memcpy(&got, part->out + index * element, element);
    if (source.rank == COLL_ALL_RANKS)
        return reference_fault(reference, source.index, got, thorough, line);
    return got == reference_draw(reference, source.rank, source.index)
               ? NULL
               : "not the element of the source rank";
}

void coll_part_check(const struct coll_part *part)
{
    struct reference_line line;
    size_t element = tryst_dtype_bytes(part->item->reference.dtype);
    uint64_t count = part->out_bytes / element, per_line = REFERENCE_LINE / element;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i / per_line;
        bool thorough = count < SAMPLED || at % SAMPLE == 0 || at == count / per_line;
        if (i % per_line == 0)
            reference_line_begin(&line);
        const char *fault = element_fault(part, i, thorough, &line);
        if (fault)
            part_fail(part, i, fault);
    }
}

uint64_t coll_part_hash(const struct coll_part *part)
{
    return hash(part->out, part->out_bytes);
}

/* ---- networks ---------------------------------------------------------------------- */

enum network { STAR, RACKS, MESH, SPARSE, CHAIN, NETWORKS };

static double rate_draw(uint64_t *random)
{
    static const double rates[] = {0.2, 0.4, 0.8, 1, 2.5, 10};
    return rates[coll_below(random, 6)];
}

static void link_write(FILE *file, bool *first, const char *a, int i, const char *b,
                       int j, double rate)
{
    fprintf(file, "%s{\"a\":\"%s%d\",\"b\":\"%s%d\",\"gbit_per_s\":%g,\"latency_us\":20}",
            *first ? "" : ",\n", a, i, b, j, rate);
    *first = false;
}

static void links_write(FILE *file, enum network network, int size, uint64_t *random)
{
    bool first = true;
    int order[REFERENCE_RANKS_MAX];
    for (int i = 0; i < size; i++) {
        int at = (int)coll_below(random, (uint64_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    if (network == RACKS)
        link_write(file, &first, "s", 0, "s", 1, rate_draw(random));
    for (int i = 0; i < size; i++) {
        if (network == STAR || network == RACKS)
            link_write(file, &first, "h", i, "s",
                       network == RACKS ? (int)coll_below(random, 2) : 0,
                       rate_draw(random));
        for (int j = 0; j < i; j++)
            if (network == MESH || (network == CHAIN && j == i - 1) ||
                (network == SPARSE &&
                 (j == (i * 7 + 3) % i || coll_below(random, 4) == 0)))
                link_write(file, &first, "h", order[i], "h", order[j], rate_draw(random));
    }
}

char *coll_network_write(int size, uint64_t seed)
{
    uint64_t random = seed * 0x9E3779B97F4A7C15ull + 1;
    const char *folder = getenv("TMPDIR");
    char *path = malloc(4096);
    for (int i = 0; i < 8; i++)
        harness_random(&random);
    if (!path || size < 2 || coll_below(&random, NETWORKS + 1) == NETWORKS) {
        free(path);
        return NULL;
    }
    snprintf(path, 4096, "%s/tryst-network-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    CHECK(file);
    fprintf(file, "{\"ranks\":[");
    for (int i = 0; i < size; i++)
        fprintf(file, "%s\"h%d\"", i ? "," : "", i);
    enum network network = (enum network)coll_below(&random, NETWORKS);
    fprintf(file, "],\"nodes\":[%s],\n\"links\":[",
            network == STAR    ? "\"s0\""
            : network == RACKS ? "\"s0\",\"s1\""
                               : "");
    links_write(file, network, size, &random);
    fprintf(file, "]}\n");
    CHECK(fclose(file) == 0);
    return path;
}

void coll_network_remove(char *path)
{
    if (path)
        unlink(path);
    free(path);
}
