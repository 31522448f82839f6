/* SPDX-License-Identifier: Apache-2.0 */
/* The transitions of operations: the table allows those that op.h draws, and no other
 * pair of states. op_state_set asserts the table in every other test. */
#include "rendezvous/op/op.h"
#include "support/unit.h"

struct transition {
    enum op_state from, to;
};

/* The drawings of op.h, without those to ENDED. */
static const struct transition sends[] = {
    {OP_SUBMITTED, OP_POSTED},  {OP_SUBMITTED, OP_INLINE}, {OP_POSTED, OP_INLINE},
    {OP_SUBMITTED, OP_MATCHED}, {OP_POSTED, OP_MATCHED},   {OP_POSTED, OP_VOID},
    {OP_INLINE, OP_VOID},       {OP_VOID, OP_INLINE},      {OP_MATCHED, OP_ENDING},
};
static const struct transition recvs[] = {
    {OP_SUBMITTED, OP_POSTED}, {OP_POSTED, OP_WANTED},  {OP_WANTED, OP_POSTED},
    {OP_WANTED, OP_DEFERRED},  {OP_WANTED, OP_TAKEN},   {OP_WANTED, OP_ENDING},
    {OP_DEFERRED, OP_POSTED},  {OP_POSTED, OP_VOID},    {OP_DEFERRED, OP_VOID},
    {OP_POSTED, OP_TAKEN},     {OP_DEFERRED, OP_TAKEN}, {OP_POSTED, OP_ENDING},
    {OP_DEFERRED, OP_ENDING},  {OP_ENDING, OP_TAKEN},
};

/* The states that an operation of each kind reaches. */
enum {
    COMMON = 1u << OP_SUBMITTED | 1u << OP_ENDED,
    SEND_STATES = COMMON | 1u << OP_POSTED | 1u << OP_INLINE | 1u << OP_MATCHED |
                  1u << OP_ENDING | 1u << OP_VOID,
    RECV_STATES = COMMON | 1u << OP_POSTED | 1u << OP_WANTED | 1u << OP_DEFERRED |
                  1u << OP_ENDING | 1u << OP_TAKEN | 1u << OP_VOID,
};

static void pair_check(enum op_kind kind, unsigned states, enum op_state from,
                       enum op_state to, const struct transition *drawn, size_t count)
{
    bool expected = to == OP_ENDED && from != OP_ENDED && states >> from & 1;
    for (size_t i = 0; i < count; i++)
        expected |= drawn[i].from == from && drawn[i].to == to;
    if ((op_state_next[kind][from] >> to & 1) != expected)
        fail_msg("kind %d: state %d to %d is %s", kind, from, to,
                 expected ? "drawn, but refused" : "allowed, but not drawn");
}

static void kind_check(enum op_kind kind, unsigned states, const struct transition *drawn,
                       size_t count)
{
    for (int from = 0; from < OP_STATES; from++)
        for (int to = 0; to < OP_STATES; to++)
            pair_check(kind, states, (enum op_state)from, (enum op_state)to, drawn,
                       count);
}

static void test_pairs(void **state)
{
    kind_check(OP_SEND, SEND_STATES, sends, COUNT_OF(sends));
    kind_check(OP_RECV, RECV_STATES, recvs, COUNT_OF(recvs));
    kind_check(OP_STEP_CLOSE, COMMON, NULL, 0);
    kind_check(OP_COLL, COMMON, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
