/* SPDX-License-Identifier: Apache-2.0 */
/** @file tryst.h
 *  Tryst: transfers that meet by key. This header is the manual; read it from top to
 *  bottom. Library: libtryst, with status.h, types.h, key.h, coll.h, device.h, pool.h,
 *  profile.h and live.h; libtryst_topology has topo.h; libtryst_pipeline has stage.h,
 *  pipeline.h, data.h, weights.h and replay.h.
 *
 *  The life of a program:
 *
 *      tryst_open            a context: configuration, transports, progress
 *      tryst_group_open      the ranks come together; waits for all of them
 *        tryst_step_open       a scope for keys, equal ids on all ranks, increasing
 *          tryst_recv, tryst_send   in any order, on any rank: no order can hang
 *          tryst_wait, tryst_progress or a callback
 *          tryst_op_release
 *        tryst_step_close
 *      tryst_group_close, tryst_close
 *
 *  Rules that hold everywhere:
 *  - Structs begin with `struct_size`: set it with sizeof, in outputs too. Programs and
 *    libraries of different versions then work together, by the rule in tryst/sized.h. A
 *    zero field means its default; NULL for params means all defaults. A struct that a
 *    callback receives belongs to the library, and may be longer than this header's.
 *  - Three verbs give objects back: `_close` an object that was opened (loaded, parsed,
 *    generated, fitted), `_release` a handle that operations may still use (operations,
 *    keys, registrations: the last user frees), `_free` memory. NULL is allowed in each.
 *  - Calls are thread-safe, unless their comment restricts threads. A call blocks only if
 *    the list below names it; all others return at once, whatever peers, fabrics, drivers
 *    and other threads do meanwhile. A fabric, or the driver of a device, may take
 *    minutes to start: a thread of the library starts it, and operations that need it
 *    wait (a start of more than a second is one log line).
 *
 *      call                        blocks until                     at most
 *      tryst_group_open            all ranks have come              its timeout_ns
 *      tryst_wait, _wait_all,      the operations are complete      their timeout_ns
 *        _wait_any
 *      tryst_group_close,          what is queued has been sent     1.5 s,
 *        tryst_close               and peers have read it,
 *                                  the endpoints are closed,        10 s,
 *                                  and starts under way have ended  TRYST_PEER_TIMEOUT
 *      tryst_group_peer,           the thread that makes progress   100 ms
 *        tryst_dump                grants access; tryst_dump also
 *                                  writes
 *      tryst_mem_release           the thread that makes progress   a pass, and its
 *                                  grants access, if a transport    callbacks
 *                                  has registered the memory; and
 *                                  device memory has been freed
 *      tryst_mem_register, _alloc, on a device: its driver has      the driver decides
 *        tryst_op_stream_wait      started and done its part
 *      tryst_device_*, _stream_*,  the driver has done its part,    the driver decides
 *        _event_*, _pinned_*,      and, at the first of these
 *        tryst_pool_* (device.h,   calls, has started
 *        pool.h)
 *      tryst_transport_visit,      modules are loaded, and fabrics  the fabrics decide
 *        tryst_check_visit         have listed what they find here
 *      tryst_trace_write           the document is written          the descriptor
 *                                                                   decides
 *
 *    A call that makes progress also runs the caller's callbacks, however long they take.
 *    The first receive with an `alloc` that returns memory of a device starts the
 *    device's driver inside such a call.
 *  - Progress is made by threads that wait, by tryst_progress, or by a background thread
 *    (TRYST_PROGRESS_THREAD=1). Where ranks answer each other with small tensors, a
 *    thread of the library acknowledges received tensors while the rank is outside the
 *    library (TRYST_ACK_DELAY=0: none). Callbacks run only inside progress, wait or the
 *    background thread, once per operation, and one at a time for a context. They may
 *    submit, cancel and release, but not wait.
 *  - The library owns no signal, prints nothing to stdout and never exits. No write of
 *    the library raises SIGPIPE. The library of a fabric or driver may install signal
 *    handlers while it loads, in a thread of Tryst, after the first contact with a peer.
 *    Tryst restores the earlier dispositions when the load ends.
 *  - A program may exit while contexts are open, or while a fabric or a driver still
 *    starts after tryst_close; its other threads are then outside the library. exit()
 *    ends the library's threads, and waits for a start under way, because destructors of
 *    the fabric's library would crash beside it. A wait of more than a second is one line
 *    on stderr. exit() does not wait for a start that is blocked (without processor time
 *    for 10 s), nor longer than 5 min. _exit and quick_exit run no destructors and wait
 *    for nothing; so should a child end that was forked during a start.
 *  - No descriptor of the library is ever 0, 1 or 2, also where the program has closed
 *    these numbers. While a fabric (ucx, ofi) is open, its sockets do not get these
 *    numbers either: each of them that is closed has a placeholder. Reads and writes of a
 *    placeholder fail with EBADF, as on a closed number, and open(2) returns a higher
 *    number (close or dup2 the number first). A number that the program closes while a
 *    fabric is open gets its placeholder with the next connection, or half a second
 *    later.
 *  - A forked child may open contexts of its own, but not use its parent's. A call on the
 *    parent's context, or on a group, step, key or operation of it, returns
 *    TRYST_E_FORKED if it returns a status (the final status of an operation that was
 *    complete can still be read). The other calls do nothing and return 0 or -1; calls
 *    that only read a handle (tryst_group_rank, tryst_key_string) still work. Pools and
 *    devices do not check for a fork. The child holds no descriptor of the library and
 *    removes nothing.
 *  - A NULL handle gives TRYST_E_INVALID; a call that returns no status then does nothing
 *    and returns 0, NULL, -1 (a rank, a size, a descriptor) or "".
 *  - 64-bit little-endian hosts only.
 */
#ifndef TRYST_TRYST_H
#define TRYST_TRYST_H

#include <stdbool.h>
#include <tryst/key.h>
#include <tryst/status.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

/* ------------------------------------------------------------------------------------- *
 *  Version, statuses, types
 * ------------------------------------------------------------------------------------ */

