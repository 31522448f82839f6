/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's settings.
 *
 * Idea: every setting that is needed is a row with its reason, given to UCX through
 * ucp_config_modify. UCX reads the environment as always; this module never writes it.
 */
#include "ucx_config.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os/fd.h"

struct setting {
    const char *name, *value;
};

static const struct setting settings[] = {
    /* No registration cache: it patches mmap, munmap and others in the whole process.
     * Regions are registered explicitly (tryst_mem_register). */
    {"RCACHE_ENABLE", "n"},
    /* TCP's emulated put lets the sender name an address in this process's memory. */
    {"TCP_PUT_ENABLE", "n"},
    /* Connecting does not block: a host that does not answer would block all other
     * connections for minutes. And with "n", UCX 1.13.1 (and the newest source read)
     * aborts the process if the peer has connected and died before this side creates its
     * endpoint (tcp_ep.c:478): the retry fails at once, and the endpoint is marked as
     * failed before it is marked as one that sends. */
    {"TCP_CONN_NB", "y"},
    /* Copied bytes leave by one send() of this size: over TCP most of a sender's time is
     * the kernel's work for each packet, and the copy is a small part. Median of 13
     * streams of 1 MiB, GB/s: 2.0 with 32K, 2.3 with 128K, 2.1 with 256K, 2.6 with 512K,
     * 2.3 with 1M. 8K, the default, costs twice as much as 32K. */
    {"TCP_TX_SEG_SIZE", "512K"},
    {"TCP_RX_SEG_SIZE", "512K"}, /* UCX requires at least TX_SEG_SIZE here */
    /* Shared memory: a small frame lies in the FIFO element itself, not in a segment
     * beside it. */
    {"MM_FIFO_ELEM_SIZE", "256"},
    /* Larger frames, and bulk, go through segments of this size (8256 bytes by default).
     * A stream of 64 KiB is 1.3 times as fast as by default, of 1 MiB 1.3 to 2.2 times,
     * of 64 MiB 1.8 times (medians of 7 to 11 alternating pairs). With 32K, messages of
     * 4 KiB dropped to a third and small ones to a quarter, perhaps since the segments'
     * first lines share the sets of a cache; a size that 4096 does not divide avoids
     * that. There are a quarter as many segments as by default, so they take as much
     * memory. */
    {"MM_SEG_SIZE", "33920"},
    {"MM_RX_BUFS_GROW", "128"},
    /* In error mode PEER, UCX drops shared memory without a message (measured with
     * 1.13.1) unless its transports are set to detect dead peers. UCX ignores the SYSV_
     * and POSIX_ spellings. */
    {"MM_ERROR_HANDLING", "y"},
    {NULL, NULL},
};

/* For rails on which UCX copies (shared memory, TCP): no rendezvous, since the receive is
 * always posted before the send. A send ends when its bytes are under way, and a receive
 * can be withdrawn (ucx_landing.c). */
static const struct setting settings_copied[] = {
    {"RNDV_THRESH", "inf"},
    /* Sending from the caller's memory without a copy ends in an assertion in libuct
     * 1.13.1 when the TCP connection breaks ("comp->count > 0"), which aborts the
     * process. */
    {"ZCOPY_THRESH", "inf"},
    {NULL, NULL},
};

/* For rails on which RDMA moves the bytes: beyond one packet rendezvous, in which the
 * receiver reads. (If the sender wrote, a stopped peer that was given up would write into
 * this process's memory when it continues.) In error mode PEER, UCX reads only memory
 * that it can invalidate. */
static const struct setting settings_direct[] = {
    {"RNDV_THRESH", "8000"}, {"RNDV_SCHEME", "get_zcopy"}, {NULL, NULL}};

enum {
    TLS_BYTES = 512,    /* longest list of transports */
    DEVICES_BYTES = 512 /* longest list of devices */
};

/* Read the first line of a file, without its end; false: it cannot be read. */
static bool line_read(const char *path, char *line_p, size_t bytes)
{
    FILE *file = fd_file_open(path, "re");
    bool read = file && fgets(line_p, (int)bytes, file);
    if (file)
        (void)fclose(file);
    if (read)
        line_p[strcspn(line_p, "\n")] = '\0';
    return read;
}

/* Get the first RDMA device that sysfs lists in `path`; false where there is none. */
static bool rdma_device_first(const char *path, char *device_p, size_t bytes)
{
    struct dirent *entry;
    DIR *dir = fd_folder_open(path);
    if (!dir)
        return false;
    do
        entry = readdir(dir);
    while (entry && entry->d_name[0] == '.');
    if (entry)
        (void)snprintf(device_p, bytes, "%.64s", entry->d_name);
    (void)closedir(dir);
    return entry != NULL;
}

