/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and link messages of a peer that is hostile after its handshake, against an
 * engine with operations in every state. Every operation must end, and nothing may be
 * left.
 *
 * The input is a script (below), since valid ids and keys cannot be guessed: records are
 * made with those of the operations and then changed. Ids differ from run to run, scripts
 * do not. */
#include "../rendezvous/world.h"

#include "frame_reached.h"
#include "fuzz.h"

#include "core/text/refuse.h"
#include "rendezvous/protocol/channel.h"

enum { OPS = 8, COMMANDS_MAX = 200, RUN_MAX = 4400 };

static struct world world;
static uint8_t buffer[1 << 16];

struct frame {
    size_t bytes;
    uint16_t records;
    _Alignas(8) uint8_t data[FRAME_BYTES_MAX];
};

struct play {
    struct fuzz_input input;
    tryst_step *step;
    tryst_op *ops[OPS];
    struct frame frame;
    uint64_t want_id; /* id of the newest WANT that was made */
};

static struct peer *enemy(void)
{
    return world_peer(&world, 0, 1);
}

/* Open sends to the enemy and receives from it, small and large. */
static void play_begin(struct play *play)
{
    static const struct world_setting settings[] = {{"slice_bytes", "4K"},
                                                    {"parked_max", "4"},
                                                    {"posted_slices", "2"},
                                                    {"eager_credit", "4K"},
                                                    {0}};
    world_open(&world, 2, settings);
    world_join(&world, 0, 1);
    world.sides[1].still = true;
    play->step = world_step(&world, 0, 1);
    for (int i = 0; i < OPS; i++) {
        char edge[16];
        size_t bytes = i / 2 % 2 ? 20000 : 64;
        snprintf(edge, sizeof edge, "f%d", i / 2);
        if (i % 2)
            play->ops[i] = world_send(&world, 0, play->step,
                                      world_key(&world, 0, 1, edge), buffer, bytes, NULL);
        else
            play->ops[i] = world_recv(&world, 0, play->step,
                                      world_key(&world, 1, 0, edge), buffer, bytes, NULL);
    }
    world_settle(&world);
    play->frame.bytes = sizeof(struct frame_header);
}

static void play_end(struct play *play)
{
    world_settle(&world);
    if (enemy()->life < PEER_GIVING_UP)
        peer_give_up(enemy(), TRYST_E_PEER, "is not needed any more");
    world_settle(&world);
    for (int i = 0; i < OPS; i++) {
        FUZZ_CHECK(tryst_op_test(play->ops[i]) != TRYST_IN_PROGRESS);
        tryst_op_release(play->ops[i]);
    }
    FUZZ_CHECK(tryst_step_close(play->step, NULL) == TRYST_OK);
    world_settle(&world);
    world_close(&world);
}

/* ---- records ----------------------------------------------------------------------- */

/* Return a status with which the record is well-formed. */
static int32_t answer_status(uint8_t type)
{
    bool fails =
        type == RECORD_CANCEL || type == RECORD_CANCELED || type == RECORD_CLOSED;
    return fails ? TRYST_E_CANCELED : TRYST_OK;
}

/* Make an answer to the operation `id`, or, with ALLOC, which answers do not have, to the
 * last WANT. */
static size_t answer_make(const struct play *play, const struct record_header *header,
                          uint64_t id, uint32_t upto, uint8_t *record)
{
    bool of_want = header->flags & RECORD_ALLOC && play->want_id;
    const struct record_header own = {.type = header->type,
                                      .flags = header->flags,
                                      .status = answer_status(header->type)};
    const struct record_answer answer = {.header = own,
                                         .id = of_want ? play->want_id : id,
                                         .upto = upto,
                                         .posted = upto + 2,
                                         .origin_rank = 1};
    memcpy(record, &answer, sizeof answer);
    return sizeof answer;
}

/* Make the struct of a record for `op`, and choose whether its key and payload follow. */
static size_t record_make(struct play *play, const tryst_op *op, uint8_t type,
                          uint8_t *record, bool *named_p, size_t *payload_p)
{
    struct fuzz_input *input = &play->input;
    uint8_t flags = fuzz_byte(input);
    uint64_t seq = fuzz_byte(input) % 4;
    uint32_t upto = fuzz_byte(input) % 8;
    uint64_t other = 1 + fuzz_byte(input);
    uint64_t id = op->id ? op->id : other;
    bool named = flags & 1;
    uint16_t key_bytes = (uint16_t)(named ? strlen(op->key->string) : 0);
    const struct record_header header = {.type = type, .flags = (uint8_t)(flags & ~1u)};
    size_t shape_bytes = flags & RECORD_SHAPE ? sizeof(struct flow_shape) : 0;
    *named_p = false;
    *payload_p = 0;
    if (type == RECORD_WANT) {
        const struct record_want want = {.header = header,
                                         .id = other,
                                         .step = op->step_id,
                                         .seq = seq,
                                         .key_hash = op->key->hash,
                                         .bytes = op->bytes,
                                         .slice_bytes = 4096,
                                         .posted = op->bytes > 4096 ? 2 : 0,
                                         .dtype = TRYST_DTYPE_U8,
                                         .key_bytes = (uint16_t)strlen(op->key->string)};
        memcpy(record, &want, sizeof want);
        play->want_id = other;
        *payload_p = shape_bytes;
        *named_p = true;
        return sizeof want;
    }
    if (type == RECORD_DATA) {
        const struct record_data data = {.header = header,
                                         .seq = (uint32_t)seq,
                                         .step = (uint32_t)op->step_id,
                                         .name = 1 + upto,
                                         .payload_bytes = 64,
                                         .dtype = TRYST_DTYPE_U8};
        const struct record_name name = {.key_hash = op->key->hash,
                                         .key_bytes = key_bytes,
                                         .flags = shape_bytes ? NAME_SHAPE : 0};
        memcpy(record, &data, sizeof data);
        memcpy(record + sizeof data, &name, sizeof name);
        ((struct record_data *)(void *)record)->header.flags = named ? RECORD_NAMED : 0;
        *named_p = named;
        *payload_p = named ? 64 + shape_bytes : 64;
        return named ? sizeof data + sizeof name : sizeof data;
    }
    if (type == RECORD_OFFER) {
        const struct record_offer offer = {.header = header,
                                           .want = named ? 0 : id,
                                           .step = op->step_id,
                                           .seq = seq,
                                           .key_hash = op->key->hash,
                                           .bytes = op->bytes,
                                           .key_bytes = key_bytes,
                                           .dtype = TRYST_DTYPE_U8};
        memcpy(record, &offer, sizeof offer);
        *payload_p = shape_bytes;
        *named_p = named;
        return sizeof offer;
    }
    return answer_make(play, &header, named ? other : id, upto, record);
}

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/* RAISE takes the highest bytes: inputs stored before it keep their meaning. */
static uint8_t record_type_draw(struct fuzz_input *input)
{
    uint8_t drawn = fuzz_byte(input);
    return drawn < 240 ? 1 + drawn % RECORD_KEPT : RECORD_RAISE;
}

