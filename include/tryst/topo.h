/* SPDX-License-Identifier: Apache-2.0 */
/** @file topo.h
 *  Topology and plans: read a machine or a cluster as one graph, and plan trees over it
 *  that are provably near the limit of its links. Library: libtryst_topology.
 *
 *  A *topology* is a graph of nodes and directed links; some of the nodes are *ranks*. It
 *  is detected, or read from a file: the dump that tryst_topo_write makes, a cluster JSON
 *  (below), a file of another tool (hwloc XML, NCCL topology XML), or a synthetic string.
 *
 *  A *plan* for one collective has the trees and their shares of the data, the loads of
 *  the links, the time of a byte through the busiest link, and a lower bound over all
 *  plans of rooted trees on the same routes, with the link prices that prove the bound.
 *  tryst_plan_verify checks a plan without the solver. Equal topologies and parameters
 *  give equal plans, bit for bit.
 *
 *  A route leads from rank to rank, and never through another rank. It has the fewest
 *  links possible, and of such routes the highest bandwidth. If k routes are equal (two
 *  switches side by side, two parallel links), each carries 1/k of the data.
 *
 *  Cluster JSON:
 *
 *      {"ranks": ["h0","h1"], "nodes": ["sw0"],
 *       "links": [{"a":"h0","b":"sw0","gbit_per_s":0.8,"latency_us":20},
 *                 {"from":"h1","to":"sw0","gbit_per_s":0.4},
 *                 {"from":"sw0","to":"h1","gbit_per_s":0.2}],
 *       "routes": [{"from":"h0","to":"h1","via":["sw0"]}]}
 *
 *  A link with "a" and "b" has both directions, one with "from" and "to" only that one.
 *  "nodes", "routes" and "latency_us" may be left out. A given route replaces the one
 *  that would be found.
 *
 *  Objects are plain memory: no thread, no descriptor. One thread at a time may use a
 *  topology and its plans; different topologies are independent. No call waits for
 *  another rank.
 *
 *  Why a call failed: tryst_last_error.
 */
#ifndef TRYST_TOPO_H
#define TRYST_TOPO_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

/** A graph of a machine or a cluster. */
typedef struct tryst_topo tryst_topo;
/** Trees, shares and their proof, for one operation on one topology. */
typedef struct tryst_plan tryst_plan;

/* ----------------------------------------------------------------------------------- *
 *  Topology
 * ----------------------------------------------------------------------------------- */

/** Detect this machine; facts that the system does not give stay unknown.
 *
 *  Owns:    the caller owns `*topo_p`.
 *  Blocks:  for reads of /sys and calls of drivers.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_SYSTEM, TRYST_E_UNSUPPORTED
 */
TRYST_API tryst_status tryst_topo_detect(tryst_topo **topo_p);

/** Load a topology from the file at `path`; "-" is standard input. The text determines
 *  the kind of file. If the file does not exist and the path has a colon and no slash,
 *  the path itself is the text of a synthetic topology ("node:4 gpu:8 nic:2x50GB"). hwloc
 *  reads its own XML, and trusts it.
 *
 *  Owns:    the caller owns `*topo_p`.
 *  Blocks:  for the reads.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_IO           the file could not be read
 *           TRYST_E_INVALID      malformed: tryst_last_error is
 *                                "file:line:column: reason"
 *           TRYST_E_UNSUPPORTED  a kind that this build cannot read
 */
TRYST_API tryst_status tryst_topo_load(const char *path, tryst_topo **topo_p);

/** Load a topology from `bytes` bytes at `text`, which need no terminator; error texts
 *  have `name` as the file's. Statuses as tryst_topo_load, without TRYST_E_IO. */
TRYST_API tryst_status tryst_topo_parse(const char *text, size_t bytes, const char *name,
                                        tryst_topo **topo_p);

/** Close a topology, after its plans. NULL is allowed. */
TRYST_API void tryst_topo_close(tryst_topo *topo);

/** Write the topology as text in `format`: "json" (loads back to an equal topology),
 *  "text", "dot". With a `plan` of this topology (NULL: none), "dot" draws the plan over
 *  it, and "text" describes it. tryst-topo also draws SVG.
 *
 *  Owns:    `*text_p`, terminated, is the caller's, for tryst_text_free.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_UNSUPPORTED  no such format, or this build cannot write it
 */
TRYST_API tryst_status tryst_topo_write(const tryst_topo *topo, const char *format,
                                        const tryst_plan *plan, char **text_p);

/** Free a text of this header. NULL is allowed. */
TRYST_API void tryst_text_free(char *text);

/** Return the number of ranks; they are numbered from 0, in the file's order. */
TRYST_API int tryst_topo_ranks(const tryst_topo *topo);

