/* SPDX-License-Identifier: Apache-2.0 */
/** @file fake_fabric.h
 *  libfabric as a build with CUDA is, over a driver without a GPU (fake_cuda.h).
 *
 *  One idea: the real library moves the bytes, from and to where the fake driver keeps them; what stands
 *  before it claims device memory and aborts where a caller breaks what the library's manual asks for.
 *  So a test walks how we use device memory natively; not whether a network card can.
 *
 *  A device's address reaches it in fi_tsend and fi_trecv only, with the descriptor of a registration
 *  that covers it, names CUDA and the right device, and lives until the operation is through; and only
 *  when CUDA's API was forbidden before.
 *
 *  Link it before libfabric is loaded: its functions come first then. From the
 *  environment:
 *
 *    FAKE_FABRIC_COPIES   1: libfabric would copy by CUDA's API, and says so when that is forbidden
 *    FAKE_FABRIC_REFUSES  5: each fifth registration of device memory fails
 *    FAKE_FABRIC_AGAIN    3: each third fi_inject finds no room
 */
#ifndef FAKE_FABRIC_H
#define FAKE_FABRIC_H

#include <stddef.h>

/** Messages from and to device memory so far, in this process. */
struct fake_fabric_counts {
    unsigned sends, recvs;
    unsigned registrations; /**< of device memory */
    unsigned refusals;
    unsigned agains;
};

void fake_fabric_counts(struct fake_fabric_counts *counts_p);

#endif
