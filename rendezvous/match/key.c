/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys: parser, builder and prepared keys.
 *
 * Idea: one pass over the string that yields views into it. The grammar is TensorFlow's
 * (framework/rendezvous.cc, util/device_name_utils.cc), but strict where TensorFlow's
 * leniency would let one string mean different things to two ranks (tryst/key.h lists
 * these places).
 *
 * Invariant: parsing allocates nothing and reads no byte behind the given length.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/refuse.h"
#include "prepared.h"
#include "rendezvous/bootstrap/roster/device_name.h"
#include "rendezvous/bootstrap/roster/roster.h"
#include "tryst/sized.h"

enum { KEY_PARTS = 5, INCARNATION_DIGITS_MAX = 16 };

/* The end of a refusal: how to get a key from ranks and a name. */
#define KEY_ADVICE                                                                   \
    "make keys from two ranks and a name (tryst_key_make, or tryst_key_build for a " \
    "string)"

static tryst_status key_fail(tryst_key_error *error_p, size_t position,
                             const char *reason)
{
    if (error_p)
        *error_p = (tryst_key_error){sizeof *error_p, position, reason};
    return TRYST_E_KEY;
}

/* ---- parser ------------------------------------------------------------------------ */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const char *incarnation_parse(tryst_view part, uint64_t *value_p, size_t *at_p)
{
    uint64_t value = 0;
    *at_p = 0;
    if (!part.bytes)
        return "incarnation: empty";
    for (size_t i = 0; i < part.bytes; i++) {
        int digit = hex_digit(part.data[i]);
        *at_p = i;
        if (digit < 0)
            return "incarnation: not a hexadecimal digit";
        if (i >= INCARNATION_DIGITS_MAX)
            return "incarnation: more than 16 digits";
        value = value << 4 | (uint64_t)digit;
    }
    *value_p = value;
    return NULL;
}

/* Cut at ';' into exactly five parts. */
static tryst_status key_split(const char *key, size_t bytes, tryst_view parts[KEY_PARTS],
                              tryst_key_error *error_p)
{
    size_t begin = 0;
    int count = 0;
    for (size_t i = 0; i <= bytes; i++) {
        if (i < bytes && key[i] != ';')
            continue;
        if (count == KEY_PARTS)
            return key_fail(error_p, begin - 1, "more than five parts");
        parts[count++] = (tryst_view){key + begin, i - begin};
        begin = i + 1;
    }
    if (count < KEY_PARTS)
        return key_fail(error_p, bytes, "fewer than five parts separated by ';'");
    return TRYST_OK;
}

static tryst_status key_parse_bytes(const char *key, size_t bytes,
                                    tryst_parsed_key *parsed_p, tryst_key_error *error_p)
{
    tryst_view part[KEY_PARTS];
    tryst_parsed_key parsed;
    const char *reason;
    size_t at;
    if (bytes > TRYST_KEY_MAX)
        return key_fail(error_p, TRYST_KEY_MAX, "longer than 1023 bytes");
    tryst_status status = key_split(key, bytes, part, error_p);
    if (status != TRYST_OK)
        return status;
    for (int i = 0; i < 3; i++) {
        reason = i == 1 ? incarnation_parse(part[1], &parsed.src_incarnation, &at)
                        : device_name_check(part[i], false, &at);
        if (reason)
            return key_fail(error_p, (size_t)(part[i].data - key) + at, reason);
    }
    if (!part[3].bytes)
        return key_fail(error_p, (size_t)(part[3].data - key), "edge name: empty");
    if (!part[4].bytes)
        return key_fail(error_p, bytes, "frame and iteration: empty");
    parsed.src_device = part[0];
    parsed.dst_device = part[2];
    parsed.edge = part[3];
    parsed.frame_iter = part[4];
    *parsed_p = parsed;
    return TRYST_OK;
}

tryst_status tryst_key_parse(const char *key, tryst_parsed_key *parsed_p,
                             tryst_key_error *error_p)
{
    tryst_parsed_key parsed;
    tryst_key_error error = {.struct_size = sizeof error};
    if ((parsed_p && !tryst_sized_is_set(parsed_p)) ||
        (error_p && !tryst_sized_is_set(error_p)))
        return TRYST_E_INVALID;
    tryst_status status =
        key ? key_parse_bytes(key, strnlen(key, TRYST_KEY_MAX + 1), &parsed, &error)
            : key_fail(&error, 0, "no key");
    if (status == TRYST_OK && parsed_p)
        (void)tryst_sized_write(parsed_p, &parsed, sizeof parsed);
    if (status != TRYST_OK && error_p)
        (void)tryst_sized_write(error_p, &error, sizeof error);
    return status;
}

/* ---- builder ----------------------------------------------------------------------- */

