/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_check_visit: check this machine and its settings for problems that a job would
 * meet.
 *
 * Idea: one small function for each problem that has occurred in practice. Each ends in
 * one item: the finding and the fix.
 *
 * Invariant: nothing is contacted, and nothing stays behind but loaded modules.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "context.h"
#include "core/config/config.h"
#include "core/memory/alloc.h"
#include "core/net/netif.h"
#include "core/net/netif_choose.h"
#include "core/net/port_range.h"
#include "core/os/fd.h"
#include "core/text/err.h"
#include "core/text/number.h"
#include "core/text/text.h"
#include "planner_load.h"
#include "rendezvous/bootstrap/launch/bootstrap_env.h"
#include "rendezvous/bootstrap/launch/bootstrap_pmix.h"
#include "rendezvous/bootstrap/launch/launch.h"

#define MIB (1024ull * 1024)
/* Descriptors of a process without peers, and the most for each peer (two of this
 * library, ten of ofi's tcp: transports/ofi/README.md). */
#define DESCRIPTORS_BASE     64
#define DESCRIPTORS_PER_PEER 12
#define PEERS_USUAL          3
/* The least limit for locked memory: whole tensors are registered and stay locked, and
 * hardly one fits in less. */
#define PINNED_MIN_BYTES (64 * MIB)
/* The least free space: pp_bench -n 4 over ucx used 25 MiB. Docker gives a container
 * 64 MiB. */
#define SHM_MIN_BYTES (128 * MIB)

enum { CAP_IPC_LOCK_BIT = 14, CAP_SYS_PTRACE_BIT = 19 };

struct preflight {
    const struct config *config;
    const tryst_config *given; /* the caller's configuration; may be NULL */
    struct launch launch;
    bool launch_known;
    int (*fn)(void *arg, const tryst_check_item *item);
    void *arg;
    int stop;
    int far; /* available transports that reach other machines */
    /* The next item: its level, finding and fix. */
    tryst_check_level level;
    char text[1024], fix[1024];
};

/* ---- items ------------------------------------------------------------------------- */

#define FOUND(self, ...) (void)text_append((self)->text, sizeof(self)->text, __VA_ARGS__)

/* Set the level of the next item, and append to its fix. */
#define FAULT(self, how_bad, ...)                                       \
    do {                                                                \
        (self)->level = (how_bad);                                      \
        (void)text_append((self)->fix, sizeof(self)->fix, __VA_ARGS__); \
    } while (0)
#define WARN(self, ...) FAULT(self, TRYST_CHECK_WARN, __VA_ARGS__)
#define FAIL(self, ...) FAULT(self, TRYST_CHECK_FAIL, __VA_ARGS__)

/* Report the next item, and begin another one. */
static void report(struct preflight *self, const char *name)
{
    const tryst_check_item item = {.struct_size = sizeof item,
                                   .name = name,
                                   .level = self->level,
                                   .text = self->text,
                                   .fix = self->fix};
    if (!self->stop)
        self->stop = self->fn(self->arg, &item);
    self->level = TRYST_CHECK_OK;
    self->text[0] = self->fix[0] = '\0';
}

/* ---- limits of the process --------------------------------------------------------- */

