/* SPDX-License-Identifier: Apache-2.0 */
/* A set of configuration values.
 *
 * One idea: everything about a setting is its row in config_table.h; this file only walks
 * the rows. Invariant: every value of an open config is one that its row allows; a
 * refused value changes nothing. The context reads or receives a config and passes it
 * down.
 * Threads: one at a time while values change; any number may read. */
#ifndef TRYST_CORE_CONFIG_CONFIG_H
#define TRYST_CORE_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/config/config_table.h"
#include "core/log/log.h"
#include "core/text/err.h"
#include "tryst/tryst.h"

enum config_id {
#define CONFIG_ROW_ID(id, ...) CONFIG_##id,
    CONFIG_TABLE(CONFIG_ROW_ID)
#undef CONFIG_ROW_ID
        CONFIG_COUNT
};

/** Indices of the ENUM rows' words, in the order of the allowed lists. */
enum {
    CONFIG_TRANSPORT_AUTO,
    CONFIG_TRANSPORT_SELF,
    CONFIG_TRANSPORT_SHM,
    CONFIG_TRANSPORT_UCX,
    CONFIG_TRANSPORT_OFI
};
enum {
    CONFIG_SHM_MECH_AUTO,
    CONFIG_SHM_MECH_MAP,
    CONFIG_SHM_MECH_CMA,
    CONFIG_SHM_MECH_STAGE,
    CONFIG_SHM_MECH_RING
};
enum { CONFIG_BIND_NONE, CONFIG_BIND_AUTO };

enum config_flag { CONFIG_AGREED = 1, CONFIG_SECRET = 2 };

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_ENVIRONMENT, CONFIG_FROM_SET };

struct config;

/** Open a config with the defaults and then the environment. An unknown variable TRYST_…
 *  logs a warning with the nearest name, except TRYST_TEST_…, which belongs to tests, and
 *  TRYST_LIBRARY, which bindings/python reads; a variable that is set but empty counts as
 *  not set. Returns TRYST_OK, TRYST_E_NOMEM, or TRYST_E_CONFIG: `err` (may be NULL) names
 *  the variable, the value and what is allowed. */
tryst_status config_open(const struct log *log, struct err *err,
                         struct config **config_p);

/** Open a config with the defaults, without the environment. */
tryst_status config_open_defaults(struct config **config_p);

tryst_status config_copy(const struct config *config, struct config **copy_p);
/** Close a config; texts of values are wiped. NULL is allowed. */
void config_close(struct config *config);

/** Set one value by its name ("window_bytes", or "TRYST_WINDOW_BYTES"). Returns TRYST_OK,
 *  TRYST_E_CONFIG (unknown name, with the nearest; bad value) or TRYST_E_NOMEM. */
tryst_status config_set(struct config *config, const char *name, const char *value,
                        struct err *err);

/** Return the text that the value was set from, secrets too; NULL for an unknown name.
 *  Valid until the value is set again or the config closed. */
const char *config_get_string(const struct config *config, const char *name);

/** Read the value of any row but a STRING (TIME in ns, ENUM as index, INT in two's
 *  complement). False for a STRING row and for an unknown name. */
bool config_get_number(const struct config *config, const char *name, uint64_t *value_p);

/** Return a value by id. The function must be that of the row's type (asserted).
 *  config_str never returns NULL. */
uint64_t config_bytes(const struct config *config, enum config_id id);
uint64_t config_time_ns(const struct config *config, enum config_id id);
int config_enum(const struct config *config, enum config_id id);
bool config_bool(const struct config *config, enum config_id id);
int64_t config_int(const struct config *config, enum config_id id);
const char *config_str(const struct config *config, enum config_id id);

/** Return the word of an ENUM row's value. */
const char *config_enum_word(const struct config *config, enum config_id id);

enum config_source config_source(const struct config *config, enum config_id id);

const char *config_name(enum config_id id);        /* "window_bytes" */
const char *config_environment(enum config_id id); /* "TRYST_WINDOW_BYTES" */

/** Call `fn` for each row in table order until it returns nonzero, and return that, else
 *  0. Secrets read "(set)". Strings are valid during the call of `fn`. */
int config_visit(const struct config *config,
                 int (*fn)(void *arg, const tryst_config_item *item), void *arg);

/** Read one row by its name in either form, as config_visit shows it. False for an
 *  unknown name. Strings are valid until the value is set again or the config closed. */
bool config_find(const struct config *config, const char *name,
                 tryst_config_item *item_p);

/** Write the values of the rows that must be equal on all ranks, in table order, each as
 *  a number (a STRING as its hash), at most `capacity` of them. Returns the number of
 *  such rows. */
size_t config_agreed(const struct config *config, uint64_t *values_p, size_t capacity);

struct config_difference {
    enum config_id id;
    char mine[32], theirs[32]; /**< the two values as text ("64K") */
};

/** True if two lists of config_agreed with `count` values differ; `*difference_p` is then
 *  the first row that differs. Lists of different lengths come from different versions,
 *  which the handshake compares earlier. */
bool config_agreed_differ(const uint64_t *mine, const uint64_t *theirs, size_t count,
                          struct config_difference *difference_p);

/** Write a row's value as text that parses back to the value: "64K", "50us", "shm",
 *  "-1". */
void config_format(enum config_id id, uint64_t value, char *text_p, size_t text_bytes);

#endif
