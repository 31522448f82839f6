/* SPDX-License-Identifier: Apache-2.0 */
/* One thread for the process and a queue. Both are never destroyed: at the end of the
 * process a task may wait for Python's lock, which is then never given. */
#include "finisher.h"

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

  private:
    std::function<void()> next()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        more_.wait(lock, [this] { return !tasks_.empty(); });
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
    std::deque<std::function<void()>> tasks_;
};

} // namespace

void finisher_run(std::function<void()> task)
{
    static Finisher *finisher = new Finisher;
    finisher->run(std::move(task));
}

} // namespace tryst_torch
