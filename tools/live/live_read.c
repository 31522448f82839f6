/* SPDX-License-Identifier: Apache-2.0 */
/* Finds live pages through /proc/PID/fd and copies them, record by record.
 *
 * Idea: the page is mapped read-only only while it is copied; all else works on the copy.
 * Invariant: every value that leaves this file is within bounds, whatever the page holds:
 * offsets and counts are checked against the page's size, which is sealed, and texts are
 * terminated.
 * Memory order: see rendezvous/live/page.c; the reader's half is record_copy. */
#include "live_read.h"
#include "live_proc.h"
#include "live_tree.h"
#include "tools/figures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINK_PREFIX "/memfd:" TRYST_LIVE_NAME
/* Tries before a record counts as torn: a write takes well under a microsecond, but a
 * process stopped inside one never ends it. */
enum { COPY_TRIES = 20000 };
/* Limits on the memory that an invalid page can cost; no valid page reaches them. */
enum { PEERS_MOST = 1 << 16, OPS_MOST = 1 << 16 };
/* A thread that drives the engine runs a tick every half second, so its page has been
 * updated within SEEN_RECENTLY_S. A page without an update for SILENT_S has no such
 * thread. */
#define SEEN_RECENTLY_S 1.5
#define SILENT_S        5.0
/* Number of ranks that an error names. */
enum { RANKS_NAMED = 8 };

typedef _Atomic(uint64_t) live_word;

/* Return the time by the clock that the process writes. */
static uint64_t clock_of(pid_t pid)
{
    return tool_now_ns() + (uint64_t)live_proc_clock_ns(pid);
}

static double age_of(const struct live_rank *rank, uint64_t ns)
{
    return ns < rank->read_ns ? (double)(rank->read_ns - ns) / 1e9 : 0;
}

/* ---- copying ----------------------------------------------------------------------- */

/* Copy one record. False if its writer stopped inside it, so that `out` may be torn. */
static bool record_copy(const void *record, void *out, size_t bytes)
{
    live_word *words = (live_word *)(uintptr_t)record;
    for (int try = 0; try < COPY_TRIES; try++) {
        /* acquire, all three: partners of the writer's releases. */
        uint64_t ended = atomic_load_explicit(&words[1], memory_order_acquire);
        for (size_t i = 2; i < bytes / sizeof *words; i++) {
            uint64_t word = atomic_load_explicit(&words[i], memory_order_acquire);
            memcpy((char *)out + i * sizeof word, &word, sizeof word);
        }
        if (atomic_load_explicit(&words[0], memory_order_acquire) == ended)
            return true;
    }
    return false;
}

static void text_close(char *text, size_t capacity)
{
    text[capacity - 1] = '\0';
    live_text_clean(text);
}

static bool section_fits(const struct tryst_live_header *header, uint32_t offset,
                         uint32_t count, uint32_t bytes, size_t least, uint32_t most)
{
    return bytes >= least && bytes % sizeof(uint64_t) == 0 && count <= most &&
           offset >= sizeof *header && offset % sizeof(uint64_t) == 0 &&
           offset + (uint64_t)count * bytes <= header->page_bytes;
}

static bool header_fits(const struct tryst_live_header *header, size_t page_bytes)
{
    return header->page_bytes == page_bytes && header->header_bytes >= sizeof *header &&
           header->size > 0 && header->rank >= 0 && header->rank < header->size &&
           section_fits(header, header->peers_offset, header->peers_count,
                        header->peer_bytes, sizeof(struct tryst_live_peer), PEERS_MOST) &&
           section_fits(header, header->ops_offset, header->ops_count, header->op_bytes,
                        sizeof(struct tryst_live_op), OPS_MOST);
}

