/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_STATUS_H
#define TRYST_STATUS_H

#include <stdint.h>

#define TRYST_STATUS_MAP(X)                                                      \
    X(TRYST_OK, 0, "success")                                                    \
    X(TRYST_IN_PROGRESS, 1, "not complete yet")                                  \
    X(TRYST_AGAIN, 2, "no room now, try again")                                  \
    X(TRYST_E_INVALID, 100, "an argument is not valid")                          \
    X(TRYST_E_NOMEM, 101, "out of memory")                                       \
    X(TRYST_E_KEY, 102, "the key does not parse or does not name this rank")     \
    X(TRYST_E_MISMATCH, 103, "sender and receiver disagree about dtype or size") \
    X(TRYST_E_CANCELED, 104, "the operation was cancelled")                      \
    X(TRYST_E_DEADLINE, 105, "the operation's deadline passed")                  \
    X(TRYST_E_TIMEOUT, 106, "the wait timed out; the operation goes on")         \
    X(TRYST_E_DEAD, 107, "the tensor is dead: its producer did not compute it")  \
    X(TRYST_E_CLOSED, 108, "the step is closed")                                 \
    X(TRYST_E_CONFIG, 109, "a configuration value is not valid")                 \
    X(TRYST_E_UNSUPPORTED, 110, "not supported by this build or machine")        \
    X(TRYST_E_IO, 111, "a file could not be read or written")                    \
    X(TRYST_E_PROGRAM, 112, "the pipeline program is not valid")                 \
    X(TRYST_E_PEER, 200, "the peer died or was given up")                        \
    X(TRYST_E_INCARNATION, 201, "the key names another incarnation of the peer") \
    X(TRYST_E_PROTOCOL, 202, "the peer broke the protocol")                      \
    X(TRYST_E_UNREACHABLE, 203, "no transport reaches the peer")                 \
    X(TRYST_E_HANDSHAKE, 204, "the peer's version or settings differ")           \
    X(TRYST_E_LEFT, 205, "the peer has left the group")                          \
    X(TRYST_E_ABORTED, 300, "the step was aborted")                              \
    X(TRYST_E_BOOTSTRAP, 301, "the ranks did not come together in time")         \
    X(TRYST_E_TOKEN, 302, "the job token is missing or was not proved")          \
    X(TRYST_E_GROUP, 303, "the ranks' identities contradict each other")         \
    X(TRYST_E_FORKED, 400, "the context belongs to the parent of this process")  \
    X(TRYST_E_SYSTEM, 401, "a system call failed")                               \
    X(TRYST_E_MODULE, 402, "a module could not be loaded")                       \
    X(TRYST_E_CONTEXT, 403, "the context has failed or is closing")

typedef int32_t tryst_status;

enum {
#define TRYST_STATUS_ENUM(name, value, text) name = (value),
    TRYST_STATUS_MAP(TRYST_STATUS_ENUM)
#undef TRYST_STATUS_ENUM
};

#endif
