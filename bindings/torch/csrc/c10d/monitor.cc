/* SPDX-License-Identifier: Apache-2.0 */
/* monitoredBarrier: each rank sends one message to rank 0, which answers. Rank 0 posts
 * its receives at once, with one deadline, so several missing ranks cost one timeout. The
 * words of the errors are those that PyTorch's tests and the users of its gloo backend
 * search for. */
#include "backend.h"

#include <climits>
#include <sstream>

namespace tryst_torch
{

/* A tag of these messages alone. */
static const int monitor_tag = INT_MIN;

static at::Tensor byte_of(bool value)
{
    return at::full({1}, value ? 1 : 0, at::kByte);
}

/* Wait for a work; return the text of its failure, or an empty one. */
static std::string failure_of(const Backend::WorkPtr &work)
{
    try {
        work->wait(kNoTimeout);
        return "";
    } catch (const std::exception &error) {
        return text_of(error);
    }
}

void Backend::monitor_report(Milliseconds timeout)
{
    at::Tensor mine = byte_of(true), all_came = byte_of(false);
    WorkPtr report = send_one(mine, 0, monitor_tag, timeout);
    WorkPtr answer = recv_one(all_came, 0, monitor_tag, timeout);
    std::string failure = failure_of(report);
    std::string later = failure_of(answer);
    if (failure.empty())
        failure = later;
    if (failure.empty() && !all_came.item<uint8_t>())
        failure = "other ranks have not come";
    TORCH_CHECK(failure.empty(), "Rank ", rank_,
                " successfully reached monitoredBarrier, but received errors while "
                "waiting for send/recv from rank 0: ",
                failure);
}

static std::string names_of(const std::vector<int> &ranks)
{
    std::ostringstream text;
    text << (ranks.size() == 1 ? "Rank " : "Ranks ") << ranks[0];
    for (size_t i = 1; i < ranks.size(); i++)
        text << ", " << ranks[i];
    return text.str();
}

/* The ranks that have not come, and why the first of them has not. */
struct Missing {
    std::vector<int> ranks;
    std::string reason;
};

/* Wait for the works of the ranks 1 to `size` - 1; until the first that fails, unless
 * `wait_all`. */
static Missing wait_works(const std::vector<Backend::WorkPtr> &works, bool wait_all)
{
    Missing missing;
    for (size_t i = 0; i < works.size() && (missing.ranks.empty() || wait_all); i++) {
        std::string text = failure_of(works[i]);
        if (text.empty())
            continue;
        if (missing.ranks.empty())
            missing.reason = text;
        missing.ranks.push_back(static_cast<int>(i) + 1);
    }
    return missing;
}

/* Every rank gets its answer, one that has not come too: it finds the failure when it
 * comes late, and the messages of the next barrier meet again. */
void Backend::monitor_collect(Milliseconds timeout, bool wait_all)
{
    std::vector<WorkPtr> reports, answers;
    for (int rank = 1; rank < size_; rank++) {
        at::Tensor report = byte_of(false);
        reports.push_back(recv_one(report, rank, monitor_tag, timeout));
    }
    Missing missing = wait_works(reports, wait_all);
    for (int rank = 1; rank < size_; rank++) {
        at::Tensor answer = byte_of(missing.ranks.empty());
        answers.push_back(send_one(answer, rank, monitor_tag, timeout));
    }
    if (missing.ranks.empty())
        missing = wait_works(answers, wait_all);
    TORCH_CHECK(missing.ranks.empty(), names_of(missing.ranks),
                " failed to pass monitoredBarrier in ", timeout.count(),
                " ms: ", missing.reason);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions &opts, bool wait_all)
{
    Milliseconds timeout = opts.timeout;
    if (timeout == c10d::kUnsetTimeout)
        timeout = Milliseconds(timeout_ms_.load());
    TORCH_CHECK(timeout.count() > 0, "Rank ", rank_,
                " timed out in monitoredBarrier after ", timeout.count(), " ms");
    if (rank_ == 0)
        monitor_collect(timeout, wait_all);
    else
        monitor_report(timeout);
}

} // namespace tryst_torch