static void peers_copy(struct live_rank *rank, const char *page)
{
    const struct tryst_live_header *header = &rank->header;
    for (uint32_t i = 0; i < header->peers_count; i++) {
        struct tryst_live_peer *peer = &rank->peers[i];
        const char *at = page + header->peers_offset + (size_t)i * header->peer_bytes;
        if (!record_copy(at, peer, sizeof *peer))
            rank->torn = true;
        peer->rank = (int32_t)i;
        text_close(peer->transport, sizeof peer->transport);
        text_close(peer->mechanism, sizeof peer->mechanism);
    }
}

/* Copy a record of an operation. False if the record is free. */
static bool op_copy(struct live_op *op, const char *at)
{
    struct tryst_live_op *record = &op->record;
    op->torn = !record_copy(at, record, sizeof *record);
    if (!record->kind && !record->state)
        return false;
    size_t bytes =
        record->key_bytes < sizeof record->key ? record->key_bytes : sizeof record->key;
    memcpy(op->key, record->key, bytes);
    memcpy(op->key + bytes, "...", 4);
    if (record->key_bytes <= sizeof record->key)
        op->key[bytes] = '\0';
    text_close(op->key, sizeof op->key);
    return true;
}

static int op_order(const void *a, const void *b)
{
    const struct live_op *left = a, *right = b;
    uint64_t left_ns = left->record.since_ns, right_ns = right->record.since_ns;
    if (left_ns != right_ns)
        return left_ns < right_ns ? -1 : 1;
    return left->place < right->place ? -1 : left->place > right->place;
}

static void ops_copy(struct live_rank *rank, const char *page)
{
    const struct tryst_live_header *header = &rank->header;
    for (uint32_t i = 0; i < header->ops_count; i++) {
        struct live_op *op = &rank->ops[rank->ops_count];
        const char *at = page + header->ops_offset + (size_t)i * header->op_bytes;
        if (!op_copy(op, at))
            continue;
        op->place = i;
        op->age_s = age_of(rank, op->record.since_ns);
        rank->torn = rank->torn || op->torn;
        rank->ops_count++;
    }
    if (rank->ops_count)
        qsort(rank->ops, rank->ops_count, sizeof *rank->ops, op_order);
}

/* ---- what the rank is doing -------------------------------------------------------- */

static void place_since(struct live_rank *rank, enum live_place place, uint64_t ns)
{
    rank->place = place;
    rank->place_s = ns ? age_of(rank, ns) : -1;
}

static const struct live_op *op_at_place(const struct live_rank *rank, uint64_t place)
{
    for (size_t i = 0; i < rank->ops_count; i++)
        if (rank->ops[i].place + 1 == place)
            return &rank->ops[i];
    return NULL;
}

/* Find what the rank is doing. The kernel's view of the process overrides the page, which
 * may be older. */
static void place_find(struct live_rank *rank)
{
    const struct tryst_live_header *header = &rank->header;
    const struct tryst_live_where *where = &header->where;
    uint64_t seen_ns = header->seen_ns;
    for (size_t i = 0; i < rank->ops_count; i++)
        if (rank->ops[i].record.since_ns > seen_ns)
            seen_ns = rank->ops[i].record.since_ns;
    bool lively = age_of(rank, seen_ns) < SEEN_RECENTLY_S;
    /* An engine that waits for other ranks wakes up every half second; one alone need
     * not. */
    bool silent = header->size > 1 && age_of(rank, seen_ns) > SILENT_S;
    if (where->waits == TRYST_LIVE_IN_WAIT)
        rank->waits_for = op_at_place(rank, where->op);
    if (rank->proc.state == 'Z' || rank->proc.state == 'X')
        place_since(rank, LIVE_ENDED, 0);
    else if (rank->proc.state == 'T')
        place_since(rank, LIVE_STOPPED, seen_ns);
    else if (rank->proc.state == 't')
        place_since(rank, LIVE_TRACED, seen_ns);
    else if (header->phase == TRYST_LIVE_GATHERING)
        place_since(rank, LIVE_GATHERS, header->opened_ns);
    else if (header->phase == TRYST_LIVE_CLOSING)
        place_since(rank, LIVE_CLOSES, 0);
    else if (where->waits == TRYST_LIVE_IN_WAIT && !silent)
        place_since(rank, LIVE_WAITS, where->since_ns);
    else if (where->waits == TRYST_LIVE_ARMED && lively)
        place_since(rank, LIVE_ARMED, where->since_ns);
    else if (lively)
        place_since(rank, LIVE_DRIVES, 0);
    else if (where->waits == TRYST_LIVE_IN_WAIT ||
             live_proc_byte_read(rank->pid, header->held_address) == 1)
        place_since(rank, LIVE_STUCK, seen_ns);
    else
        place_since(rank, LIVE_OUTSIDE, seen_ns);
}