#define TRYST_VERSION_MAJOR 0
#define TRYST_VERSION_MINOR 1
#define TRYST_VERSION_PATCH 0

/** A version as one number, for comparisons. */
#define TRYST_VERSION_NUMBER(major, minor, patch) ((major) << 16 | (minor) << 8 | (patch))
/** The version of these headers. */
#define TRYST_VERSION \
    TRYST_VERSION_NUMBER(TRYST_VERSION_MAJOR, TRYST_VERSION_MINOR, TRYST_VERSION_PATCH)
/** True if these headers are of that version or a later one, also in conditions of the
 *  preprocessor. To test the loaded library: tryst_version() >=
 *  TRYST_VERSION_NUMBER(major, minor, patch). */
#define TRYST_VERSION_AT_LEAST(major, minor, patch) \
    (TRYST_VERSION >= TRYST_VERSION_NUMBER(major, minor, patch))

/** Return the version of the loaded library, as a TRYST_VERSION_NUMBER. */
TRYST_API uint32_t tryst_version(void);
/** Return the version of the loaded library as text, "0.1.0". Static. */
TRYST_API const char *tryst_version_string(void);

/** Return the name of a status ("TRYST_E_PEER"). Static, never NULL, for any value. Any
 *  thread. */
TRYST_API const char *tryst_status_name(tryst_status status);
/** Return the meaning of a status in words ("the peer died or was given up"). Static,
 *  never NULL, for any value. Any thread. */
TRYST_API const char *tryst_status_str(tryst_status status);
/** Visit every status in order of value; stops when `fn` returns nonzero and returns
 *  that, else 0. */
TRYST_API int tryst_status_visit(int (*fn)(void *arg, tryst_status status,
                                           const char *name, const char *text),
                                 void *arg);

/** Return the bytes of one element; 0 for an invalid dtype. */
TRYST_API size_t tryst_dtype_bytes(tryst_dtype dtype);
/** Return the name of a dtype ("f32"); "invalid" for any other value. Static. Any
 *  thread. */
TRYST_API const char *tryst_dtype_name(tryst_dtype dtype);

/** Time-outs are in nanoseconds; this value waits without a limit. */
#define TRYST_FOREVER UINT64_MAX

/* ------------------------------------------------------------------------------------- *
 *  Configuration: TRYST_* environment variables, or the same names in lower case without
 *  the prefix, set here. A value that is set by name overrides the environment.
 * ------------------------------------------------------------------------------------ */

/** Read the environment into a new configuration.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_CONFIG  a variable holds a bad value; tryst_last_error names
 *                           the variable, the value and what is allowed
 */
TRYST_API tryst_status tryst_config_open(tryst_config **config_p);

/** Set one value by name ("window_bytes", "8M"). `name` and `value` are copied.
 *
 *  Thread:  one at a time for a configuration. Never blocks.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (a NULL), or
 *           TRYST_E_CONFIG  unknown setting, or a bad value; nothing changes, and
 *                           tryst_last_error names what is allowed
 */
TRYST_API tryst_status tryst_config_set(tryst_config *config, const char *name,
                                        const char *value);

/** Close a configuration. Contexts that were opened with it have their own copy. NULL is
 *  allowed. */
TRYST_API void tryst_config_close(tryst_config *config);

/** One current configuration value. Strings are valid during the visit. */
typedef struct tryst_config_item {
    size_t struct_size;
    const char *name;        /**< "window_bytes" */
    const char *environment; /**< "TRYST_WINDOW_BYTES" */
    const char *type;        /**< "BYTES", "TIME", "ENUM", "BOOL", "INT", "STRING" */
    const char *value;       /**< as text; secrets read "(set)" */
    const char *origin;      /**< "default", "environment" or "set" */
    const char *fallback;    /**< the default, as text */
    const char *allowed;
    const char *help;
} tryst_config_item;

/** Visit every setting with its current value, in the order of docs/settings.md; stops
 *  when `fn` returns nonzero and returns that, else 0. `item` and its strings are valid
 *  during the call of `fn`. */
TRYST_API int tryst_config_visit(const tryst_config *config,
                                 int (*fn)(void *arg, const tryst_config_item *item),
                                 void *arg);

/** Read one setting by name, in either form ("window_bytes", "TRYST_WINDOW_BYTES").
 *  Strings are valid until the setting is set again or the configuration closed.
 *
 *  Thread:  one at a time for a configuration. Never blocks.
 *  Returns: TRYST_OK, TRYST_E_INVALID, or TRYST_E_CONFIG (no such setting) */
TRYST_API tryst_status tryst_config_get(const tryst_config *config, const char *name,
                                        tryst_config_item *item_p);

/* ------------------------------------------------------------------------------------- *
 *  Launchers
 *
 *  Rank, size and the way to the other ranks come from TRYST_* (by hand, or tryst-run),
 *  else from the first of these launchers with all variables set (one that another
 *  launcher may have started comes before that other):
 *
 *    torchrun   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; rank 0 serves at
 *               MASTER_ADDR, port TRYST_PORT, else MASTER_PORT+1 (torchrun's own store
 *               has MASTER_PORT)
 *    hydra      MPICH's mpiexec: PMI_RANK, PMI_SIZE, PMI_FD; rank 0 publishes as for
 *               pmix (without PMI_FD: and TRYST_BOOTSTRAP)
 *    pmix       Open MPI's mpirun, srun --mpi=pmix, PRRTE: PMIX_RANK, PMIX_NAMESPACE;
 *               rank 0 publishes its address there, and a token that it draws
 *    openmpi    without PMIx in this build: OMPI_COMM_WORLD_RANK, …_SIZE; and
 *               TRYST_BOOTSTRAP
 *    slurm      srun without PMIx: SLURM_PROCID, SLURM_STEP_NUM_TASKS; and
 *               TRYST_BOOTSTRAP
 *
 *  All but pmix and hydra need a token, TRYST_TOKEN or TRYST_TOKEN_FILE on every rank.
 *  Each TRYST_* that is set replaces the launcher's value; with TRYST_SIZE=1 a process
 *  is alone under any launcher. If no launcher has all of its variables, one that has
 *  some of them is an error, which names the missing ones. RANK or WORLD_SIZE alone
 *  count for no launcher. The launcher that was found, and the reason, are one log line
 *  (info).
 *
 *  Ranks of two jobs refuse each other, also with one address and one token: the identity
 *  of the job is TRYST_JOB, else the launcher's (TORCHELASTIC_RUN_ID, PMI_JOBID,
 *  PMIX_NAMESPACE, Open MPI's job id, SLURM_JOB_ID and SLURM_STEP_ID). By hand, the first
 *  of these that is set counts. It must be equal on all ranks, or set on none.
 * ------------------------------------------------------------------------------------ */

