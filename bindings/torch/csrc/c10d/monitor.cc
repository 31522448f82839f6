/* SPDX-License-Identifier: Apache-2.0 */
/* monitoredBarrier: each rank sends one message to rank 0, which answers when all have
 * come. Rank 0 posts its receives at once, with one deadline, so several missing ranks
 * cost one timeout. The words of the errors are those that PyTorch's tests and the users
 * of its gloo backend search for. */
#include "backend.h"

#include <climits>
#include <sstream>

namespace tryst_torch
{

/* A tag of these messages alone. */
static const int monitor_tag = INT_MIN;

static std::vector<at::Tensor> bytes(int count)
{
    std::vector<at::Tensor> all;
    for (int i = 0; i < count; i++)
        all.push_back(at::zeros({1}, at::kByte));
    return all;
}

/* Wait for a work; return the text of its failure, or an empty one. */
static std::string failure_of(const Backend::WorkPtr &work)
{
    try {
        work->wait(kNoTimeout);
        return "";
    } catch (const std::exception &error) {
        return error.what();
    }
}

void Backend::monitor_report(Milliseconds timeout)
{
    std::vector<at::Tensor> both = bytes(2);
    WorkPtr report = send_one(both[0], 0, monitor_tag, timeout);
    WorkPtr answer = recv_one(both[1], 0, monitor_tag, timeout);
    std::string failure = failure_of(report);
    std::string later = failure_of(answer);
    failure += failure.empty() ? later : "";
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

/* Wait for the works of the ranks 1 to `size` - 1, and throw the names of those whose
 * work fails. */
static void require_all(const std::vector<Backend::WorkPtr> &works,
                        Backend::Milliseconds timeout, bool wait_all)
{
    std::vector<int> missing;
    std::string failure;
    for (size_t i = 0; i < works.size() && (missing.empty() || wait_all); i++) {
        std::string text = failure_of(works[i]);
        if (text.empty())
            continue;
        failure += missing.empty() ? text : "";
        missing.push_back(static_cast<int>(i) + 1);
    }
    TORCH_CHECK(missing.empty(), names_of(missing),
                " failed to pass monitoredBarrier in ", timeout.count(),
                " ms: ", failure);
}

void Backend::monitor_collect(Milliseconds timeout, bool wait_all)
{
    std::vector<at::Tensor> reports = bytes(size_), answers = bytes(size_);
    std::vector<WorkPtr> works;
    for (int rank = 1; rank < size_; rank++)
        works.push_back(recv_one(reports[rank], rank, monitor_tag, timeout));
    require_all(works, timeout, wait_all);
    works.clear();
    for (int rank = 1; rank < size_; rank++)
        works.push_back(send_one(answers[rank], rank, monitor_tag, timeout));
    require_all(works, timeout, wait_all);
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
