/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a job: opened in the order context, group, steps, and closed in reverse.
 *
 * The library's progress thread is started unless the environment forbids it: gradients
 * are sent while the backward pass computes, and ranks of one host move each other's
 * bytes. */
#include "world.h"

#include <cstring>
#include <set>
#include <tryst/profile.h>

namespace tryst_torch
{

/* Those that have a group. Never freed: a World may end after main. */
static std::mutex worlds_mutex; /* guards worlds */
static std::set<World *> &worlds = *new std::set<World *>;

void check(tryst_status status, const std::string &what)
{
    if (status == TRYST_OK)
        return;
    const char *reason = tryst_last_error();
    std::string text =
        "cannot " + what + ": " + (*reason ? reason : tryst_status_str(status));
    if (status == TRYST_E_ABORTED || status == TRYST_E_CONTEXT || is_loss(status))
        throw JobEnded(text);
    throw Refusal(text);
}

World::World(int rank, int size, uint64_t timeout_ns, const Gather &gather)
    : context_(std::make_shared<Context>())
{
    try {
        open_group(rank, size, timeout_ns, gather);
        std::lock_guard<std::mutex> lock(worlds_mutex);
        worlds.insert(this);
    } catch (...) {
        close();
        throw;
    }
}

World::~World()
{
    close();
}

Context::Context()
{
    tryst_config *config;
    check(tryst_config_open(&config), "read the settings");
    tryst_config_item item = {};
    item.struct_size = sizeof item;
    tryst_open_params params = {};
    params.struct_size = sizeof params;
    params.config = config;
    tryst_status status = tryst_config_get(config, "progress_thread", &item);
    if (!status && !strcmp(item.origin, "default"))
        status = tryst_config_set(config, "progress_thread", "1");
    if (!status)
        status = tryst_open(&params, &ctx_);
    tryst_config_close(config);
    check(status, "open a context");
}

Context::~Context()
{
    tryst_close(ctx_);
}

/* The caller's all-gather, and the text of its exception, which must not pass through the
 * library's C code. */
struct GatherCall {
    const World::Gather &gather;
    std::string reason;
};

static int gather_call(void *arg, const void *mine, void *all, size_t bytes)
{
    GatherCall *call = static_cast<GatherCall *>(arg);
    try {
        call->gather(mine, all, bytes);
        return 0;
    } catch (const std::exception &error) {
        call->reason = error.what();
        return 1;
    }
}

void World::open_group(int rank, int size, uint64_t timeout_ns, const Gather &gather)
{
    GatherCall call = {gather, ""};
    tryst_group_params params = {};
    params.struct_size = sizeof params;
    params.allgather = gather_call;
    params.allgather_arg = &call;
    params.rank = rank;
    params.size = size;
    params.timeout_ns = timeout_ns;
    tryst_status status = tryst_group_open(context_->get(), &params, &group_);
    if (status && !call.reason.empty())
        throw Refusal("cannot bring the ranks together: " + call.reason);
    check(status, "bring the ranks together");
}

tryst_step *World::step_open()
{
    std::lock_guard<std::mutex> lock(mutex_);
    tryst_step *step;
    check(tryst_step_open(group_, steps_.size() + 1, &step),
          "open a step of the process groups");
    steps_.push_back(step);
    return step;
}

void World::period_begin()
{
    std::lock_guard<std::mutex> lock(worlds_mutex);
    for (World *world : worlds)
        check(tryst_period_begin(world->group_), "begin a training step");
}

void World::close()
{
    {
        std::lock_guard<std::mutex> lock(worlds_mutex);
        worlds.erase(this);
    }
    for (tryst_step *step : steps_)
        tryst_step_close(step, nullptr);
    tryst_group_close(group_);
}

} // namespace tryst_torch
