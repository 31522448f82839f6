/* SPDX-License-Identifier: Apache-2.0 */
/* One thread for the process and a queue. Both are never destroyed: at the end of the
 * process a task may wait for Python's lock, which is then never given. */
#include "finisher.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

namespace tryst_torch
{

namespace
{

class Finisher
{
  public:
    Finisher()
    {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        std::thread(&Finisher::work, this).detach();
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    void run(std::function<void()> task)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        more_.notify_one();
    }

    void stop()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        idle_.wait_for(lock, std::chrono::seconds(2),
                       [this] { return is_idle_ && tasks_.empty(); });
        is_stopped_ = true;
    }

  private:
    std::function<void()> next()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        is_idle_ = true;
        idle_.notify_all();
        more_.wait(lock, [this] { return !is_stopped_ && !tasks_.empty(); });
        is_idle_ = false;
        std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        return task;
    }

    void work()
    {
        for (;;)
            next()();
    }

    std::mutex mutex_;
    std::condition_variable more_;
    std::condition_variable idle_;
    bool is_idle_ = false;
    bool is_stopped_ = false; /* tasks stay in the queue: to destroy them needs Python */
    std::deque<std::function<void()>> tasks_;
};

} // namespace

static Finisher &finisher_get()
{
    static Finisher *finisher = new Finisher;
    return *finisher;
}

void finisher_run(std::function<void()> task)
{
    finisher_get().run(std::move(task));
}

void finisher_stop()
{
    finisher_get().stop();
}

} // namespace tryst_torch
