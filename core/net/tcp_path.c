/* SPDX-License-Identifier: Apache-2.0 */
/* Large packets that are lost on the way: see tcp_path.h. */
#include "tcp_path.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/os/fd.h"

/* Repetitions of one packet, each after twice the time of the one before. Random loss of
 * one packet in a hundred gives three in a row once in a million packets. */
enum { REPEATS_MIN = 3 };

/* The two addresses of a connection. */
struct ends {
    struct sockaddr_storage here, there;
};

void tcp_path_segments_bound(int fd)
{
    int bytes = TCP_PATH_SEGMENT_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, sizeof bytes);
}

static bool ends_read(int fd, struct ends *ends)
{
    socklen_t here_bytes = sizeof ends->here, there_bytes = sizeof ends->there;
    memset(ends, 0, sizeof *ends);
    return getpeername(fd, (struct sockaddr *)&ends->there, &there_bytes) == 0 &&
           getsockname(fd, (struct sockaddr *)&ends->here, &here_bytes) == 0 &&
           netif_address_bytes((struct sockaddr *)&ends->here) != 0;
}

/* True if both are the same address of one family, whatever their ports. */
static bool address_same(const struct sockaddr_storage *a,
                         const struct sockaddr_storage *b)
{
    uint32_t bits = a->ss_family == AF_INET6 ? 128 : 32;
    return a->ss_family == b->ss_family &&
           netif_prefix_holds((const struct sockaddr *)a, bits,
                              (const struct sockaddr *)b);
}

static bool info_read(int fd, struct tcp_info *info)
{
    socklen_t bytes = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0;
}

/* Return the mean bytes of the segments that are sent and not acknowledged. */
static uint32_t unacked_mean_bytes(int fd, const struct tcp_info *info)
{
    int queued = 0, unsent = 0;
    if (!info->tcpi_unacked || ioctl(fd, SIOCOUTQ, &queued) != 0 ||
        ioctl(fd, SIOCOUTQNSD, &unsent) != 0 || queued <= unsent)
        return 0;
    return (uint32_t)(queued - unsent) / info->tcpi_unacked;
}

/* True if the kernel repeats a large packet of this connection in vain, while packets of
 * the bounded connection `small` are sent and acknowledged. The time-out doubles at each
 * repetition, so the large packet is at least half of it old. */
static bool large_are_lost(int fd, const struct tcp_info *small, struct tcp_info *info)
{
    if (!info_read(fd, info) || info->tcpi_retransmits < REPEATS_MIN ||
        unacked_mean_bytes(fd, info) <= TCP_PATH_SEGMENT_BYTES)
        return false;
    uint32_t age_ms = info->tcpi_rto / 1000 / 2;
    return small->tcpi_last_data_sent < age_ms && small->tcpi_last_ack_recv < age_ms;
}

static void interface_find(const struct sockaddr_storage *here, struct tcp_loss *loss)
{
    struct err err = ERR_INIT;
    struct netif_list *all = NULL;
    if (netif_list_open(&err, &all) != TRYST_OK)
        return;
    for (size_t i = 0; i < all->count; i++) {
        if (!address_same(&all->items[i].address, here))
            continue;
        memcpy(loss->interface, all->items[i].name, sizeof loss->interface);
        loss->interface_mtu = all->items[i].mtu;
        break;
    }
    netif_list_close(all);
}

/* Find the connection with the most repetitions among the process's descriptors. */
static void worst_find(DIR *fds, int fd, const struct ends *ends,
                       const struct tcp_info *small, struct tcp_loss *loss)
{
    const struct dirent *entry;
    while ((entry = readdir(fds)) != NULL) {
        struct ends other;
        struct tcp_info info;
        int at = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] == '.' || at == fd || !ends_read(at, &other) ||
            !address_same(&other.here, &ends->here) ||
            !address_same(&other.there, &ends->there) ||
            !large_are_lost(at, small, &info) ||
            info.tcpi_retransmits <= loss->retransmits)
            continue;
        loss->retransmits = info.tcpi_retransmits;
        loss->mtu = info.tcpi_pmtu;
    }
}

bool tcp_loss_find(int fd, struct tcp_loss *loss_p)
{
    struct tcp_loss loss = {.mtu = 0};
    struct ends ends;
    struct tcp_info small;
    if (!info_read(fd, &small) || small.tcpi_retransmits || !ends_read(fd, &ends) ||
        small.tcpi_snd_mss > TCP_PATH_SEGMENT_BYTES)
        return false;
    DIR *fds = fd_folder_open("/proc/self/fd");
    if (!fds)
        return false;
    worst_find(fds, fd, &ends, &small, &loss);
    (void)closedir(fds);
    if (!loss.retransmits)
        return false;
    interface_find(&ends.here, &loss);
    *loss_p = loss;
    return true;
}
