/* SPDX-License-Identifier: Apache-2.0 */
/* Roll calls: one byte from each rank to rank 0, and one byte for each rank back. A send
 * completes once rank 0 has the byte, so a send that times out shows that rank 0 has not
 * come. Each roll call has keys of its own, so a rank that left one early still meets the
 * others in the next.
 *
 * Invariant: memory is freed after the operations that use it; each buffer is declared
 * before its Ops. */
#include "roll.h"

namespace tryst_torch
{

/* Time that the outcome may take once rank 0 waits no longer. */
static const uint64_t answer_ns = UINT64_C(5000000000);

namespace
{

/* Operations of a roll call; those that were not finished are cancelled at the end. */
class Ops
{
  public:
    Ops(View &view, uint64_t number) : view_(view), number_(number)
    {
    }
    Ops(const Ops &) = delete;
    Ops &operator=(const Ops &) = delete;
    ~Ops()
    {
        for (tryst_op *op : ops_)
            tryst_op_cancel(op);
        for (size_t i = 0; i < ops_.size(); i++)
            if (ops_[i])
                finish(i);
    }

    void send(int from, int to, std::vector<uint8_t> &bytes, uint64_t deadline_ns)
    {
        add(tryst_send_key, from, to, bytes.data(), bytes.size(), deadline_ns);
    }
    void receive(int from, int to, uint8_t *bytes, size_t count, uint64_t deadline_ns)
    {
        add(tryst_recv_key, from, to, bytes, count, deadline_ns);
    }

    size_t size() const
    {
        return ops_.size();
    }
    /* Wait for the end of an operation; deadlines bound the wait. `origin_p` (may be
     * NULL) receives the rank of the World where a failure began. */
    tryst_status finish(size_t index, int *origin_p = nullptr)
    {
        tryst_status status = tryst_wait(ops_[index], TRYST_FOREVER);
        tryst_error error = {};
        error.struct_size = sizeof error;
        if (status && origin_p && tryst_op_error(ops_[index], &error) == status)
            *origin_p = error.origin_rank;
        tryst_op_release(ops_[index]);
        ops_[index] = nullptr;
        return status;
    }

  private:
    template <class Start>
    void add(Start start, int from, int to, uint8_t *bytes, size_t count,
             uint64_t deadline_ns)
    {
        View::Key key = view_.roll_key(from, to, number_);
        tryst_op_params params = view_.params(deadline_ns);
        params.subgroup = nullptr;
        tryst_tensor tensor = {};
        tensor.struct_size = sizeof tensor;
        tensor.data = bytes;
        tensor.count = count;
        tensor.dtype = TRYST_DTYPE_U8;
        tryst_op *op;
        check(start(view_.step(), key.get(), &tensor, &params, &op),
              "start a message of a roll call");
        ops_.push_back(op);
    }

    View &view_;
    uint64_t number_;
    std::vector<tryst_op *> ops_;
};

} // namespace

/* Return a byte for each rank: 1 if its message came in time. */
static std::vector<uint8_t> collect(View &view, uint64_t number, int size,
                                    uint64_t timeout_ns)
{
    std::vector<uint8_t> came(size, 1), bytes(size);
    Ops ops(view, number);
    for (int rank = 1; rank < size; rank++)
        ops.receive(rank, 0, &bytes[rank], 1, timeout_ns);
    for (int rank = 1; rank < size; rank++)
        came[rank] = ops.finish(rank - 1) == TRYST_OK;
    return came;
}

static void answer(View &view, uint64_t number, std::vector<uint8_t> &came)
{
    Ops ops(view, number);
    for (int rank = 1; rank < static_cast<int>(came.size()); rank++)
        if (came[rank])
            ops.send(0, rank, came, answer_ns);
    for (size_t i = 0; i < ops.size(); i++)
        ops.finish(i);
}

/* Return the answer that rank 0 gives to `rank`. Where none comes, one of the two is
 * absent: this rank if rank 0 gave the message up, else rank 0. */
static std::vector<uint8_t> report(View &view, uint64_t number, int rank, int size,
                                   uint64_t timeout_ns)
{
    std::vector<uint8_t> came(size), byte = {1}, alone(size, 1);
    int origin = -1;
    Ops ops(view, number);
    ops.send(rank, 0, byte, timeout_ns);
    ops.receive(0, rank, came.data(), came.size(),
                timeout_ns ? 2 * timeout_ns + answer_ns : 0);
    if (ops.finish(0, &origin) == TRYST_OK && ops.finish(1) == TRYST_OK)
        return came;
    alone[origin == view.world_rank(0) ? rank : 0] = 0;
    return alone;
}

std::vector<int> roll_call(View &view, int rank, int size, uint64_t timeout_ns)
{
    uint64_t number = view.roll_next();
    std::vector<uint8_t> came;
    if (rank) {
        came = report(view, number, rank, size, timeout_ns);
    } else {
        came = collect(view, number, size, timeout_ns);
        answer(view, number, came);
    }
    std::vector<int> absent;
    for (int other = 0; other < size; other++)
        if (!came[other])
            absent.push_back(other);
    return absent;
}

} // namespace tryst_torch