/* Add a record to the frame, with up to three of its bytes changed. */
static void record_add(struct play *play)
{
    struct frame *frame = &play->frame;
    struct fuzz_input *input = &play->input;
    _Alignas(8) uint8_t record[FRAME_BYTES_MAX] = {0};
    uint8_t type = record_type_draw(input);
    const tryst_op *op = play->ops[fuzz_byte(input) % OPS];
    bool named;
    size_t payload;
    size_t bytes = record_make(play, op, type, record, &named, &payload);
    if (named) {
        memcpy(record + bytes, op->key->string, strlen(op->key->string));
        bytes += padded(strlen(op->key->string));
    }
    bytes += padded(payload);
    ((struct record_header *)(void *)record)->bytes = (uint16_t)bytes;
    for (int changes = fuzz_byte(input) % 4; changes > 0; changes--) {
        size_t at = fuzz_byte(input) % bytes;
        record[at] ^= fuzz_byte(input);
    }
    if (frame->bytes + bytes > sizeof frame->data)
        return;
    memcpy(frame->data + frame->bytes, record, bytes);
    frame->bytes += bytes;
    frame->records++;
}

/* ---- commands ---------------------------------------------------------------------- */

static void inject(const void *data, size_t bytes)
{
    if (enemy()->life > PEER_LEFT || !enemy()->endpoint.ep)
        return;
    world_inject(&world, 0, 1, data, bytes);
}

static void frame_inject(struct play *play)
{
    struct frame *frame = &play->frame;
    uint8_t said = fuzz_byte(&play->input);
    uint8_t flags = said / 8 % 2 ? FRAME_BLOCKED : 0;
    if (said >= 128)
        flags = fuzz_byte(&play->input);
    const struct frame_header header = {
        .frames_read = enemy()->frames.acked,
        .wants_taken = peer_out(enemy())->wants_acked,
        .done_base = (uint32_t)peer_out(enemy())->stream.acked + said % 2,
        .done_mask = said / 2 % 4,
        .flags = flags,
        .records = frame->records};
    memcpy(frame->data, &header, sizeof header);
    inject(frame->data, frame->bytes);
    if (enemy()->life <= PEER_LEFT && peer_in(enemy())->header_flags == flags)
        frame_reached_flags(flags);
    frame->bytes = sizeof header;
    frame->records = 0;
}

/* Inject a whole frame from the input. */
static void raw_inject(struct play *play)
{
    size_t bytes;
    size_t wanted = fuzz_byte(&play->input) + (size_t)8 * fuzz_byte(&play->input);
    uint8_t *run = fuzz_run(&play->input, wanted, FRAME_BYTES_MAX, &bytes);
    inject(run, bytes);
    free(run);
}

static void link_message(struct play *play)
{
    size_t bytes;
    uint8_t type = fuzz_byte(&play->input) % 16;
    uint8_t *run =
        fuzz_run(&play->input, fuzz_byte(&play->input), LINK_MESSAGE_MAX, &bytes);
    struct link *link = world_peer(&world, 1, 0)->link.link;
    if (link)
        (void)link_send(link, type, run, bytes, -1);
    free(run);
    world_pass(&world);
}

static void command(struct play *play)
{
    uint8_t what = fuzz_byte(&play->input);
    switch (what % 8) {
    default: record_add(play); break;
    case 4: frame_inject(play); break;
    case 5: raw_inject(play); break;
    case 6:
        if (what & 8)
            tryst_op_cancel(play->ops[what / 16 % OPS]);
        /* the enemy goes on reading */
        enemy()->frames.acked = (uint32_t)enemy()->frames.sent;
        world_pass(&world);
        break;
    case 7: link_message(play); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct play play;
    uint64_t live = alloc_live_count();
    play = (struct play){.input = {data, bytes}};
    play_begin(&play);
    for (int i = 0; i < COMMANDS_MAX && play.input.bytes; i++)
        command(&play);
    frame_inject(&play);
    play_end(&play);
    (void)refuse(TRYST_OK,
                 "a short text"); /* frees a long text of this thread's last error */
    FUZZ_CHECK(alloc_live_count() == live);
    return 0;
}
