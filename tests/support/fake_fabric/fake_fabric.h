/* SPDX-License-Identifier: Apache-2.0 */
/** @file fake_fabric.h
 *  libfabric as if built with CUDA, over a driver without a GPU (fake_cuda.h).
 *
 *  One idea: the real library moves the bytes, from and to the host addresses of the fake
 *  driver; this wrapper claims device memory and aborts where a caller violates the
 *  library's manual. So a test covers the native use of device memory by Tryst, and not
 *  the ability of a network card.
 *
 *  A device address is allowed in fi_tsend and fi_trecv only, with the descriptor of a
 *  registration that covers it, has CUDA and the right device, and exists until the
 *  operation completes; and only after CUDA's API was forbidden.
 *
 *  Link this library before libfabric is loaded, so that its functions come first.
 *  Environment:
 *
 *    FAKE_FABRIC_COPIES   1: libfabric would copy by CUDA's API, and reports this when
 *                         the API is forbidden
 *    FAKE_FABRIC_REFUSES  5: each fifth registration of device memory fails
 *    FAKE_FABRIC_AGAIN    3: each third fi_inject finds no room */
#ifndef TRYST_TESTS_SUPPORT_FAKE_FABRIC_FAKE_FABRIC_H
#define TRYST_TESTS_SUPPORT_FAKE_FABRIC_FAKE_FABRIC_H

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
