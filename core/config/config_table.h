/* SPDX-License-Identifier: Apache-2.0 */
/* Every setting of the library, one row each.
 *
 * One idea: a row *is* the setting: its parser, default, limits, environment variable
 * (TRYST_<ID>), help, `tryst-info -c` and docs/settings.md all come from it. Invariant:
 * the name is the ID in lower case and the default is allowed (a test checks both). Add a
 * row at the end of its block. The order matters only for the tables that people read,
 * and for the handshake, which compares rows in order, between equal versions only.
 *
 *   X(ID, "name", TYPE, "default", "allowed", flags, "help")
 *
 *   TYPE     BYTES   4096, 64K, 4M, 1G, 2T, 64KiB, 4MiB …      (powers of 1024)
 *            TIME    50us, 500ms, 60s, 5m, 1h, 10ns, 0         (held in ns)
 *            ENUM    one word of the allowed list; held as its index
 *            BOOL    0 1 n y no yes off on false true
 *            INT     a whole number
 *            STRING  anything
 *   allowed  BYTES, TIME, INT: "min..max", written as values are, or
 *            "auto|min..max": auto is 0;
 *            ENUM: "a|b|c";
 *            STRING: the form, for people; "": any text
 *   flags    CONFIG_AGREED  must be equal on all ranks: compared in the handshake
 *            CONFIG_SECRET  never printed */
#ifndef TRYST_CORE_CONFIG_CONFIG_TABLE_H
#define TRYST_CORE_CONFIG_CONFIG_TABLE_H

