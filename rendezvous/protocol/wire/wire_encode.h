/* SPDX-License-Identifier: Apache-2.0 */
/** @file wire_encode.h
 *  Encoders that write records into a frame: pure functions, values in and bytes out
 *  (wire_encode.c). Any thread.
 *
 *  Frames are aligned to 8 bytes and records padded to 8, so fields are written at their
 *  place in the frame: a copy of a struct that was just written field by field would wait
 *  for those stores to end.
 */
#ifndef TRYST_RENDEZVOUS_PROTOCOL_WIRE_WIRE_ENCODE_H
#define TRYST_RENDEZVOUS_PROTOCOL_WIRE_WIRE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "wire.h"

struct wire_writer {
    uint8_t *at;
    size_t room;
    unsigned records;
};

/** Start behind the header of `frame`, which has `capacity` bytes. */
static inline struct wire_writer wire_begin(uint8_t *frame, size_t capacity)
{
    return (struct wire_writer){.at = frame + sizeof(struct frame_header),
                                .room = capacity - sizeof(struct frame_header)};
}
static inline bool wire_has_room(const struct wire_writer *writer, size_t bytes)
{
    return bytes <= writer->room;
}
/* Parts of all encoders. */

/** Reserve room for one record of `bytes`, and count it. NULL: the frame is full. */
static inline void *wire_reserve(struct wire_writer *writer, size_t bytes)
{
    uint8_t *at = writer->at;
    if (bytes > writer->room)
        return NULL;
    writer->at += bytes;
    writer->room -= bytes;
    writer->records++;
    return at;
}

/** Copy `bytes` of `data` and pad them with zeros to 8. Return the end. */
static inline uint8_t *wire_put_padded(uint8_t *at, const void *data, size_t bytes)
{
    size_t whole = wire_padded(bytes);
    if (whole > bytes)
        memset(at + whole - 8, 0, 8);
    if (bytes)
        memcpy(at, data, bytes);
    return at + whole;
}

static inline struct record_header wire_header(uint8_t type,
                                               const struct record_header *header,
                                               uint8_t flags, size_t bytes)
{
    return (struct record_header){type, header->flags | flags, (uint16_t)bytes,
                                  header->status};
}

/** Write one whole record. False: nothing was written for lack of room. The encoder uses
 *  the status and the flags of `header` (of an answer its type too) and computes the
 *  other fields of the header. `key`: key_bytes of the record are copied. `shape`: read
 *  if the flags have RECORD_SHAPE. `text`: the text of a failure, or NULL. */
bool wire_answer(struct wire_writer *writer, const struct record_answer *answer,
                 const char *text);
bool wire_want(struct wire_writer *writer, const struct record_want *want,
               const char *key, const struct flow_shape *shape, const char *text);
bool wire_offer(struct wire_writer *writer, const struct record_offer *offer,
                const char *key, const struct flow_shape *shape);
/** Write a DATA that declares its key. `shape`: NULL unless name->flags have NAME_SHAPE.
 *  `payload`: data->payload_bytes are read. */
bool wire_data_named(struct wire_writer *writer, const struct record_data *data,
                     const struct record_name *name, const char *key,
                     const struct flow_shape *shape, const void *payload);
/** Write a DATA; its key was declared before. Inline, since every small tensor passes
 *  here. */
static inline bool wire_data(struct wire_writer *writer, const struct record_data *data,
                             const void *payload)
{
    size_t bytes = sizeof *data + wire_padded(data->payload_bytes);
    struct record_data *record = wire_reserve(writer, bytes);
    if (!record)
        return false;
    record->header = wire_header(RECORD_DATA, &data->header, 0, bytes);
    record->seq = data->seq;
    record->step = data->step;
    record->name = data->name;
    record->payload_bytes = data->payload_bytes;
    record->dtype = data->dtype;
    record->reserved = 0;
    (void)wire_put_padded((uint8_t *)(record + 1), payload, data->payload_bytes);
    return true;
}

#endif