/** Return the name of a rank, valid until the topology is closed; NULL for a rank that
 *  does not exist. */
TRYST_API const char *tryst_topo_rank_name(const tryst_topo *topo, int rank);

/** Return the number of the rank of that name; -1 if there is none. */
TRYST_API int tryst_topo_rank_find(const tryst_topo *topo, const char *name);

/** Return the number of nodes or of links; both are numbered from 0. */
TRYST_API int tryst_topo_nodes(const tryst_topo *topo);
TRYST_API int tryst_topo_links(const tryst_topo *topo);

/** A node of a topology. Texts are valid until the topology is closed. */
typedef struct tryst_topo_node {
    size_t struct_size;
    const char *name;
    const char *kind; /**< as in the dump: "machine", "gpu", "switch", "rank", … */
    const char *short_name;         /**< without its machine's: "gpu0" of "node3/gpu0" */
    const char *label, *pci, *cpus; /**< NULL: none */
    int32_t parent;                 /**< the enclosing node; -1: none */
    int32_t machine;                /**< that contains the node or is it; -1: none */
} tryst_topo_node;

/** Read a node; nodes of the kind "rank" are in the order of their ranks. Returns
 *  TRYST_OK, TRYST_E_INVALID */
TRYST_API tryst_status tryst_topo_node_get(const tryst_topo *topo, int number,
                                           tryst_topo_node *node_p);

enum { TRYST_LINK_TEXT_BYTES = 128 };

/** A link from one node to another. A wire with two directions is two links, the second
 *  next to the first. */
typedef struct tryst_topo_link {
    size_t struct_size;
    const char *kind; /**< as in the dump: "pci", "ethernet", …; static */
    int32_t from, to;
    double bytes_per_s; /**< below 0: unknown; INFINITY: no limit */
    bool down;          /**< the link counts as absent */
    bool two_way;       /**< the next link is the other direction */
    /** for people: "PCIe Gen5 x16 504 Gbit/s (table), 0.5 us (table)" */
    char text[TRYST_LINK_TEXT_BYTES];
} tryst_topo_link;

/** Read a link. Returns TRYST_OK, TRYST_E_INVALID, TRYST_E_NOMEM */
TRYST_API tryst_status tryst_topo_link_get(const tryst_topo *topo, int number,
                                           tryst_topo_link *link_p);

/* ----------------------------------------------------------------------------------- *
 *  Plans
 * ----------------------------------------------------------------------------------- */

/** The operations. A plan's seconds per byte count the bytes of this tensor:
 *
 *   operation        one byte of                    trees
 *   ALLREDUCE        the tensor that each rank has  in-tree up, then out-tree down, any
 *                                                   root
 *   BROADCAST        the root's tensor              out-trees from the root
 *   REDUCE           the tensor that each rank has  in-trees to the root
 *   ALLGATHER        the whole result, of which     out-trees from every rank; the shares
 *                    each of n ranks brings 1/n     of each root's trees sum to 1
 *   REDUCE_SCATTER   the tensor that each rank has  in-trees to every rank; the shares of
 *                                                   each root's trees sum to 1
 */
typedef enum tryst_plan_op {
    TRYST_PLAN_ALLREDUCE = 0,
    TRYST_PLAN_BROADCAST = 1,
    TRYST_PLAN_REDUCE = 2,
    TRYST_PLAN_ALLGATHER = 3,
    TRYST_PLAN_REDUCE_SCATTER = 4
} tryst_plan_op;

/** Return "allreduce", "broadcast", "reduce", "allgather", "reduce_scatter"; NULL for
 *  another value. */
TRYST_API const char *tryst_plan_op_name(tryst_plan_op op);

typedef struct tryst_plan_params {
    size_t struct_size;
    tryst_plan_op op;
    /** BROADCAST, REDUCE: the root, as an index in the group. */
    int32_t root;
    /** The group: rank numbers in the group's order. NULL: all ranks. */
    const int32_t *ranks;
    int32_t ranks_count;
    /** Limit of the number of trees (for ALLGATHER and REDUCE_SCATTER: of each root's
     *  trees). 0: as few as possible without a longer time. */
    int32_t trees_max;
    /** Stop when tryst_plan_info's gap is at most this (0.01: 1 %). 0: search for the
     *  optimum, as far as that is feasible. */
    double gap_max;
    /** The rate at which a rank sums, in bytes of the tensor a second, for the trees by
     *  size. 0: 7e9, the rate of one core, which makes the sums of devices, too. */
    double sum_bytes_per_s;
} tryst_plan_params;

