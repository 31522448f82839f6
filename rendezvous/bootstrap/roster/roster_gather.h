/* SPDX-License-Identifier: Apache-2.0 */
/** @file roster_gather.h
 *  The announcements of all ranks at the bootstrap, checked once (roster_gather.c).
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_ROSTER_GATHER_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_ROSTER_ROSTER_GATHER_H

#include "core/config/config.h"
#include "core/text/err.h"
#include "roster.h"

struct bootstrap;

/** Gather all entries and check that they agree: versions, byte order, settings,
 *  prefixes. `mine` holds what config does not: wire version, prefix, incarnation, host,
 *  key; its other fields are set here. With size 1 `bootstrap` is NULL. TRYST_OK,
 *  TRYST_E_HANDSHAKE, TRYST_E_GROUP, TRYST_E_NOMEM, or the bootstrap's status. */
tryst_status roster_open(struct bootstrap *bootstrap, int rank, int size,
                         const struct config *config, struct roster_entry *mine,
                         struct err *err, struct roster *roster_p);

#endif
