/* SPDX-License-Identifier: Apache-2.0 */
/** @file memory_pool.h
 *  How the context opens a pool (tryst/pool.h).
 */
#ifndef TRYST_TRANSPORTS_MEMORY_MEMORY_POOL_H
#define TRYST_TRANSPORTS_MEMORY_MEMORY_POOL_H

#include "tryst/pool.h"

struct memory_cache;

/** Implement tryst_pool_open; regions are registered with `cache`, which must outlive the
 *  pool. */
tryst_status memory_pool_open(struct memory_cache *cache, const tryst_pool_params *params,
                              tryst_pool **pool_p);

#endif
