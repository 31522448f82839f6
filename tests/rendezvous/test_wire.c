/* SPDX-License-Identifier: Apache-2.0 */
/* The encoders against the decoders: the encoders write what wire.h describes, byte by
 * byte; frames of random records pass the checks and give back every field; a record that
 * does not fit leaves no trace. */
#include "core/os/random.h"
#include "rendezvous/protocol/wire/wire_decode.h"
#include "rendezvous/protocol/wire/wire_encode.h"
#include "support/unit.h"
#include "support/wire_check.h"
#include "tryst/status.h"

#include <string.h>

enum { SIZE = 7, ROUNDS = 2000 };

static _Alignas(8) uint8_t frame[FRAME_BYTES_MAX];
static const char key[] = "/job:a;00000000000000ab;/job:b;edge;0:0";
static uint8_t payload[4096];
static const struct flow_shape shape = {
    .count = 0x0102030405060708, .root = -1, .operation = 1, .dtype = 2, .op = 3};

/* ---- byte by byte ------------------------------------------------------------------ */

static bool answer_put(struct wire_writer *writer)
{
    return wire_answer(writer,
                       &(struct record_answer){.header = {.type = RECORD_DONE,
                                                          .flags = RECORD_SEND,
                                                          .status = TRYST_E_CANCELED},
                                               .id = 0x0102030405060708,
                                               .upto = 3,
                                               .posted = 4,
                                               .origin_rank = -1,
                                               .origin_status = TRYST_E_CANCELED},
                       NULL);
}

static bool want_put(struct wire_writer *writer)
{
    return wire_want(writer,
                     &(struct record_want){.header = {.flags = RECORD_PRIORITY},
                                           .id = 1,
                                           .step = 2,
                                           .seq = 3,
                                           .key_hash = 4,
                                           .bytes = 5,
                                           .slice_bytes = 4096,
                                           .posted = 1,
                                           .priority = -2,
                                           .dtype = 7,
                                           .key_bytes = 3},
                     "abc", NULL, NULL);
}

static bool want_shaped_put(struct wire_writer *writer)
{
    return wire_want(writer,
                     &(struct record_want){.header = {.flags = RECORD_SHAPE},
                                           .id = 1,
                                           .slice_bytes = 4096,
                                           .key_bytes = 3},
                     "abc", &shape, NULL);
}

/* Write a WANT that was given up: the text is between the key and the shape. */
static bool want_void_put(struct wire_writer *writer)
{
    return wire_want(writer,
                     &(struct record_want){.header = {.flags = RECORD_VOID | RECORD_SHAPE,
                                                      .status = TRYST_E_CANCELED},
                                           .id = 1,
                                           .slice_bytes = 4096,
                                           .priority = -1,
                                           .key_bytes = 3},
                     "abc", &shape, "why not");
}

static bool offer_shaped_put(struct wire_writer *writer)
{
    return wire_offer(
        writer, &(struct record_offer){.header = {.flags = RECORD_SHAPE}, .want = 1}, "",
        &shape);
}

static bool answer_text_put(struct wire_writer *writer)
{
    return wire_answer(writer,
                       &(struct record_answer){.header = {.type = RECORD_CANCELED,
                                                          .status = TRYST_E_MISMATCH}},
                       "because of");
}

static bool data_put(struct wire_writer *writer)
{
    return wire_data(writer,
                     &(struct record_data){.seq = 9,
                                           .step = 0x55667788,
                                           .name = 0x11223344,
                                           .payload_bytes = 2,
                                           .dtype = 1},
                     "\xaa\xbb");
}

/* Write a failed DATA, with the payload that gives the origin of the failure. */
static bool named_put(struct wire_writer *writer)
{
    const struct record_failure failure = {.origin_rank = 5,
                                           .origin_status = TRYST_E_NOMEM};
    return wire_data_named(
        writer,
        &(struct record_data){.header = {.status = TRYST_E_NOMEM},
                              .seq = 1,
                              .name = 2,
                              .payload_bytes = sizeof failure},
        &(struct record_name){
            .key_hash = 3, .step_high = 4, .seq_high = 5, .key_bytes = 8},
        "12345678", NULL, &failure);
}

static bool shaped_put(struct wire_writer *writer)
{
    return wire_data_named(
        writer, &(struct record_data){.name = 2, .payload_bytes = 1},
        &(struct record_name){.key_hash = 3, .key_bytes = 1, .flags = NAME_SHAPE}, "k",
        &shape, "d");
}

