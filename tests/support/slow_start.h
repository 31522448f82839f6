/* SPDX-License-Identifier: Apache-2.0 */
/** @file slow_start.h
 *  Fabrics that start slowly, or fail after a slow start, as on a host with hundreds of
 *  interfaces.
 *
 *  The program that links slow_start.c exports ucp_init_version, fi_getinfo and
 *  fi_fabric. Its symbols come before those of libraries that are loaded later, so UCX
 *  and libfabric are called through it. */
#ifndef TRYST_TESTS_SUPPORT_SLOW_START_H
#define TRYST_TESTS_SUPPORT_SLOW_START_H

#include <stdatomic.h>

/** Duration of each start, in ms; 0: no delay. */
extern _Atomic(unsigned) slow_start_ms;
/** Nonzero: starts fail after the delay. */
extern _Atomic(int) slow_start_fails;
/** Calls of ucp_init, or of fi_fabric, that have begun and that have returned. */
extern _Atomic(unsigned) slow_start_begun, slow_start_ended;
/** Calls of all three functions that have not returned. */
extern _Atomic(unsigned) slow_start_inside;

#endif