static bool has_capability(int bit)
{
    unsigned long long mask = 0;
    char line[256];
    FILE *file = fd_file_open("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "CapEff:", 7) == 0)
            mask = strtoull(line + 7, NULL, 16);
    if (file)
        (void)fclose(file);
    return mask >> bit & 1;
}

static void check_memlock(struct preflight *self)
{
    struct rlimit limit = {0, 0};
    bool rdma = access("/sys/class/infiniband", F_OK) == 0;
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        FOUND(self, "unlimited");
    else
        FOUND(self, "%llu KiB", (unsigned long long)limit.rlim_cur / 1024);
    if (has_capability(CAP_IPC_LOCK_BIT)) {
        FOUND(self, "; this process may lock more (CAP_IPC_LOCK)");
    } else if (!rdma) {
        FOUND(self, "; this host has no RDMA device, so nothing is locked");
    } else if (limit.rlim_cur < PINNED_MIN_BYTES) {
        FOUND(self, ", and this host's RDMA devices lock the memory of transfers");
        FAIL(self,
             "ulimit -l unlimited, for all users in /etc/security/limits.conf "
             "(* - memlock unlimited), LimitMEMLOCK=infinity in systemd units such as "
             "slurmd's, docker run --ulimit memlock=-1");
    } else if (limit.rlim_cur != RLIM_INFINITY) {
        FOUND(self, ", and this host's RDMA devices lock the memory of transfers");
        WARN(self, "ulimit -l unlimited (/etc/security/limits.conf)");
    }
}

static void check_shm(struct preflight *self)
{
    struct statvfs about;
    if (statvfs("/dev/shm", &about) != 0 || access("/dev/shm", W_OK) != 0) {
        FOUND(self, "not usable: %s", strerror(errno));
        WARN(self, "mount -t tmpfs -o mode=1777 tmpfs /dev/shm (only ucx and ofi use it, "
                   "the transport shm does not)");
    } else {
        unsigned long long unit = about.f_frsize;
        unsigned long long all = about.f_blocks * unit, left = about.f_bavail * unit;
        FOUND(self, "%llu MiB, %llu MiB free", all / MIB, left / MIB);
        if (left < SHM_MIN_BYTES)
            WARN(self, "%s",
                 all < 2 * SHM_MIN_BYTES
                     ? "mount -o remount,size=50% /dev/shm; docker run --shm-size=1g "
                       "(only "
                       "ucx and ofi use it, the transport shm does not)"
                     : "remove files that ended programs have left (ls -l /dev/shm)");
    }
}

/* Return the ptrace scope of Yama; -1: the kernel has no Yama. */
static int ptrace_scope(void)
{
    char text[16] = "";
    const char *at = text;
    uint64_t scope;
    FILE *file = fd_file_open("/proc/sys/kernel/yama/ptrace_scope", "re");
    bool read = file && fgets(text, sizeof text, file) && number_read(&at, &scope);
    if (file)
        (void)fclose(file);
    return read ? (int)scope : -1;
}

static bool reads_itself(void)
{
    char from = 'x', to = 0;
    struct iovec local = {.iov_base = &to, .iov_len = 1};
    struct iovec remote = {.iov_base = &from, .iov_len = 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static void check_cma(struct preflight *self)
{
    int scope = ptrace_scope();
    bool allowed = scope <= 0 || (scope < 3 && has_capability(CAP_SYS_PTRACE_BIT));
    if (!reads_itself()) {
        FOUND(self, "process_vm_readv: %s", strerror(errno));
        WARN(self, "a sandbox forbids it; docker run --cap-add SYS_PTRACE (or "
                   "--security-opt seccomp=unconfined)");
    } else if (!allowed) {
        FOUND(self, "ptrace_scope %d: no rank may read another one's memory", scope);
        WARN(self, "%s",
             scope == 3 ? "boot with kernel.yama.ptrace_scope=0 in /etc/sysctl.d"
                        : "sysctl -w kernel.yama.ptrace_scope=0");
    } else if (scope < 0) {
        FOUND(self, "no Yama: ranks of one user may read each other's memory");
    } else {
        FOUND(self, "ptrace_scope %d: this process may read another rank's memory",
              scope);
    }
    if (self->level == TRYST_CHECK_WARN)
        WARN(self, "; else the transport shm copies tensors twice, which is slower, "
                   "except those "
                   "in memory of tryst_mem_alloc");
}

/* Check the descriptor limit; for a process alone, as for a rank with PEERS_USUAL
 * peers. */
static void check_descriptors(struct preflight *self)
{
    struct rlimit limit = {0, 0};
    bool alone = !self->launch_known || self->launch.size <= 1;
    unsigned long long peers = alone ? PEERS_USUAL : (unsigned)self->launch.size - 1u;
    unsigned long long needed = DESCRIPTORS_BASE + DESCRIPTORS_PER_PEER * peers;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    unsigned long long have = limit.rlim_cur;
    unsigned long long room =
        have > DESCRIPTORS_BASE ? (have - DESCRIPTORS_BASE) / DESCRIPTORS_PER_PEER : 0;
    if (alone)
        FOUND(self,
              "%llu; a process alone may need %d: the rest is enough for %llu peer%s",
              have, DESCRIPTORS_BASE, room, room == 1 ? "" : "s");
    else
        FOUND(self, "%llu; %llu peer%s may need %llu", have, peers, peers == 1 ? "" : "s",
              needed);
    if (limit.rlim_cur < needed)
        FAULT(self,
              limit.rlim_cur < DESCRIPTORS_BASE ? TRYST_CHECK_FAIL : TRYST_CHECK_WARN,
              limit.rlim_max >= needed
                  ? "ulimit -n %llu before the ranks start"
                  : "raise the hard limit, %llu: /etc/security/limits.conf "
                    "(* - nofile 65536), LimitNOFILE= in systemd units",
              (unsigned long long)limit.rlim_max);
}

/* ---- network ----------------------------------------------------------------------- */

static void interface_add(struct preflight *self, const struct netif *netif, bool first)
{
    char address[NETIF_TEXT_BYTES];
    FOUND(self, "%s%s %s/%u", first ? "" : ", ", netif->name,
          netif_address_text((const struct sockaddr *)&netif->address, address),
          netif->prefix_bits);
    if (netif->speed_bits_per_s)
        FOUND(self, " (%llu Mbit/s)",
              (unsigned long long)netif->speed_bits_per_s / 1000000);
}

static void check_interfaces(struct preflight *self)
{
    struct err err = ERR_INIT;
    struct netif_list *chosen = NULL;
    const char *net = config_str(self->config, CONFIG_NET);
    bool outside = false;
    tryst_status status = netif_choose(net, &err, &chosen);
    for (size_t i = 0; status == TRYST_OK && i < chosen->count; i++) {
        interface_add(self, &chosen->items[i], i == 0);
        outside = outside || !chosen->items[i].loopback;
    }
    if (status != TRYST_OK) {
        FOUND(self, "%s", err.text);
        FAIL(self, "%s",
             *net ? "name interfaces that are up in TRYST_NET, or unset it"
                  : "run \"ip address\": it requests the same list from the kernel");
    } else if (chosen->count == 0) {
        FOUND(self, "none is up, not even loopback");
        FAIL(self, "ip link set lo up");
    } else if (!outside) {
        FOUND(self, ": loopback alone, so all ranks must be on this machine");
        WARN(self, "ip link set DEVICE up, or name it in TRYST_NET");
    }
    netif_list_close(chosen);
}

/* Check the port range: each rank listens for links and for the fabric's connections,
 * rank 0 also for the bootstrap. */
static void check_ports(struct preflight *self)
{
    struct err err = ERR_INIT;
    struct port_range range;
    const char *text = config_str(self->config, CONFIG_PORT_RANGE);
    const struct launch *launch = &self->launch;
    int ranks = !self->launch_known ? 1 : launch->local_size > 0 ? launch->local_size : 1;
    if (port_range_parse(text, &err, &range) != TRYST_OK) {
        FOUND(self, "%s", err.text);
        FAIL(self, "TRYST_PORT_RANGE=30000-30099, or unset it");
    } else if (!range.first) {
        FOUND(self, "any");
    } else {
        uint32_t needed = 3 * (uint32_t)ranks;
        FOUND(self, "%s: %u of them; %d rank%s of this host may need %u", text,
              port_range_count(range), ranks, ranks == 1 ? "" : "s", needed);
        if (port_range_count(range) < needed)
            WARN(self, "widen TRYST_PORT_RANGE and the firewall's open ports");
    }
}

/* ---- the job ----------------------------------------------------------------------- */

static void check_launcher(struct preflight *self)
{
    struct err err = ERR_INIT;
    self->launch_known =
        launch_detect(self->config, getenv, &err, &self->launch) == TRYST_OK;
    if (self->launch_known) {
        FOUND(self, "%s", self->launch.why);
    } else {
        FOUND(self, "%s", err.text);
        FAIL(self, "follow the message; tryst/tryst.h lists the launchers");
    }
    if (self->launch_known && self->launch.by_pmix &&
        !bootstrap_pmix_usable(self->text + strlen(self->text),
                               sizeof self->text - strlen(self->text)))
        FAIL(self, "install the library of PMIx (libpmix2), or set TRYST_BOOTSTRAP and "
                   "TRYST_TOKEN");
}

static void check_token(struct preflight *self)
{
    struct err err = ERR_INIT;
    const char *file = config_str(self->config, CONFIG_TOKEN_FILE);
    bool one = *file || *config_str(self->config, CONFIG_TOKEN);
    bool alone = self->launch_known && self->launch.size == 1;
    bool insecure = config_bool(self->config, CONFIG_INSECURE);
    if (one && bootstrap_token_check(self->config, &err) != TRYST_OK) {
        FOUND(self, "%s", err.text);
        FAIL(self, "follow the message; all ranks need the same token");
    } else if (one) {
        FOUND(self, "%s", *file ? file : "TRYST_TOKEN");
    } else if (insecure) {
        FOUND(self, "none (TRYST_INSECURE=1): any process that reaches the port can join "
                    "the job");
        WARN(self, "unset TRYST_INSECURE, and export the same TRYST_TOKEN for all ranks");
    } else if (self->launch_known && (self->launch.by_pmix || self->launch.by_pmi)) {
        FOUND(self, "rank 0 will create one (%s)", self->launch.by_pmi ? "PMI" : "PMIx");
    } else if (alone) {
        FOUND(self, "none, and a process alone needs none (tryst-run creates one)");
    } else {
        (void)bootstrap_token_check(self->config, &err);
        FOUND(self, "%s", err.text);
        FAIL(self, "export the same TRYST_TOKEN or TRYST_TOKEN_FILE for all ranks");
    }
}

/* Find the fault of a topology that can be read: its ranks are not those of the job, or
 * have no path to each other. A process alone is not the job. */
static void topology_judge(struct preflight *self, const struct planner_ops *planner,
                           const struct graph *graph, uint32_t ranks_count)
{
    struct err err = ERR_INIT;
    int size = self->launch_known && self->launch.size > 1 ? self->launch.size : 0;
    if (ranks_count == 0 || (size && ranks_count != (uint32_t)size)) {
        if (size)
            FOUND(self, ", and the job has %d", size);
        FAIL(self, "name a topology of the job's ranks, in their order");
    } else if (planner->routes_check(graph, &err) != TRYST_OK) {
        FOUND(self, "; %s", err.text);
        FAIL(self, "connect the ranks; tryst-topo shows the graph");
    }
}

static void topology_read(struct preflight *self, const struct planner_ops *planner,
                          const char *path)
{
    struct err err = ERR_INIT;
    struct topology_text text = {.text = NULL};
    struct graph *graph = NULL;
    uint32_t ranks_count;
    tryst_status status = topology_text_read(path, &err, &text);
    if (status == TRYST_OK)
        status = topology_text_parse(&text, planner, &err, &graph, &ranks_count);
    if (status != TRYST_OK) {
        FOUND(self, "%s", err.text);
        FAIL(self, "follow the message; tryst-topo --help lists the formats");
    } else {
        FOUND(self, "%s: %u rank%s", path, ranks_count, ranks_count == 1 ? "" : "s");
        topology_judge(self, planner, graph, ranks_count);
    }
    planner->graph_close(graph);
    mem_free(text.text);
}

/* Check the planner, which rank 0 needs, and TRYST_TOPOLOGY. */
static void check_topology(struct preflight *self)
{
    struct err err = ERR_INIT;
    const struct planner_ops *planner = NULL;
    const char *path = config_str(self->config, CONFIG_TOPOLOGY);
    if (!*path)
        FOUND(self, "TRYST_TOPOLOGY is unset: collectives are planned for the interfaces "
                    "that the ranks announce");
    if (planner_load(self->config, NULL, &err, &planner) == TRYST_OK) {
        if (*path)
            topology_read(self, planner, path);
        return;
    }
    FOUND(self, "%s%s", *path ? "" : "; ", err.text);
    if (self->launch_known && self->launch.rank > 0)
        return; /* rank 0 alone needs it */
    FAULT(self, *path ? TRYST_CHECK_FAIL : TRYST_CHECK_WARN,
          "follow the message; ranks on several hosts%s need the planner",
          *path ? " or with TRYST_TOPOLOGY" : "");
}

/* ---- fabrics ----------------------------------------------------------------------- */

/* Warn of a port of UCX on an address that hosts of the internet may reach: UCX aborts
 * the process on 13 bytes that begin like its own messages (transports/ucx/README.md). */
static void ucx_port_check(struct preflight *self)
{
    struct err err = ERR_INIT;
    struct netif_list *chosen = NULL;
    char text[NETIF_TEXT_BYTES];
    if (netif_choose(config_str(self->config, CONFIG_NET), &err, &chosen) != TRYST_OK)
        return;
    for (size_t i = 0; i < chosen->count; i++) {
        const struct sockaddr *address = (const void *)&chosen->items[i].address;
        if (!netif_address_is_public(address))
            continue;
        FOUND(self, "; where ranks use it, UCX listens on the public address %s of %s",
              netif_address_text(address, text), chosen->items[i].name);
        WARN(self, "any host that reaches this port can end the rank by 13 bytes: "
                   "TRYST_TRANSPORT=ofi, an interface with a private address in "
                   "TRYST_NET, or a firewall");
        break;
    }
    netif_list_close(chosen);
}

static int transport_item(void *arg, const tryst_transport_info *info)
{
    struct preflight *self = arg;
    char name[32];
    const char *wanted = config_enum_word(self->config, CONFIG_TRANSPORT);
    bool asked = strcmp(wanted, info->name) == 0;
    bool fabric = strcmp(info->name, "ucx") == 0 || strcmp(info->name, "ofi") == 0;
    self->far += info->available && fabric;
    FOUND(self, "%s%s%s", info->available ? "available" : "not available",
          *info->reason ? ": " : "", info->reason);
    if (!info->available)
        self->level = asked ? TRYST_CHECK_FAIL : TRYST_CHECK_WARN;
    if (!info->available && fabric)
        FAULT(self, self->level,
              "build with lib%s-dev, put tryst_%s.so beside libtryst.so or name its "
              "folder in TRYST_MODULE_PATH",
              strcmp(info->name, "ucx") == 0 ? "ucx" : "fabric", info->name);
    if (asked)
        FOUND(self, "; TRYST_TRANSPORT requires it");
    if (info->available && strcmp(info->name, "ucx") == 0 &&
        (asked || strcmp(wanted, "auto") == 0))
        ucx_port_check(self);
    (void)snprintf(name, sizeof name, "transport %s", info->name);
    report(self, name);
    return self->stop;
}

static void check_fabrics(struct preflight *self)
{
    tryst_ctx *ctx;
    tryst_open_params params = {.struct_size = sizeof params, .config = self->given};
    if (tryst_open(&params, &ctx) != TRYST_OK) {
        FOUND(self, "%s", tryst_last_error());
        FAIL(self, "follow the message");
        report(self, "context");
        return;
    }
    (void)tryst_transport_visit(ctx, transport_item, self);
    tryst_close(ctx);
    if (!self->stop && self->far == 0) {
        FOUND(self, "neither ucx nor ofi is available: no transport reaches other "
                    "machines");
        WARN(self, "install libucx-dev or libfabric-dev and build again");
        report(self, "other machines");
    }
}

/* ---- all --------------------------------------------------------------------------- */

static void checks_run(struct preflight *self)
{
    static const struct {
        const char *name;
        void (*check)(struct preflight *self);
    } checks[] = {
        {"launcher", check_launcher},     {"token", check_token},
        {"locked memory", check_memlock}, {"/dev/shm", check_shm},
        {"ptrace scope", check_cma},      {"descriptors", check_descriptors},
        {"interfaces", check_interfaces}, {"ports", check_ports},
        {"topology", check_topology},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && !self->stop; i++) {
        checks[i].check(self);
        report(self, checks[i].name);
    }
    if (!self->stop)
        check_fabrics(self);
}

int tryst_check_visit(const tryst_config *config,
                      int (*fn)(void *arg, const tryst_check_item *item), void *arg)
{
    struct err err = ERR_INIT;
    struct config *own = NULL;
    struct preflight self = {.given = config, .fn = fn, .arg = arg};
    if (!fn)
        return 0;
    tryst_status status = config ? TRYST_OK : config_open(NULL, &err, &own);
    if (status != TRYST_OK) {
        FOUND(&self, "%s", err.text[0] ? err.text : tryst_status_str(status));
        FAIL(&self, "tryst-info -c lists all settings and their values");
        report(&self, "settings");
        return self.stop;
    }
    self.config = config ? config->config : own;
    checks_run(&self);
    config_close(own);
    return self.stop;
}
