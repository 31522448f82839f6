/* SPDX-License-Identifier: Apache-2.0 */
/** @file wire_decode.h
 *  Whether what came is what wire.h says: pure, before anything acts on it (wire_decode.c). Any thread.
 */
#ifndef RENDEZVOUS_PROTOCOL_WIRE_DECODE_H
#define RENDEZVOUS_PROTOCOL_WIRE_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "wire.h"

/** Whether `records` records tile this frame of at least a header exactly. */
bool wire_frame_check(const void *frame, size_t bytes, unsigned records);
/** What is wrong with a record of such a frame, by its type, or NULL. An answer: in a group of `size` ranks. */
const char *wire_want_check(const struct record_want *want);
const char *wire_offer_check(const struct record_offer *offer);
const char *wire_answer_check(const struct record_answer *answer, int size);

/** Check the status of a record that failed, and the cause in it: NULL, or the reason of a violation. */
const char *wire_failure_check(const struct record_header *record, int size);
/** The shape behind a WANT's or an OFFER's key, or behind an answer; NULL: there is none. */
static inline const struct flow_shape *wire_shape(const struct record_header *header)
{
    const uint8_t *end = (const uint8_t *)header + header->bytes;
    return header->flags & RECORD_SHAPE ? (const void *)(end - sizeof(struct flow_shape))
                                        : NULL;
}

/** What DATA declares, or NULL. */
static inline const struct record_name *wire_data_name(const struct record_data *data)
{
    return data->header.flags & RECORD_NAMED ? (const void *)(data + 1) : NULL;
}

/** The shape that a declaration carries, or NULL. */
static inline const struct flow_shape *wire_name_shape(const struct record_name *name)
{
    const uint8_t *key = (const uint8_t *)(name + 1);
    return name->flags & NAME_SHAPE ? (const void *)(key + wire_padded(name->key_bytes))
                                    : NULL;
}

/** The payload of DATA, behind what it declares. */
static inline const uint8_t *wire_data_payload(const struct record_data *data)
{
    const struct record_name *name = wire_data_name(data);
    const uint8_t *at = (const uint8_t *)(data + 1);
    return name ? at + wire_name_bytes(name) : at;
}

/** Inline: every small tensor passes here. */
static inline const char *wire_data_check(const struct record_data *data)
{
    size_t bytes = data->header.bytes;
    if (bytes < sizeof *data)
        return "DATA: short";
    const struct record_name *name = wire_data_name(data);
    size_t head = sizeof *data;
    if (name && bytes < head + sizeof *name)
        return "DATA: short";
    if (name && (!name->key_bytes || !name->key_hash))
        return "DATA: no key";
    if (name && name->flags & ~NAME_SHAPE)
        return "DATA: unknown flags of a name";
    if (name)
        head += wire_name_bytes(name);
    return bytes == head + wire_padded(data->payload_bytes) ? NULL
                                                            : "DATA: sizes do not add up";
}

#endif