static bool offer_put(struct wire_writer *writer)
{
    return wire_offer(writer,
                      &(struct record_offer){.step = 1,
                                             .seq = 2,
                                             .key_hash = 3,
                                             .bytes = 4,
                                             .ready = 0x05060708,
                                             .key_bytes = 1,
                                             .dtype = 6},
                      "k", NULL);
}

static bool want_keyless_put(struct wire_writer *writer)
{
    return wire_want(writer, &(struct record_want){.id = 1, .slice_bytes = 4096}, "",
                     NULL, NULL);
}

static bool offer_keyless_put(struct wire_writer *writer)
{
    return wire_offer(writer, &(struct record_offer){.step = 1}, "", NULL);
}

/* Write a failed DATA with a text of one byte too many. */
static bool failed_long_put(struct wire_writer *writer)
{
    static const uint8_t failure[sizeof(struct record_failure) + RECORD_TEXT_MAX];
    return wire_data(writer,
                     &(struct record_data){.header = {.status = TRYST_E_NOMEM},
                                           .payload_bytes = sizeof failure},
                     failure);
}

static void hex(const uint8_t *data, size_t bytes, char *text)
{
    for (size_t i = 0; i < bytes; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", data[i]);
}

static const struct {
    bool (*put)(struct wire_writer *writer);
    const char *says;
} byte_rows[] = {
    {answer_put, "04202000%s"
                 "0807060504030201"
                 "0300000004000000"
                 "ffffffff%s"},
    {want_put, "0104480000000000"
               "0100000000000000"
               "0200000000000000"
               "0300000000000000"
               "0400000000000000"
               "0500000000000000"
               "0010000001000000"
               "feffffff07000300"
               "6162630000000000"},
    {want_shaped_put, "0108580000000000"
                      "0100000000000000"
                      "0000000000000000"
                      "0000000000000000"
                      "0000000000000000"
                      "0000000000000000"
                      "0010000000000000"
                      "0000000000000300"
                      "6162630000000000"
                      "0807060504030201"
                      "ffffffff01020300"},
    {offer_shaped_put, "0308480000000000"
                       "0100000000000000"
                       "0000000000000000"
                       "0000000000000000"
                       "0000000000000000"
                       "0000000000000000"
                       "0000000000000000"
                       "0807060504030201"
                       "ffffffff01020300"},
    {want_void_put, "010d6000%s"
                    "0100000000000000"
                    "0000000000000000"
                    "0000000000000000"
                    "0000000000000000"
                    "0000000000000000"
                    "0010000000000000"
                    "ffffffff00000300"
                    "6162630000000000"
                    "776879206e6f7400"
                    "0807060504030201"
                    "ffffffff01020300"},
    {answer_text_put, "06043000%s"
                      "0000000000000000"
                      "0000000000000000"
                      "0000000000000000"
                      "6265636175736520"
                      "6f66000000000000"},
    {data_put, "0200200000000000"
               "0900000088776655"
               "4433221102000100"
               "aabb000000000000"},
    {named_put, "02084000%s"
                "0100000000000000"
                "0200000008000000"
                "0300000000000000"
                "0400000005000000"
                "0800000000000000"
                "3132333435363738"
                "05000000%s"},
    {shaped_put, "0208500000000000"
                 "0000000000000000"
                 "0200000001000000"
                 "0300000000000000"
                 "0000000000000000"
                 "0100010000000000"
                 "6b00000000000000"
                 "0807060504030201"
                 "ffffffff01020300"
                 "6400000000000000"},
    {offer_put, "0300400000000000"
                "0000000000000000"
                "0100000000000000"
                "0200000000000000"
                "0300000000000000"
                "0400000000000000"
                "0807060501000600"
                "6b00000000000000"},
};

static void test_bytes(void **state)
{
    for (size_t i = 0; i < COUNT_OF(byte_rows); i++) {
        struct wire_writer writer = wire_begin(frame, sizeof frame);
        const uint8_t *at = writer.at;
        char says[512];
        char status[9];
        char want[512];
        memset(frame, 0xee, sizeof frame);
        assert_true(byte_rows[i].put(&writer));
        assert_int_equal(writer.records, 1);
        hex(at, (size_t)(writer.at - at), says);
        hex(at + 4, 4, status);
        (void)snprintf(want, sizeof want, byte_rows[i].says, status, status);
        assert_string_equal(says, want);
        assert_null(wire_check((const void *)at, SIZE));
        assert_true(wire_frame_check(frame, (size_t)(writer.at - frame), 1));
    }
}

/* A frame takes 59 tensors of 64 bytes with declared keys. */
static void test_full_frame(void **state)
{
    struct wire_writer writer = wire_begin(frame, sizeof frame);
    while (wire_data(&writer, &(struct record_data){.payload_bytes = 64}, payload))
        ;
    assert_int_equal(writer.records, 59);
}

/* ---- at random --------------------------------------------------------------------- */

/* Write a record with random fields within their ranges, so that the record passes. */
static bool random_put(struct random *random, struct wire_writer *writer)
{
    static const uint8_t answers[] = {RECORD_DONE,     RECORD_KEPT,   RECORD_CANCEL,
                                      RECORD_CANCELED, RECORD_CLOSED, RECORD_DEFERRED,
                                      RECORD_ASK};
    uint16_t key_bytes = (uint16_t)(1 + random_range(random, sizeof key - 1));
    bool shaped = random_range(random, 2);
    uint8_t flags = shaped ? RECORD_SHAPE : 0;
    struct record_name name = {.key_hash = 1 + random_u64(random) / 2,
                               .step_high = (uint32_t)random_u64(random),
                               .seq_high = (uint32_t)random_u64(random),
                               .key_bytes = key_bytes,
                               .flags = shaped ? NAME_SHAPE : 0};
    switch (random_range(random, 4)) {
    case 0:
        return wire_answer(
            writer,
            &(struct record_answer){
                .header = {.type = answers[random_range(random, sizeof answers)],
                           .status = TRYST_E_ABORTED},
                .id = random_u64(random),
                .origin_rank = (int32_t)random_range(random, SIZE + 1) - 1},
            random_range(random, 2) ? key : NULL);
    case 1:
        return wire_want(writer,
                         &(struct record_want){.id = 1 + random_u64(random) / 2,
                                               .bytes = random_range(random, 1 << 30),
                                               .slice_bytes = SLICE_BYTES_MIN,
                                               .key_bytes = key_bytes,
                                               .header = {.flags = flags}},
                         key, &shape, NULL);
    case 2:
        return wire_offer(writer,
                          &(struct record_offer){.seq = random_u64(random),
                                                 .key_bytes = key_bytes,
                                                 .header = {.flags = flags}},
                          key, &shape);
    default: {
        struct record_data data = {
            .seq = (uint32_t)random_u64(random),
            .step = (uint32_t)random_u64(random),
            .payload_bytes = (uint16_t)random_range(random, sizeof payload + 1)};
        return random_range(random, 2) ? wire_data(writer, &data, payload)
                                       : wire_data_named(writer, &data, &name, key,
                                                         shaped ? &shape : NULL, payload);
    }
    }
}

static void test_random(void **state)
{
    struct random random;
    random_seed(&random, unit_seed());
    for (int round = 0; round < ROUNDS; round++) {
        struct wire_writer writer =
            wire_begin(frame, sizeof(struct frame_header) +
                                  8 * random_range(&random, FRAME_BYTES_MAX / 8 - 4));
        for (int tries = 0; tries < 40; tries++) {
            struct wire_writer before = writer;
            if (!random_put(&random, &writer))
                assert_memory_equal(&writer, &before, sizeof writer);
        }
        size_t bytes = (size_t)(writer.at - frame);
        assert_true(wire_frame_check(frame, bytes, writer.records));
        assert_false(wire_frame_check(frame, bytes, writer.records + 1));
        if (!writer.records)
            continue;
        assert_false(wire_frame_check(frame, bytes, writer.records - 1));
        const uint8_t *at = frame + sizeof(struct frame_header);
        for (unsigned i = 0; i < writer.records; i++) {
            const struct record_header *record = (const void *)at;
            assert_null(wire_check(record, SIZE));
            at += record->bytes;
        }
        assert_ptr_equal(at, writer.at);
    }
}

/* ---- mistakes ---------------------------------------------------------------------- */

static void test_wrong(void **state)
{
    static const struct {
        bool (*put)(struct wire_writer *writer);
        size_t at; /* the index of the byte that becomes `to` */
        uint8_t to;
        const char *says;
    } rows[] = {
        {answer_put, 0, 77, "unknown record"},
        {answer_put, 4, 1, "not a valid status of an operation"},
        {answer_put, 2, 24, "answer: wrong size"},
        {answer_put, 24, SIZE, "answer: origin not a rank of the group"},
        {answer_put, 1, RECORD_SEND | RECORD_TEXT, "answer: wrong size"},
        {answer_text_put, 1, 0, "answer: wrong size"},
        {answer_text_put, 38, 0, "answer: wrong size"}, /* padding of 8 bytes too many */
        {answer_text_put, 4, TRYST_OK, "answer: text without an error status"},
        {want_void_put, 1, RECORD_VOID | RECORD_SHAPE, "WANT: key does not fit"},
        {want_void_put, 72, 0, "WANT: text does not fit"},
        {want_put, 1, RECORD_SHAPE, "WANT: key does not fit"},
        {want_shaped_put, 1, 0, "WANT: key does not fit"},
        {offer_put, 1, RECORD_SHAPE, "OFFER: key does not fit"},
        {offer_shaped_put, 1, 0, "OFFER: key does not fit"},
        {want_put, 62, 0, "WANT: key does not fit"},
        {want_put, 8, 0, "WANT: no id"},
        {want_put, 49, 0, "WANT: slices too small"},
        {want_keyless_put, 0, RECORD_WANT, "WANT: key does not fit"},
        {offer_put, 2, 16, "OFFER: too short"},
        {offer_keyless_put, 0, RECORD_OFFER, "OFFER: neither key nor want"},
        {answer_put, 25, 0xfe, "answer: origin not a rank of the group"},
        {failed_long_put, 0, RECORD_DATA, "DATA: text of a failure too long"},
        {data_put, 2, 16, "DATA: too short"},
        {want_put, 49, 8, "WANT: slices too small"},
        {want_put, 52, 9, "WANT: more slices posted than there are"},
        {want_put, 2, 16, "WANT: too short"},
        {data_put, 20, 9, "DATA: sizes do not add up"},
        {named_put, 40, 0, "DATA: no key"},
        {named_put, 42, 2, "DATA: unknown flags of a name"},
        {named_put, 42, NAME_SHAPE, "DATA: sizes do not add up"},
        {shaped_put, 42, 0, "DATA: sizes do not add up"},
        {offer_put, 52, 0, "OFFER: key does not fit"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct wire_writer writer = wire_begin(frame, sizeof frame);
        uint8_t *at = writer.at;
        assert_true(rows[i].put(&writer));
        if (rows[i].at == 4)
            memset(at + 4, 0, 4);
        if (rows[i].at == 24)
            memset(at + 24, 0, 4);
        at[rows[i].at] = rows[i].to;
        const char *says = wire_check((const void *)at, SIZE);
        if (!says || strcmp(says, rows[i].says) != 0)
            fail_msg("row %zu: %s, not %s", i, says ? says : "nothing", rows[i].says);
    }
}

/* Frames that their records do not fill, and records of a wrong size. */
static void test_frames(void **state)
{
    static const struct {
        size_t bytes;
        unsigned records;
        uint16_t sizes[3];
        bool passes;
    } rows[] = {
        {0, 0, {0}, true},       {8, 0, {0}, false},           {8, 1, {8}, true},
        {16, 1, {8}, false},     {16, 2, {8, 8}, true},        {16, 1, {16}, true},
        {8, 2, {8}, false},      {12, 1, {12}, false},         {16, 1, {12}, false},
        {8, 1, {0}, false},      {8, 1, {4}, false},           {16, 2, {0, 16}, false},
        {16, 1, {24}, false},    {16, 1, {UINT16_MAX}, false}, {24, 2, {16, 16}, false},
        {24, 2, {8, 12}, false}, {20, 2, {8, 12}, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t bytes = sizeof(struct frame_header) + rows[i].bytes;
        size_t at = sizeof(struct frame_header);
        memset(frame, 0, sizeof frame);
        for (size_t k = 0; k < COUNT_OF(rows[i].sizes) && rows[i].sizes[k]; k++) {
            memcpy(frame + at + offsetof(struct record_header, bytes), &rows[i].sizes[k],
                   2);
            at += rows[i].sizes[k] < 64 ? rows[i].sizes[k] : 64;
        }
        if (wire_frame_check(frame, bytes, rows[i].records) != rows[i].passes)
            fail_msg("row %zu", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),  cmocka_unit_test(test_full_frame),
        cmocka_unit_test(test_random), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
