/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared library that is opened on first use, and the addresses of its functions.
 * The library is never closed. Threads: any.
 */
#ifndef TRYST_TOPOLOGY_BASE_LIBRARY_H
#define TRYST_TOPOLOGY_BASE_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>

#include "core/text/err.h"

struct library_symbol {
    const char *name; /**< NULL ends the list */
    void **address;   /**< written once, before library_need returns TRYST_OK */
};

struct library {
    const char *file;
    const struct library_symbol *symbols;
    pthread_mutex_t lock;
    bool tried;
    struct err why;
};

#define LIBRARY_INIT(file_, symbols_)                                              \
    {                                                                              \
        .file = (file_), .symbols = (symbols_), .lock = PTHREAD_MUTEX_INITIALIZER, \
        .why = ERR_INIT                                                            \
    }

/** Open the library at the first call; later calls return the same status.
 *  TRYST_E_UNSUPPORTED: the library or one of its functions is missing; `err` names
 *  it. */
tryst_status library_need(struct library *library, struct err *err);

#endif