/** The launcher of this process. */
typedef struct tryst_launch {
    size_t struct_size;
    /** "none" (it is alone), "tryst" (TRYST_RANK and TRYST_SIZE: tryst-run, or by hand),
     *  "torchrun", "hydra", "pmix", "openmpi", "slurm". Static. */
    const char *launcher;
    int32_t rank;
    int32_t size;       /**< -1: known from PMIx when the group is opened */
    int32_t local_rank; /**< rank among the ranks of this host; -1: not given */
    int32_t local_size; /**< number of ranks on this host; -1: not given */
    char why[512]; /**< the deciding variables, and the launchers that were passed over */
} tryst_launch;

/** Find the launcher from which tryst_group_open would take rank and size. `config` NULL:
 *  the environment.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_CONFIG  variables are missing or contradict each other;
 *                           tryst_last_error names them and how to set them
 */
TRYST_API tryst_status tryst_launch_find(const tryst_config *config,
                                         tryst_launch *launch_p);

/* ------------------------------------------------------------------------------------- *
 *  Context
 * ------------------------------------------------------------------------------------ */

/** Receive one log line (no newline at its end). Called from any thread; it must not call
 *  Tryst. */
typedef void (*tryst_log_fn)(void *arg, tryst_log_level level, const char *line);

typedef struct tryst_open_params {
    size_t struct_size;
    /** Values to use; copied. NULL: the environment. */
    const tryst_config *config;
    /** Receives the log lines. NULL: they go to descriptor 2, if it is open at
     *  tryst_open. If descriptor 2 later is another file, lines go there only if that
     *  file is open for appending (a rotated log), and are dropped otherwise. */
    tryst_log_fn log_fn;
    void *log_arg;
} tryst_open_params;

/** Open a context. Touches no network but its own listening sockets.
 *
 *  Owns:    the caller owns `*ctx_p`; several per process are allowed (ranks as threads).
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_CONFIG, TRYST_E_SYSTEM, TRYST_E_MODULE
 */
TRYST_API tryst_status tryst_open(const tryst_open_params *params, tryst_ctx **ctx_p);

/** Close a context: its groups, steps and operations end; peers receive LEAVE.
 *
 *  Operations that are not complete fail with TRYST_E_CONTEXT, callbacks included, before
 *  this returns; handles of operations that the caller has not released stay readable
 *  (tryst_op_test, tryst_op_error) and must still be released.
 *  Blocks:  see the list at the top of this header. Not from a callback. A start of a
 *           fabric or a driver that takes longer goes on in its thread, which closes what
 *           it opens and touches nothing of the caller's; the log names the start. The
 *           exit of the program waits for it (see the rules at the top). The shared
 *           library stays loaded after dlclose; link a library of your own that contains
 *           libtryst.a with -Wl,-z,nodelete.
 *           If the group stays open (tryst_group_close), the context does too.
 *  Thread:  no other thread may be inside a call of this context. */
TRYST_API void tryst_close(tryst_ctx *ctx);

/** Read the context's clock in nanoseconds (CLOCK_MONOTONIC), which traces use. Deadlines
 *  and time-outs are relative to the call that takes them. */
TRYST_API uint64_t tryst_now_ns(const tryst_ctx *ctx);

/* ------------------------------------------------------------------------------------- *
 *  Group
 * ------------------------------------------------------------------------------------ */

/** The caller's all-gather for the bootstrap: every rank gives `bytes` bytes; `all`
 *  receives size × bytes in rank order. May block; called a fixed number of times on all
 *  ranks, in the same order, from inside tryst_group_open. Return nonzero to fail the
 *  bootstrap. */
typedef int (*tryst_allgather_fn)(void *arg, const void *mine, void *all, size_t bytes);

typedef struct tryst_group_params {
    size_t struct_size;
    /** If set, `rank` and `size` below count and no bootstrap server is used. If NULL,
     *  rank and size come from the configuration or the launcher: see "Launchers"
     *  above. */
    tryst_allgather_fn allgather;
    void *allgather_arg;
    int rank;
    int size;
    /** This rank's device prefix: the beginning of its device names in keys, by whole
     *  parts, as in "/job:NAME/replica:N/task:N". NULL:
     *  "/job:worker/replica:0/task:<rank>". */
    const char *device_prefix;
    /** Time-out of tryst_group_open. 0: TRYST_BOOTSTRAP_TIMEOUT. */
    uint64_t timeout_ns;
} tryst_group_params;

/** Open the group of all ranks of the job: bring the ranks together. A context has one
 *  group at a time; after a close, or a failure, it may open another.
 *
 *  With TRYST_SIZE=1, or no launcher, the group is this rank alone and no other process
 *  is contacted.
 *  Blocks:  until all ranks have come, or the deadline; not from a callback.
 *  Returns: TRYST_OK
 *           TRYST_E_BOOTSTRAP  tryst_last_error names the ranks that did not arrive
 *           TRYST_E_TOKEN      no token, or a peer did not prove it
 *           TRYST_E_GROUP      two ranks with one device prefix, a prefix that no key can
 *                              name, sizes that differ, two jobs
 *           TRYST_E_HANDSHAKE  versions or settings differ; tryst_last_error names
 *                              variable, values, ranks
 *           TRYST_E_CONFIG     the variables of a launcher are set in part;
 *                              tryst_last_error names the missing ones
 *           TRYST_E_UNSUPPORTED  collectives need a plan, and rank 0 has no planner: the
 *                              module tryst_topology.so, installed with libtryst_topology
 *           TRYST_E_SYSTEM, TRYST_E_NOMEM, TRYST_E_MODULE, TRYST_E_FORKED
 *           TRYST_E_INVALID    the context has a group
 */
