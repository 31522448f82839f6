/* SPDX-License-Identifier: Apache-2.0 */
/* Links between the sides of a world: messages wait in the receiver's list until
 * world_links_run. */
#include "world.h"

#include <unistd.h>

struct link_listener {
    void (*accepted)(void *arg, struct link *link);
    void *arg;
    uint64_t id;
};

struct message {
    struct list_node node;
    uint8_t type;
    int fd; /* or -1 */
    size_t bytes;
    _Alignas(8) uint8_t data[];
};

struct link {
    struct list_node node;
    struct side *side; /* the side that has this end */
    struct link *other;
    struct list inbox;
    uint32_t inbox_count;
    size_t backlog_bytes; /* of the last messages in `inbox`: the socket is full */
    const struct link_events *events;
    void *arg;
    struct link_listener *accept; /* the listener, until the link is handed over */
    tryst_status fails;           /* the status of a connection that failed */
    bool refused_unix;            /* it was to be a Unix socket */
    bool close_reported, closed;
    bool met; /* a listener accepted the connection */
    bool ran; /* the owner has made a pass */
    bool takes_fds;
};

tryst_status link_listen(struct poller *poller, const struct log *log,
                         const struct link_tcp *tcp, unsigned pending_max,
                         void (*accepted)(void *arg, struct link *link), void *arg,
                         struct link_listener **listener_p,
                         struct link_address *address_p)
{
    struct link_listener *listener = malloc(sizeof *listener);
    int slot = 0;
    while (world_current->listeners[slot])
        slot++;
    *listener = (struct link_listener){accepted, arg, (uint64_t)slot + 1};
    world_current->listeners[slot] = listener;
    memset(address_p, 0, sizeof *address_p);
    address_p->listener_id = listener->id;
    *listener_p = listener;
    return TRYST_OK;
}

static void link_stir(struct link *link)
{
    world_current->links_have_events = true;
    link->side->has_events = true;
}

static void link_part(struct link *link)
{
    link_stir(link);
    if (link->other) {
        link_stir(link->other);
        link->other->other = NULL;
    }
    link->other = NULL;
}

void link_listener_close(struct link_listener *listener)
{
    if (listener)
        world_current->listeners[listener->id - 1] = NULL;
    list_for_each_safe (&world_current->links, node, after) {
        struct link *link = container_of(node, struct link, node);
        if (!listener || link->accept != listener)
            continue;
        link_part(link); /* the connection waited in the listener's queue */
        link->accept = NULL;
        link->closed = true;
    }
    free(listener);
}

void link_listener_tick(struct link_listener *listener, uint64_t now_ns)
{
}

static struct link *link_make(struct side *side, struct link_listener *accept)
{
    struct link *link = calloc(1, sizeof *link);
    link->side = side;
    list_init(&link->inbox);
    link->accept = accept;
    list_push_back(&world_current->links, &link->node);
    link_stir(link);
    return link;
}

tryst_status link_connect(struct poller *poller, const struct log *log,
                          const struct link_address *address,
                          const struct link_address *from, bool via_unix,
                          uint64_t user_timeout_ns, const struct link_events *events,
                          void *arg, struct link **link_p)
{
    struct link_listener *listener =
        address->listener_id ? world_current->listeners[address->listener_id - 1] : NULL;
    if (world_current->link_again) {
        world_current->link_again--;
        return TRYST_AGAIN;
    }
    struct link *link = link_make(container_of(poller, struct side, poller), NULL);
    link_events_set(link, events, arg);
    link->fails = via_unix && world_current->unix_fails ? world_current->unix_fails
                                                        : world_current->link_fails;
    link->refused_unix = via_unix && world_current->unix_fails;
    if (listener && !link->fails) {
        struct side *side = &world_current->sides[listener->id - 1];
        link->other = link_make(side, listener);
        link->other->other = link;
        link->met = !side->silent;
    }
    *link_p = link;
    return TRYST_OK;
}

void link_events_set(struct link *link, const struct link_events *events, void *arg)
{
    link->events = events;
    link->arg = arg;
}

void link_user_timeout_set(struct link *link, uint64_t user_timeout_ns)
{
}

/* True if the socket towards this end has no room. */
static bool inbox_is_full(const struct link *link)
{
    return world_current->links_room && link->inbox_count > world_current->links_room;
}

tryst_status link_send(struct link *link, uint8_t type, const void *data, size_t bytes,
                       int fd)
{
    if (!link->other)
        return TRYST_E_PEER;
    world_current->links_sent[type]++;
    if (inbox_is_full(link->other) &&
        (link->other->backlog_bytes += bytes) > LINK_BACKLOG_MAX) {
        link_part(link);
        return TRYST_E_PEER;
    }
    struct message *message = malloc(sizeof *message + bytes);
    memset(message, 0, sizeof *message);
    message->type = type;
    message->fd = fd >= 0 ? dup(fd) : -1;
    message->bytes = bytes;
    if (bytes)
        memcpy(message->data, data, bytes);
    list_push_back(&link->other->inbox, &message->node);
    link->other->inbox_count++;
    link_stir(link->other);
    return TRYST_OK;
}

void link_fds_take(struct link *link)
{
    link->takes_fds = true;
}