/** Plan one operation. `params` NULL: an all-reduce of all ranks.
 *
 *  Owns:    the caller owns `*plan_p`; `topo` must outlive it.
 *  Blocks:  for the computation: milliseconds for tens of ranks, up to a minute for a
 *           thousand.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_INVALID  a rank, root or operation that does not exist; ranks that
 *                            are not strongly connected (tryst_last_error names the
 *                            cut); a bandwidth that is unknown on a route
 *                            (tryst_last_error names the link)
 */
TRYST_API tryst_status tryst_plan_open(const tryst_topo *topo,
                                       const tryst_plan_params *params,
                                       tryst_plan **plan_p);

/** Close a plan. NULL is allowed. */
TRYST_API void tryst_plan_close(tryst_plan *plan);

/** Figures of a plan. Times are seconds per byte. */
typedef struct tryst_plan_info {
    size_t struct_size;
    tryst_plan_op op;
    int32_t ranks_count, trees_count;
    int32_t depth_max; /**< edges from root to leaf of the deepest tree */
    double s_per_byte; /**< time through the busiest link */
    /** lower bound that the prices prove: no plan of trees is faster */
    double bound_s_per_byte;
    double gap; /**< excess of s_per_byte over the bound, divided by the bound */
    /** digest of operation, trees and shares, including the trees chosen for each size:
     *  equal plans have equal digests */
    uint64_t digest;
} tryst_plan_info;

/** Read a plan's figures. Returns TRYST_OK, TRYST_E_INVALID */
TRYST_API tryst_status tryst_plan_info_get(const tryst_plan *plan,
                                           tryst_plan_info *info_p);

/** One tree of a plan. Arrays are by index in the group, and valid until the plan is
 *  closed. */
typedef struct tryst_plan_tree {
    size_t struct_size;
    double share;           /**< part of the data that the tree carries */
    int32_t root;           /**< index in the group */
    const int32_t *parents; /**< -1: the root. An all-reduce's tree: the broadcast half */
    const int32_t *ranks;   /**< rank numbers; NULL: all ranks */
} tryst_plan_tree;

/** Read the tree `number` (from 0, below trees_count). Returns TRYST_OK,
 *  TRYST_E_INVALID */
TRYST_API tryst_status tryst_plan_tree_get(const tryst_plan *plan, int number,
                                           tryst_plan_tree *tree_p);

/** Write the plan as JSON, in Gbit and seconds per Gbit (`tryst-topo plan --help` shows
 *  one). The text is the caller's, for tryst_text_free. Returns TRYST_OK,
 *  TRYST_E_NOMEM. */
TRYST_API tryst_status tryst_plan_json(const tryst_plan *plan, char **text_p);

/** Write the plan for people: times, trees and the busiest links. Ownership and statuses
 *  as tryst_plan_json. */
TRYST_API tryst_status tryst_plan_text(const tryst_plan *plan, char **text_p);

/** Check a plan's JSON against a topology: each tree spans all ranks, shares sum to 1,
 *  and loads, times, gap and the bound that the prices prove are as written. So are the
 *  trees by size and the last step of "simplified", if the JSON has them. Uses no solver.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_INVALID  a value is not as written, or the JSON is not a plan:
 *                            tryst_last_error has the difference, with `name` in front
 */
TRYST_API tryst_status tryst_plan_verify(const tryst_topo *topo, const char *json,
                                         size_t bytes, const char *name);

/* ----------------------------------------------------------------------------------- *
 *  One route
 * ----------------------------------------------------------------------------------- */

/** The route of data from rank `from` to rank `to`. */
typedef struct tryst_route_info {
    size_t struct_size;
    int32_t hops;            /**< number of links */
    double routes;           /**< number of equal routes that share the data */
    double bytes_per_s;      /**< rate of one flow alone; INFINITY if no link limits it */
    double latency_ns;       /**< mean over equal routes; below 0: unknown */
    double bottleneck_share; /**< share of the flow through the bottleneck */
    /** names of the two ends of the bottleneck; NULL: no link limits the rate */
    const char *bottleneck_from, *bottleneck_to;
} tryst_route_info;

/** Find the route between two ranks. Names are valid until the topology is closed.
 *
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_INVALID      no such rank, twice the same rank, or an unknown
 *                                bandwidth on the way
 *           TRYST_E_UNREACHABLE  no route exists
 */
TRYST_API tryst_status tryst_topo_route(const tryst_topo *topo, int from, int to,
                                        tryst_route_info *info_p);

/** Write the route for people: each link of the route, its share of the data, and the
 *  time that `bytes` take. The text is the caller's, for tryst_text_free. Statuses as
 *  tryst_topo_route. */
TRYST_API tryst_status tryst_topo_explain(const tryst_topo *topo, int from, int to,
                                          uint64_t bytes, char **text_p);

