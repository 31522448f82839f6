/* SPDX-License-Identifier: Apache-2.0 */
/** @file dump.h
 *  tryst_dump's text (dump.c).
 */
#ifndef RENDEZVOUS_DUMP_H
#define RENDEZVOUS_DUMP_H

struct rendezvous;

/** Every peer, and every operation that is not complete, onto `fd`. Reads only. */
void rendezvous_dump(struct rendezvous *rdv, int fd);

#endif
