/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the pages through /proc/self/fd, maps and copies them, record by record, as
 * tryst/live.h describes. The library in this process wrote them, so they have this
 * layout. */
#include "live.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tryst_torch
{

/* A write of a record takes well under a microsecond. */
static const int copy_tries = 1000;

/* Copy a record that a thread may be writing. False if it is never whole. */
static bool record_copy(const char *record, void *copy, size_t bytes)
{
    auto *words = reinterpret_cast<const std::atomic<uint64_t> *>(record);
    for (int attempt = 0; attempt < copy_tries; attempt++) {
        /* acquire, all three: partners of the writer's releases */
        uint64_t ended = words[1].load(std::memory_order_acquire);
        for (size_t i = 2; i < bytes / sizeof ended; i++) {
            uint64_t word = words[i].load(std::memory_order_acquire);
            memcpy(static_cast<char *>(copy) + i * sizeof word, &word, sizeof word);
        }
        if (words[0].load(std::memory_order_acquire) == ended)
            return true;
    }
    return false;
}

static void peers_copy(const char *page, LivePage &copy)
{
    const tryst_live_header &header = copy.header;
    for (uint32_t i = 0; i < header.peers_count; i++) {
        tryst_live_peer peer = {};
        const char *at = page + header.peers_offset + size_t(i) * header.peer_bytes;
        if (record_copy(at, &peer, sizeof peer) && peer.endpoint)
            copy.peers.push_back(peer);
    }
}

static void operations_copy(const char *page, LivePage &copy)
{
    const tryst_live_header &header = copy.header;
    for (uint32_t i = 0; i < header.ops_count; i++) {
        tryst_live_op record = {};
        const char *at = page + header.ops_offset + size_t(i) * header.op_bytes;
        if (!record_copy(at, &record, sizeof record) || (!record.kind && !record.state))
            continue;
        size_t bytes = std::min<size_t>(record.key_bytes, sizeof record.key);
        copy.operations.push_back({record.kind == TRYST_LIVE_COLL, record.peer,
                                   std::string(record.key, bytes), record});
    }
    std::stable_sort(copy.operations.begin(), copy.operations.end(),
                     [](const LiveOperation &a, const LiveOperation &b) {
                         return a.record.since_ns < b.record.since_ns;
                     });
}

static bool header_is_known(const tryst_live_header &header, size_t bytes)
{
    return header.magic == TRYST_LIVE_MAGIC && header.layout == TRYST_LIVE_LAYOUT &&
           header.page_bytes == bytes && header.peer_bytes >= sizeof(tryst_live_peer) &&
           header.op_bytes >= sizeof(tryst_live_op) && header.pid == getpid();
}

static void page_copy(int descriptor, std::vector<LivePage> &pages)
{
    struct stat status;
    if (fstat(descriptor, &status) || size_t(status.st_size) < sizeof(tryst_live_header))
        return;
    size_t bytes = size_t(status.st_size);
    void *page = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED)
        return;
    LivePage copy;
    memcpy(&copy.header, page, sizeof copy.header);
    if (header_is_known(copy.header, bytes)) {
        peers_copy(static_cast<const char *>(page), copy);
        operations_copy(static_cast<const char *>(page), copy);
        pages.push_back(std::move(copy));
    }
    munmap(page, bytes);
}

/* True if the link in /proc/self/fd leads to a live page. */
static bool is_page(const std::string &path)
{
    static const char prefix[] = "/memfd:" TRYST_LIVE_NAME;
    char target[sizeof prefix] = {};
    return readlink(path.c_str(), target, sizeof target - 1) == sizeof target - 1 &&
           !strcmp(target, prefix);
}

std::vector<LivePage> live_read()
{
    std::vector<LivePage> pages;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return pages;
    while (dirent *entry = readdir(folder)) {
        std::string path = std::string("/proc/self/fd/") + entry->d_name;
        if (!is_page(path))
            continue;
        int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor < 0)
            continue;
        page_copy(descriptor, pages);
        close(descriptor);
    }
    closedir(folder);
    return pages;
}

static std::string text_of(const char *text, size_t capacity)
{
    return std::string(text, strnlen(text, capacity));
}

static void peer_write(Json &json, const tryst_live_peer &peer)
{
    static const char *const lives[] = {"alive", "left", "giving up", "gone"};
    json.open('{');
    json.member("rank", static_cast<int64_t>(peer.rank));
    json.member("life", lives[peer.life & 3]);
    json.member("transport", text_of(peer.transport, sizeof peer.transport));
    json.member("mechanism", text_of(peer.mechanism, sizeof peer.mechanism));
    json.member("bytes_sent", peer.bytes_sent);
    json.member("bytes_received", peer.bytes_received);
    json.member("in_flight_bytes", peer.in_flight_bytes);
    json.member("window_bytes", peer.window_bytes);
    json.member("slice_bytes", peer.slice_bytes);
    json.member("bytes_per_s", peer.bytes_per_s);
    json.member("rtt_ns", peer.rtt_ns);
    json.close('}');
}

static const char *name_in(const char *const *names, size_t count, size_t index)
{
    return index < count ? names[index] : "not known";
}

static void live_operation_write(Json &json, const LiveOperation &operation)
{
    static const char *const kinds[] = {"send", "receive", "close", "collective"};
    static const char *const states[] = {"submitted", "posted",  "wanted", "deferred",
                                         "inline",    "matched", "ending"};
    static const char *const holds[] = {"none", "not posted", "behind",   "window",
                                        "rail", "transport",  "not ready"};
    const tryst_live_op &record = operation.record;
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    std::chrono::duration<double> age = now - std::chrono::nanoseconds(record.since_ns);
    json.open('{');
    json.member("kind", name_in(kinds, std::size(kinds), record.kind));
    json.member("key", operation.key);
    json.member("peer", static_cast<int64_t>(record.peer));
    json.member("state", name_in(states, std::size(states), record.state));
    json.member("hold", name_in(holds, std::size(holds), record.hold));
    json.member("bytes", record.bytes);
    json.member("done_bytes", record.done_bytes);
    json.member("age_s", age.count());
    json.close('}');
}

void live_write(Json &json, const std::vector<LivePage> &pages)
{
    char run[17];
    json.open("library", '[');
    for (const LivePage &page : pages) {
        json.open('{');
        snprintf(run, sizeof run, "%016" PRIx64, page.header.session);
        json.member("run", std::string(run));
        json.member("rank", static_cast<int64_t>(page.header.rank));
        json.member("size", static_cast<int64_t>(page.header.size));
        json.member("pending", page.header.pending);
        json.member("completed", page.header.completed);
        json.open("peers", '[');
        for (const tryst_live_peer &peer : page.peers)
            peer_write(json, peer);
        json.close(']');
        json.open("operations", '[');
        for (const LiveOperation &operation : page.operations)
            live_operation_write(json, operation);
        json.close(']');
        json.close('}');
    }
    json.close(']');
}

} // namespace tryst_torch
