/* SPDX-License-Identifier: Apache-2.0 */
/* Records against their encoders: bytes that the decoders accept are encoded again in the
 * same size, and the decoders accept the result too. */
#include "fuzz.h"

#include <string.h>

#include "rendezvous/protocol/wire/wire_decode.h"
#include "rendezvous/protocol/wire/wire_encode.h"
#include "support/wire_check.h"

enum { SIZE = 5, RECORDS_MAX = 4096 };

/* Return the text of a record with a terminator, or NULL. */
static const char *text_of(struct wire_text text)
{
    static char copy[RECORD_TEXT_MAX + 1];
    memcpy(copy, text.data ? text.data : "", text.bytes);
    copy[text.bytes] = '\0';
    return text.data ? copy : NULL;
}

static bool again(struct wire_writer *writer, const struct record_header *record)
{
    const void *whole = record;
    const struct record_want *want = whole;
    const struct record_offer *offer = whole;
    const struct record_data *data = whole;
    switch (record->type) {
    case RECORD_WANT:
        return wire_want(writer, want, (const char *)(want + 1), wire_shape(record),
                         text_of(wire_want_text(want)));
    case RECORD_OFFER:
        return wire_offer(writer, offer, (const char *)(offer + 1), wire_shape(record));
    case RECORD_DATA: {
        const struct record_name *name = wire_data_name(data);
        const uint8_t *at = (const uint8_t *)(data + 1);
        if (!name)
            return wire_data(writer, data, at);
        at += wire_name_bytes(name);
        return wire_data_named(writer, data, name, (const char *)(name + 1),
                               wire_name_shape(name), at);
    }
    default: return wire_answer(writer, whole, text_of(wire_answer_text(whole)));
    }
}

static void record_check(const struct record_header *record)
{
    static _Alignas(8) uint8_t copy[sizeof(struct frame_header) + UINT16_MAX + 8];
    struct wire_writer writer = wire_begin(copy, sizeof copy);
    const struct record_header *written = (const void *)writer.at;
    if (wire_check(record, SIZE))
        return;
    FUZZ_CHECK(again(&writer, record));
    FUZZ_CHECK(written->type == record->type && written->bytes == record->bytes);
    FUZZ_CHECK(written->status == record->status);
    FUZZ_CHECK(writer.at == (const uint8_t *)written + written->bytes);
    FUZZ_CHECK(!wire_check(written, SIZE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static _Alignas(8) uint8_t frame[1 << 16];
    if (bytes < sizeof(struct frame_header) || bytes > sizeof frame)
        return 0;
    memcpy(frame, data, bytes);
    const struct frame_header *header = (const void *)frame;
    if (!wire_frame_check(frame, bytes, header->records))
        return 0;
    const uint8_t *at = frame + sizeof *header;
    for (unsigned i = 0; i < header->records; i++) {
        const struct record_header *record = (const void *)at;
        record_check(record);
        at += record->bytes;
    }
    return 0;
}
