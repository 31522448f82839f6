/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared library that is opened when it is first needed, and the calls that we make of it.
 * It is never closed. From any thread. Callers: hwloc_calls, xml, nvml.
 */
#ifndef TRYST_TOPOLOGY_LIBRARY_H
#define TRYST_TOPOLOGY_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>

#include "core/text/err.h"

struct library_symbol {
    const char *name; /* NULL ends the list */
    void **address;   /* written once, before library_need says TRYST_OK */
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

/** TRYST_E_UNSUPPORTED: it is not there, or lacks a call; `err` says which. Tried once. */
tryst_status library_need(struct library *library, struct err *err);

#endif
