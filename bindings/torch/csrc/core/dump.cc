/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps. The file is written under another name in the same folder and then renamed, so
 * that a reader never finds a part, and a link in /tmp is replaced, not followed. */
#include "dump.h"

#include "live.h"
#include "log.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <sys/stat.h>
#include <tryst/tryst.h>
#include <unistd.h>

namespace tryst_torch
{

static const char path_default[] = "/tmp/tryst_torch_rank_%r.json";
static const std::chrono::seconds quiet_time(5);

static std::mutex job_mutex; /* guards the three below */
static std::weak_ptr<const void> largest_job;
static int job_size;
static int job_rank;

void dump_rank_set(int rank, int size, const std::weak_ptr<const void> &job)
{
    std::lock_guard<std::mutex> lock(job_mutex);
    if (!largest_job.expired() && size <= job_size)
        return;
    largest_job = job;
    job_size = size;
    job_rank = rank;
}

static int dump_rank()
{
    std::lock_guard<std::mutex> lock(job_mutex);
    return job_rank;
}

static std::string host_name()
{
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    return name;
}

static std::string time_now()
{
    char text[32];
    time_t now = time(nullptr);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

std::string dump_text(const std::string &reason)
{
    std::vector<LivePage> pages = live_read();
    Json json;
    json.open('{');
    json.member("version", int64_t(1));
    json.member("library_version", tryst_version_string());
    json.member("rank", static_cast<int64_t>(dump_rank()));
    json.member("pid", static_cast<int64_t>(getpid()));
    json.member("host", host_name());
    json.member("time", time_now());
    json.member("reason", reason);
    log_write(json, pages);
    live_write(json, pages);
    json.close('}');
    return json.text() + "\n";
}

static std::string path_of_setting()
{
    const char *setting = getenv("TORCH_TRYST_DUMP_FILE");
    std::string path = setting ? setting : path_default;
    size_t at = path.find("%r");
    if (at != std::string::npos)
        path.replace(at, 2, std::to_string(dump_rank()));
    return path;
}

/* Write all of `text`. Returns 0 or an errno. */
static int descriptor_write(int descriptor, const std::string &text)
{
    size_t done = 0;
    while (done < text.size()) {
        ssize_t count = write(descriptor, text.data() + done, text.size() - done);
        if (count < 0 && errno != EINTR)
            return errno;
        done += count > 0 ? static_cast<size_t>(count) : 0;
    }
    return 0;
}

/* Returns 0 or an errno. */
static int file_write(const std::string &path, const std::string &text)
{
    std::string part = path + ".XXXXXX";
    int descriptor = mkstemp(&part[0]);
    if (descriptor < 0)
        return errno;
    int error = descriptor_write(descriptor, text);
    if (close(descriptor) && !error)
        error = errno;
    if (!error && rename(part.c_str(), path.c_str()))
        error = errno;
    if (error)
        unlink(part.c_str());
    return error;
}

/* Write the file, unless one is new. Returns 0 or an errno. */
static int dump_write(const std::string &path, const std::string &reason)
{
    static std::mutex mutex; /* guards written, and one file at a time */
    static std::chrono::steady_clock::time_point written;
    std::lock_guard<std::mutex> lock(mutex);
    auto now = std::chrono::steady_clock::now();
    if (written.time_since_epoch().count() && now - written < quiet_time)
        return 0;
    int error = file_write(path, dump_text(reason));
    if (!error)
        written = now;
    return error;
}

std::string dump_at_timeout(const std::string &reason)
{
    std::string text;
    std::string pending = log_pending();
    if (!pending.empty())
        text += "; " + pending;
    std::string path = path_of_setting();
    if (path.empty())
        return text;
    if (int error = dump_write(path, reason))
        return text + "; cannot write the dump " + path + ": " + strerror(error) +
               " (set TORCH_TRYST_DUMP_FILE)";
    return text + "; dump: " + path;
}

} // namespace tryst_torch
