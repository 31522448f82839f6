/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as an enemy writes them; see hostile_frame.h. */
#include "hostile_frame.h"

void frame_begin(struct frame *frame)
{
    memset(frame, 0, sizeof *frame);
    frame->bytes = sizeof(struct frame_header);
}

void frame_end(struct frame *frame, struct world *world, int rank, int from)
{
    const struct peer *peer = world_peer(world, rank, from);
    const struct peer_out *out = peer_out(peer);
    struct frame_header header = {.frames_read = peer->frames.acked + frame->frames,
                                  .wants_taken = out->wants_acked + frame->wants,
                                  .done_base = (uint32_t)out->stream.acked + frame->acks,
                                  .done_mask = frame->acks_mask,
                                  .flags = frame->flags,
                                  .group = frame->group,
                                  .records = (uint16_t)frame->records};
    memcpy(frame->data, &header, sizeof header);
}

void frame_inject(struct frame *frame, struct world *world, int rank, int from)
{
    frame_end(frame, world, rank, from);
    world_inject(world, rank, from, frame->data, frame->bytes);
}

void *frame_add(struct frame *frame, const void *record, size_t bytes, const char *name,
                size_t payload)
{
    struct record_header *header = (void *)(frame->data + frame->bytes);
    size_t name_bytes = name ? strlen(name) : 0;
    size_t whole = bytes + wire_padded(name_bytes) + wire_padded(payload);
    assert_true(frame->bytes + whole <= sizeof frame->data);
    memcpy(header, record, bytes);
    if (name)
        memcpy((uint8_t *)header + bytes, name, name_bytes);
    header->bytes = (uint16_t)whole;
    frame->bytes += whole;
    frame->records++;
    return header;
}

struct record_want *frame_add_want(struct frame *frame, const char *key, uint64_t id,
                                   uint64_t step, uint64_t seq, uint64_t bytes,
                                   uint8_t flags)
{
    struct record_want want = {
        .header = {RECORD_WANT, flags, 0, flags & RECORD_VOID ? TRYST_E_CANCELED : 0},
        .id = id,
        .step = step,
        .seq = seq,
        .bytes = bytes,
        .slice_bytes = 4096,
        .posted = bytes > 4096 ? 2 : 0,
        .dtype = TRYST_DTYPE_U8,
        .key_bytes = (uint16_t)strlen(key)};
    return frame_add(frame, &want, sizeof want, key, 0);
}

struct record_data *frame_add_data(struct frame *frame, uint32_t name, uint64_t step,
                                   uint64_t seq, uint32_t bytes, const char *declares,
                                   uint64_t hash)
{
    struct {
        struct record_data data;
        struct record_name name;
    } record = {.data = {.header = {RECORD_DATA, 0, 0, 0},
                         .seq = (uint32_t)seq,
                         .step = (uint32_t)step,
                         .name = name,
                         .payload_bytes = (uint16_t)bytes,
                         .dtype = TRYST_DTYPE_U8},
                .name = {.key_hash = hash,
                         .step_high = (uint32_t)(step >> 32),
                         .seq_high = (uint32_t)(seq >> 32)}};
    if (declares) {
        record.data.header.flags = RECORD_NAMED;
        record.name.key_bytes = (uint16_t)strlen(declares);
    }
    return frame_add(frame, &record, declares ? sizeof record : sizeof record.data,
                     declares, bytes);
}

struct record_offer *frame_add_offer(struct frame *frame, uint64_t want, uint64_t step,
                                     uint64_t seq, uint64_t bytes, const char *name)
{
    struct record_offer offer = {.header = {RECORD_OFFER, 0, 0, 0},
                                 .want = want,
                                 .step = step,
                                 .seq = seq,
                                 .bytes = bytes,
                                 .dtype = TRYST_DTYPE_U8,
                                 .key_bytes = (uint16_t)(name ? strlen(name) : 0)};
    return frame_add(frame, &offer, sizeof offer, name, 0);
}

struct record_answer *frame_add_answer(struct frame *frame, uint8_t type, uint8_t flags,
                                       uint64_t id, tryst_status status, uint32_t upto,
                                       uint32_t posted)
{
    struct record_answer answer = {.header = {type, flags, 0, status},
                                   .id = id,
                                   .upto = upto,
                                   .posted = posted,
                                   .origin_rank = 1};
    return frame_add(frame, &answer, sizeof answer, NULL, 0);
}