/* ----------------------------------------------------------------------------------- *
 *  Ranks on devices
 * ----------------------------------------------------------------------------------- */

/** Two ranks of a machine that exchange data. */
typedef struct tryst_place_pair {
    int32_t a, b;
    int32_t weight; /**< amount of data in any unit, the same for all pairs; from 1 */
} tryst_place_pair;

typedef struct tryst_place_params {
    size_t struct_size;
    /** PCI addresses of the devices (tryst_device_info's bus_id), by the ordinals that
     *  the driver gives them in this process. */
    const char *const *bus_ids;
    int32_t devices_count;
    /** Ranks of this machine, numbered from 0. */
    int32_t ranks_count;
    /** Pairs of ranks that exchange data; the weights of equal pairs add up. NULL: each
     *  rank with the next, as in a pipeline. */
    const tryst_place_pair *pairs;
    int32_t pairs_count;
} tryst_place_params;

/** Give each rank of a machine a device, so that ranks exchange data over the best links:
 *  the arrangement with the best worst link, of such arrangements the one with the best
 *  second worst link, and so on. The best links are NVLinks; then come paths over one
 *  PCIe switch, over several, over a host bridge, within a package, and to the other
 *  socket. Among links of a kind the wider is better. With more ranks than devices,
 *  neighbours share a device. Of equally good arrangements the first in the devices' own
 *  order is taken. Equal arguments give equal results, so every rank can call this by
 *  itself.
 *
 *  The links of devices that `topo` does not have (of all devices, if `topo` is NULL)
 *  count as unknown.
 *  Owns:    `devices` has room for `ranks_count` and receives each rank's ordinal;
 *           `*text_p` (NULL: not needed), a line with the choice and its reason, is the
 *           caller's, for tryst_text_free.
 *  Blocks:  for the computation, which is bounded: a million tries at most.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID (no ranks, no devices, a pair of
 *           other ranks)
 */
TRYST_API tryst_status tryst_topo_place(const tryst_topo *topo,
                                        const tryst_place_params *params,
                                        int32_t *devices, char **text_p);

/* ----------------------------------------------------------------------------------- *
 *  Probes
 * ----------------------------------------------------------------------------------- */

/** One flow of a probe: data from one rank to another, while the other flows of its
 *  round run. */
typedef struct tryst_probe_flow {
    int32_t round; /**< from 0, without gaps; flows are in the order of their rounds */
    int32_t from, to;
    double bytes_per_s; /**< rate at which `to` received; 0 until measured */
} tryst_probe_flow;

/** Make the flows of a probe of n = `ranks_count` ranks (2 to 64). The flows of one round
 *  run at the same time. The first n(n−1) flows are each ordered pair once, in rounds in
 *  which no two flows share a host (`hosts`: the host's number for each rank; NULL: each
 *  rank has a host of its own). For three ranks or more there follow rounds in which
 *  every rank sends and receives, and rounds in which one rank sends to all or receives
 *  from all: these show wires that ranks share.
 *
 *  Owns:    `*flows_p` is the caller's, for tryst_probe_flows_free.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, TRYST_E_INVALID
 */
TRYST_API tryst_status tryst_probe_schedule(int ranks_count, const int32_t *hosts,
                                            tryst_probe_flow **flows_p,
                                            int *flows_count_p);

/** Free the flows of a probe. NULL is allowed. */
TRYST_API void tryst_probe_flows_free(tryst_probe_flow *flows);

/** Agreement of a fitted topology with the measured flows. */
typedef struct tryst_probe_info {
    size_t struct_size;
    int32_t flows; /**< number of flows, over all rounds */
    /** flows that were as fast as a full link of the topology allows */
    int32_t explained;
    int32_t groups; /**< wires that several ranks share: trunks, interfaces */
    bool mesh;      /**< true: no switch, a wire for each pair */
} tryst_probe_info;

/** Fit a topology to the measured flows: the fewest switches and shared wires between the
 *  ranks `names`, each capacity a sum of measured rates.
 *
 *  `latency_ns` (NULL: all unknown) has half the round trip of each pair at index from ×
 *  ranks + to; below 0: unknown.
 *  Owns:    the caller owns `*topo_p`; the library keeps no pointer to an argument.
 *  Returns: TRYST_OK, TRYST_E_NOMEM, or
 *           TRYST_E_INVALID  a pair that was not measured, or an invalid rate
 *                            (tryst_last_error names it)
 */
TRYST_API tryst_status tryst_topo_fit(int ranks_count, const char *const *names,
                                      const tryst_probe_flow *flows, int flows_count,
                                      const double *latency_ns, tryst_probe_info *info_p,
                                      tryst_topo **topo_p);

TRYST_END_DECLS

#endif
