/* SPDX-License-Identifier: Apache-2.0 */
/** @file bootstrap_env.h
 *  Bootstrap parameters from the configuration and the launcher's variables
 *  (bootstrap_env.c).
 */
#ifndef TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_BOOTSTRAP_ENV_H
#define TRYST_RENDEZVOUS_BOOTSTRAP_LAUNCH_BOOTSTRAP_ENV_H

#include "rendezvous/bootstrap/session/bootstrap.h"

struct config;

/** Parameters with the memory that they point into. */
struct bootstrap_env {
    /** Points into this record: do not copy the record. */
    struct bootstrap_params params;
    int local_rank, local_size; /**< -1: not known */
    /** params.listen_fd belongs to this record until bootstrap_open takes it. */
    bool owns_listener;
    char address[BOOTSTRAP_ADDRESS_MAX];
    char job[BOOTSTRAP_JOB_BYTES];
    char net[BOOTSTRAP_NET_MAX];
    uint8_t token[BOOTSTRAP_TOKEN_MAX];
};

/** Read rank, size, local_rank, local_size, bootstrap, bootstrap_fd, port, port_range,
 *  token, token_file, insecure, job, net and bootstrap_timeout, and the launchers'
 *  variables (launch.h). Without any of them the job is this process alone. One line
 *  (info) names the launcher and the variables that show it. Under PMIx or PMI rank
 *  0 opens its listening socket here and publishes address and token, and the others
 *  wait for them, at most `timeout_ns` (0: bootstrap_timeout). Wipe the record also
 *  after a failure.
 *  TRYST_E_CONFIG     half set or contradicting: the text names the variables
 *  TRYST_E_TOKEN      no token: the text has the line to type; a token file that other
 *                     users can read: the text has the chmod
 *  TRYST_E_IO         the token file cannot be opened or read
 *  TRYST_E_BOOTSTRAP  PMIx or PMI does not answer, or rank 0 published nothing
 *  TRYST_E_NOMEM, TRYST_E_SYSTEM */
tryst_status bootstrap_env_read(const struct config *config, uint64_t timeout_ns,
                                const struct log *log, struct err *err,
                                struct bootstrap_env *env_p);

/** Check that there is a valid token, or TRYST_INSECURE=1, as bootstrap_env_read would
 *  find it, but without PMIx. TRYST_OK, TRYST_E_TOKEN, TRYST_E_IO. */
tryst_status bootstrap_token_check(const struct config *config, struct err *err);

/** Wipe the token, and close a listening socket that bootstrap_open has not taken. */
void bootstrap_env_wipe(struct bootstrap_env *env);

#endif