TRYST_API tryst_status tryst_group_open(tryst_ctx *ctx, const tryst_group_params *params,
                                        tryst_group **group_p);

/** Leave the group. Operations that are pending end with TRYST_E_CONTEXT; peers receive
 *  LEAVE, so they report no death. Blocks as tryst_close does; TRYST_PEER_TIMEOUT bounds
 *  the wait for a fabric that starts. If a fabric does not release an endpoint within
 *  10 s, an error line names the ranks and the group stays open: the buffers of its
 *  operations must not be freed. A later call tries again. */
TRYST_API void tryst_group_close(tryst_group *group);

/** Return this rank, from 0. -1 for NULL. Any thread. */
TRYST_API int tryst_group_rank(const tryst_group *group);
/** Return the number of ranks, dead ones included. -1 for NULL. Any thread. */
TRYST_API int tryst_group_size(const tryst_group *group);
/** Return this rank's number among the ranks of this host, from the launcher or
 *  TRYST_LOCAL_RANK, else by comparing hosts. -1 for NULL. Any thread. */
TRYST_API int tryst_group_local_rank(const tryst_group *group);
/** Return the number of ranks on this host, from the launcher or TRYST_LOCAL_SIZE, else
 *  by comparing hosts. -1 for NULL. Any thread. */
TRYST_API int tryst_group_local_size(const tryst_group *group);

/** One rank of a group. Strings are valid until the group closes. */
typedef struct tryst_peer_info {
    size_t struct_size;
    int32_t rank;
    bool alive; /**< false once the rank was given up or has left */
    uint64_t incarnation;
    const char *device_prefix;
    const char *host;      /**< host name that the rank announced */
    const char *transport; /**< "shm", "ucx", …; "" until first used */
    /** how bulk moves, with the reason ("cma: …"); "" until first used */
    const char *mechanism;
    uint64_t bytes_sent; /**< payload bytes sent to the rank */
    uint64_t bytes_received;
    /** Bytes that may be in flight towards the rank, so an urgent slice waits for at most
     *  this many; 0 until first used. */
    uint64_t window_bytes;
    /** Time of bulk sends to the rank since the group opened: nanoseconds with bytes in
     *  flight. The four times do not overlap; in the rest of the time no matched send had
     *  a slice to start. Small tensors, which are sent eagerly, do not count. */
    uint64_t moving_ns;
    /** Nanoseconds with nothing in flight while a slice waited for its turn, a window,
     *  the rail or the transport. */
    uint64_t held_ns;
    /** Nanoseconds with nothing in flight or held, while the rank had granted no further
     *  slice of a send. */
    uint64_t ungranted_ns;
    /** Nanoseconds with none of these, while the next bytes of a send were not available
     *  here yet: those of a sum. */
    uint64_t unready_ns;
} tryst_peer_info;

/** Read what is known of rank `rank` of the group, this rank included.
 *
 *  Thread:  any; from a callback too. Blocks: while another thread makes progress, 100 ms
 *           at most.
 *  Returns: TRYST_OK, TRYST_E_INVALID (no such rank), TRYST_E_FORKED */
TRYST_API tryst_status tryst_group_peer(const tryst_group *group, int rank,
                                        tryst_peer_info *info_p);

/* ------------------------------------------------------------------------------------- *
 *  Step
 * ------------------------------------------------------------------------------------ */

/** Open a scope for keys. Ids are equal on all ranks and increase, from any number (0
 *  too) and with any gaps, below UINT64_MAX; several steps may be open. Data that peers
 *  sent for the step before this call has waited here, within bounds.
 *
 *  Returns: TRYST_OK, TRYST_E_INVALID (id not above the newest, or UINT64_MAX),
 *           TRYST_E_NOMEM, TRYST_E_FORKED, TRYST_E_CONTEXT
 */
TRYST_API tryst_status tryst_step_open(tryst_group *group, uint64_t id,
                                       tryst_step **step_p);

/** Fail all pending and future operations of the step, on every rank of the group.
 *  `status` must be an error; `reason` (may be NULL) is sent with it. If several ranks
 *  abort, an operation reports the earliest cause that is known when it completes. Later
 *  calls for the step change nothing.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK, TRYST_E_INVALID (`status` is not an error), TRYST_E_FORKED,
 *           TRYST_E_CONTEXT */
TRYST_API tryst_status tryst_step_abort(tryst_step *step, tryst_status status,
                                        const char *reason);

/** Test whether the step was aborted. `error_p` (may be NULL) then receives the details,
 *  valid until the step is closed; its `origin_status` is the status given to
 *  tryst_step_abort.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK (not aborted), TRYST_E_ABORTED, TRYST_E_FORKED; `*error_p` is
 *           written with TRYST_E_ABORTED alone */
TRYST_API tryst_status tryst_step_status(const tryst_step *step, tryst_error *error_p);

/** Close the scope: cancel its pending operations, then free all in it. Never blocks; the
 *  handle is invalid at once. `op_p` (may be NULL) receives an operation that completes
 *  when every operation of the step has completed. A peer's operation that finds none
 *  here because the step is closed ends with TRYST_E_CLOSED.
 *
 *  Owns:    the caller releases `*op_p`.
 *  Thread:  any, if no other uses the handle.
 *  Returns: TRYST_OK; else the handle stays: TRYST_E_NOMEM (only with `op_p`),
 *           TRYST_E_FORKED, TRYST_E_CONTEXT */
TRYST_API tryst_status tryst_step_close(tryst_step *step, tryst_op **op_p);

/* ------------------------------------------------------------------------------------- *
 *  Send and receive
 * ------------------------------------------------------------------------------------ */