static tryst_status key_rank_check(const struct roster *roster, const char *end, int rank)
{
    if (rank >= 0 && rank < roster->size)
        return TRYST_OK;
    return refuse(TRYST_E_INVALID,
                  "cannot build a key: the %s is not a rank of the group: %d (0 to %d)",
                  end, rank, roster->size - 1);
}

tryst_status key_build(const struct roster *roster, int src_rank, int dst_rank,
                       const char *edge, uint64_t frame, uint64_t iter, char *key,
                       size_t capacity)
{
    if (!edge || !key)
        return refuse_null("build a key", edge ? "key" : "the name");
    if (!*edge || strchr(edge, ';'))
        return refuse(
            TRYST_E_INVALID,
            "cannot build a key: not a valid name: \"%.64s\" (not empty, without "
            "';')",
            edge);
    tryst_status status = key_rank_check(roster, "source", src_rank);
    if (status == TRYST_OK)
        status = key_rank_check(roster, "destination", dst_rank);
    if (status != TRYST_OK)
        return status;
    int n =
        snprintf(key, capacity,
                 "%s/device:CPU:0;%016" PRIx64 ";%s/device:CPU:0;%s;%" PRIu64 ":%" PRIu64,
                 roster_prefix(roster, src_rank), roster->ranks[src_rank].incarnation,
                 roster_prefix(roster, dst_rank), edge, frame, iter);
    if (n < 0 || (size_t)n >= capacity)
        return refuse(TRYST_E_INVALID,
                      "cannot build a key: it has %d bytes, the buffer %zu; use one of "
                      "TRYST_KEY_MAX + 1 = %d",
                      n, capacity, TRYST_KEY_MAX + 1);
    tryst_key_error error = {.struct_size = sizeof error};
    if (tryst_key_parse(key, NULL, &error) != TRYST_OK)
        return refuse(TRYST_E_INVALID, "cannot build a key: %s, at byte %zu of %s",
                      error.reason, error.position, key);
    return TRYST_OK;
}

/* ---- prepared keys ----------------------------------------------------------------- */

/* Return the hash of a key's string; never 0. */
static uint64_t prepared_hash(const char *string, size_t bytes)
{
    uint64_t hash = hash_bytes(string, bytes);
    return hash ? hash : 1;
}

tryst_status prepared_open(const struct roster *roster, const char *string, size_t bytes,
                           struct err *err, tryst_key **key_p)
{
    tryst_parsed_key parsed;
    tryst_key_error error = {.struct_size = sizeof error};
    if (key_parse_bytes(string, bytes, &parsed, &error) != TRYST_OK)
        return err_set(err, TRYST_E_KEY,
                       "cannot use the key: %s, at byte %zu of \"%.*s\"; " KEY_ADVICE,
                       error.reason, error.position, (int)(bytes < 200 ? bytes : 200),
                       string);
    int src = roster_rank_of(roster, parsed.src_device.data, parsed.src_device.bytes);
    int dst = roster_rank_of(roster, parsed.dst_device.data, parsed.dst_device.bytes);
    if (src < 0 || dst < 0) {
        tryst_view unknown = src < 0 ? parsed.src_device : parsed.dst_device;
        return err_set(
            err, TRYST_E_KEY,
            "cannot use the key: no rank of the group has the device %.*s; " KEY_ADVICE,
            (int)(unknown.bytes < 200 ? unknown.bytes : 200), unknown.data);
    }
    tryst_key *key = mem_alloc(sizeof *key + bytes + 1);
    if (!key)
        return err_set(err, TRYST_E_NOMEM, "cannot prepare a key: out of memory");
    atomic_init(&key->refs, 1);
    key->src_rank = src;
    key->dst_rank = dst;
    key->bytes = (uint16_t)bytes;
    key->edge = (uint16_t)(parsed.edge.data - string);
    key->src_incarnation = parsed.src_incarnation;
    key->hash = prepared_hash(string, bytes);
    key->table_hash = hash_keyed(string, bytes);
    memcpy(key->string, string, bytes);
    key->string[bytes] = '\0';
    *key_p = key;
    return TRYST_OK;
}

void prepared_refs_add(tryst_key *key, uint32_t count)
{
    /* relaxed: the caller holds a reference already. */
    atomic_fetch_add_explicit(&key->refs, count, memory_order_relaxed);
}

void prepared_refs_drop(tryst_key *key, uint32_t count)
{
    /* acq_rel: the thread that drops the last reference sees all uses of the others
     * before it frees. */
    if (atomic_fetch_sub_explicit(&key->refs, count, memory_order_acq_rel) == count)
        mem_free(key);
}

tryst_key *prepared_ref(tryst_key *key)
{
    prepared_refs_add(key, 1);
    return key;
}

void prepared_unref(tryst_key *key)
{
    if (key)
        prepared_refs_drop(key, 1);
}

const char *tryst_key_string(const tryst_key *key)
{
    return key ? key->string : "";
}

void tryst_key_release(tryst_key *key)
{
    prepared_unref(key);
}
