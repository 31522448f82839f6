/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel which way a packet would go.
 *
 * One idea: the routing table is the kernel's business (rules, marks, metrics); we ask it for
 * one destination and copy its answer.
 * Callers: netif_pair, transports. */
#include <errno.h>
#include <string.h>

#include "netlink.h"
#include "topology/netif.h"

struct route_request {
    struct nlmsghdr header;
    struct rtmsg fixed;
    struct rtattr attribute;
    uint8_t address[16];
};

/* The whole answer as it is gathered. */
struct route_answer {
    struct netroute route;
    int family;
    bool has_source;
};

static void source_fill(struct route_answer *answer, const struct rtattr *attribute)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (answer->family == AF_INET) {
        answer->has_source = netlink_copy(attribute, &v4.sin_addr, sizeof v4.sin_addr);
        memcpy(&answer->route.source, &v4, sizeof v4);
    } else {
        answer->has_source = netlink_copy(attribute, &v6.sin6_addr, sizeof v6.sin6_addr);
        memcpy(&answer->route.source, &v6, sizeof v6);
    }
}

static void answer_attribute(void *arg, const struct rtattr *attribute)
{
    struct route_answer *answer = arg;
    if (attribute->rta_type == RTA_OIF)
        netlink_copy(attribute, &answer->route.index, 4);
    if (attribute->rta_type == RTA_GATEWAY)
        answer->route.gateway = true;
    if (attribute->rta_type == RTA_VIA)
        answer->route.gateway = true;
    if (attribute->rta_type == RTA_PREFSRC)
        source_fill(answer, attribute);
}

static tryst_status answer_read(void *arg, const struct nlmsghdr *message)
{
    struct route_answer *answer = arg;
    struct rtmsg fixed;
    if (message->nlmsg_type != RTM_NEWROUTE)
        return TRYST_OK;
    if (!netlink_attributes(message, sizeof fixed, answer_attribute, answer))
        return TRYST_OK;
    memcpy(&fixed, NLMSG_DATA(message), sizeof fixed);
    answer->route.local = fixed.rtm_type == RTN_LOCAL;
    return TRYST_OK;
}

static bool request_fill(struct route_request *request, const struct sockaddr *to)
{
    const struct sockaddr_in *v4 = (const void *)to;
    const struct sockaddr_in6 *v6 = (const void *)to;
    size_t bytes = to->sa_family == AF_INET ? 4 : 16;
    if (to->sa_family != AF_INET && to->sa_family != AF_INET6)
        return false;
    memset(request, 0, sizeof *request);
    request->header.nlmsg_type = RTM_GETROUTE;
    request->fixed.rtm_family = (unsigned char)to->sa_family;
    request->fixed.rtm_dst_len = (unsigned char)(8 * bytes);
    request->attribute.rta_type = RTA_DST;
    request->attribute.rta_len = (unsigned short)RTA_LENGTH(bytes);
    memcpy(request->address,
           bytes == 4 ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr,
           bytes);
    request->header.nlmsg_len =
        (uint32_t)(NLMSG_LENGTH(sizeof request->fixed) + RTA_LENGTH(bytes));
    return true;
}

static bool means_no_route(int error)
{
    return error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN ||
           error == EACCES || error == EINVAL || error == EAFNOSUPPORT;
}

tryst_status netroute_find(const struct sockaddr *to, struct err *err,
                           struct netroute *route_p)
{
    char text[NETIF_TEXT_BYTES];
    struct route_request request;
    struct route_answer answer = {.family = to->sa_family};
    struct netlink netlink;
    int error = 0;
    if (!request_fill(&request, to))
        return err_set(err, TRYST_E_INVALID,
                       "a route to an address of family %d was asked "
                       "for; only IPv4 and IPv6 are known",
                       to->sa_family);
    tryst_status status = netlink_open(err, &netlink);
    if (status != TRYST_OK)
        return status;
    status = netlink_ask(&netlink, &request.header, answer_read, &answer, err, &error);
    netlink_close(&netlink);
    if (status != TRYST_OK && error == 0)
        return status;
    if (means_no_route(error) || (status == TRYST_OK && answer.route.index == 0))
        return err_set(err, TRYST_E_UNREACHABLE, "no route to %s",
                       netif_address_text(to, text));
    if (status != TRYST_OK)
        return err_set(err, status, "the kernel names no route to %s: %s",
                       netif_address_text(to, text), strerror(error));
    *route_p = answer.route;
    return TRYST_OK;
}