/* Outcomes at both ends. The i-th send and the i-th receive of a key in a step are a
 * pair.
 *
 *  - A send ends with TRYST_OK only where its receive does too, with all bytes. The
 *    reverse holds unless the step was aborted or a rank died: then the bytes may have
 *    come, but not their acknowledgement.
 *  - An end that gives up reports TRYST_E_CANCELED (a cancel, the close of the step) or
 *    TRYST_E_DEADLINE, or TRYST_OK if it was too late. Its counterpart reports the same,
 *    or TRYST_E_CLOSED after a close. Where both give up, one of the two causes ends the
 *    pair, or each end reports its own.
 *  - tryst_op_error names the origin at both ends: the rank that gave up, had the
 *    deadline, refused the memory or found the difference, and the status that the
 *    origin reported. Its text begins with the operation: "receive of KEY from rank 1 in
 *    step 7: …".
 *  - A deadline starts a cancel. The operation completes when the peer has answered, so
 *    later than its deadline where the peer makes no progress.
 *  - After tryst_step_abort every operation that was not complete ends with
 *    TRYST_E_ABORTED, on every rank.
 *  - A dead tensor ends both with TRYST_E_DEAD; a size or dtype that differs ends both
 *    with TRYST_E_MISMATCH.
 *  - Operations with a rank that died end with TRYST_E_PEER, and with a rank that has
 *    closed its group or its context, with TRYST_E_LEFT. A rank that computes, is stopped
 *    or sits in a debugger is alive, and its peers wait.
 *  - An operation ends with TRYST_OK or with one of the errors of tryst/status.h, but
 *    never with TRYST_E_TIMEOUT or TRYST_E_FORKED: with these a call reports that the
 *    operation is not complete.
 *
 *      TRYST_E_CANCELED, _DEADLINE, _CLOSED     one end gave up (above)
 *      TRYST_E_DEAD, _MISMATCH                  the two ends differ (above)
 *      TRYST_E_ABORTED                          the step was aborted
 *      TRYST_E_PEER, _UNREACHABLE, _PROTOCOL,
 *      _HANDSHAKE                               the other rank died or was given up
 *      TRYST_E_NOMEM                            out of memory at one of the two ranks
 *      TRYST_E_SYSTEM, _MODULE, _UNSUPPORTED    a device, its driver or its module failed
 *      TRYST_E_LEFT                             the other rank has left the group
 *      TRYST_E_CONTEXT                          the group was closed at this rank; the
 *                                               other end reports TRYST_E_LEFT
 *      any error but TRYST_E_TIMEOUT, _FORKED,
 *      _DEADLINE and _CONTEXT                   the receive's alloc callback returned it
 *      TRYST_E_INVALID                          the callback returned any other status,
 *                                               or a tensor without room
 *
 *  - A rank that is ahead causes no failure: data for steps that are not open at the
 *    receiver waits there, and data without room there waits at the sender. */

/** Use `priority`. Without this flag the priority is the default (middle) one, 0. */
#define TRYST_OP_PRIORITY 1u
/** Send only: the tensor is dead (its producer was not executed). Its data are not read.
 *  The receive completes with TRYST_E_DEAD, and then so does the send. */
#define TRYST_OP_DEAD 2u
/** Background class (a checkpoint, a prefetch): it gets the bandwidth that the training
 *  class (all other operations) leaves, and a sixteenth where both classes have data to
 *  send. With TRYST_OP_PRIORITY too, `priority` orders background operations among each
 *  other. An end that sets neither flag leaves the choice to the other end; if the ends
 *  differ, the more urgent one wins. */
#define TRYST_OP_BACKGROUND 4u

/** Called once when the operation is complete, by the thread that makes progress; `op`
 *  may be released in it, and is valid until it returns, also where the caller has
 *  released it before. */
typedef void (*tryst_op_fn)(void *arg, tryst_op *op, tryst_status status);

/** Provide memory for a receive of unknown shape: called in progress when the sender's
 *  dtype and count are known. Set `tensor->data` (and `mem`; for a device `memory`,
 *  `device` and, if the room is not free yet, `ready_event`) to room for them and return
 *  TRYST_OK; another status refuses and fails both sides with it ("Outcomes at both ends"
 *  has the table), and so does a tensor that tryst_recv would refuse. It must not
 *  block. */
typedef tryst_status (*tryst_alloc_fn)(void *arg, tryst_tensor *tensor);

typedef struct tryst_op_params {
    size_t struct_size;
    uint32_t flags;
    /** Smaller is more urgent; the more urgent side wins. Without TRYST_OP_PRIORITY in
     *  `flags` it must be 0. */
    int32_t priority;
    /** Cancel this long after the submission: the operation then ends with
     *  TRYST_E_DEADLINE as soon as its buffer is the caller's again and the peer has
     *  agreed. Deadlines are checked by progress alone, so none takes effect without a
     *  wait, tryst_progress or a background thread. 0: no deadline. */
    uint64_t deadline_ns;
    tryst_op_fn callback;
    void *arg;
    /** Receive only, instead of a tensor: provide memory once the shape is known. */
    tryst_alloc_fn alloc;
    void *alloc_arg;
    /** Collectives with TRYST_REDUCE_PREMULTIPLIED_SUM: this rank's factor; 0 means 1. */
    double factor;
    /** Collectives: the ranks that take part, this rank among them; NULL: all ranks of
     *  the group. For a prepared collective, which has a subgroup of its own: NULL or
     *  that subgroup. */
    const tryst_subgroup *subgroup;
} tryst_op_params;

