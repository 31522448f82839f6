/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of received frames and records, field by field; see wire_decode.h.
 *
 * Invariant: a record that passes can be read without further checks of sizes. Ids, names
 * and numbers are checked by the functions that act on the record.
 */
#include "wire_decode.h"

#include "core/text/status.h"

static size_t shape_bytes(const struct record_header *header)
{
    return header->flags & RECORD_SHAPE ? sizeof(struct flow_shape) : 0;
}

/* True if the `bytes` that a record has for its text are a text with its padding, or
 * there are none where the flags report no text. */
static bool text_fits(struct wire_text text, size_t bytes)
{
    return bytes <= RECORD_TEXT_MAX && (text.data != NULL) == (bytes != 0) &&
           wire_padded(text.bytes) == bytes;
}

const char *wire_want_check(const struct record_want *want)
{
    size_t bytes = want->header.bytes;
    if (bytes < sizeof *want)
        return "WANT: too short";
    size_t rest =
        sizeof *want + wire_padded(want->key_bytes) + shape_bytes(&want->header);
    bool has_text = wire_want_has_text(&want->header);
    if (bytes < rest || (bytes > rest && !has_text) || !want->key_bytes)
        return "WANT: key does not fit";
    if (!text_fits(wire_want_text(want), bytes - rest))
        return "WANT: text does not fit";
    if (!want->id)
        return "WANT: no id";
    if (want->slice_bytes < SLICE_BYTES_MIN)
        return "WANT: slices too small";
    if (want->bytes / want->slice_bytes >= UINT32_MAX / 2)
        return "WANT: too many slices";
    if (want->header.flags & RECORD_VOID && want->header.status < 100)
        return "WANT: given up without an error status";
    uint64_t slices =
        want->bytes / want->slice_bytes + !!(want->bytes % want->slice_bytes);
    return want->posted <= slices ? NULL : "WANT: more slices posted than there are";
}

const char *wire_offer_check(const struct record_offer *offer)
{
    size_t bytes = offer->header.bytes;
    if (bytes < sizeof *offer)
        return "OFFER: too short";
    size_t rest = wire_padded(offer->key_bytes) + shape_bytes(&offer->header);
    if (bytes != sizeof *offer + rest)
        return "OFFER: key does not fit";
    return offer->want || offer->key_bytes ? NULL : "OFFER: neither key nor want";
}

/* True if `rank` may be the origin of a failure; -1: unknown. */
static bool origin_is_valid(int32_t rank, int size)
{
    return rank >= -1 && rank < size; /* users index arrays by it */
}

const char *wire_answer_check(const struct record_answer *answer, int size)
{
    uint8_t type = answer->header.type;
    bool fails =
        type == RECORD_CANCEL || type == RECORD_CANCELED || type == RECORD_CLOSED;
    size_t bytes = answer->header.bytes;
    if (bytes < sizeof *answer ||
        !text_fits(wire_answer_text(answer), bytes - sizeof *answer))
        return "answer: wrong size";
    if (bytes > sizeof *answer && answer->header.status == TRYST_OK)
        return "answer: text without an error status";
    if (fails && answer->header.status == TRYST_OK)
        return "answer: failure without an error status";
    if (!origin_is_valid(answer->origin_rank, size))
        return "answer: origin not a rank of the group";
    return NULL;
}

static const char *data_failure_check(const struct record_data *data, int size)
{
    const char *wrong = wire_data_check(data);
    const struct record_failure *failure;
    if (wrong)
        return wrong;
    if (data->payload_bytes < sizeof *failure)
        return "DATA: failure without a cause";
    if (data->payload_bytes >= sizeof *failure + RECORD_TEXT_MAX)
        return "DATA: text of a failure too long";
    failure = (const void *)wire_data_payload(data);
    return origin_is_valid(failure->origin_rank, size)
               ? NULL
               : "DATA: origin not a rank of the group";
}

const char *wire_failure_check(const struct record_header *record, int size)
{
    const struct record_want *want = (const void *)record;
    if (!status_is_outcome((tryst_status)record->status))
        return "not a valid status of an operation";
    if (record->type == RECORD_DATA)
        return data_failure_check((const void *)record, size);
    if (record->type == RECORD_WANT && record->flags & RECORD_VOID &&
        record->bytes >= sizeof *want && !origin_is_valid(want->priority, size))
        return "WANT: origin not a rank of the group";
    return NULL;
}

bool wire_frame_check(const void *frame, size_t bytes, unsigned records)
{
    const uint8_t *data = frame;
    size_t at = sizeof(struct frame_header);
    for (unsigned i = 0; i < records; i++) {
        if (bytes - at < sizeof(struct record_header))
            return false;
        const struct record_header *header = (const void *)(data + at);
        if (header->bytes < sizeof *header || header->bytes % 8 ||
            header->bytes > bytes - at)
            return false;
        at += header->bytes;
    }
    return at == bytes;
}
