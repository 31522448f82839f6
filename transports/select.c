/* SPDX-License-Identifier: Apache-2.0 */
/* Identities, and which transports join two of them.
 *
 * One idea: the transports that join two ranks depend on the two identities alone, and
 * not on which of them comes first. So both ends try the same transports in the same
 * order.
 * Invariant: select_candidates(a, b) equals select_candidates(b, a). */
#include "transports/select.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/config/config.h"
#include "core/os/fd.h"
#include "core/os/fork.h"
#include "core/os/random.h"
#include "core/text/hash.h"

#if TRANSPORT_FD_LOST != LINK_FD_LOST
#error "ep_message receives a link's descriptors unchanged"
#endif

/* `forced` is the setting's index: auto is 0, and the kinds follow in their order. */
static_assert(CONFIG_TRANSPORT_AUTO == 0, "auto forces nothing");
static_assert(CONFIG_TRANSPORT_SELF == 1 + TRANSPORT_SELF, "the enums run in parallel");
static_assert(CONFIG_TRANSPORT_SHM == 1 + TRANSPORT_SHM, "the enums run in parallel");
static_assert(CONFIG_TRANSPORT_UCX == 1 + TRANSPORT_UCX, "the enums run in parallel");
static_assert(CONFIG_TRANSPORT_OFI == 1 + TRANSPORT_OFI, "the enums run in parallel");

static_assert(sizeof(struct link_address) == 32, "it travels");
static_assert(sizeof(struct host_identity) == 544, "it travels");

const char *transport_kind_name(enum transport_kind kind)
{
    static const char *const names[TRANSPORT_KINDS] = {"self", "shm", "ucx", "ofi"};
    return (unsigned)kind < TRANSPORT_KINDS ? names[kind] : "unknown";
}

/* ---- identity of this process ---- */

/* The low 16 bits are the fork generation in which the id was drawn: they show a child
 * that an inherited id is its parent's. 0: not drawn yet. */
static _Atomic(uint64_t) process_id;

static tryst_status process_id_get(uint64_t *id_p)
{
    uint64_t generation = fork_generation() & 0xffff;
    /* relaxed: the id itself is all that is published. */
    uint64_t old = atomic_load_explicit(&process_id, memory_order_relaxed);
    while (old == 0 || (old & 0xffff) != generation) {
        uint64_t drawn;
        if (random_secret(&drawn, sizeof drawn) != TRYST_OK)
            return TRYST_E_SYSTEM;
        drawn = (drawn & ~UINT64_C(0xffff)) | generation;
        /* relaxed: the id itself is all that is published. If several threads draw at
         * once, the id that is stored first stays. */
        if (atomic_compare_exchange_strong_explicit(
                &process_id, &old, drawn, memory_order_relaxed, memory_order_relaxed))
            old = drawn;
    }
    *id_p = old;
    return TRYST_OK;
}

