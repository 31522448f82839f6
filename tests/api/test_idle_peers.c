/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of an idle peer. Every rank connects to every other, moves a little data both
 * ways, and compares the resources of its process with those before, per peer.
 *
 * The library's share is the memory that its allocator counts, half of each segment that
 * two processes share, links and pidfds: at most 64 KiB and two descriptors. All other
 * growth is the fabric's, which is printed without a limit. TRYST_TEST_RANKS sets the
 * number of ranks (16). Prints a row of tests/perf/RESULTS.md. */
#include "harness.h"

#include "support/unit.h"

#include <dirent.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BULK = 16384, OURS_MOST = 72 * 1024, FDS_MOST = 2 };

struct use {
    double heap, segments; /* bytes of the library */
    /* bytes of the process: its private memory and its share of shared memory */
    double memory;
    double endpoints; /* peers with an open endpoint */
    /* descriptors by kind; pidfds and links (Unix sockets) are the library's */
    double pidfds, links, files, sockets;
};

struct shared {
    _Atomic(uint32_t) counter;
    struct use per_peer[HARNESS_RANKS_MAX];
};

/* ---- measuring --------------------------------------------------------------------- */

static void fd_classify(int fd, struct use *use)
{
    char path[64], name[128] = "";
    int domain;
    socklen_t bytes = sizeof domain;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof name - 1) < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0)
        *(domain == AF_UNIX ? &use->links : &use->sockets) += 1;
    else if (strstr(name, "[pidfd]"))
        use->pidfds++;
    else
        use->files++;
}

static void fds_classify(struct use *use)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
            fd_classify(atoi(entry->d_name), use);
    closedir(dir);
}

/* Read the mappings of the process. The library's segments have a name; for the others,
 * the kernel reports the share of this process (Pss). */
static void memory_measure(struct use *use)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    bool ours = false;
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file)) {
        unsigned long long from, to, kib;
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) {
            ours = strstr(line, "/memfd:tryst-pair") != NULL;
            use->segments += ours ? (double)(to - from) / 2 : 0;
        } else if (!ours && sscanf(line, "Pss: %llu", &kib) == 1) {
            use->memory += 1024.0 * (double)kib;
        }
    }
    fclose(file);
}

static struct use look(struct harness_rank *rank)
{
    struct use use = {.heap = (double)harness_counter(rank->ctx, "memory_bytes")};
    for (int i = 0; i < rank->size; i++) {
        tryst_peer_info info = {.struct_size = sizeof info};
        CHECK_STATUS(tryst_group_peer(rank->group, i, &info), TRYST_OK);
        use.endpoints += info.transport[0] != '\0';
    }
    memory_measure(&use);
    fds_classify(&use);
    return use;
}

/* ---- a rank ------------------------------------------------------------------------ */

static void exchange(struct harness_rank *rank, tryst_step *step, const char *edge,
                     int to, int from, char *data, size_t bytes)
{
    tryst_op *recv = harness_recv(rank, step, from, edge, data, bytes);
    harness_end(harness_send(rank, step, to, edge, data + BULK, bytes), TRYST_OK);
    harness_end(recv, TRYST_OK);
}

/* Exchange with the ranks at distances `first` to `last`, one at a time, so that little
 * is in flight at once. */
static void turns(struct harness_rank *rank, tryst_step *step, int first, int last,
                  char *data)
{
    for (int i = first; i <= last; i++) {
        int to = (rank->rank + i) % rank->size,
            from = (rank->rank - i + rank->size) % rank->size;
        exchange(rank, step, "small", to, from, data, 8);
        exchange(rank, step, "large", to, from, data, BULK);
    }
}

static void idle_main(struct harness_rank *rank)
{
    struct shared *shared = rank->arg;
    char *data = calloc(2, BULK);
    CHECK(data != NULL);
    memset(data, 1, 2 * (size_t)BULK);
    tryst_step *step = harness_step(rank, 1);
    turns(rank, step, 1, 1, data); /* opens the rail */
    harness_barrier(rank, &shared->counter);
    struct use before = look(rank);
    turns(rank, step, 2, rank->size - 1, data);
    harness_step_close(step);
    harness_barrier(rank, &shared->counter);
    struct use after = look(rank);
    harness_barrier(rank, &shared->counter);
    /* Some endpoints (neighbours) and some links (of the control tree) were open
     * before. */
    double peers = after.endpoints - before.endpoints,
           linked = after.pidfds - before.pidfds;
    CHECK_EQ(after.endpoints, rank->size - 1);
    CHECK_EQ(after.pidfds, rank->size - 1);
    shared->per_peer[rank->rank] =
        (struct use){.heap = (after.heap - before.heap) / peers,
                     .segments = (after.segments - before.segments) / peers,
                     .memory = (after.memory - before.memory) / peers,
                     .pidfds = (after.pidfds - before.pidfds) / linked,
                     .links = (after.links - before.links) / linked,
                     .files = (after.files - before.files) / peers,
                     .sockets = (after.sockets - before.sockets) / peers};
    free(data);
    harness_barrier(rank, &shared->counter);
}

/* ---- all together ------------------------------------------------------------------ */

static void more(double *most, double value)
{
    if (value > *most)
        *most = value;
}

static int use_check(const struct shared *shared, int size)
{
    double heap = 0, segments = 0, fabric = 0, ours_fds = 0, fabric_fds = 0;
    for (int i = 0; i < size; i++) {
        const struct use *use = &shared->per_peer[i];
        more(&heap, use->heap);
        more(&segments, use->segments);
        more(&fabric, use->memory - use->heap);
        more(&ours_fds, use->pidfds + use->links);
        more(&fabric_fds, use->files + use->sockets);
    }
    const char *tls = getenv("UCX_TLS");
    printf("| %s%s%s | %.1f KiB | %.1f KiB | %.1f | %.1f KiB | %.1f |\n", harness_mode(),
           tls ? ", UCX_TLS=" : "", tls ? tls : "", heap / 1024, segments / 1024,
           ours_fds, fabric / 1024, fabric_fds);
    return heap + segments > OURS_MOST || ours_fds > FDS_MOST;
}

static void test_idle_peers(void **state)
{
    const char *text = getenv("TRYST_TEST_RANKS");
    const char *const config[] = {"bootstrap_timeout", "120s", "connect_timeout", "120s",
                                  NULL};
    int size = text ? atoi(text) : 16;
    struct rlimit limit;
    struct shared *shared = harness_share(sizeof *shared);
    assert_in_range(size, 2, HARNESS_RANKS_MAX);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct harness_params params = {.size = size,
                                    .main = idle_main,
                                    .arg = shared,
                                    .config = config,
                                    .timeout_s = 240};
    int failed = harness_run(&params);
    if (!failed)
        failed = use_check(shared, size);
    harness_unshare(shared, sizeof *shared);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_idle_peers)};
    return HARNESS_MAIN(argc, argv, tests);
}