/* ---- one page ---------------------------------------------------------------------- */

static bool rank_allocate(struct live_rank *rank)
{
    rank->peers = calloc(rank->header.peers_count + 1u, sizeof *rank->peers);
    rank->ops = calloc(rank->header.ops_count + 1u, sizeof *rank->ops);
    return rank->peers && rank->ops;
}

void live_rank_free(struct live_rank *rank)
{
    free(rank->peers);
    free(rank->ops);
}

/* Copy the words that are written after the header, each on its own. */
static void header_words_copy(struct tryst_live_header *header, const void *page)
{
    size_t from = offsetof(struct tryst_live_header, session) / sizeof(live_word);
    size_t to = offsetof(struct tryst_live_header, where) / sizeof(live_word);
    live_word *words = (live_word *)(uintptr_t)page;
    for (size_t i = from; i < to; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_acquire);
        memcpy((char *)header + i * sizeof word, &word, sizeof word);
    }
}

static bool page_copy(struct live_rank *rank, const char *page, size_t bytes, char *error,
                      size_t capacity)
{
    struct tryst_live_header *header = &rank->header;
    /* acquire: partner of the writer's last store when it created the page. */
    if (atomic_load_explicit((live_word *)(uintptr_t)page, memory_order_acquire) !=
        TRYST_LIVE_MAGIC) {
        snprintf(error, capacity, "process %d: its live page is not ready yet; try again",
                 (int)rank->pid);
        return false;
    }
    memcpy(header, page, sizeof *header);
    text_close(header->version, sizeof header->version);
    if (header->layout != TRYST_LIVE_LAYOUT) {
        snprintf(error, capacity,
                 "process %d: its live page has layout %u (library %s), this tryst-info "
                 "reads %u: use the tryst-info of that library",
                 (int)rank->pid, header->layout, header->version, TRYST_LIVE_LAYOUT);
        return false;
    }
    if (!header_fits(header, bytes) || !rank_allocate(rank)) {
        snprintf(error, capacity, "process %d: its live page is damaged", (int)rank->pid);
        return false;
    }
    header_words_copy(header, page);
    rank->read_ns = clock_of(rank->pid);
    if (!record_copy(page + offsetof(struct tryst_live_header, where), &header->where,
                     sizeof header->where))
        rank->torn = true;
    peers_copy(rank, page);
    ops_copy(rank, page);
    return true;
}

static bool rank_read(struct live_rank *rank, const char *path, char *error,
                      size_t capacity)
{
    struct stat file;
    bool good = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &file) != 0 ||
        (size_t)file.st_size < sizeof rank->header) {
        snprintf(error, capacity, "process %d: its live page is damaged", (int)rank->pid);
        close(fd);
        return false;
    }
    size_t bytes = (size_t)file.st_size;
    const char *page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) {
        good = page_copy(rank, page, bytes, error, capacity);
        munmap((void *)(uintptr_t)page, bytes);
    }
    if (!good)
        return false;
    live_proc_read(rank->pid, rank->header.where.tid, &rank->proc);
    place_find(rank);
    /* no thread waits for one operation: show the first thread */
    if (rank->place == LIVE_WAITS && !rank->waits_for)
        live_proc_read(rank->pid, 0, &rank->proc);
    return true;
}

