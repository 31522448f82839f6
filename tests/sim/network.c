/* SPDX-License-Identifier: Apache-2.0 */
/* Links, queues and routes; see network.h. */
#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "support/unit.h"

void net_open(struct net *net, int nodes, int ends, uint32_t packet_bytes)
{
    *net = (struct net){.nodes = nodes, .ends = ends, .packet_bytes = packet_bytes};
    list_init(&net->free);
}

static void packets_free(struct list *list)
{
    struct list_node *node;
    while ((node = list_pop_front(list)) != NULL)
        free(container_of(node, struct net_packet, node));
}

void net_close(struct net *net)
{
    for (int i = 0; i < net->events_count; i++)
        free(net->events[i].packet);
    for (int i = 0; i < net->links_count; i++)
        for (int kind = 0; kind < 2; kind++)
            packets_free(&net->links[i].queues[kind]);
    packets_free(&net->free);
    free(net->links);
    free(net->next);
    free(net->events);
    *net = (struct net){0};
}

/* ---- events: a heap by time, then by age --------------------------------------------------- */

static bool event_before(const struct net_event *a, const struct net_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void event_add(struct net *net, uint64_t at_ns, int link,
                      struct net_packet *packet)
{
    struct net_event event = {at_ns, net->numbers++, link, packet};
    if (net->events_count == net->events_room) {
        net->events_room = 2 * net->events_room + 64;
        net->events =
            realloc(net->events, (size_t)net->events_room * sizeof *net->events);
        assert_non_null(net->events);
    }
    int at = net->events_count++;
    while (at && event_before(&event, &net->events[(at - 1) / 2])) {
        net->events[at] = net->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    net->events[at] = event;
}

static struct net_event event_take(struct net *net)
{
    struct net_event first = net->events[0];
    struct net_event last = net->events[--net->events_count];
    int at = 0;
    for (int child = 1; child < net->events_count; child = 2 * at + 1) {
        if (child + 1 < net->events_count &&
            event_before(&net->events[child + 1], &net->events[child]))
            child++;
        if (!event_before(&net->events[child], &last))
            break;
        net->events[at] = net->events[child];
        at = child;
    }
    net->events[at] = last;
    return first;
}

uint64_t net_next_ns(const struct net *net)
{
    return net->events_count ? net->events[0].at_ns : UINT64_MAX;
}

/* ---- links --------------------------------------------------------------------------------- */

int net_link_add(struct net *net, int from, int to, uint64_t bytes_per_s,
                 uint64_t latency_ns)
{
    int number = net->links_count++;
    assert_true(from >= 0 && from < net->nodes && to >= 0 && to < net->nodes);
    assert_true(bytes_per_s > 0 && !net->next);
    net->links = realloc(net->links, (size_t)net->links_count * sizeof *net->links);
    assert_non_null(net->links);
    net->links[number] = (struct net_link){
        .from = from, .to = to, .bytes_per_s = bytes_per_s, .latency_ns = latency_ns};
    return number;
}

int net_link_pair(struct net *net, int a, int b, uint64_t bytes_per_s,
                  uint64_t latency_ns)
{
    int first = net_link_add(net, a, b, bytes_per_s, latency_ns);
    (void)net_link_add(net, b, a, bytes_per_s, latency_ns);
    return first;
}

/* Backwards from `to`, by breadth. */
static void routes_to(struct net *net, int to, int *queue)
{
    int head = 0;
    int tail = 0;
    queue[tail++] = to;
    while (head < tail) {
        int at = queue[head++];
        for (int i = 0; i < net->links_count; i++) {
            const struct net_link *link = &net->links[i];
            int *next = &net->next[link->from * net->nodes + to];
            if (link->to != at || link->from == to || *next >= 0)
                continue;
            *next = i;
            if (link->from >= net->ends)
                queue[tail++] = link->from;
        }
    }
}

void net_routes(struct net *net)
{
    size_t pairs = (size_t)net->nodes * (size_t)net->nodes;
    int *queue = malloc((size_t)net->nodes * sizeof *queue);
    net->next = malloc(pairs * sizeof *net->next);
    assert_true(queue && net->next);
    memset(net->next, -1, pairs * sizeof *net->next);
    for (int to = 0; to < net->nodes; to++)
        routes_to(net, to, queue);
    free(queue);
    for (int i = 0; i < net->links_count; i++)
        for (int kind = 0; kind < 2; kind++)
            list_init(&net->links[i].queues[kind]);
}

int net_route(const struct net *net, int from, int to, int *links, int links_max)
{
    int count = 0;
    while (from != to) {
        int link = net->next[from * net->nodes + to];
        if (link < 0)
            return 0;
        assert_true(count < links_max);
        links[count++] = link;
        from = net->links[link].to;
    }
    return count;
}

/* The next packet leaves, if the link can take one. */
static void link_start(struct net *net, uint64_t now_ns, int number)
{
    struct net_link *link = &net->links[number];
    bool has[2] = {!list_empty(&link->queues[0]), !list_empty(&link->queues[1])};
    if (link->is_busy || link->is_cut || !(has[0] || has[1]))
        return;
    bool bulk = has[1] && (link->bulk_is_next || !has[0]);
    struct list_node *node = list_pop_front(&link->queues[bulk]);
    struct net_packet *packet = container_of(node, struct net_packet, node);
    uint64_t bits_ns = packet->bytes * NS_PER_S;
    uint64_t left_ns = now_ns + (bits_ns + link->bytes_per_s - 1) / link->bytes_per_s;
    link->is_busy = true;
    link->bulk_is_next = !bulk;
    link->bytes += packet->bytes;
    event_add(net, left_ns, number, NULL);
    event_add(net, left_ns + link->latency_ns, number, packet);
}

static void packet_queue(struct net *net, uint64_t now_ns, struct net_packet *packet,
                         int link)
{
    assert_true(link >= 0);
    packet->link = link;
    list_push_back(&net->links[link].queues[packet->is_bulk], &packet->node);
    link_start(net, now_ns, link);
}

void net_send(struct net *net, uint64_t now_ns, const struct net_packet *message,
              uint64_t bytes)
{
    int link = net->next[message->from * net->nodes + message->to];
    assert_true(bytes > 0);
    while (bytes) {
        struct list_node *node = list_pop_front(&net->free);
        struct net_packet *packet =
            node ? container_of(node, struct net_packet, node) : malloc(sizeof *packet);
        assert_non_null(packet);
        *packet = *message;
        memset(&packet->node, 0, sizeof packet->node);
        packet->bytes = bytes < net->packet_bytes ? (uint32_t)bytes : net->packet_bytes;
        bytes -= packet->bytes;
        packet->is_last = !bytes;
        net->under_way++;
        packet_queue(net, now_ns, packet, link);
    }
}

static void packet_arrive(struct net *net, uint64_t now_ns, struct net_packet *packet)
{
    int at = net->links[packet->link].to;
    if (at != packet->to) {
        packet_queue(net, now_ns, packet, net->next[at * net->nodes + packet->to]);
        return;
    }
    net->under_way--;
    if (packet->is_last)
        net->arrived(net->arg, packet);
    list_push_back(&net->free, &packet->node);
}

void net_run(struct net *net, uint64_t now_ns)
{
    while (net->events_count && net->events[0].at_ns <= now_ns) {
        struct net_event event = event_take(net);
        assert_true(event.at_ns == now_ns);
        if (event.packet) {
            packet_arrive(net, now_ns, event.packet);
            continue;
        }
        net->links[event.link].is_busy = false;
        link_start(net, now_ns, event.link);
    }
}

void net_link_rate(struct net *net, int link, uint64_t bytes_per_s)
{
    assert_true(bytes_per_s > 0);
    net->links[link].bytes_per_s = bytes_per_s;
}

void net_link_cut(struct net *net, uint64_t now_ns, int link, bool is_cut)
{
    net->links[link].is_cut = is_cut;
    link_start(net, now_ns, link);
}
