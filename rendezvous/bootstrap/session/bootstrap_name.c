/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups of rank 0's host name, each in a thread: see bootstrap_name.h. */
#include "bootstrap_name.h"
#include "bootstrap_net.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/memory/alloc.h"
#include "core/os/descriptors.h"
#include "core/os/fd.h"
#include "transports/signal_guard.h"

/* Pause between two lookups: short while a name is most likely just being made known,
 * then long enough that the ranks of a large job are no load for a name service. */
#define LOOKUP_PAUSE_FIRST_NS (250 * NS_PER_MS)
#define LOOKUP_PAUSE_MOST_NS  (1 * NS_PER_S)

/* Time after which a lookup without an answer is left, the first time. A name service
 * answers within milliseconds, or after a resolver's time-out of 5 s. */
#define LOOKUP_PATIENCE_NS (3 * NS_PER_S)

enum lookup_state { LOOKUP_RUNS, LOOKUP_DONE, LOOKUP_LEFT };

/* The owner of `bootstrap_name` and the thread share it; the last one frees it. */
struct bootstrap_lookup {
    /* Exchanged by the thread (DONE) and the owner (LEFT), acquire and release: each
     * side then sees what the other has written before. */
    _Atomic int state;
    int event_fd; /* readable once the thread has ended the lookup */
    pthread_t thread;
    char host[256], port[8];
    struct addrinfo *found;
    int code, error; /* getaddrinfo's result, and errno where that is EAI_SYSTEM */
};

/* ---- the address ------------------------------------------------------------------- */

static tryst_status address_refuse(const char *text, const char *why, struct err *err)
{
    return err_set(
        err, TRYST_E_CONFIG,
        "TRYST_BOOTSTRAP='%.80s' %s; write host:port, for example 10.0.0.1:4711 or "
        "[fd00::1]:4711",
        text, why);
}

static tryst_status address_parse(const char *text, struct err *err,
                                  struct bootstrap_name *name)
{
    const char *host = text, *colon = strrchr(text, ':');
    if (!colon)
        return address_refuse(text, "has no port", err);
    size_t host_bytes = (size_t)(colon - text);
    if (host[0] == '[') {
        if (host_bytes < 2 || colon[-1] != ']')
            return address_refuse(text, "has a bracket that does not close", err);
        host++;
        host_bytes -= 2;
    } else if (memchr(host, ':', host_bytes)) {
        return address_refuse(text, "is an IPv6 address without brackets", err);
    }
    if (host_bytes == 0)
        return address_refuse(text, "has no host", err);
    if (host_bytes >= sizeof name->host)
        return address_refuse(text, "is too long", err);
    memcpy(name->host, host, host_bytes);
    name->host[host_bytes] = '\0';
    name->port = bootstrap_address_port(text);
    if (!name->port)
        return address_refuse(text, "has no port between 1 and 65535", err);
    return TRYST_OK;
}

static int lookup_call(const char *host, const char *port, int flags,
                       struct addrinfo **found_p)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | flags};
    return getaddrinfo(host, port, &hints, found_p);
}

static void port_text(const struct bootstrap_name *name, char text_p[8])
{
    snprintf(text_p, 8, "%u", name->port);
}

tryst_status bootstrap_name_open(const char *text, struct err *err,
                                 struct bootstrap_name *name_p)
{
    char port[8];
    struct bootstrap_name name = {.pause_ns = LOOKUP_PAUSE_FIRST_NS,
                                  .patience_ns = LOOKUP_PATIENCE_NS};
    tryst_status status = address_parse(text, err, &name);
    if (status != TRYST_OK)
        return status;
    port_text(&name, port);
    name.is_numeric = lookup_call(name.host, port, AI_NUMERICHOST, &name.found) == 0;
    snprintf(name.why, sizeof name.why,
             "cannot resolve the host: the name service has not answered");
    *name_p = name;
    return TRYST_OK;
}

/* ---- a lookup ---------------------------------------------------------------------- */

static void lookup_free(struct bootstrap_lookup *lookup)
{
    if (lookup->found)
        freeaddrinfo(lookup->found);
    close(lookup->event_fd);
    mem_free(lookup);
}

static void *lookup_main(void *arg)
{
    struct bootstrap_lookup *lookup = arg;
    int event_fd = lookup->event_fd;
    descriptors_low_hold(); /* name services may keep a socket */
    lookup->code = lookup_call(lookup->host, lookup->port, 0, &lookup->found);
    lookup->error = errno;
    descriptors_low_release();
    /* The owner joins this thread before it frees a lookup that is done. */
    if (atomic_exchange_explicit(&lookup->state, LOOKUP_DONE, memory_order_acq_rel) ==
        LOOKUP_LEFT)
        lookup_free(lookup);
    else
        eventfd_write(event_fd, 1);
    return NULL;
}