/* ---- processes --------------------------------------------------------------------- */

static bool rank_add(struct live_ranks *ranks, const struct live_rank *rank)
{
    struct live_rank *items = realloc(ranks->items, (ranks->count + 1) * sizeof *items);
    if (!items)
        return false;
    ranks->items = items;
    items[ranks->count++] = *rank;
    return true;
}

static void page_rank_add(pid_t pid, const char *path, struct live_ranks *ranks,
                          char *error, size_t capacity)
{
    struct live_rank rank = {.pid = pid};
    bool good = rank_read(&rank, path, error, capacity);
    /* A child forked a moment ago still holds its parent's page. */
    if (!good || rank.header.pid != live_proc_own_pid(pid) || !rank_add(ranks, &rank))
        live_rank_free(&rank);
}

/* Add the pages of one process. False if its descriptors cannot be read (errno). */
static bool process_read(pid_t pid, struct live_ranks *ranks, char *error,
                         size_t capacity)
{
    char path[64], link[256];
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    while ((entry = readdir(dir))) {
        char at[sizeof path + sizeof entry->d_name];
        snprintf(at, sizeof at, "%s/%s", path, entry->d_name);
        ssize_t bytes = readlink(at, link, sizeof link - 1);
        if (bytes < (ssize_t)sizeof LINK_PREFIX ||
            strncmp(link, LINK_PREFIX, sizeof LINK_PREFIX - 1) != 0)
            continue;
        page_rank_add(pid, at, ranks, error, capacity);
    }
    closedir(dir);
    return true;
}

static void process_refused(pid_t pid, int reason, char *error, size_t capacity)
{
    char path[64];
    struct stat owner;
    struct live_proc proc;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    live_proc_read(pid, 0, &proc);
    if (proc.state == 'Z' || proc.state == 'X')
        snprintf(error, capacity,
                 "process %d has ended, and its parent has not reaped it "
                 "yet",
                 (int)pid);
    else if (stat(path, &owner) != 0)
        snprintf(error, capacity,
                 "no process %d: it has ended, or runs in a container (run "
                 "tryst-info inside)",
                 (int)pid);
    else if (owner.st_uid != geteuid())
        snprintf(error, capacity,
                 "process %d belongs to user %u: run tryst-info as that user, or as root",
                 (int)pid, (unsigned)owner.st_uid);
    else
        snprintf(error, capacity, "cannot read process %d: %s; run tryst-info as root",
                 (int)pid, strerror(reason));
}

static bool all_read(const char *name, struct live_ranks *ranks, char *error,
                     size_t capacity)
{
    struct dirent *entry;
    int refused = 0;
    DIR *dir = opendir("/proc");
    while (dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || (name && !live_proc_is_called(pid, name)))
            continue;
        refused += !process_read(pid, ranks, error, capacity) && errno == EACCES;
    }
    if (dir)
        closedir(dir);
    if (ranks->count || error[0])
        return ranks->count > 0;
    if (name)
        snprintf(error, capacity,
                 "no process called '%s' has a Tryst group open%s; tryst-info --live "
                 "--job shows all",
                 name, refused ? " that this user may read" : "");
    else
        snprintf(error, capacity, "no process%s has a Tryst group open on this host",
                 refused ? " that this user may read" : "");
    return false;
}

/* Add the pages of the processes below `pid`; return the number of these processes. */
static size_t below_read(struct live_tree *tree, pid_t pid, struct live_ranks *ranks,
                         char *error, size_t capacity)
{
    size_t count = live_tree_below(tree, pid);
    for (size_t i = 0; i < count; i++)
        (void)process_read(tree->items[i].pid, ranks, error, capacity);
    return count;
}

/* Add the pages of the nearest rank above `pid`, which may be a worker that the rank
 * forked. */
