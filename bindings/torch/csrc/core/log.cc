/* SPDX-License-Identifier: Apache-2.0 */
/* The log: a map of what is pending, by number, and a queue of what has ended. Readers
 * copy what they need, so that progress, which notes the ends, does not wait for a dump.
 * Records do not change, so a copy of the log shares them.
 *
 * The log is never destroyed, because operations may end while the process ends. */
#include "log.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <pthread.h>
#include <set>

namespace tryst_torch
{

namespace
{

const uint64_t kept_default = 2000;

struct Entry {
    std::shared_ptr<const Record> record;
    uint64_t begun_ns;
    uint64_t ended_ns = 0; /* 0: pending */
    tryst_status status = TRYST_IN_PROGRESS;
    std::string reason = {};
};

struct Log {
    std::mutex mutex; /* guards the rest */
    uint64_t next = 0;
    uint64_t kept;
    std::map<uint64_t, Entry> pending;
    std::deque<std::pair<uint64_t, Entry>> ended;
};

using Entries = std::vector<std::pair<uint64_t, Entry>>;

/* How many collectives of a name are pending before this one, to find its record on a
 * page: pages have no numbers of collectives, but their records are in order. */
using Turns = std::map<std::string, size_t>;

} // namespace

static uint64_t kept_setting()
{
    const char *text = getenv("TORCH_TRYST_DUMP_OPERATIONS");
    if (!text || !*text)
        return kept_default;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    return *end || *text == '-' ? kept_default : value;
}

static Log *log_make()
{
    Log *made = new Log;
    made->kept = kept_setting();
    return made;
}

/* A forked child begins a log of its own: its parent's operations never end there, and
 * the mutex may be locked. */
static Log *&log_place()
{
    static Log *log = [] {
        pthread_atfork(nullptr, nullptr, [] { log_place() = log_make(); });
        return log_make();
    }();
    return log;
}

static Log &log_get()
{
    return *log_place();
}

static uint64_t now_ns()
{
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

static double seconds(uint64_t ns)
{
    return static_cast<double>(ns) / 1e9;
}

uint64_t log_begin(Record record)
{
    Log &log = log_get();
    Entry entry{std::make_shared<const Record>(std::move(record)), now_ns()};
    std::lock_guard<std::mutex> lock(log.mutex);
    uint64_t id = log.next++;
    log.pending.emplace_hint(log.pending.end(), id, std::move(entry));
    return id;
}

void log_end(uint64_t id, tryst_status status, const std::string &reason)
{
    Log &log = log_get();
    std::pair<uint64_t, Entry> dropped; /* destroyed without the lock */
    std::lock_guard<std::mutex> lock(log.mutex);
    auto node = log.pending.extract(id);
    if (node.empty())
        return;
    Entry &entry = node.mapped();
    entry.ended_ns = now_ns();
    entry.status = status;
    entry.reason = reason;
    log.ended.emplace_back(id, std::move(entry));
    if (log.ended.size() > log.kept) {
        dropped = std::move(log.ended.front());
        log.ended.pop_front();
    }
}

void log_remove(uint64_t id)
{
    Log &log = log_get();
    std::lock_guard<std::mutex> lock(log.mutex);
    log.pending.erase(id);
}

/* Return "all_reduce 3 of process group 0". */
static std::string title(const Record &record)
{
    std::string text = record.kind;
    if (record.number)
        text += " " + std::to_string(record.number);
    else
        text +=
            (text == "recv" ? " from rank " : " to rank ") + std::to_string(record.peer);
    return text + " of process group " + record.group->name;
}

std::string log_pending()
{
    Log &log = log_get();
    std::lock_guard<std::mutex> lock(log.mutex);
    if (log.pending.empty())
        return "";
    const Entry &oldest = log.pending.begin()->second;
    char age[32];
    snprintf(age, sizeof age, "%.1f s", seconds(now_ns() - oldest.begun_ns));
    size_t count = log.pending.size();
    return std::to_string(count) + (count == 1 ? " operation is" : " operations are") +
           " pending here, the oldest for " + age + ": " + title(*oldest.record);
}

/* Copy the pending operations to `all`, and before them those that have ended, if
 * `with_ended`; each part oldest first. */
static void log_copy(Entries &all, bool with_ended)
{
    Log &log = log_get();
    std::lock_guard<std::mutex> lock(log.mutex);
    all.reserve(log.pending.size() + (with_ended ? log.ended.size() : 0));
    if (with_ended)
        all.insert(all.end(), log.ended.begin(), log.ended.end());
    all.insert(all.end(), log.pending.begin(), log.pending.end());
}

static void shapes_write(Json &json, const char *name, const std::vector<Shape> &shapes)
{
    json.open(name, '[');
    for (const Shape &shape : shapes) {
        json.open('{');
        json.member("dtype", shape.dtype);
        json.open("sizes", '[');
        for (int64_t size : shape.sizes)
            json.add(size);
        json.close(']');
        json.close('}');
    }
    json.close(']');
}

static const char *state_of(const Entry &entry)
{
    switch (entry.status) {
    case TRYST_IN_PROGRESS: return "pending";
    case TRYST_OK: return "completed";
    case TRYST_E_DEADLINE: return "timed out";
    case TRYST_E_CANCELED: return "cancelled";
    default: return "failed";
    }
}

/* Return the rank of the group with this rank in the World; -1: none. */
static int group_rank(const GroupName &group, int world_rank)
{
    if (group.ranks.empty())
        return world_rank;
    auto found = std::find(group.ranks.begin(), group.ranks.end(), world_rank);
    return found == group.ranks.end() ? -1
                                      : static_cast<int>(found - group.ranks.begin());
}

/* Return the rank of its group that a pending operation waits for; -1: not known. */
static int awaited(const Record &record, const std::vector<LivePage> &pages, Turns &turns)
{
    if (!record.number)
        return record.peer;
    size_t turn = turns[record.name]++;
    for (const LivePage &page : pages)
        for (const LiveOperation &operation : page.operations)
            if (operation.is_collective && operation.key == record.name && !turn--)
                return group_rank(*record.group, operation.peer);
    return -1;
}

int log_awaited(uint64_t id, const std::vector<LivePage> &pages)
{
    Entries all;
    log_copy(all, false);
    Turns turns;
    for (auto &[pending, entry] : all) {
        int rank = awaited(*entry.record, pages, turns);
        if (pending == id)
            return rank;
    }
    return -1;
}

static void operation_write(Json &json, uint64_t id, const Entry &entry,
                            const std::vector<LivePage> &pages, Turns &turns)
{
    const Record &record = *entry.record;
    json.open('{');
    json.member("id", id);
    json.member("process_group", record.group->name);
    json.member("kind", record.kind);
    if (record.number)
        json.member("number", record.number);
    else
        json.member("peer", static_cast<int64_t>(record.peer));
    shapes_write(json, "inputs", record.inputs);
    shapes_write(json, "outputs", record.outputs);
    if (record.priority)
        json.member("priority", static_cast<int64_t>(*record.priority));
    else
        json.member_null("priority");
    json.member("timeout_ms", record.timeout_ms);
    json.member("state", state_of(entry));
    uint64_t now = now_ns();
    json.member("age_s", seconds(now - entry.begun_ns));
    if (entry.ended_ns) {
        json.member("duration_s", seconds(entry.ended_ns - entry.begun_ns));
    } else {
        json.open("waits_for", '[');
        int rank = awaited(record, pages, turns);
        if (rank >= 0)
            json.add(static_cast<int64_t>(rank));
        json.close(']');
    }
    if (entry.status > 0)
        json.member("error", entry.reason);
    json.close('}');
}

static void group_write(Json &json, const GroupName &group)
{
    json.open('{');
    json.member("name", group.name);
    json.member("rank", static_cast<int64_t>(group.rank));
    json.member("size", static_cast<int64_t>(group.size));
    json.open("ranks", '[');
    for (int rank = 0; rank < group.size; rank++)
        json.add(static_cast<int64_t>(group.ranks.empty() ? rank : group.ranks[rank]));
    json.close(']');
    json.close('}');
}

void log_write(Json &json, const std::vector<LivePage> &pages)
{
    Entries all;
    log_copy(all, true);
    std::sort(all.begin(), all.end(),
              [](const auto &a, const auto &b) { return a.first < b.first; });
    std::set<std::shared_ptr<const GroupName>> groups;
    json.open("process_groups", '[');
    for (auto &[id, entry] : all)
        if (groups.insert(entry.record->group).second)
            group_write(json, *entry.record->group);
    json.close(']');
    Turns turns;
    json.open("operations", '[');
    for (auto &[id, entry] : all)
        operation_write(json, id, entry, pages, turns);
    json.close(']');
}

} // namespace tryst_torch
