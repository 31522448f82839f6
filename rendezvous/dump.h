/* SPDX-License-Identifier: Apache-2.0 */
/** @file dump.h
 *  The text of tryst_dump (dump.c).
 */
#ifndef TRYST_RENDEZVOUS_DUMP_H
#define TRYST_RENDEZVOUS_DUMP_H

struct rendezvous;

/** Write every peer, and every operation that is not complete, to `fd`. Changes
 *  nothing. */
void rendezvous_dump(struct rendezvous *rdv, int fd);

#endif
