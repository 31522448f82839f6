/* SPDX-License-Identifier: Apache-2.0 */
/** @file bootstrap_env.h
 *  What the configuration and the launcher's variables say of a job (bootstrap_env.c).
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_ENV_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_ENV_H

#include "rendezvous/bootstrap/session/bootstrap.h"

struct config;

/* Parameters as the configuration and the launcher's variables state them, with the memory
 * that they point into. */
struct bootstrap_env {
    struct bootstrap_params params; /* points into this record: do not copy it */
    int local_rank, local_size;     /* -1: nobody has said */
    bool owns_listener;             /* params.listen_fd is ours until bootstrap_open */
    char address[BOOTSTRAP_ADDRESS_MAX];
    char net[BOOTSTRAP_NET_MAX];
    uint8_t token[BOOTSTRAP_TOKEN_MAX];
};

/* Reads rank, size, local_rank, local_size, bootstrap, bootstrap_fd, port, port_range, token,
 * token_file, insecure, net and bootstrap_timeout, and the launchers' variables (launch.h).
 * Nothing set: one rank, alone. What launched us, and why we think so, is one line (info).
 * Under PMIx rank 0 makes its listening socket here and publishes address and token, and the
 * others wait for them: at most `timeout_ns` (0: bootstrap_timeout). Also on failure the
 * record must be wiped.
 * TRYST_E_CONFIG     half of it is set: names what is missing, or what contradicts
 * TRYST_E_TOKEN      no token: the text has the line to type; a token file that others can
 *                    read: the text has the chmod
 * TRYST_E_BOOTSTRAP  PMIx does not answer, or rank 0 published nothing
 * TRYST_E_NOMEM, TRYST_E_SYSTEM */
tryst_status bootstrap_env_read(const struct config *config, uint64_t timeout_ns,
                                const struct log *log, struct err *err,
                                struct bootstrap_env *env_p);

/* Whether there is a token that can be used, as bootstrap_env_read would find it; waits for
 * nobody. TRYST_E_TOKEN, TRYST_E_IO. */
tryst_status bootstrap_token_check(const struct config *config, struct err *err);

/* Wipes the token, closes a listening socket that bootstrap_open has not got. */
void bootstrap_env_wipe(struct bootstrap_env *env);

#endif