/** Offer `tensor` under `key` in `step`.
 *
 *  The i-th send and the i-th receive of one key in one step meet. Small tensors are
 *  copied when they leave, but `tensor->data` stays the library's until the operation
 *  completes, which is when the consumer has all bytes.
 *
 *  Owns:    the bytes are the library's until completion; `key` and `*tensor` are copied.
 *           The caller releases `*op_p`; `op_p` NULL detaches at once, as
 *           tryst_op_release does.
 *  Thread:  any. Never blocks, never returns TRYST_AGAIN.
 *  Returns: TRYST_OK             submitted; the outcome arrives with the operation
 *           TRYST_E_KEY          does not parse, its source is not this rank, or its edge
 *                                begins with '~' (tryst/key.h)
 *           TRYST_E_INCARNATION  the key's incarnation is not this rank's
 *           TRYST_E_INVALID      tensor or params (a priority without its flag, too);
 *                                device memory that is not `device`'s;
 *                                a `mem` that does not cover the bytes, or is another
 *                                context's
 *           TRYST_E_UNSUPPORTED, TRYST_E_MODULE
 *                                no such kind of memory here; the log has the reason
 *           TRYST_E_ABORTED, TRYST_E_NOMEM, TRYST_E_FORKED, TRYST_E_CONTEXT
 *           The first tensors on devices are checked when the driver has started: a
 *           refusal (TRYST_E_INVALID, TRYST_E_UNSUPPORTED, TRYST_E_MODULE) is then the
 *           operation's outcome.
 */
TRYST_API tryst_status tryst_send(tryst_step *step, const char *key,
                                  const tryst_tensor *tensor,
                                  const tryst_op_params *params, tryst_op **op_p);

/** Post a receive for `key` in `step`; the bytes land in `tensor`.
 *
 *  dtype and count must equal the sender's, else both sides end with TRYST_E_MISMATCH.
 *  With `params->alloc`, `tensor` must be NULL.
 *
 *  Owns:    the memory is the library's until completion; `key` and `*tensor` are copied.
 *  Thread:  any. Never blocks, never returns TRYST_AGAIN.
 *  Returns: as tryst_send; TRYST_E_KEY where the key's destination is not this rank,
 *           TRYST_E_INCARNATION where its incarnation is not the producer's
 */
TRYST_API tryst_status tryst_recv(tryst_step *step, const char *key,
                                  const tryst_tensor *tensor,
                                  const tryst_op_params *params, tryst_op **op_p);

/** Send as tryst_send, by a prepared key: nothing is parsed and nothing is hashed. `key`
 *  may be released while the operation is pending. Statuses as tryst_send; TRYST_E_KEY:
 *  the key's source is not this rank. */
TRYST_API tryst_status tryst_send_key(tryst_step *step, const tryst_key *key,
                                      const tryst_tensor *tensor,
                                      const tryst_op_params *params, tryst_op **op_p);
/** Receive as tryst_recv, by a prepared key, which may be released while the operation is
 *  pending. Statuses as tryst_recv; TRYST_E_KEY: the key's destination is not this
 *  rank. */
TRYST_API tryst_status tryst_recv_key(tryst_step *step, const tryst_key *key,
                                      const tryst_tensor *tensor,
                                      const tryst_op_params *params, tryst_op **op_p);

/* ------------------------------------------------------------------------------------- *
 *  Operations
 * ------------------------------------------------------------------------------------ */

/** Return the state of an operation. Makes no progress; inside its own callback an
 *  operation is complete.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_IN_PROGRESS, or the final status (of a failure tryst_last_error then
 *           has the text of tryst_op_error), or TRYST_E_FORKED in a forked child, where
 *           an operation that was not complete never will be */
TRYST_API tryst_status tryst_op_test(const tryst_op *op);

/** Wait until `op` is complete; makes progress meanwhile: spins briefly, then sleeps.
 *  Returns: the operation's final status, or TRYST_E_TIMEOUT when `timeout_ns` passed
 *           first (the operation goes on), or TRYST_E_FORKED. Not from a callback
 *           (TRYST_E_INVALID). Unless this is TRYST_OK, tryst_last_error has the text of
 *           tryst_op_error, or names the operation that goes on. */
TRYST_API tryst_status tryst_wait(tryst_op *op, uint64_t timeout_ns);

/** Wait for all of `ops` (NULL entries are skipped), as tryst_wait does; `timeout_ns` is
 *  for all together.
 *  Returns: TRYST_OK when all ended well, the status of the first (by index) that did
 *           not, TRYST_E_TIMEOUT when some are not complete, TRYST_E_FORKED. Not from a
 *           callback (TRYST_E_INVALID) */
TRYST_API tryst_status tryst_wait_all(tryst_op *const *ops, size_t ops_count,
                                      uint64_t timeout_ns);

/** Wait until any of `ops` is complete (NULL entries are skipped), as tryst_wait does. If
 *  several are complete, `*index_p` is the first by index. All belong to one context. A
 *  loop that sets ops[*index_p] to NULL before the next call serves all of them as they
 *  complete:
 *
 *      while (tryst_wait_any(ops, n, TRYST_FOREVER, &i), i < n) {
 *          …;
 *          tryst_op_release(ops[i]);
 *          ops[i] = NULL;
 *      }
 *
 *  Returns: the final status of ops[*index_p]; else `*index_p` is `ops_count` and this is
 *           TRYST_OK         all entries are NULL, or there are none
 *           TRYST_E_TIMEOUT  none was complete when `timeout_ns` had passed
 *           TRYST_E_INVALID  from a callback; operations of two contexts
 *           TRYST_E_FORKED */
TRYST_API tryst_status tryst_wait_any(tryst_op *const *ops, size_t ops_count,
                                      uint64_t timeout_ns, size_t *index_p);

/** Request cancellation. The outcome comes with the completion: TRYST_E_CANCELED, or the
 *  operation's own result when the request was too late. The counterpart of a cancelled
 *  operation ends with TRYST_E_CANCELED too. No effect on an operation that is complete,
 *  or that was requested to cancel before; the close of a step cannot be cancelled.
 *
 *  Thread:  any; from a callback too. Never blocks.
 *  Returns: TRYST_OK (requested), TRYST_E_FORKED, TRYST_E_CONTEXT */
TRYST_API tryst_status tryst_op_cancel(tryst_op *op);

/** Raise `op` while it waits: from now on it counts as submitted with TRYST_OP_PRIORITY
 *  and `priority`, in the training class, if that is more urgent than its present
 *  urgency; it never becomes less urgent, so a raise to a priority above 0 has no effect
 *  where neither end has set an urgency. Bytes already under way are not called back. A
 *  call at the sender is local; after a call at the receiver a record informs the sender,
 *  and the more urgent of both ends wins. No effect on an operation that is complete, or
 *  on the close of a step.
 *
 *  Thread:  any; from a callback too. Never blocks.
 *  Returns: TRYST_OK (requested), TRYST_E_INVALID (no op), TRYST_E_FORKED,
 *           TRYST_E_CONTEXT */
