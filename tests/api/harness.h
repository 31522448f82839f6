/* SPDX-License-Identifier: Apache-2.0 */
/* N ranks for one test of the public API: threads of one process (self) or forked
 * processes.
 *
 * Idea: each run has its own child process. A rank that fails prints its state and ends
 * the run at once, whatever its other threads are doing; the parent turns the exit status
 * into a failed test.
 * Invariant: nothing outlives harness_run. Every child process has been waited for, and
 * each has a watchdog that dumps its contexts and ends it.
 *
 * A test program takes one mode as its argument: self, auto (the library chooses the
 * transport), shm, shm-map, shm-cma, shm-stage, shm-ring, ucx or ofi. */
#ifndef TRYST_TESTS_API_HARNESS_H
#define TRYST_TESTS_API_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tryst/tryst.h>

enum { HARNESS_RANKS_MAX = 512, HARNESS_SKIP = 77 };

/** One rank, as passed to its main function. */
struct harness_rank {
    int rank;
    int size;
    void *arg; /**< harness_params.arg, in memory that all ranks share */
    tryst_ctx *ctx;
    tryst_group *group;
    struct gpu *gpu; /**< the devices of TRYST_TEST_DEVICE (twins.h), or NULL */
    const struct harness_params *params;
    int listen_fd;
};

struct harness_params {
    int size;
    void (*main)(struct harness_rank *rank);
    void *arg;
    const char *const *config; /**< name, value, name, value, …, NULL; or NULL for none */
    unsigned timeout_s;        /**< limit of the whole run; 0: 20 s */
    bool no_group;             /**< true: the test opens contexts and groups itself */
    /** called at the end of harness_open and at the begin of harness_close, or NULL */
    void (*opened)(struct harness_rank *rank), (*closing)(struct harness_rank *rank);
    tryst_log_fn log_fn; /**< NULL: log to stderr */
    int killed; /**< rank that is expected to die of SIGKILL, or HARNESS_NO_RANK */
};
enum {
    HARNESS_NO_RANK = 0
}; /* HARNESS_NO_RANK is 0: tests never kill rank 0 on purpose */

/** Run the ranks and wait for them. Return 0 if all of them returned; otherwise the test
 *  has failed. */
int harness_run(const struct harness_params *params);

/** Return the mode of this program: "self", "shm", "shm-cma", … */
const char *harness_mode(void);
/** True if the test runs within tests/netlab, where each rank has a host to itself. */
bool harness_in_lab(void);
bool harness_has_processes(void);
/** True if the mode is ucx or ofi. */
bool harness_over_fabric(void);
/** True if this is a sanitizer's build, which is slow. */
bool harness_is_sanitized(void);

/** Open or close the rank's context and group. The harness calls both unless no_group is
 *  set. */
void harness_open(struct harness_rank *rank);
void harness_close(struct harness_rank *rank);
/** Return the configuration of this rank. The caller closes it. */
tryst_config *harness_config(const struct harness_rank *rank);

/** Return zeroed memory that the test and all forked ranks share. */
void *harness_share(size_t bytes);
void harness_unshare(void *data, size_t bytes);
/** Wait until all ranks have entered as many barriers as this one. `counter` is in shared
 *  memory. */
void harness_barrier(struct harness_rank *rank, _Atomic(uint32_t) *counter);
void harness_sleep_ms(unsigned ms);
uint64_t harness_now_ns(void);

/** Return a number from the environment, or `fallback`. */
uint64_t harness_setting(const char *name, uint64_t fallback);

/** Print the message, dump all contexts of this process and end the run. */
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
#define CHECK_STATUS(expression, wanted)                                      \
    do {                                                                      \
        tryst_status got_ = (expression);                                     \
        if (got_ != (wanted))                                                 \
            harness_fail(__FILE__, __LINE__, "%s is %s, not %s", #expression, \
                         tryst_status_name(got_), tryst_status_name(wanted)); \
    } while (0)

/* ---- short forms for tests --------------------------------------------------------- */

struct harness_key {
    char text[TRYST_KEY_MAX + 1];
};
/** Return the canonical key of `edge` from `src` to `dst`. */
struct harness_key harness_key(const struct harness_rank *rank, int src, int dst,
                               const char *edge);
tryst_tensor harness_tensor(void *data, size_t bytes);
tryst_step *harness_step(const struct harness_rank *rank, uint64_t id);
tryst_op *harness_send(const struct harness_rank *rank, tryst_step *step, int dst,
                       const char *edge, const void *data, size_t bytes);
tryst_op *harness_recv(const struct harness_rank *rank, tryst_step *step, int src,
                       const char *edge, void *data, size_t bytes);
/** Wait for the operation to end, without a time limit (the watchdog has one); fail
 *  unless its status is `wanted`; release it. */
void harness_end(tryst_op *op, tryst_status wanted);
/** Wait for the operation without a time limit, release it, and return its status. The
 *  error's text is valid until the thread's next call. */
tryst_status harness_outcome(tryst_op *op, tryst_error *error_p);
/** Close the step and wait until all its operations have ended. */
void harness_step_close(tryst_step *step);

/** Fill `data` with bytes that depend on `seed`, so that no two tensors are equal. */
void harness_fill(void *data, size_t bytes, uint64_t seed);
/** Return the offset of the first wrong byte, or SIZE_MAX. */
size_t harness_mismatch(const void *data, size_t bytes, uint64_t seed);

/** Return the value of a counter (tryst_counter_visit); fail if no counter has that
 *  name. */
uint64_t harness_counter(const tryst_ctx *ctx, const char *name);
/** Return the bytes that malloc has handed out in this process, in all arenas; 0 with a
 *  sanitizer. */
size_t harness_heap_bytes(void);
/** Return the resident bytes of this process; 0 with a sanitizer. */
size_t harness_resident_bytes(void);
/** Return the number of open descriptors of this process. */
int harness_fds(void);

/** Draw the next of the tests' random numbers (xorshift64*). */
static inline uint64_t harness_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Dull;
}

/** The main function of a test program: take the mode from the command line, and skip
 *  what cannot run. */
struct CMUnitTest;
int harness_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);
#define HARNESS_MAIN(argc, argv, tests) \
    harness_main(argc, argv, tests, sizeof(tests) / sizeof((tests)[0]))

#endif
