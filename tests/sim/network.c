/* SPDX-License-Identifier: Apache-2.0 */
/* Links, queues and routes; see network.h. */
#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "core/os/clock.h"
#include "support/unit.h"

void net_init(struct net *net, int nodes, int ends, uint32_t packet_bytes)
{
    *net = (struct net){.nodes = nodes, .ends = ends, .packet_bytes = packet_bytes};
    list_init(&net->free);
    list_init(&net->free_messages);
}

static void packets_free(struct list *list)
{
    struct list_node *node;
    while ((node = list_pop_front(list)) != NULL)
        free(container_of(node, struct net_packet, node));
}

static void messages_free(struct list *list)
{
    struct list_node *node;
    while ((node = list_pop_front(list)) != NULL)
        free(container_of(node, struct net_message, node));
}

void net_free(struct net *net)
{
    for (int i = 0; i < net->links_count; i++) {
        packets_free(&net->links[i].queues[0]);
        packets_free(&net->links[i].queues[1]);
        packets_free(&net->links[i].flying);
    }
    for (int i = 0; i < net->ends * net->ends; i++) {
        messages_free(&net->pairs[i].sent[0]);
        messages_free(&net->pairs[i].sent[1]);
        free(net->pairs[i].ways);
    }
    packets_free(&net->free);
    messages_free(&net->free_messages);
    free(net->links);
    free(net->next);
    free(net->pairs);
    free(net->events);
    *net = (struct net){0};
}

/* ---- events: a heap by time, then by age ------------------------------------------- */

