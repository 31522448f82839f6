/* SPDX-License-Identifier: Apache-2.0 */
/** @file select.h
 *  Which transport joins two ranks: a pure function of both ranks' identities.
 *
 *  Idea: both ends compute the same ordered list of candidates from the same two
 *  identities, and move on to the next one together when one proves unreachable. So
 *  nothing is negotiated.
 */
#ifndef TRYST_TRANSPORTS_SELECT_H
#define TRYST_TRANSPORTS_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/os/host_name.h"
#include "transports/link/link.h"
#include "transports/transport.h"

struct config;

/** Transports in order of preference; also the bit numbers in
 *  host_identity.transports. */
enum transport_kind {
    TRANSPORT_SELF = 0,
    TRANSPORT_SHM = 1,
    TRANSPORT_UCX = 2,
    TRANSPORT_OFI = 3,
    TRANSPORT_KINDS = 4
};

/** The most rails that a rank announces. */
enum { HOST_RAILS_MAX = 16 };

/** Flag of rail_address: a point-to-point interface. Its other end may be a server that
 *  does not forward between hosts. */
#define RAIL_TUNNEL 0x01u

/** One rail as announced: an address of one of the rank's interfaces. */
struct rail_address {
    uint8_t family; /**< 4, 6, or 0 when unused */
    uint8_t prefix_bits;
    uint8_t flags;             /**< RAIL_… */
    uint8_t interface;         /**< equal for the rails of one interface */
    uint32_t speed_mbit_per_s; /**< as the driver reports; 0: unknown */
    uint8_t ip[16];
};

/** Where a rank lives, as it announces itself to all others. The layout is fixed, since
 *  it is sent. */
struct host_identity {
    uint64_t process_id; /**< random per process, shared by its contexts */
    uint64_t host_id; /**< hash of boot id and network namespace, or of TRYST_HOST_ID */
    /** Hash of boot id and network namespace, also with TRYST_HOST_ID. */
    uint64_t net_namespace;
    uint64_t pid_namespace;
    int32_t pid;
    uint32_t uid;
    uint32_t transports; /**< bit per transport_kind that this process could use */
    uint32_t forced; /**< 1 + transport_kind when TRYST_TRANSPORT forces one, else 0 */
    uint32_t host_id_set; /**< 1 when TRYST_HOST_ID is set */
    uint32_t rails_count;
    struct rail_address rails[HOST_RAILS_MAX]; /**< the best first */
    struct link_address link;
    char host_name[HOST_NAME_BYTES];
};

/** Fill in all but `link` and the rails. TRYST_OK or TRYST_E_SYSTEM. */
tryst_status identity_local(const struct config *config, uint32_t transports,
                            struct host_identity *identity_p);
bool identity_same_process(const struct host_identity *a, const struct host_identity *b);
/** True if the two count as one host: a hint, since TRYST_HOST_ID may claim it. */
bool identity_same_host(const struct host_identity *a, const struct host_identity *b);
/** True if both are in one network namespace: loopback leads from one to the other. Where
 *  a rank cannot read its namespace, hosts of one name count as one. */
bool identity_same_network(const struct host_identity *a, const struct host_identity *b);
/** True if a Unix link can join the two: one host, one network namespace, one user. */
bool identity_unix_reaches(const struct host_identity *a, const struct host_identity *b);

/** List the candidates that join `a` and `b`, best first; symmetric in a and b. Returns
 *  their count. 0: no transport joins them, and `text` (TRANSPORT_TEXT_MAX) receives the
 *  reason. */
int select_candidates(const struct host_identity *a, const struct host_identity *b,
                      enum transport_kind kinds[TRANSPORT_KINDS], char *text);

/** Get a `turn` for the pair of ranks `a` and `b`. The numbers of neighbours in a chain
 *  differ, and so do those of rank 0 with each other rank. */
uint32_t select_pair_number(int32_t a, int32_t b);

const char *transport_kind_name(enum transport_kind kind);
/** True if rails of this kind use interfaces. */
static inline bool transport_kind_uses_network(enum transport_kind kind)
{
    return kind != TRANSPORT_SELF && kind != TRANSPORT_SHM;
}

#endif
