/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders of records; see wire_encode.h.
 *
 * Invariant: a record that was written passes wire_decode.c, if its fields are in range.
 */
#include "wire_encode.h"

static size_t shape_bytes(const struct record_header *header)
{
    return header->flags & RECORD_SHAPE ? sizeof(struct flow_shape) : 0;
}

/* Return the bytes of a text that go into a record. NULL or "": none. */
static size_t text_bytes(const char *text)
{
    return text ? strnlen(text, RECORD_TEXT_MAX - 1) : 0;
}

bool wire_answer(struct wire_writer *writer, const struct record_answer *answer,
                 const char *text)
{
    size_t text_length = text_bytes(text);
    size_t bytes = sizeof *answer + wire_padded(text_length);
    struct record_answer *record = wire_reserve(writer, bytes);
    if (!record)
        return false;
    record->header = wire_header(answer->header.type, &answer->header,
                                 text_length ? RECORD_TEXT : 0, bytes);
    record->id = answer->id;
    record->upto = answer->upto;
    record->posted = answer->posted;
    record->origin_rank = answer->origin_rank;
    record->origin_status = answer->origin_status;
    (void)wire_put_padded((uint8_t *)(record + 1), text, text_length);
    return true;
}

bool wire_want(struct wire_writer *writer, const struct record_want *want,
               const char *key, const struct flow_shape *shape, const char *text)
{
    size_t shaped = shape_bytes(&want->header), text_length = text_bytes(text);
    size_t bytes =
        sizeof *want + wire_padded(want->key_bytes) + wire_padded(text_length) + shaped;
    struct record_want *record = wire_reserve(writer, bytes);
    if (!record)
        return false;
    *record = *want;
    record->header =
        wire_header(RECORD_WANT, &want->header, text_length ? RECORD_TEXT : 0, bytes);
    uint8_t *at = wire_put_padded((uint8_t *)(record + 1), key, want->key_bytes);
    at = wire_put_padded(at, text, text_length);
    (void)wire_put_padded(at, shape, shaped);
    return true;
}

bool wire_offer(struct wire_writer *writer, const struct record_offer *offer,
                const char *key, const struct flow_shape *shape)
{
    size_t shaped = shape_bytes(&offer->header);
    size_t bytes = sizeof *offer + wire_padded(offer->key_bytes) + shaped;
    struct record_offer *record = wire_reserve(writer, bytes);
    if (!record)
        return false;
    *record = *offer;
    record->header = wire_header(RECORD_OFFER, &offer->header, 0, bytes);
    uint8_t *at = wire_put_padded((uint8_t *)(record + 1), key, offer->key_bytes);
    (void)wire_put_padded(at, shape, shaped);
    return true;
}

bool wire_data_named(struct wire_writer *writer, const struct record_data *data,
                     const struct record_name *name, const char *key,
                     const struct flow_shape *shape, const void *payload)
{
    size_t bytes =
        sizeof *data + wire_name_bytes(name) + wire_padded(data->payload_bytes);
    struct record_data *record = wire_reserve(writer, bytes);
    if (!record)
        return false;
    uint8_t *at = (uint8_t *)(record + 1);
    *record = *data;
    record->header = wire_header(RECORD_DATA, &data->header, RECORD_NAMED, bytes);
    record->reserved = 0;
    memcpy(at, name, sizeof *name);
    at = wire_put_padded(at + sizeof *name, key, name->key_bytes);
    if (name->flags & NAME_SHAPE)
        at = wire_put_padded(at, shape, sizeof *shape);
    (void)wire_put_padded(at, payload, data->payload_bytes);
    return true;
}
