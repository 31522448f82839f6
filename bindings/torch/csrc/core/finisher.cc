/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and a queue. A task may wait for a later task (a function of a future that
 * waits for another future), so one thread more than those in tasks is always there: it
 * takes a task if no other thread has taken one for `patience`. Threads that find no task
 * for a while end, down to one. Nothing is ever destroyed: at the end of the process a
 * task may wait for Python's lock, which is then never given. */
#include "finisher.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <thread>

namespace tryst_torch
{

namespace
{

using Clock = std::chrono::steady_clock;

/* Short beside what a blocked task costs, long beside the wake-up of a thread. */
const std::chrono::milliseconds patience(1);
const std::chrono::seconds idle_time(1);
/* Longer than PyTorch's flight recorder takes for a dump, at most 15 s: a thread that is
 * still in it when Python ends would end the process with SIGABRT. */
const std::chrono::seconds stop_time(20);

class Finisher
{
  public:
    void run(std::function<void()> task)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        if (!threads_count_ && !is_stopped_)
            start();
        more_.notify_one();
    }

    void stop()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        idle_.wait_for(lock, stop_time,
                       [this] { return !busy_count_ && tasks_.empty(); });
        is_stopped_ = true;
    }

    void help()
    {
        while (is_stopped_) {
            std::function<void()> task;
            {
                std::lock_guard<std::mutex> lock(mutex_);
                if (tasks_.empty())
                    return;
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
            task();
        }
    }

  private:
    /* With the lock held. */
    void start()
    {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        std::thread(&Finisher::work, this).detach();
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        threads_count_++;
    }

    /* Wait for a task that this thread may take. False: the thread ends. */
    bool wait(std::unique_lock<std::mutex> &lock)
    {
        for (;;) {
            if (is_stopped_ || tasks_.empty()) {
                bool is_long = more_.wait_for(lock, idle_time) == std::cv_status::timeout;
                if (is_long && tasks_.empty() && threads_count_ - busy_count_ > 1)
                    return false;
            } else if (busy_count_ && Clock::now() < taken_ + patience) {
                more_.wait_until(lock, taken_ + patience);
            } else {
                return true;
            }
        }
    }

    /* Return the next task; none: the thread ends. */
    std::function<void()> next()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!wait(lock)) {
            threads_count_--;
            return nullptr;
        }
        std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        taken_ = Clock::now();
        busy_count_++;
        if (busy_count_ == threads_count_)
            start();
        return task;
    }

    void work()
    {
        while (std::function<void()> task = next()) {
            task();
            task = nullptr; /* its captures end before the thread counts as idle */
            std::lock_guard<std::mutex> lock(mutex_);
            busy_count_--;
            idle_.notify_all();
        }
    }

    /* Tasks stay in the queue: to run or to destroy them needs Python. */
    std::atomic<bool> is_stopped_{false};
    std::mutex mutex_; /* guards the rest */
    std::condition_variable more_;
    std::condition_variable idle_;
    size_t threads_count_ = 0;
    size_t busy_count_ = 0;   /* threads in tasks */
    Clock::time_point taken_; /* when a thread last took a task */
    std::deque<std::function<void()>> tasks_;
};

} // namespace

/* A forked child has none of the threads, and perhaps a mutex that one of them held: it
 * begins anew. */
static Finisher *&finisher_place()
{
    static Finisher *finisher = [] {
        pthread_atfork(nullptr, nullptr, [] { finisher_place() = new Finisher; });
        return new Finisher;
    }();
    return finisher;
}

static Finisher &finisher_get()
{
    return *finisher_place();
}

void finisher_run(std::function<void()> task)
{
    finisher_get().run(std::move(task));
}

void finisher_stop()
{
    finisher_get().stop();
}

void finisher_help()
{
    finisher_get().help();
}

} // namespace tryst_torch
