/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_TOPO_H
#define TRYST_TOPO_H

#include <stdbool.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

typedef struct tryst_topo tryst_topo;
typedef struct tryst_plan tryst_plan;

TRYST_API tryst_status tryst_topo_detect(tryst_topo **topo_p);

TRYST_API tryst_status tryst_topo_load(const char *path, tryst_topo **topo_p);

TRYST_API tryst_status tryst_topo_parse(const char *text, size_t bytes, const char *name,
                                        tryst_topo **topo_p);

TRYST_API void tryst_topo_close(tryst_topo *topo);

TRYST_API tryst_status tryst_topo_write(const tryst_topo *topo, const char *format,
                                        const tryst_plan *plan, char **text_p);

TRYST_API void tryst_text_free(char *text);

TRYST_API int tryst_topo_ranks(const tryst_topo *topo);

TRYST_API const char *tryst_topo_rank_name(const tryst_topo *topo, int rank);

TRYST_API int tryst_topo_rank_find(const tryst_topo *topo, const char *name);

TRYST_API int tryst_topo_nodes(const tryst_topo *topo);
TRYST_API int tryst_topo_links(const tryst_topo *topo);

typedef struct tryst_topo_node {
    size_t struct_size;
    const char *name;
    const char *kind;
    const char *short_name;
    const char *label, *pci, *cpus;
    int32_t parent;
    int32_t machine;
} tryst_topo_node;

TRYST_API tryst_status tryst_topo_node_get(const tryst_topo *topo, int number,
                                           tryst_topo_node *node_p);

enum { TRYST_LINK_TEXT_BYTES = 128 };

typedef struct tryst_topo_link {
    size_t struct_size;
    const char *kind;
    int32_t from, to;
    double bytes_per_s;
    bool down;
    bool two_way;
    char text[TRYST_LINK_TEXT_BYTES];
} tryst_topo_link;

TRYST_API tryst_status tryst_topo_link_get(const tryst_topo *topo, int number,
                                           tryst_topo_link *link_p);

typedef enum tryst_plan_op {
    TRYST_PLAN_ALLREDUCE = 0,
    TRYST_PLAN_BROADCAST = 1,
    TRYST_PLAN_REDUCE = 2,
    TRYST_PLAN_ALLGATHER = 3,
    TRYST_PLAN_REDUCE_SCATTER = 4
} tryst_plan_op;

TRYST_API const char *tryst_plan_op_name(tryst_plan_op op);

typedef struct tryst_plan_params {
    size_t struct_size;
    tryst_plan_op op;
    int32_t root;
    const int32_t *ranks;
    int32_t ranks_count;
    int32_t trees_max;
    double gap_max;
    double sum_bytes_per_s;
} tryst_plan_params;

TRYST_API tryst_status tryst_plan_open(const tryst_topo *topo,
                                       const tryst_plan_params *params,
                                       tryst_plan **plan_p);

TRYST_API void tryst_plan_close(tryst_plan *plan);

typedef struct tryst_plan_info {
    size_t struct_size;
    tryst_plan_op op;
    int32_t ranks_count, trees_count;
    int32_t depth_max;
    double s_per_byte;
    double bound_s_per_byte;
    double gap;
    uint64_t digest;
} tryst_plan_info;

TRYST_API tryst_status tryst_plan_info_get(const tryst_plan *plan,
                                           tryst_plan_info *info_p);

typedef struct tryst_plan_tree {
    size_t struct_size;
    double share;
    int32_t root;
    const int32_t *parents;
    const int32_t *ranks;
} tryst_plan_tree;

TRYST_API tryst_status tryst_plan_tree_get(const tryst_plan *plan, int number,
                                           tryst_plan_tree *tree_p);

TRYST_API tryst_status tryst_plan_json(const tryst_plan *plan, char **text_p);

TRYST_API tryst_status tryst_plan_text(const tryst_plan *plan, char **text_p);

TRYST_API tryst_status tryst_plan_verify(const tryst_topo *topo, const char *json,
                                         size_t bytes, const char *name);

typedef struct tryst_route_info {
    size_t struct_size;
    int32_t hops;
    double routes;
    double bytes_per_s;
    double latency_ns;
    double bottleneck_share;
    const char *bottleneck_from, *bottleneck_to;
} tryst_route_info;

TRYST_API tryst_status tryst_topo_route(const tryst_topo *topo, int from, int to,
                                        tryst_route_info *info_p);

TRYST_API tryst_status tryst_topo_explain(const tryst_topo *topo, int from, int to,
                                          uint64_t bytes, char **text_p);

typedef struct tryst_place_pair {
    int32_t a, b;
    int32_t weight;
} tryst_place_pair;

typedef struct tryst_place_params {
    size_t struct_size;
    const char *const *bus_ids;
    int32_t devices_count;
    int32_t ranks_count;
    const tryst_place_pair *pairs;
    int32_t pairs_count;
} tryst_place_params;

TRYST_API tryst_status tryst_topo_place(const tryst_topo *topo,
                                        const tryst_place_params *params,
                                        int32_t *devices, char **text_p);

typedef struct tryst_probe_flow {
    int32_t round;
    int32_t from, to;
    double bytes_per_s;
} tryst_probe_flow;

TRYST_API tryst_status tryst_probe_schedule(int ranks_count, const int32_t *hosts,
                                            tryst_probe_flow **flows_p,
                                            int *flows_count_p);

TRYST_API void tryst_probe_flows_free(tryst_probe_flow *flows);

typedef struct tryst_probe_info {
    size_t struct_size;
    int32_t flows;
    int32_t explained;
    int32_t groups;
    bool mesh;
} tryst_probe_info;

TRYST_API tryst_status tryst_topo_fit(int ranks_count, const char *const *names,
                                      const tryst_probe_flow *flows, int flows_count,
                                      const double *latency_ns, tryst_probe_info *info_p,
                                      tryst_topo **topo_p);

TRYST_END_DECLS

#endif
