/* SPDX-License-Identifier: Apache-2.0 */
/* Sets a rank's clock ahead (clock_us of TRYST_FAULT), in its trace and for its peers.
 *
 * One idea: the library runs on the machine's clock. The linker replaces the functions
 * through which times of the trace leave or enter it (--wrap), and the replacements move
 * the times: events, clock messages, and the offset from rank 0's clock.
 * Invariant: no other rank finds that it reads the same clock as this one (clock ids are
 * 0), so both measure the offset. */
#include <stdlib.h>
#include <string.h>

#include "core/log/trace.h"
#include "rendezvous/peer/clock_offset.h"
#include "rendezvous/peer/messages.h"
#include "transports/fault/fault.h"
#include "transports/link/link.h"

/* Return by how much this rank's clock is ahead of the machine's. */
static uint64_t ahead_ns(void)
{
    const struct fault_script *script = fault_script_find();
    const char *rank = getenv("TRYST_RANK");
    if (!script || !rank ||
        (script->one_rank && script->rank != strtoull(rank, NULL, 10)))
        return 0;
    return script->clock_us * NS_PER_US;
}

/* Return by how much it is ahead of rank 0's as the library knows that. */
static int64_t ahead_of_root_ns(void)
{
    const char *rank = getenv("TRYST_RANK");
    return rank && strcmp(rank, "0") == 0 ? 0 : (int64_t)ahead_ns();
}

void __real_trace_record(struct trace *trace, const struct trace_event *event);
void __wrap_trace_record(struct trace *trace, const struct trace_event *event);
void __wrap_trace_record(struct trace *trace, const struct trace_event *event)
{
    struct trace_event moved = *event;
    moved.at_ns += ahead_ns();
    __real_trace_record(trace, &moved);
}

tryst_status __real_link_send(struct link *link, uint8_t type, const void *data,
                              size_t bytes, int fd);
tryst_status __wrap_link_send(struct link *link, uint8_t type, const void *data,
                              size_t bytes, int fd);
tryst_status __wrap_link_send(struct link *link, uint8_t type, const void *data,
                              size_t bytes, int fd)
{
    struct link_clock clock;
    if (type != LINK_CLOCK || !ahead_ns())
        return __real_link_send(link, type, data, bytes, fd);
    memcpy(&clock, data, sizeof clock);
    clock.now_ns += ahead_ns();
    clock.root_ns -= ahead_of_root_ns();
    clock.clock_id = 0;
    return __real_link_send(link, type, &clock, sizeof clock, fd);
}

void __real_peer_clock_read(struct peer *peer, const void *data, size_t bytes);
void __wrap_peer_clock_read(struct peer *peer, const void *data, size_t bytes);
void __wrap_peer_clock_read(struct peer *peer, const void *data, size_t bytes)
{
    struct link_clock clock;
    if (bytes != sizeof clock || !ahead_ns()) {
        __real_peer_clock_read(peer, data, bytes);
        return;
    }
    memcpy(&clock, data, sizeof clock);
    if (clock.echo_ns)
        clock.echo_ns -= ahead_ns();
    clock.clock_id = 0;
    __real_peer_clock_read(peer, &clock, sizeof clock);
}

bool __real_rendezvous_clock(const struct rendezvous *rdv, int64_t *offset_ns_p,
                             uint64_t *error_ns_p);
bool __wrap_rendezvous_clock(const struct rendezvous *rdv, int64_t *offset_ns_p,
                             uint64_t *error_ns_p);
bool __wrap_rendezvous_clock(const struct rendezvous *rdv, int64_t *offset_ns_p,
                             uint64_t *error_ns_p)
{
    bool known = __real_rendezvous_clock(rdv, offset_ns_p, error_ns_p);
    *offset_ns_p -= ahead_of_root_ns();
    return known;
}