static bool event_before(const struct net_event *a, const struct net_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void event_add(struct net *net, struct net_event event)
{
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

static struct net_event net_event_pop(struct net *net)
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

/* ---- links ------------------------------------------------------------------------- */

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

/* Find the routes to `to`, breadth first from the end. */
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

/* Initialize the lists, which point into their own heads: the net must not move
 * afterwards. */
static void lists_init(struct net *net)
{
    net->pairs = calloc((size_t)net->ends * (size_t)net->ends, sizeof *net->pairs);
    assert_non_null(net->pairs);
    for (int i = 0; i < net->links_count; i++) {
        list_init(&net->links[i].queues[0]);
        list_init(&net->links[i].queues[1]);
        list_init(&net->links[i].flying);
    }
    for (int i = 0; i < net->ends * net->ends; i++) {
        list_init(&net->pairs[i].sent[0]);
        list_init(&net->pairs[i].sent[1]);
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
    lists_init(net);
}

static struct net_pair *pair_of(struct net *net, int from, int to)
{
    return &net->pairs[from * net->ends + to];
}

void net_way_add(struct net *net, int from, int to, int link, double share)
{
    struct net_pair *pair = pair_of(net, from, to);
    pair->ways = realloc(pair->ways, (size_t)(pair->ways_count + 1) * sizeof *pair->ways);
    assert_non_null(pair->ways);
    pair->ways[pair->ways_count++] = (struct net_way){.link = link, .share = share};
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

/* Return the link of the pair's routes at this node that is furthest behind its share. */
static int way_next(struct net *net, struct net_pair *pair, int at)
{
    struct net_way *best = NULL;
    for (int i = 0; i < pair->ways_count; i++) {
        struct net_way *way = &pair->ways[i];
        if (net->links[way->link].from == at &&
            (!best || (double)(way->taken + 1) * best->share <
                          (double)(best->taken + 1) * way->share))
            best = way;
    }
    assert_non_null(best);
    best->taken++;
    return best->link;
}

static int link_next(struct net *net, const struct net_message *message, int at)
{
    struct net_pair *pair = pair_of(net, message->from, message->to);
    return pair->ways ? way_next(net, pair, at)
                      : net->next[at * net->nodes + message->to];
}

static void arrival_add(struct net *net, const struct net_packet *packet)
{
    event_add(net, (struct net_event){packet->at_ns, packet->number, packet->link, true});
}

/* Start the next packet if the link can take one. */
static void link_start(struct net *net, uint64_t now_ns, int number)
{
    struct net_link *link = &net->links[number];
    bool has[2] = {!list_empty(&link->queues[0]), !list_empty(&link->queues[1])};
    if (link->is_busy || link->is_cut || !(has[0] || has[1]))
        return;
    bool bulk = has[1] && (!has[0] || link->frames_ahead > 0);
    struct list_node *node = list_pop_front(&link->queues[bulk]);
    struct net_packet *packet = container_of(node, struct net_packet, node);
    uint64_t bits_ns = packet->bytes * NS_PER_S;
    uint64_t left_ns = now_ns + (bits_ns + link->bytes_per_s - 1) / link->bytes_per_s;
    bool is_alone = list_empty(&link->flying);
    link->is_busy = true;
    int64_t ahead = bulk ? -(int64_t)packet->bytes : packet->bytes;
    link->frames_ahead = has[0] && has[1] ? link->frames_ahead + ahead : 0;
    link->bytes += packet->bytes;
    event_add(net, (struct net_event){left_ns, net->numbers++, number, false});
    packet->at_ns = left_ns + link->latency_ns;
    packet->number = net->numbers++;
    list_push_back(&link->flying, &packet->node);
    if (is_alone) /* otherwise the event of the packet before schedules this one's */
        arrival_add(net, packet);
}

static void packet_queue(struct net *net, uint64_t now_ns, struct net_packet *packet,
                         int at)
{
    int link = link_next(net, packet->message, at);
    assert_true(link >= 0);
    packet->link = link;
    list_push_back(&net->links[link].queues[packet->message->is_bulk], &packet->node);
    link_start(net, now_ns, link);
}

static struct net_message *net_message_add(struct net *net,
                                           const struct net_message *from)
{
    struct list_node *node = list_pop_front(&net->free_messages);
    struct net_message *message =
        node ? container_of(node, struct net_message, node) : malloc(sizeof *message);
    assert_non_null(message);
    *message = *from;
    list_node_init(&message->node);
    list_push_back(&pair_of(net, from->from, from->to)->sent[from->is_bulk],
                   &message->node);
    return message;
}

void net_send(struct net *net, uint64_t now_ns, const struct net_message *params,
              uint64_t bytes)
{
    struct net_message *message = net_message_add(net, params);
    assert_true(bytes > 0);
    message->packets = (uint32_t)((bytes + net->packet_bytes - 1) / net->packet_bytes);
    while (bytes) {
        struct list_node *node = list_pop_front(&net->free);
        struct net_packet *packet =
            node ? container_of(node, struct net_packet, node) : malloc(sizeof *packet);
        assert_non_null(packet);
        list_node_init(&packet->node);
        packet->message = message;
        packet->bytes = bytes < net->packet_bytes ? (uint32_t)bytes : net->packet_bytes;
        bytes -= packet->bytes;
        net->under_way++;
        packet_queue(net, now_ns, packet, message->from);
    }
}

/* Deliver the messages that have arrived completely, in the order of sending. */
static void messages_arrive(struct net *net, struct list *sent)
{
    while (!list_empty(sent)) {
        struct net_message *message =
            container_of(list_first(sent), struct net_message, node);
        if (message->packets)
            return;
        (void)list_pop_front(sent);
        net->arrived(net->arg, message);
        list_push_back(&net->free_messages, &message->node);
    }
}

static void packet_arrive(struct net *net, uint64_t now_ns, struct net_packet *packet)
{
    struct net_message *message = packet->message;
    int at = net->links[packet->link].to;
    if (at != message->to) {
        packet_queue(net, now_ns, packet, at);
        return;
    }
    net->under_way--;
    message->packets--;
    list_push_front(&net->free, &packet->node);
    if (!message->packets)
        messages_arrive(
            net, &pair_of(net, message->from, message->to)->sent[message->is_bulk]);
}

static void link_arrive(struct net *net, uint64_t now_ns, int number)
{
    struct list *flying = &net->links[number].flying;
    struct list_node *node = list_pop_front(flying);
    if (!list_empty(flying))
        arrival_add(net, container_of(list_first(flying), struct net_packet, node));
    packet_arrive(net, now_ns, container_of(node, struct net_packet, node));
}

void net_run(struct net *net, uint64_t now_ns)
{
    while (net->events_count && net->events[0].at_ns <= now_ns) {
        struct net_event event = net_event_pop(net);
        assert_true(event.at_ns == now_ns);
        if (event.is_arrival) {
            link_arrive(net, now_ns, event.link);
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