int32_t link_peer_pid(const struct link *link)
{
    return 0;
}

bool link_is_unix(const struct link *link)
{
    return link->refused_unix;
}

bool link_own_address(const struct link *link, struct link_address *address_p)
{
    return false;
}

bool link_is_decided(const struct link *link)
{
    return link_has_met(link);
}

bool link_has_met(const struct link *link)
{
    return link->met && (link->ran || !world_current->links_slow);
}

bool link_loss_find(const struct link *link, struct tcp_loss *loss_p)
{
    (void)link;
    *loss_p = world_current->loss;
    return loss_p->mtu != 0;
}

char *link_address_text(const struct link_address *address,
                        char text[LINK_ADDRESS_TEXT_BYTES])
{
    snprintf(text, LINK_ADDRESS_TEXT_BYTES, "listener %d", (int)address->listener_id);
    return text;
}

static void message_free(struct message *message)
{
    if (message->fd >= 0)
        close(message->fd);
    free(message);
}

bool link_is_flushed(const struct link *link)
{
    return !link->other || !inbox_is_full(link->other);
}

/* Drop the messages for which the socket had no room; they are lost with the end that
 * sent them. */
static void inbox_cut(struct link *link)
{
    while (inbox_is_full(link)) {
        struct list_node *last = link->inbox.head.prev;
        list_remove(last);
        link->inbox_count--;
        message_free(container_of(last, struct message, node));
    }
}

void link_peer_text(const struct link *link, char text[LINK_PEER_TEXT_BYTES])
{
    snprintf(text, LINK_PEER_TEXT_BYTES, "somebody");
}

struct link_listener_counters link_listener_counters(const struct link_listener *listener)
{
    return (struct link_listener_counters){0};
}

static void messages_drop(struct link *link)
{
    struct list_node *node;
    while ((node = list_pop_front(&link->inbox)) != NULL)
        message_free(container_of(node, struct message, node));
    link->inbox_count = 0;
}

void link_close(struct link *link)
{
    if (link->other && world_current->links_slow && !link->ran)
        messages_drop(link->other);
    if (link->other)
        inbox_cut(link->other);
    link_part(link);
    link->closed = true;
}

void link_forked(struct link *link)
{
}

void link_listener_forked(struct link_listener *listener)
{
}

static int link_run(struct link *link)
{
    int count = 0;
    struct list_node *node;
    if (link->accept && link->side->silent)
        return 0;
    if (link->accept && link->other)
        link->other->met = true;
    if (link->side->away || (link->accept && link->side->hold_accepts))
        return 0;
    link->ran = true;
    if (link->accept && world_current->link_drops) {
        world_current->link_drops--; /* the oldest of too many silent connections */
        link_part(link);
        link->accept = NULL;
        link->closed = true;
        return 1;
    }
    if (link->accept) {
        struct link_listener *listener = link->accept;
        link->accept = NULL;
        listener->accepted(listener->arg, link);
        count++;
    }
    if (link->other && world_current->links_slow && !link->other->ran)
        return count;
    while (!link->closed && (node = list_pop_front(&link->inbox)) != NULL) {
        struct message *message = container_of(node, struct message, node);
        link->inbox_count--;
        if (!inbox_is_full(link))
            link->backlog_bytes = 0;
        int fd = message->fd;
        message->fd = -1;
        assert_true(fd < 0 || link->takes_fds);
        link->events->message(link->arg, link, message->type, message->data,
                              message->bytes, fd);
        message_free(message);
        count++;
    }
    if (!link->closed && !link->other && !link->close_reported && link->events) {
        link->close_reported = true;
        if (link->fails)
            link->events->closed(link->arg, link, link->fails, "cannot connect: no way");
        else
            link->events->closed(link->arg, link, TRYST_E_PEER, "the socket was closed");
        count++;
    }
    return count;
}

static void link_free(struct link *link)
{
    messages_drop(link);
    list_remove(&link->node);
    free(link);
}

int world_links_run(struct world *world)
{
    int count = 0;
    struct list_node *last = world->links.head.prev;
    if (world->hold_links)
        return 0;
    bool back = world->links_backwards;
    struct list_node *at = back ? last : world->links.head.next;
    for (; at != &world->links.head; at = back ? at->prev : at->next) {
        count += link_run(container_of(at, struct link, node));
        if (at == last && !back)
            break;
    }
    list_for_each_safe (&world->links, node, after) {
        struct link *link = container_of(node, struct link, node);
        if (link->closed)
            link_free(link);
    }
    return count;
}

void world_links_close(struct world *world)
{
    list_for_each_safe (&world->links, node, after)
        link_free(container_of(node, struct link, node));
}

void world_link_cut(struct world *world, int a, int b)
{
    struct link *link = world_peer(world, a, b)->link.link;
    link_part(link);
}

void world_kill(struct world *world, int rank)
{
    struct side *side = &world->sides[rank];
    rendezvous_listen_stop(side->rdv);
    for (int i = 0; i < world->size; i++) {
        const struct peer *peer = side->group.peers[i];
        struct link *link = peer ? peer->link.link : NULL;
        if (link && link->other) {
            link_part(link);
            link->close_reported = true; /* a dead rank gets no event */
        }
    }
    side->still = true;
}