/* clang-format off */
#define CONFIG_TABLE(X)                                                                  \
    /* identity of the process, and how the ranks come together */                       \
    X(RANK, "rank", INT, "-1", "-1..1048575", 0,                                         \
      "rank of this process; -1: from the launcher, or alone")                           \
    X(SIZE, "size", INT, "-1", "-1..1048576", 0,                                         \
      "number of ranks of the job; -1: from the launcher, or alone")                     \
    X(LOCAL_RANK, "local_rank", INT, "-1", "-1..1048575", 0,                             \
      "rank among the ranks of this host; -1: from the launcher, else by comparing "     \
      "hosts")                                                                           \
    X(LOCAL_SIZE, "local_size", INT, "-1", "-1..1048576", 0,                             \
      "number of ranks on this host; -1: from the launcher, else by comparing hosts")    \
    X(BOOTSTRAP, "bootstrap", STRING, "", "host:port", 0,                                \
      "address at which rank 0 serves while the ranks come together")                    \
    X(BOOTSTRAP_FD, "bootstrap_fd", INT, "-1", "-1..1048575", 0,                         \
      "rank 0: a listening socket for the bootstrap, inherited from a launcher; -1: "    \
      "none")                                                                            \
    X(PORT, "port", INT, "0", "0..65535", 0,                                             \
      "rank 0's port while the ranks come together, where the launcher names none; 0: "  \
      "MASTER_PORT+1 (torchrun), one of port_range or any (PMIx, tryst-run)")            \
    X(TOKEN, "token", STRING, "", "text", CONFIG_SECRET,                                 \
      "the job's secret, which each rank proves (some process lists show it to other "   \
      "users: prefer token_file)")                                                       \
    X(TOKEN_FILE, "token_file", STRING, "", "path", 0,                                   \
      "file that holds the token; only its owner may read it (0600)")                    \
    X(INSECURE, "insecure", BOOL, "0", "", 0,                                            \
      "come together without a token: any process that reaches the port can join the "   \
      "job")                                                                             \
    X(JOB, "job", STRING, "", "text", 0,                                                 \
      "identity of the job, equal on all its ranks: rank 0 refuses ranks of another "    \
      "one. empty: the launcher's (torchelastic's run id, the id of PMI or PMIx, "       \
      "Slurm's job and step)")                                                           \
    X(BOOTSTRAP_TIMEOUT, "bootstrap_timeout", TIME, "60s", "1ms..24h", 0,                \
      "longest time for the ranks to come together")                                     \
    X(HOST_ID, "host_id", STRING, "", "text", 0,                                         \
      "ranks with equal text count as one host; empty: boot id and namespaces decide")   \
    X(TOPOLOGY, "topology", STRING, "", "path of a cluster JSON or dump", 0,             \
      "the network for which collectives are planned; its ranks in order are the "       \
      "group's. Rank 0 plans; ranks without a topology take rank 0's plan, others have " \
      "the same file. empty: the machines and NICs of the ranks; if these are alike, "   \
      "equal links")                                                                     \
    /* transports */                                                                     \
    X(TRANSPORT, "transport", ENUM, "auto", "auto|self|shm|ucx|ofi", 0,                  \
      "transport for every peer; auto: the best that reaches each peer; ucx within a "   \
      "host: over TCP, unless UCX_TLS names sm")                                         \
    X(NET, "net", STRING, "", "interface names or CIDR blocks, separated by commas", 0,  \
      "network interfaces to use; empty: all that are up")                               \
    X(PORT_RANGE, "port_range", STRING, "", "first-last, or one port", 0,                \
      "TCP ports on which the library and the fabric may listen; empty: any")            \
    X(MODULE_PATH, "module_path", STRING, "", "directories, separated by colons", 0,     \
      "where modules are that are not beside the library; empty: where the build "       \
      "installs them")                                                                   \
    X(CONNECT_TIMEOUT, "connect_timeout", TIME, "30s", "1ms..24h", 0,                    \
      "how long a peer's kernel may leave a connection unanswered, and how long each "   \
      "transport may then take to connect; time in which one of the two ranks does "     \
      "not poll is not counted: a rank may compute for hours before others connect to "  \
      "it")                                                                              \
    X(PEER_TIMEOUT, "peer_timeout", TIME, "15s", "100ms..24h", 0,                        \
      "a peer is given up after its kernel has been silent for this long")               \
    X(SHM_RING_BYTES, "shm_ring_bytes", BYTES, "22K", "8K..1G", 0,                       \
      "largest shared ring: one for each peer of this host and each direction; the "     \
      "smaller setting of the two ranks counts")                                         \
    X(SHM_MECH, "shm_mech", ENUM, "auto", "auto|map|cma|stage|ring", 0,                  \
      "how shm moves bulk: map the peer's memory, copy from it (process_vm_readv), map " \
      "memory into which the peer copies (stage), or copy through the ring; auto: the "  \
      "first that works between the two ranks")                                          \
    X(CUDA_DRIVER, "cuda_driver", STRING, "libcuda.so.1", "a library's name or path", 0, \
      "the CUDA driver, opened when the process first uses memory of a GPU")             \
    /* limits of data in flight and of parked receives */                                \
    X(WINDOW_BYTES, "window_bytes", BYTES, "auto", "auto|4K..1T", 0,                     \
      "bytes in flight towards one peer; an urgent slice waits for at most this many. "  \
      "auto: what keeps the path busy, by its measured bandwidth and round trip")        \
    X(SCHED, "sched", ENUM, "urgent", "urgent|fifo", 0,                                  \
      "which of all that waits starts first; urgent: by class, priority, step and "      \
      "age; fifo: in order of arrival, to measure the difference")                       \
    X(RAIL_WINDOW_BYTES, "rail_window_bytes", BYTES, "auto", "auto|4K..1T", 0,           \
      "bytes in flight on one rail (network interface) to all peers that are not "       \
      "stalled. auto: what the rail moves in 8 ms (16M at most) and in a round trip, "   \
      "by the rate of TRYST_TOPOLOGY or of the NIC; 16M where neither is known")         \
    X(SLICE_BYTES, "slice_bytes", BYTES, "auto", "auto|4K..1G", CONFIG_AGREED,           \
      "size of the slices of large tensors, smaller where a fabric requires it. auto: "  \
      "what the path moves in 1.3 ms, 64K to 1M")                                        \
    X(POSTED_SLICES, "posted_slices", INT, "4", "1..1024", 0,                            \
      "slices of one transfer that its receiver keeps posted; where slice_bytes is "     \
      "auto, as many bytes as this number of 1M slices")                                 \
    X(STAGE_BYTES, "stage_bytes", BYTES, "64M", "64K..1T", 0,                            \
      "pinned host memory, in each direction, for device tensors that a transport "      \
      "cannot move directly")                                                            \
    X(SHADOW_BYTES, "shadow_bytes", BYTES, "1G", "0..1T", 0,                             \
      "pinned host memory, at most, through which collectives move device tensors; "     \
      "what finds no room there goes through memory that is not pinned, more slowly")    \
    X(SCRATCH_BYTES, "scratch_bytes", BYTES, "64M", "4K..1T", 0,                         \
      "memory, at most, for slices of collectives that wait to be added, and as much "   \
      "again for what finished collectives keep for the next of the same name")          \
    X(EAGER_MAX, "eager_max", BYTES, "4096", "0..64K", CONFIG_AGREED,                    \
      "largest tensor that travels inside a frame instead of by rendezvous; values "     \
      "above 4096 count as 4096")                                                        \
    X(EAGER_CREDIT, "eager_credit", BYTES, "64K", "4K..1G", CONFIG_AGREED,               \
      "bytes of such tensors in flight to one peer and not yet received there")          \
    X(WANTS_MAX, "wants_max", INT, "256", "1..65536", CONFIG_AGREED,                     \
      "receives announced to one producer that it has not yet taken up")                 \
    X(FRAME_CREDITS, "frame_credits", INT, "64", "2..4096", CONFIG_AGREED,               \
      "frames in flight to one peer that it has not yet read")                           \
    X(PARKED_MAX, "parked_max", INT, "65536", "1..16777216", 0,                          \
      "receives of one peer that wait here for their sends")                             \
    X(EARLY_MAX, "early_max", INT, "4096", "1..16777216", 0,                             \
      "receives that one peer may announce here for steps that are not open yet")        \
    /* progress, waiting and observation */                                              \
    X(PROGRESS_THREAD, "progress_thread", BOOL, "0", "", 0,                              \
      "1: a background thread makes progress")                                           \
    X(BIND, "bind", ENUM, "none", "none|auto", 0,                                        \
      "auto: that thread runs near this rank's NIC, on processors allowed to the "       \
      "process")                                                                         \
    X(SPIN, "spin", TIME, "50us", "0..1s", 0,                                            \
      "how long a wait spins before it sleeps")                                          \
    X(ACK_DELAY, "ack_delay", TIME, "500us", "0..1s", 0,                                 \
      "how long the acknowledgement of a small tensor may wait for a reply that "        \
      "carries it, while the rank is outside the library; then a thread of the "         \
      "library sends it; 0: no delay and no thread")                                     \
    X(STALL_WARN, "stall_warn", TIME, "60s", "0..24h", 0,                                \
      "operations that wait longer are logged once, with the missing side; 0: never")  \
    X(LOG_LEVEL, "log_level", ENUM, "warn", "error|warn|info|debug|trace", 0,            \
      "least urgent log lines that are written")                                         \
    X(TRACE, "trace", STRING, "0", "0, 1, or path; %r in it is the rank", 0,             \
      "1: record a trace (tryst_trace_write); a file, with '/' or .json at its end: "    \
      "record it, and write it when the context closes; without %r rank 0 alone writes") \
    X(TRACE_EVENTS, "trace_events", INT, "65536", "64..16777216", 0,                     \
      "events kept per thread (64 bytes each); the oldest are overwritten")              \
    X(PROFILE, "profile", STRING, "", "path; %r in it is the rank", 0,                   \
      "record the program's steps, and write the profile of one (tryst/profile.h) to "   \
      "this file; without %r rank 0 alone writes; empty: off")                           \
    X(AUTO_PRIORITY, "auto_priority", BOOL, "0", "", CONFIG_AGREED,                      \
      "1: collectives without a priority get one from the recorded steps: the more "     \
      "computation is left after the first use of the result, the more urgent")
/* clang-format on */

#endif
