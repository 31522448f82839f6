/* SPDX-License-Identifier: Apache-2.0 */
/* See frame_reached.h. */
#include "frame_reached.h"

#include "fuzz.h"
#include "rendezvous/op/engine.h"
#include "rendezvous/peer/peer.h"
#include "rendezvous/protocol/closed.h"
#include "rendezvous/protocol/consumer.h"
#include "rendezvous/protocol/eager.h"
#include "rendezvous/protocol/producer.h"
#include "rendezvous/protocol/send_run.h"
#include "rendezvous/protocol/want.h"
#include "rendezvous/protocol/wire/wire.h"

struct reached {
    const char *name;
    unsigned long count;
};

/* ---- handlers of records: those that protocol.c calls ------------------------------ */

/* True if rank 0, which is tested, reads a record of the enemy. */
static bool is_enemy(const struct peer *peer)
{
    return peer->rank == 1;
}

/* A counter and a wrapper for the handler `name`. */
#define HANDLER(name, params, args)                    \
    static struct reached reached_##name = {#name, 0}; \
    void __real_##name params;                         \
    void __wrap_##name params;                         \
    void __wrap_##name params                          \
    {                                                  \
        reached_##name.count += is_enemy(peer);        \
        __real_##name args;                            \
    }

HANDLER(producer_want, (struct peer * peer, const struct record_want *want), (peer, want))
HANDLER(eager_data, (struct peer * peer, const struct record_data *data), (peer, data))
HANDLER(consumer_offer, (struct peer * peer, const struct record_offer *offer),
        (peer, offer))
HANDLER(send_run_done, (struct peer * peer, const struct record_answer *done),
        (peer, done))
HANDLER(producer_cancel, (struct peer * peer, const struct record_answer *cancel),
        (peer, cancel))
HANDLER(consumer_request_answer, (struct peer * peer, uint64_t step), (peer, step))
HANDLER(producer_step_closed, (struct peer * peer, const struct record_answer *closed),
        (peer, closed))
HANDLER(consumer_ended, (struct peer * peer, const struct record_answer *answer),
        (peer, answer))
HANDLER(producer_data_done, (struct peer * peer, const struct record_answer *done),
        (peer, done))
HANDLER(producer_data_kept, (struct peer * peer, uint64_t number), (peer, number))
HANDLER(eager_cancel, (struct peer * peer, const struct record_answer *cancel),
        (peer, cancel))
HANDLER(producer_data_canceled, (struct peer * peer, uint64_t number), (peer, number))

static struct reached reached_raise = {"producer_raise", 0};
static struct reached reached_raise_held = {"producer_raise of a waiting WANT", 0};
static struct reached reached_raise_matched = {"producer_raise of a matched WANT", 0};

void __real_producer_raise(struct peer *peer, const struct record_answer *raise);
void __wrap_producer_raise(struct peer *peer, const struct record_answer *raise);
void __wrap_producer_raise(struct peer *peer, const struct record_answer *raise)
{
    const struct want *want = want_by_id(peer, raise->id);
    reached_raise.count += is_enemy(peer);
    reached_raise_held.count += want && !want->send;
    reached_raise_matched.count += want && want->send;
    __real_producer_raise(peer, raise);
}

static const struct reached *const handlers[] = {&reached_producer_want,
                                                 &reached_eager_data,
                                                 &reached_consumer_offer,
                                                 &reached_send_run_done,
                                                 &reached_producer_cancel,
                                                 &reached_consumer_request_answer,
                                                 &reached_producer_step_closed,
                                                 &reached_consumer_ended,
                                                 &reached_producer_data_done,
                                                 &reached_producer_data_kept,
                                                 &reached_eager_cancel,
                                                 &reached_producer_data_canceled,
                                                 &reached_raise,
                                                 &reached_raise_held,
                                                 &reached_raise_matched};

/* ---- flags of headers -------------------------------------------------------------- */

static struct reached flags_reached[] = {
    {"HEADER_ONLY", 0},  {"BLOCKED", 0},      {"PROBE", 0},  {"SLICE, bit 0", 0},
    {"SLICE, bit 1", 0}, {"SLICE, bit 2", 0}, {"PAUSED", 0}, {"NAMES", 0}};
static_assert(FRAME_HEADER_ONLY == 1u << 0 && FRAME_BLOCKED == 1u << 1 &&
                  FRAME_PROBE == 1u << 2 && FRAME_SLICE_SHIFT == 3 &&
                  FRAME_SLICE_MASK == 7 && FRAME_PAUSED == 1u << 6 &&
                  FRAME_NAMES == 1u << 7,
              "the names above");

enum {
    HANDLERS = sizeof handlers / sizeof *handlers,
    FLAGS = sizeof flags_reached / sizeof *flags_reached
};

void frame_reached_flags(uint8_t flags)
{
    for (unsigned i = 0; i < FLAGS; i++)
        flags_reached[i].count += flags >> i & 1;
}

/* ---- the corpus -------------------------------------------------------------------- */

static int reached_judge(const struct reached *reached)
{
    printf("%s: %lu\n", reached->name, reached->count);
    if (!reached->count)
        fprintf(stderr, "no input of the corpus reaches %s\n", reached->name);
    return reached->count == 0;
}

int fuzz_corpus_judge(void)
{
    int failed = 0;
    for (unsigned i = 0; i < HANDLERS; i++)
        failed |= reached_judge(handlers[i]);
    for (unsigned i = 0; i < FLAGS; i++)
        failed |= reached_judge(&flags_reached[i]);
    return failed;
}
