/* SPDX-License-Identifier: Apache-2.0 */
/** @file world.h
 *  The ranks of a job, as all process groups share them: one context, one group, and
 *  steps, nearly always one.
 *
 *  The process group that a program opens first opens a World; the others are views of it
 *  (view.h), which send nothing when they open. A step stays open until the World ends:
 *  keys and names are distinct for each process group, so none of them ever repeats. The
 *  loss of a rank ends its step, and the ranks that are left go on in the next one.
 *
 *  Nothing in this folder includes a header of PyTorch.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_WORLD_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_WORLD_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tryst/tryst.h>
#include <vector>

namespace tryst_torch
{

/** A call that the library, or this binding, refuses. */
class Refusal : public std::runtime_error
{
  public:
    using std::runtime_error::runtime_error;
};

/** A call after the end of the job's operations: a rank was lost, the step was aborted,
 *  or the context has ended. */
class JobEnded : public Refusal
{
  public:
    using Refusal::Refusal;
};

/** True for the statuses of a lost rank, 200 to 299 (tryst/status.h). A rank that has
 *  left in good order is not lost. */
inline bool is_loss(tryst_status status)
{
    return status >= 200 && status < 300 && status != TRYST_E_LEFT;
}

/** Throw a Refusal "cannot <what>: <the library's reason>", a JobEnded where this is the
 *  reason, unless `status` is TRYST_OK. */
void check(tryst_status status, const std::string &what);

/** A context of the library. Memory of tensors belongs to it, so that a tensor may
 *  outlive its World. */
class Context
{
  public:
    /** Open a context with the settings of the environment. Throws Refusal. */
    Context();
    ~Context();

    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    tryst_ctx *get() const
    {
        return ctx_;
    }

  private:
    tryst_ctx *ctx_ = nullptr;
};

class World
{
  public:
    /** The all-gather with which the ranks come together (tryst_allgather_fn): `all`
     *  receives `bytes` bytes of each rank, by rank. It reports a failure by an
     *  exception. */
    using Gather = std::function<void(const void *mine, void *all, size_t bytes)>;

    /** Bring `size` ranks together, this one as `rank`. Blocks until all have come, at
     *  most `timeout_ns`. Throws Refusal. */
    World(int rank, int size, uint64_t timeout_ns, const Gather &gather);

    /** Leave the group; operations that are pending end with TRYST_E_CONTEXT. Blocks as
     *  tryst_group_close does. */
    ~World();

    World(const World &) = delete;
    World &operator=(const World &) = delete;

    tryst_group *group() const
    {
        return group_;
    }
    const std::shared_ptr<Context> &context() const
    {
        return context_;
    }

    /** Open the next step, which lives as long as the World. The ranks that will use it
     *  call this equally often. Throws Refusal. */
    tryst_step *step_open();

    /** Begin a training step in all Worlds of this process (tryst_period_begin). Any
     *  thread. Never blocks. */
    static void period_begin();

  private:
    void open_group(int rank, int size, uint64_t timeout_ns, const Gather &gather);
    void close();

    std::shared_ptr<Context> context_;
    tryst_group *group_ = nullptr;
    std::mutex mutex_; /* guards steps_ */
    std::vector<tryst_step *> steps_;
};

} // namespace tryst_torch

#endif