/* Get the RDMA device behind a network interface, as UCX names it ("mlx5_0:1"). */
static bool rdma_device_find(const char *interface_name, char *device_p, size_t bytes)
{
    char path[128], device[72];
    char text[16] = "";
    unsigned long port;
    (void)snprintf(path, sizeof path, "/sys/class/net/%.32s/device/infiniband",
                   interface_name);
    if (!rdma_device_first(path, device, sizeof device))
        return false;
    (void)snprintf(path, sizeof path, "/sys/class/net/%.32s/dev_port", interface_name);
    if (!line_read(path, text, sizeof text))
        text[0] = '\0';
    port = strtoul(text, NULL, 10); /* nothing readable: the first port */
    (void)snprintf(device_p, bytes, "%s:%lu", device, port + 1);
    return true;
}

/* True if a network interface of this RDMA device is up. */
static bool rdma_device_has_interface(const char *device)
{
    char path[160], state[16];
    bool up = false;
    (void)snprintf(path, sizeof path, "/sys/class/infiniband/%.64s/device/net", device);
    DIR *dir = fd_folder_open(path);
    for (struct dirent *entry; dir && !up && (entry = readdir(dir)) != NULL;) {
        (void)snprintf(path, sizeof path, "/sys/class/net/%.32s/operstate",
                       entry->d_name);
        up = entry->d_name[0] != '.' && line_read(path, state, sizeof state) &&
             strcmp(state, "up") == 0;
    }
    if (dir)
        (void)closedir(dir);
    return up;
}

/* Append the InfiniBand devices without an interface that is up: they need no IP address,
 * and no rail has them otherwise. An Ethernet device (RoCE) needs the address of its
 * interface, and belongs to that interface's rail. */
static void infiniband_append(char *list, size_t bytes)
{
    char path[160], layer[16];
    struct dirent *entry;
    DIR *dir = fd_folder_open("/sys/class/infiniband");
    while (dir && (entry = readdir(dir)) != NULL) {
        size_t used = strlen(list);
        (void)snprintf(path, sizeof path,
                       "/sys/class/infiniband/%.64s/ports/1/link_layer", entry->d_name);
        if (entry->d_name[0] != '.' && line_read(path, layer, sizeof layer) &&
            strcmp(layer, "InfiniBand") == 0 && !rdma_device_has_interface(entry->d_name))
            (void)snprintf(list + used, bytes - used, ",%.64s:1", entry->d_name);
    }
    if (dir)
        (void)closedir(dir);
}

/* List the devices of a rail: its interface, the RDMA device behind it, and on the
 * host's first rail the InfiniBand devices that have no interface. */
static void devices_list(const struct rail_params *params, char *list, size_t bytes)
{
    char device[96];
    (void)snprintf(list, bytes, "%.32s", params->interface_name);
    if (rdma_device_find(params->interface_name, device, sizeof device))
        (void)snprintf(list, bytes, "%s,%.32s", device, params->interface_name);
    if (params->first)
        infiniband_append(list, bytes);
}

bool ucx_rdma_present(const struct rail_params *params)
{
    char list[DEVICES_BYTES], device[96];
    if (!params->interface_name)
        return rdma_device_first("/sys/class/infiniband", device, sizeof device);
    devices_list(params, list, sizeof list);
    return strchr(list, ',') != NULL;
}

static ucs_status_t devices_set(ucp_config_t *config, const struct rail_params *params)
{
    char list[DEVICES_BYTES];
    devices_list(params, list, sizeof list);
    return ucp_config_modify(config, "NET_DEVICES", list);
}

static bool same_ip(const struct sockaddr *a, const struct sockaddr *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    return a->sa_family == AF_INET
               ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
               : memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

/* True if UCX's TCP takes the address of the rail: of an interface it takes the first one
 * of the family. (Where a host's only global address is on the loopback interface, that
 * would be 127.0.0.1, which each other host has, too.) */
static bool takes_address(const struct rail_params *params, char *text)
{
    const struct sockaddr *wanted = params->interface_address;
    struct ifaddrs *all = NULL, *item;
    if (!wanted || getifaddrs(&all) != 0)
        return true;
    for (item = all; item; item = item->ifa_next)
        if (item->ifa_addr && item->ifa_addr->sa_family == wanted->sa_family &&
            strcmp(item->ifa_name, params->interface_name) == 0)
            break;
    bool takes = !item || same_ip(item->ifa_addr, wanted);
    freeifaddrs(all);
    if (!takes)
        (void)snprintf(text, TRANSPORT_TEXT_MAX,
                       "UCX takes the first address of %s, which is not the one by which "
                       "this host is reached",
                       params->interface_name);
    return takes;
}

/* Apply a setting; TCP's under both of its names. UCX 1.13 has "PUT_ENABLE", newer
 * versions "TCP_PUT_ENABLE"; each version ignores the other name as a setting of a
 * transport that is not loaded. */
static ucs_status_t setting_apply(ucp_config_t *config, const struct setting *setting,
                                  const char **name_p)
{
    ucs_status_t status = ucp_config_modify(config, setting->name, setting->value);
    *name_p = setting->name;
    if (status == UCS_OK && strncmp(setting->name, "TCP_", 4) == 0)
        status = ucp_config_modify(config, setting->name + 4, setting->value);
    return status;
}

static ucs_status_t list_apply(ucp_config_t *config, const struct setting *list,
                               const char **name_p)
{
    ucs_status_t status = UCS_OK;
    for (; status == UCS_OK && list->name; list++)
        status = setting_apply(config, list, name_p);
    return status;
}

/* Read UCX's list of transports from the environment and ucx.conf ("all" where neither
 * has one). */
static void tls_read(const ucp_config_t *config, char list_p[TLS_BYTES])
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    list_p[0] = '\0';
    if (!stream)
        return;
    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    if (fclose(stream) == 0) {
        const char *line = strstr(text, "UCX_TLS=");
        if (line)
            (void)snprintf(list_p, TLS_BYTES, "%.*s", (int)strcspn(line + 8, "\n"),
                           line + 8);
    }
    free(text);
}