static uint64_t namespace_inode(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

/* Get the id of the scope in which abstract sockets are visible: this boot of this kernel
 * and this network namespace. Where /proc does not show them, the id is `own_id`, which
 * no other process has. */
static uint64_t net_namespace_id(uint64_t own_id)
{
    char text[64] = "";
    int fd = FD_MAKE(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    ssize_t got = fd >= 0 ? read(fd, text, 36) : -1;
    uint64_t inode = namespace_inode("/proc/self/ns/net");
    if (fd >= 0)
        close(fd);
    if (got <= 0 || inode == 0)
        return own_id;
    memcpy(text + 40, &inode, sizeof inode);
    return hash_bytes(text, sizeof text);
}

tryst_status identity_local(const struct config *config, uint32_t transports,
                            struct host_identity *identity_p)
{
    const char *host_id = config_str(config, CONFIG_HOST_ID);
    struct host_identity identity = {
        .pid_namespace = namespace_inode("/proc/self/ns/pid"),
        .pid = (int32_t)getpid(),
        .uid = (uint32_t)geteuid(),
        .transports = transports,
        .forced = (uint32_t)config_enum(config, CONFIG_TRANSPORT),
        .host_id_set = host_id[0] != '\0',
    };
    tryst_status status = process_id_get(&identity.process_id);
    if (status != TRYST_OK)
        return status;
    identity.net_namespace = net_namespace_id(identity.process_id);
    identity.host_id = identity.host_id_set ? hash_bytes(host_id, strlen(host_id))
                                            : identity.net_namespace;
    host_name_read("", identity.host_name);
    *identity_p = identity;
    return TRYST_OK;
}

bool identity_same_process(const struct host_identity *a, const struct host_identity *b)
{
    return a->process_id == b->process_id;
}

bool identity_same_host(const struct host_identity *a, const struct host_identity *b)
{
    return a->host_id == b->host_id;
}

static bool network_is_known(const struct host_identity *identity)
{
    return identity->net_namespace != identity->process_id;
}

bool identity_same_network(const struct host_identity *a, const struct host_identity *b)
{
    if (network_is_known(a) && network_is_known(b))
        return a->net_namespace == b->net_namespace;
    return a->host_name[0] && strcmp(a->host_name, b->host_name) == 0;
}

bool identity_unix_reaches(const struct host_identity *a, const struct host_identity *b)
{
    return identity_same_host(a, b) && a->net_namespace == b->net_namespace &&
           a->uid == b->uid;
}

/* ---- transports ---- */

static bool kind_joins(enum transport_kind kind, const struct host_identity *a,
                       const struct host_identity *b)
{
    if (!(a->transports & b->transports & (1u << kind)))
        return false;
    switch (kind) {
    case TRANSPORT_SELF: return identity_same_process(a, b) && identity_same_host(a, b);
    case TRANSPORT_SHM: return identity_unix_reaches(a, b);
    default: return true;
    }
}

#define HOST_TEXT_BYTES 33

/* Write a host's name, as far as it has place in a text. Names of one cluster differ at
 * their begin or their end, so the middle of a long one is left out. */
static const char *host_text(const struct host_identity *identity,
                             char text[HOST_TEXT_BYTES])
{
    const char *name = identity->host_name;
    size_t bytes = strlen(name), half = (HOST_TEXT_BYTES - 3) / 2;
    if (bytes < HOST_TEXT_BYTES)
        (void)snprintf(text, HOST_TEXT_BYTES, "%.32s",
                       bytes ? name : "(host without a name)");
    else
        (void)snprintf(text, HOST_TEXT_BYTES, "%.*s..%s", (int)half, name,
                       name + bytes - half);
    return text;
}

static void missing_text(enum transport_kind kind, const struct host_identity *a,
                         const struct host_identity *b, char *text)
{
    const struct host_identity *lacks = a->transports & (1u << kind) ? b : a;
    char host[HOST_TEXT_BYTES];
    (void)snprintf(text, TRANSPORT_TEXT_MAX,
                   "pid %d on %s lacks %s: build it in, or set TRYST_MODULE_PATH "
                   "(tryst-info shows the reason)",
                   lacks->pid, host_text(lacks, host), transport_kind_name(kind));
}

static void forced_text(enum transport_kind kind, const struct host_identity *a,
                        const struct host_identity *b, char *text)
{
    const char *name = transport_kind_name(kind);
    char hosts[2][HOST_TEXT_BYTES];
    if (!(a->transports & b->transports & (1u << kind)))
        missing_text(kind, a, b, text);
    else if (kind == TRANSPORT_SELF)
        (void)snprintf(text, TRANSPORT_TEXT_MAX,
                       "TRYST_TRANSPORT=self is for one process only, not pid %d on %s "
                       "and %d on %s: "
                       "use auto",
                       a->pid, host_text(a, hosts[0]), b->pid, host_text(b, hosts[1]));
    else if (!identity_same_host(a, b))
        (void)snprintf(text, TRANSPORT_TEXT_MAX,
                       "TRYST_TRANSPORT=%s needs one host, these are %s and %s: use "
                       "auto, ucx or ofi",
                       name, host_text(a, hosts[0]), host_text(b, hosts[1]));
    else
        (void)snprintf(text, TRANSPORT_TEXT_MAX,
                       "TRYST_TRANSPORT=%s needs one user and one network namespace on "
                       "%s: share it, or use auto or ucx",
                       name, host_text(a, hosts[0]));
}

static void nothing_text(const struct host_identity *a, const struct host_identity *b,
                         char *text)
{
    const struct host_identity *lacks = a->transports & (1u << TRANSPORT_UCX) ? b : a;
    char host[HOST_TEXT_BYTES];
    (void)snprintf(text, TRANSPORT_TEXT_MAX,
                   "cannot use shm (%s), and pid %d on %s lacks the ucx module: build "
                   "it or set TRYST_MODULE_PATH",
                   identity_same_host(a, b) ? "other user or namespace" : "other host",
                   lacks->pid, host_text(lacks, host));
}

int select_candidates(const struct host_identity *a, const struct host_identity *b,
                      enum transport_kind kinds[TRANSPORT_KINDS], char *text)
{
    int count = 0;
    uint32_t forced = a->forced ? a->forced : b->forced;
    text[0] = '\0';
    if (a->forced && b->forced && a->forced != b->forced) {
        (void)snprintf(text, TRANSPORT_TEXT_MAX,
                       "TRYST_TRANSPORT is %s for one rank (pid %d) and %s for the other "
                       "(pid %d): set it alike",
                       transport_kind_name(a->forced - 1), a->pid,
                       transport_kind_name(b->forced - 1), b->pid);
        return 0;
    }
    for (int kind = 0; kind < TRANSPORT_KINDS; kind++)
        if ((!forced || forced == (uint32_t)kind + 1) && kind_joins(kind, a, b))
            kinds[count++] = (enum transport_kind)kind;
    if (count == 0 && forced > TRANSPORT_KINDS)
        (void)snprintf(
            text, TRANSPORT_TEXT_MAX,
            "a rank forces a transport that is unknown here: use one build on all ranks");
    else if (count == 0 && forced)
        forced_text(forced - 1, a, b, text);
    else if (count == 0)
        nothing_text(a, b, text);
    return count;
}

uint32_t select_pair_number(int32_t a, int32_t b)
{
    uint32_t low = (uint32_t)(a < b ? a : b);
    uint32_t apart = (uint32_t)(a < b ? b : a) - low;
    /* Along a chain `low` counts up. For the pairs of rank 0 the triangular numbers take
     * every remainder of a division by 2, 4 or 8. */
    return low + (apart ? apart * (apart - 1) / 2 : 0);
}