TRYST_API tryst_status tryst_op_reprioritize(tryst_op *op, int32_t priority);

/** Make a device's stream wait for `op`: work queued in `stream` (a CUstream of `device`)
 *  from here on begins when `op` is complete, with success or without; the operation's
 *  status shows which. Legal before completion, for any operation and any number of
 *  streams. The first call starts the background thread if there is none (as
 *  TRYST_PROGRESS_THREAD=1).
 *
 *  A kernel's first launch may wait for all streams of the process (CUDA loads kernels
 *  lazily), and so for `op`. Whether `op` can end meanwhile depends on its kind; see
 *  tryst/device.h, "Streams that wait for operations". Launch every kernel once before a
 *  stream waits, or set CUDA_MODULE_LOADING=EAGER, where it cannot.
 *
 *  Owns:    the stream must live until `op` is complete.
 *  Thread:  any; from a callback too. Blocks: for the driver's part, at a device's first
 *           use until its driver has started; and at most 2 s for collectives that
 *           streams wait for already. The caller's device context stays current.
 *  Returns: TRYST_OK, TRYST_E_INVALID (no such device), TRYST_E_UNSUPPORTED (no devices
 *           here; or the stream is being captured into a graph), TRYST_E_MODULE,
 *           TRYST_E_NOMEM, TRYST_E_SYSTEM (the driver's failure, in the log; or no
 *           thread), TRYST_E_FORKED, TRYST_E_CONTEXT */
TRYST_API tryst_status tryst_op_stream_wait(tryst_op *op, int32_t device, void *stream);

/** Release the handle. A release before completion detaches the operation: it goes on,
 *  its buffer stays the library's until it completes, and its callback still runs. NULL
 *  is allowed. Any thread; from a callback too. Never blocks. */
TRYST_API void tryst_op_release(tryst_op *op);

/** Read the tensor of a complete operation: as received (dtype, count and data, also from
 *  `alloc`), or as sent. The memory at its `data` is the caller's.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK, also where the operation failed; TRYST_IN_PROGRESS or
 *           TRYST_E_FORKED before completion, with `*tensor_p` unchanged */
TRYST_API tryst_status tryst_op_tensor(const tryst_op *op, tryst_tensor *tensor_p);

/** Read the details of a failed operation. Strings live until tryst_op_release.
 *  Returns: the operation's error; TRYST_IN_PROGRESS (or TRYST_E_FORKED) before
 *           completion and TRYST_OK after success, with `*error_p` unchanged */
TRYST_API tryst_status tryst_op_error(const tryst_op *op, tryst_error *error_p);

/* ------------------------------------------------------------------------------------- *
 *  Progress and event loops
 * ------------------------------------------------------------------------------------ */

/** Make progress without blocking. Returns the number of events handled: 0 if there were
 *  none, if another thread makes progress, or if called from a callback. Any thread. */
TRYST_API int tryst_progress(tryst_ctx *ctx);

/** Return one epoll descriptor for the caller's event loop, valid until tryst_close; do
 *  not read it. Level-triggered: after tryst_arm returned TRYST_OK it becomes readable
 *  when tryst_progress has something to do, timers included. -1 in a forked child. */
TRYST_API int tryst_event_fd(tryst_ctx *ctx);

/** Prepare to sleep on tryst_event_fd: anything that happens after this call makes the
 *  descriptor readable, a submission on any thread included.
 *
 *  Thread:  any. Never blocks.
 *  Returns: TRYST_OK     armed: the caller may sleep
 *           TRYST_AGAIN  call tryst_progress first: there is something to do, or another
 *                        thread makes progress now
 *           TRYST_E_FORKED */
TRYST_API tryst_status tryst_arm(tryst_ctx *ctx);

/** Wake the threads that sleep on the context (wait, event fd). Any thread. Not for
 *  signal handlers. */
TRYST_API void tryst_wake(tryst_ctx *ctx);

/* ------------------------------------------------------------------------------------- *
 *  Memory
 * ------------------------------------------------------------------------------------ */

/** Register [data, data + bytes) (a region of the caller's allocator, say), so that
 *  tensors in it move without registration per operation. The caller keeps the memory,
 *  and releases the registration when no operation uses it, before freeing the memory.
 *
 *  Owns:    the caller gives `*mem_p` to tryst_mem_release before tryst_close.
 *  Thread:  any. Blocks: the first use of a device's memory loads its module.
 *  Returns: TRYST_OK, TRYST_E_INVALID, TRYST_E_NOMEM, TRYST_E_UNSUPPORTED (memory kind),
 *           TRYST_E_MODULE, TRYST_E_FORKED, TRYST_E_CONTEXT */
TRYST_API tryst_status tryst_mem_register(tryst_ctx *ctx, void *data, size_t bytes,
                                          tryst_memory_kind memory, int32_t device,
                                          tryst_mem **mem_p);

/** Allocate `bytes` of registered memory that peers of this machine can map (64-byte
 *  aligned at least). `*data_p` is the memory, valid until `*mem_p` is released.
 *
 *  Thread:  any. Blocks: for system calls, and on a device for its driver.
 *  Returns: as tryst_mem_register; TRYST_E_SYSTEM where the system or the device
 *           refuses */
TRYST_API tryst_status tryst_mem_alloc(tryst_ctx *ctx, size_t bytes,
                                       tryst_memory_kind memory, int32_t device,
                                       void **data_p, tryst_mem **mem_p);

/** Undo tryst_mem_register (memory stays) or tryst_mem_alloc (memory is freed). NULL is
 *  allowed.
 *  Thread:  any; from a callback too. Blocks: until the thread that makes progress ends
 *           its pass, so not under a lock that a callback takes; and for the driver, to
 *           free a device's memory. */
TRYST_API void tryst_mem_release(tryst_mem *mem);

