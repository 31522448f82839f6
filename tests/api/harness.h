/* SPDX-License-Identifier: Apache-2.0 */
/* N ranks for one test of the public API: threads of one process (self) or forked processes.
 *
 * Idea: each run lives in a child process, so a rank that fails prints what it saw and ends the
 * run at once, whatever its other threads do; the parent turns an exit status into a failed test.
 * Invariant: nothing outlives harness_run: every process that it started has been waited for, and
 * each of them has a watchdog that dumps its contexts and ends it.
 *
 * A test program is called with one mode: self, auto (the library chooses among all transports), shm, shm-map,
 * shm-cma, shm-ring, ucx or ofi. */
#ifndef TRYST_TESTS_API_HARNESS_H
#define TRYST_TESTS_API_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tryst/tryst.h>

enum { HARNESS_RANKS_MAX = 512, HARNESS_SKIP = 77 };

/** One rank, as its main function sees it. */
struct harness_rank {
    int rank;
    int size;
    void *arg; /**< harness_params.arg; in memory that all ranks share */
    tryst_ctx *ctx;
    tryst_group *group;
    const struct harness_params *params;
    int listen_fd;
};

struct harness_params {
    int size;
    void (*main)(struct harness_rank *rank);
    void *arg;
    const char *const *config; /**< name, value, name, value, …, NULL; may be NULL */
    unsigned timeout_s;        /**< for the whole run; 0: 20 s */
    bool no_group;             /**< the test opens contexts and groups itself */
    tryst_log_fn log_fn;       /**< NULL: to stderr */
    int killed; /**< this rank is expected to die of SIGKILL; HARNESS_NOBODY: none */
};
enum { HARNESS_NOBODY = 0 }; /* rank 0 is never the one that is killed on purpose */

/** Run the ranks and wait. 0: all of them returned; else the test has failed. */
int harness_run(const struct harness_params *params);

/** "self", "shm", "shm-cma", …: how this program was called. */
const char *harness_mode(void);
/** Called within tests/netlab: each rank runs on a host of its own. */
bool harness_in_lab(void);
bool harness_has_processes(void);
/** True if the mode is ucx or ofi. */
bool harness_over_fabric(void);
/** Whether a sanitizer slows this build down. */
bool harness_is_sanitized(void);

/** Open or close the rank's context and group (done by itself unless no_group). */
void harness_open(struct harness_rank *rank);
void harness_close(struct harness_rank *rank);
/** The configuration of this rank: to be closed by the caller. */
tryst_config *harness_config(const struct harness_rank *rank);

/** Memory that forked ranks and the test share, zeroed. */
void *harness_share(size_t bytes);
void harness_unshare(void *data, size_t bytes);
/** All ranks have come here as often as this one (`counter` lies in shared memory). */
void harness_barrier(struct harness_rank *rank, _Atomic(uint32_t) *counter);
void harness_sleep_ms(unsigned ms);
uint64_t harness_now_ns(void);

/** A number from the environment. */
uint64_t harness_setting(const char *name, uint64_t fallback);

/** Print, dump all contexts of this process, end the run. */
_Noreturn void harness_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CHECK(condition)                                        \
    do {                                                        \
        if (!(condition))                                       \
            harness_fail(__FILE__, __LINE__, "%s", #condition); \
    } while (0)
#define CHECK_EQ(got, wanted)                                                         \
    do {                                                                              \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);             \
        if (got_ != wanted_)                                                          \
            harness_fail(__FILE__, __LINE__, "%s is %lld, not %s (%lld)", #got, got_, \
                         #wanted, wanted_);                                           \
    } while (0)
#define CHECK_STATUS(expression, wanted)                                        \
    do {                                                                        \
        tryst_status got_ = (expression);                                       \
        if (got_ != (wanted))                                                   \
            harness_fail(__FILE__, __LINE__, "%s says %s, not %s", #expression, \
                         tryst_status_name(got_), tryst_status_name(wanted));   \
    } while (0)

/* ---- short forms for tests ---------------------------------------------------------------- */

struct harness_key {
    char text[TRYST_KEY_MAX + 1];
};
/** The canonical key of `edge` from `src` to `dst`. */
struct harness_key harness_key(const struct harness_rank *rank, int src, int dst,
                               const char *edge);
tryst_tensor harness_tensor(void *data, size_t bytes);
tryst_step *harness_step(const struct harness_rank *rank, uint64_t id);
tryst_op *harness_send(const struct harness_rank *rank, tryst_step *step, int dst,
                       const char *edge, const void *data, size_t bytes);
tryst_op *harness_recv(const struct harness_rank *rank, tryst_step *step, int src,
                       const char *edge, void *data, size_t bytes);
/** Wait without a limit of its own (the watchdog has one) for `wanted`, then release. */
void harness_end(tryst_op *op, tryst_status wanted);
/** Wait as harness_end, release, and return the status; the error's text is valid until the thread's next call. */
tryst_status harness_outcome(tryst_op *op, tryst_error *error_p);
/** Close the step and wait until all in it has ended. */
void harness_step_close(tryst_step *step);

/** Bytes that say which tensor they belong to. */
void harness_fill(void *data, size_t bytes, uint64_t seed);
/** Offset of the first wrong byte, or SIZE_MAX. */
size_t harness_mismatch(const void *data, size_t bytes, uint64_t seed);

/** The value of a counter (tryst_counter_visit); fails when there is none of that name. */
uint64_t harness_counter(const tryst_ctx *ctx, const char *name);
/** Bytes that malloc has handed out in this process, in all arenas. */
size_t harness_heap_bytes(void);
/** Bytes of this process that are in memory. */
size_t harness_resident_bytes(void);
/** Open descriptors of this process. */
int harness_fds(void);

/** xorshift64*: the tests' random numbers. */
static inline uint64_t harness_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Dull;
}

/** main of a test program: takes the mode from the command line, skips what cannot run. */
struct CMUnitTest;
int harness_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);
#define HARNESS_MAIN(argc, argv, tests) \
    harness_main(argc, argv, tests, sizeof(tests) / sizeof((tests)[0]))

#endif