static int lookup_thread_start(struct bootstrap_lookup *lookup)
{
    sigset_t mask;
    signal_mask_begin(&mask);
    int error = pthread_create(&lookup->thread, NULL, lookup_main, lookup);
    signal_mask_end(&mask);
    return error;
}

static void lookup_fail(struct bootstrap_name *name, const char *why)
{
    snprintf(name->why, sizeof name->why, "cannot resolve the host: %s", why);
}

/* Start a lookup. A failure is the reason why the host has no address so far. */
static void lookup_start(struct bootstrap_name *name)
{
    struct bootstrap_lookup *lookup = mem_zalloc(sizeof *lookup);
    if (!lookup) {
        lookup_fail(name, "out of memory");
        return;
    }
    memcpy(lookup->host, name->host, sizeof lookup->host);
    port_text(name, lookup->port);
    lookup->event_fd = FD_MAKE(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int error = lookup->event_fd < 0 ? errno : lookup_thread_start(lookup);
    if (!error) {
        name->lookup = lookup;
        return;
    }
    lookup_fail(name, err_reason(error));
    if (lookup->event_fd >= 0)
        close(lookup->event_fd);
    mem_free(lookup);
}

/* Take the result of a lookup that has ended. */
static void lookup_take(struct bootstrap_name *name)
{
    struct bootstrap_lookup *lookup = name->lookup;
    name->lookup = NULL;
    pthread_join(lookup->thread, NULL);
    if (lookup->code == 0) {
        if (name->found)
            freeaddrinfo(name->found);
        name->found = lookup->found;
        lookup->found = NULL;
    } else {
        lookup_fail(name, lookup->code == EAI_SYSTEM ? err_reason(lookup->error)
                                                     : gai_strerror(lookup->code));
    }
    lookup_free(lookup);
}

static void lookup_leave(struct bootstrap_lookup *lookup)
{
    pthread_t thread = lookup->thread;
    if (atomic_exchange_explicit(&lookup->state, LOOKUP_LEFT, memory_order_acq_rel) ==
        LOOKUP_DONE) {
        pthread_join(thread, NULL);
        lookup_free(lookup);
        return;
    }
    pthread_detach(thread);
}

/* ---- the name ---------------------------------------------------------------------- */

static void lookup_renew(struct bootstrap_name *name, uint64_t now_ns)
{
    if (name->lookup && clock_since_ns(name->lookup_ns, now_ns) >= name->patience_ns) {
        lookup_leave(name->lookup);
        name->lookup = NULL;
        name->patience_ns *= 2;
    } else if (name->lookup || now_ns < name->next_ns) {
        return;
    }
    name->lookup_ns = now_ns;
    lookup_start(name);
}

/* Return the end of a wait for the lookup: now if an address is known. */
static uint64_t lookup_until_ns(const struct bootstrap_name *name, uint64_t now_ns,
                                uint64_t until_ns)
{
    uint64_t left_ns = name->lookup_ns + name->patience_ns;
    if (name->found)
        return now_ns;
    return left_ns < until_ns ? left_ns : until_ns;
}

tryst_status bootstrap_name_poll(struct bootstrap_name *name,
                                 const struct bootstrap_wait *wait, uint64_t until_ns)
{
    uint64_t now_ns = clock_now_ns(wait->clock);
    if (name->is_numeric)
        return TRYST_OK;
    lookup_renew(name, now_ns);
    if (!name->lookup)
        return name->found ? TRYST_OK : TRYST_AGAIN;
    tryst_status status = bootstrap_wait_fd(wait, name->lookup->event_fd, POLLIN,
                                            lookup_until_ns(name, now_ns, until_ns));
    if (status == TRYST_E_CANCELED)
        return status;
    if (status == TRYST_OK) {
        lookup_take(name);
        name->next_ns = clock_now_ns(wait->clock) + name->pause_ns;
        name->pause_ns = 2 * name->pause_ns < LOOKUP_PAUSE_MOST_NS ? 2 * name->pause_ns
                                                                   : LOOKUP_PAUSE_MOST_NS;
    }
    return name->found ? TRYST_OK : TRYST_AGAIN;
}

void bootstrap_name_close(struct bootstrap_name *name)
{
    if (name->lookup)
        lookup_leave(name->lookup);
    if (name->found)
        freeaddrinfo(name->found);
    name->lookup = NULL;
    name->found = NULL;
}