/* True if the list names one of UCX's transports over a FIFO in shared memory, or a group
 * that contains one. ("\\posix" is the name alone; "all" and "^ib" name none.) */
static bool tls_names_shared_memory(const char *list)
{
    static const char *const names[] = {"sm", "shm", "mm", "posix", "sysv", "xpmem"};
    if (*list == '^')
        return false;
    while (*list) {
        size_t length = strcspn(list, ",");
        if (*list == '\\')
            list++, length--;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == length && memcmp(list, names[i], length) == 0)
                return true;
        list += length;
        list += *list == ',';
    }
    return false;
}

/* Set the transports that UCX may use: shared memory only if the list names it, since all
 * senders share the receiver's one FIFO. A sender that dies between claiming a slot of
 * the FIFO (uct_mm_ep_get_remote_elem) and filling it keeps the receiver from reading all
 * later slots, without end. */
static ucs_status_t tls_apply(ucp_config_t *config, const struct tryst_host *host,
                              bool allowed)
{
    char list[TLS_BYTES], without[TLS_BYTES + 4] = "^sm";
    tls_read(config, list);
    bool named = tls_names_shared_memory(list);
    bool is_open = *list == '^' || strcmp(list, "all") == 0;
    if (named && allowed)
        host->log(host, TRYST_LOG_INFO,
                  "ucx: UCX uses shared memory, since UCX_TLS names it: a rank that dies "
                  "while it sends can cut off its peers from each other; "
                  "TRYST_TRANSPORT=shm avoids this");
    if (*list && !is_open && (!named || allowed))
        return UCS_OK;
    if (*list == '^')
        (void)snprintf(without, sizeof without, "%s,sm", list);
    return ucp_config_modify(config, "TLS", without);
}

/* Set the address family of an interface with both families to that of the announced
 * address, and the ports to TRYST_PORT_RANGE. */
static ucs_status_t sockets_apply(ucp_config_t *config, const struct rail_params *params,
                                  const char **name_p)
{
    const char *ports = params->host->config(params->host, "port_range");
    struct setting list[3] = {{NULL, NULL}};
    int count = 0;
    if (params->interface_address && params->interface_address->sa_family == AF_INET6)
        list[count++] = (struct setting){"TCP_AF_PRIO", "inet6,inet"};
    if (ports && *ports)
        list[count++] = (struct setting){"TCP_PORT_RANGE", ports};
    return list_apply(config, list, name_p);
}

static ucs_status_t settings_apply(ucp_config_t *config, const struct rail_params *params,
                                   bool direct, const char **name_p)
{
    ucs_status_t status = list_apply(config, settings, name_p);
    if (status == UCS_OK)
        status = list_apply(config, direct ? settings_direct : settings_copied, name_p);
    if (status == UCS_OK) {
        *name_p = "TLS";
        /* not on a direct rail: shared memory would copy */
        status = tls_apply(config, params->host, params->own_shm_allowed && !direct);
    }
    if (status == UCS_OK && params->interface_name) {
        *name_p = "NET_DEVICES";
        status = devices_set(config, params);
    }
    if (status == UCS_OK)
        status = sockets_apply(config, params, name_p);
    return status;
}

tryst_status ucx_context_open(const struct rail_params *params, bool direct,
                              ucp_context_h *context_p, char *text)
{
    const ucp_params_t ucp_params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .name = "tryst",
    };
    const char *step = "cannot read UCX's configuration";
    ucp_config_t *config = NULL;
    if (!takes_address(params, text))
        return TRYST_E_UNSUPPORTED;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status == UCS_OK)
        status = settings_apply(config, params, direct, &step);
    if (status == UCS_OK) {
        step = "ucp_init";
        status = ucp_init(&ucp_params, config, context_p);
    }
    if (config)
        ucp_config_release(config);
    if (status == UCS_OK)
        return TRYST_OK;
    (void)snprintf(text, TRANSPORT_TEXT_MAX, "%s: %s", step, ucs_status_string(status));
    return status == UCS_ERR_NO_MEMORY ? TRYST_E_NOMEM : TRYST_E_UNSUPPORTED;
}
