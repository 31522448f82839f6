/* SPDX-License-Identifier: Apache-2.0 */
/** @file wire_decode.h
 *  Checks that frames and records are as wire.h describes: pure functions, called for a
 *  frame, and for each record before it acts (wire_decode.c). Any thread.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_WIRE_WIRE_DECODE_H
#define TRYST_RENDEZVOUS_PROTOCOL_WIRE_WIRE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "wire.h"

/** True if exactly `records` records fill the frame, which has at least a header. */
bool wire_frame_check(const void *frame, size_t bytes, unsigned records);
/** Check a record of this type, in a frame that wire_frame_check has passed and a group
 *  of `size` ranks. Return NULL, or a description of the violation. */
const char *wire_want_check(const struct record_want *want);
const char *wire_offer_check(const struct record_offer *offer);
const char *wire_answer_check(const struct record_answer *answer, int size);

/** Check the status of a failed record, and the cause in a DATA or a WANT (that of an
 *  answer: wire_answer_check). Return NULL, or a description of the violation. */
const char *wire_failure_check(const struct record_header *record, int size);
/** True if a WANT has a text: without RECORD_VOID the flag means RECORD_PRIORITY. */
static inline bool wire_want_has_text(const struct record_header *header)
{
    return header->flags & RECORD_VOID && header->flags & RECORD_TEXT;
}

/** The text of a failure in a record: any bytes, not terminated; NULL: none. */
struct wire_text {
    const char *data;
    size_t bytes;
};

/** Return the text in an answer, in a WANT with RECORD_VOID, or in a failed DATA; its
 *  payload is `failure`, of `bytes` bytes. */
static inline struct wire_text wire_answer_text(const struct record_answer *answer)
{
    const char *text = (const char *)(answer + 1);
    if (!(answer->header.flags & RECORD_TEXT))
        return (struct wire_text){NULL, 0};
    return (struct wire_text){text, strnlen(text, answer->header.bytes - sizeof *answer)};
}
static inline struct wire_text wire_want_text(const struct record_want *want)
{
    const char *text = (const char *)(want + 1) + wire_padded(want->key_bytes);
    size_t shape = want->header.flags & RECORD_SHAPE ? sizeof(struct flow_shape) : 0;
    const char *end = (const char *)want + want->header.bytes - shape;
    if (!wire_want_has_text(&want->header))
        return (struct wire_text){NULL, 0};
    return (struct wire_text){text, strnlen(text, (size_t)(end - text))};
}
static inline struct wire_text wire_failure_text(const struct record_failure *failure,
                                                 size_t bytes)
{
    const char *text = (const char *)(failure + 1);
    return (struct wire_text){bytes > sizeof *failure ? text : NULL,
                              bytes - sizeof *failure};
}

/** Return the shape at the end of a WANT or an OFFER; NULL: none. */
static inline const struct flow_shape *wire_shape(const struct record_header *header)
{
    const uint8_t *end = (const uint8_t *)header + header->bytes;
    return header->flags & RECORD_SHAPE ? (const void *)(end - sizeof(struct flow_shape))
                                        : NULL;
}

/** Return the declaration in a DATA, or NULL. */
static inline const struct record_name *wire_data_name(const struct record_data *data)
{
    return data->header.flags & RECORD_NAMED ? (const void *)(data + 1) : NULL;
}

/** Return the shape in a declaration, or NULL. */
static inline const struct flow_shape *wire_name_shape(const struct record_name *name)
{
    const uint8_t *key = (const uint8_t *)(name + 1);
    return name->flags & NAME_SHAPE ? (const void *)(key + wire_padded(name->key_bytes))
                                    : NULL;
}

/** Return the payload of a DATA, behind the declaration if it has one. */
static inline const uint8_t *wire_data_payload(const struct record_data *data)
{
    const struct record_name *name = wire_data_name(data);
    const uint8_t *at = (const uint8_t *)(data + 1);
    return name ? at + wire_name_bytes(name) : at;
}

/** Check a DATA. Return NULL, or a description of the violation. Inline, since every
 *  small tensor passes this check. */
static inline const char *wire_data_check(const struct record_data *data)
{
    size_t bytes = data->header.bytes;
    if (bytes < sizeof *data)
        return "DATA: too short";
    const struct record_name *name = wire_data_name(data);
    size_t head = sizeof *data;
    if (name && bytes < head + sizeof *name)
        return "DATA: too short";
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