static void above_read(const struct live_tree *tree, pid_t pid, struct live_ranks *ranks,
                       char *error, size_t capacity)
{
    size_t steps = 0; /* bound: parents read at different times could form a circle */
    pid = live_tree_parent(tree, pid);
    while (pid > 1 && !ranks->count && steps++ < tree->count) {
        (void)process_read(pid, ranks, error, capacity);
        pid = live_tree_parent(tree, pid);
    }
}

/* Add the pages of the ranks that launcher or shell `pid` has started, directly or not.
 * Returns the number of processes below `pid`. */
static size_t family_read(pid_t pid, struct live_ranks *ranks, char *error,
                          size_t capacity)
{
    struct live_tree tree = live_tree_read();
    size_t below = below_read(&tree, pid, ranks, error, capacity);
    if (!ranks->count)
        above_read(&tree, pid, ranks, error, capacity);
    live_tree_free(&tree);
    return below;
}

/* Name ranks that could be meant instead: "; on this host rank 0 of 2 is process 4711
 * (train)". */
static void ranks_name(char *text, size_t capacity)
{
    static char ignored[256];
    struct live_ranks all = {.items = NULL};
    size_t used = 0, shown = 0;
    (void)all_read(NULL, &all, ignored, sizeof ignored);
    for (; shown < all.count && shown < RANKS_NAMED && used < capacity; shown++) {
        const struct live_rank *rank = &all.items[shown];
        used += (size_t)snprintf(text + used, capacity - used,
                                 "%s rank %d of %d is process %d (%s)",
                                 shown ? "," : "; on this host", rank->header.rank,
                                 rank->header.size, (int)rank->pid, rank->proc.command);
    }
    if (shown < all.count && used < capacity)
        snprintf(text + used, capacity - used, " and %zu more", all.count - shown);
    live_free(&all);
}

static void nothing_found(pid_t pid, size_t below, char *error, size_t capacity)
{
    struct live_proc proc;
    char others[1024] = "", processes[64] = "";
    live_proc_read(pid, 0, &proc);
    ranks_name(others, sizeof others);
    if (below)
        snprintf(processes, sizeof processes, ", nor has any of the %zu below it", below);
    snprintf(error, capacity,
             "process %d (%s) has no Tryst group open%s: it has not called "
             "tryst_group_open yet, or has closed it%s%s",
             (int)pid, proc.command, processes,
             proc.state == 'Z' ? "; it has ended (zombie)" : "", others);
}

static bool one_read(pid_t pid, struct live_ranks *ranks, char *error, size_t capacity)
{
    bool readable = process_read(pid, ranks, error, capacity);
    int reason = errno;
    if (ranks->count || error[0])
        return ranks->count > 0;
    size_t below = family_read(pid, ranks, error, capacity);
    if (ranks->count || error[0])
        return ranks->count > 0;
    if (readable)
        nothing_found(pid, below, error, capacity);
    else
        process_refused(pid, reason, error, capacity);
    return false;
}

static int rank_order(const void *a, const void *b)
{
    const struct live_rank *left = a, *right = b;
    if (left->header.session != right->header.session)
        return left->header.session < right->header.session ? -1 : 1;
    return left->header.rank < right->header.rank
               ? -1
               : left->header.rank > right->header.rank;
}

bool live_read(pid_t pid, const char *name, struct live_ranks *ranks_p, char *error,
               size_t capacity)
{
    *ranks_p = (struct live_ranks){.items = NULL};
    error[0] = '\0';
    bool found = pid ? one_read(pid, ranks_p, error, capacity)
                     : all_read(name, ranks_p, error, capacity);
    if (found)
        qsort(ranks_p->items, ranks_p->count, sizeof *ranks_p->items, rank_order);
    return found;
}

void live_free(struct live_ranks *ranks)
{
    for (size_t i = 0; i < ranks->count; i++)
        live_rank_free(&ranks->items[i]);
    free(ranks->items);
    *ranks = (struct live_ranks){.items = NULL};
}