/** Let a rank of this machine read a region of the host's memory (tryst_mem_alloc) in
 *  place, so that its bytes need not move: `*id_p` names the region to that rank, for
 *  tryst_mem_view. When bytes there may be read, and when no more, the two ranks agree by
 *  operations: what was written before a send is seen behind its receive.
 *
 *  Thread:  any; from a callback too. Blocks: as tryst_mem_release.
 *  Returns: TRYST_OK, TRYST_E_INVALID, TRYST_AGAIN (the connection to that rank is not
 *           up yet: an operation with it that has completed has made one),
 *           TRYST_E_UNSUPPORTED (that rank cannot map it: it is on another machine, or
 *           TRYST_SHM_MECH does without maps), TRYST_E_PEER, TRYST_E_NOMEM,
 *           TRYST_E_FORKED, TRYST_E_CONTEXT */
TRYST_API tryst_status tryst_mem_share(tryst_group *group, int rank, tryst_mem *mem,
                                       uint64_t *id_p);

/** Map a region that `rank` has shared with this rank: `*data_p` and `*bytes_p` are the
 *  whole region, to be read alone. The view stays until tryst_mem_view_close, whatever
 *  becomes of the region and of the rank.
 *
 *  Owns:    the caller gives data and bytes to tryst_mem_view_close.
 *  Thread:  any; from a callback too. Blocks: as tryst_mem_release.
 *  Returns: as tryst_mem_share; TRYST_AGAIN: the region is not known here yet: call
 *           tryst_progress, and once more */
TRYST_API tryst_status tryst_mem_view(tryst_group *group, int rank, uint64_t id,
                                      const void **data_p, size_t *bytes_p);

/** Unmap a view. NULL is allowed. Any thread. */
TRYST_API void tryst_mem_view_close(const void *data, size_t bytes);

/* ------------------------------------------------------------------------------------- *
 *  Observation
 * ------------------------------------------------------------------------------------ */

/** Write rank, number of ranks and the run's number (equal on its ranks), and every
 *  pending operation to `fd`: key, step, peer, since when, which side is missing. Any
 *  thread; not from a callback. Blocks: for the writes, and while another thread makes
 *  progress, 100 ms at most; after that one line to `fd` reports that no operation could
 *  be read. */
TRYST_API void tryst_dump(tryst_ctx *ctx, int fd);

/** Visit the context's counters ("frames_sent", "bulk_bytes_received", …), and the memory
 *  that all contexts of the process have allocated ("memory_bytes"). Stops when `fn`
 *  returns nonzero and returns that, else 0. Any thread; a value that another thread
 *  changes meanwhile may be slightly out of date. */
TRYST_API int tryst_counter_visit(const tryst_ctx *ctx,
                                  int (*fn)(void *arg, const char *name, uint64_t value),
                                  void *arg);

/** One transport in this process. */
typedef struct tryst_transport_info {
    size_t struct_size;
    const char *name;
    bool available;     /**< usable here */
    int32_t rails;      /**< number of rails opened (one a NIC); 0 while unused */
    const char *reason; /**< what was found, or why it is not available */
} tryst_transport_info;

/** Visit every transport of this build. Blocks: loads those that are modules. `info` and
 *  its strings are valid during the call of `fn`. Stops when `fn` returns nonzero and
 *  returns that, else 0; 0 too in a forked child and while the context closes. */
TRYST_API int tryst_transport_visit(
    tryst_ctx *ctx, int (*fn)(void *arg, const tryst_transport_info *info), void *arg);

/** Result of one check of this machine or of the settings. */
typedef enum tryst_check_level {
    TRYST_CHECK_OK = 0,
    TRYST_CHECK_WARN = 1, /**< a job will be slower, or fail under load */
    TRYST_CHECK_FAIL = 2  /**< a job will not run, or not safely */
} tryst_check_level;

typedef struct tryst_check_item {
    size_t struct_size;
    const char *name; /**< "locked memory" */
    tryst_check_level level;
    const char *text; /**< what was found */
    const char *fix;  /**< what to do about it; "" when ok */
} tryst_check_item;

/** Check, before a job starts: settings, launcher, token, locked memory, /dev/shm,
 *  ptrace scope, descriptors, interfaces, ports, TRYST_TOPOLOGY and the planner, and
 *  which transports load here. `config` NULL: the environment. Calls `fn` for each check
 *  until it returns nonzero, and returns that. Strings are valid during the visit. No
 *  other process is contacted; modules stay loaded. Blocks: while they load. */
TRYST_API int tryst_check_visit(const tryst_config *config,
                                int (*fn)(void *arg, const tryst_check_item *item),
                                void *arg);

/** Add the caller's own span to the trace (TRYST_TRACE=1; otherwise without cost). `name`
 *  is copied, 65,536 different ones at most; `arg` is recorded with the span. Times are
 *  tryst_now_ns. Spans of one thread nest. Any thread. */
TRYST_API void tryst_trace_span(tryst_ctx *ctx, const char *name, uint64_t begin_ns,
                                uint64_t end_ns, uint64_t arg);
/** Add a sample of the caller's own counter to the trace, with the time of the call.
 *  `name` as in tryst_trace_span; the caller chooses the unit of `value`. Any thread. */
TRYST_API void tryst_trace_counter(tryst_ctx *ctx, const char *name, uint64_t value);

/** Write this rank's trace as Chrome/Perfetto JSON to `fd`. Times are moved onto rank 0's
 *  clock, if this rank has its offset to that clock (ranks that trace measure it beside
 *  their heartbeats); the process's label gives the offset and its error.
 *  `tryst-info --merge-traces` joins the documents of all ranks of a run to one picture;
 *  a document has its run, rank and number of ranks once a group was opened.
 *  Returns: TRYST_OK, TRYST_E_INVALID, TRYST_E_UNSUPPORTED (TRYST_TRACE is not 1),
 *           TRYST_E_IO, TRYST_E_FORKED */
TRYST_API tryst_status tryst_trace_write(tryst_ctx *ctx, int fd);

TRYST_END_DECLS

#endif
