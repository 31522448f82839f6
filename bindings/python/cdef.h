/* SPDX-License-Identifier: Apache-2.0 */
/* The declarations of the public headers, for cffi. Written by bindings/python/cdef.py: do not edit. */
#define TRYST_COLL_NAME_MAX 400
#define TRYST_KEY_MAX 1023
#define TRYST_VERSION_MAJOR 0
#define TRYST_VERSION_MINOR 1
#define TRYST_VERSION_PATCH 0
#define TRYST_OP_PRIORITY 1
#define TRYST_OP_DEAD 2
#define TRYST_OP_BACKGROUND 4
typedef int32_t tryst_status;
enum { TRYST_OK = (0), TRYST_IN_PROGRESS = (1), TRYST_AGAIN = (2), TRYST_E_INVALID = (100), TRYST_E_NOMEM = (101),
    TRYST_E_KEY = (102), TRYST_E_MISMATCH = (103), TRYST_E_CANCELED = (104), TRYST_E_DEADLINE = (105),
    TRYST_E_TIMEOUT = (106), TRYST_E_DEAD = (107), TRYST_E_CLOSED = (108), TRYST_E_CONFIG = (109),
    TRYST_E_UNSUPPORTED = (110), TRYST_E_IO = (111), TRYST_E_PROGRAM = (112), TRYST_E_PEER = (200),
    TRYST_E_INCARNATION = (201), TRYST_E_PROTOCOL = (202), TRYST_E_UNREACHABLE = (203), TRYST_E_HANDSHAKE = (204),
    TRYST_E_LEFT = (205), TRYST_E_ABORTED = (300), TRYST_E_BOOTSTRAP = (301), TRYST_E_TOKEN = (302), TRYST_E_GROUP =
    (303), TRYST_E_FORKED = (400), TRYST_E_SYSTEM = (401), TRYST_E_MODULE = (402), TRYST_E_CONTEXT = (403), };
typedef struct tryst_ctx tryst_ctx;
typedef struct tryst_group tryst_group;
typedef struct tryst_step tryst_step;
typedef struct tryst_op tryst_op;
typedef struct tryst_subgroup tryst_subgroup;
typedef struct tryst_key tryst_key;
typedef struct tryst_mem tryst_mem;
typedef struct tryst_config tryst_config;
typedef enum tryst_dtype { TRYST_DTYPE_INVALID = 0, TRYST_DTYPE_U8 = 1, TRYST_DTYPE_I8 = 2, TRYST_DTYPE_I32 = 3,
    TRYST_DTYPE_I64 = 4, TRYST_DTYPE_F16 = 5, TRYST_DTYPE_BF16 = 6, TRYST_DTYPE_F32 = 7, TRYST_DTYPE_F64 = 8,
    TRYST_DTYPE_U16 = 9, TRYST_DTYPE_I16 = 10, TRYST_DTYPE_U32 = 11, TRYST_DTYPE_U64 = 12 } tryst_dtype;
typedef enum tryst_reduce_op { TRYST_REDUCE_INVALID = 0, TRYST_REDUCE_SUM = 1, TRYST_REDUCE_PRODUCT = 2,
    TRYST_REDUCE_MIN = 3, TRYST_REDUCE_MAX = 4, TRYST_REDUCE_AVERAGE = 5, TRYST_REDUCE_PREMULTIPLIED_SUM = 6,
    TRYST_REDUCE_AND = 7, TRYST_REDUCE_OR = 8, TRYST_REDUCE_XOR = 9 } tryst_reduce_op;
typedef enum tryst_memory_kind { TRYST_MEMORY_HOST = 0, TRYST_MEMORY_CUDA = 1 } tryst_memory_kind;
typedef enum tryst_log_level { TRYST_LOG_DEFAULT = 0, TRYST_LOG_ERROR = 1, TRYST_LOG_WARN = 2, TRYST_LOG_INFO = 3,
    TRYST_LOG_DEBUG = 4, TRYST_LOG_TRACE = 5 } tryst_log_level;
typedef struct tryst_tensor { size_t struct_size; void *data; uint64_t count; tryst_dtype dtype; tryst_memory_kind
    memory; int32_t device; int32_t reserved; tryst_mem *mem; void *ready_event; } tryst_tensor;
typedef struct tryst_error { size_t struct_size; tryst_status status; tryst_status origin_status; int32_t
    origin_rank; int32_t reserved; uint64_t step; const char *key; const char *text; } tryst_error;
const char *tryst_last_error(void);
tryst_status tryst_last_error_set(tryst_status status, const char *format, ...);
typedef struct tryst_view { const char *data; size_t bytes; } tryst_view;
typedef struct tryst_parsed_key { size_t struct_size; tryst_view src_device; uint64_t src_incarnation; tryst_view
    dst_device; tryst_view edge; tryst_view frame_iter; } tryst_parsed_key;
typedef struct tryst_key_error { size_t struct_size; size_t position; const char *reason; } tryst_key_error;
tryst_status tryst_key_parse(const char *key, tryst_parsed_key *parsed_p, tryst_key_error *error_p);
tryst_status tryst_key_build(const tryst_group *group, int src_rank, int dst_rank, const char *edge, uint64_t frame,
    uint64_t iter, char *key, size_t capacity);
tryst_status tryst_key_make(tryst_group *group, int src_rank, int dst_rank, const char *name, uint64_t index,
    tryst_key **key_p);
tryst_status tryst_key_prepare(tryst_group *group, const char *key, tryst_key **key_p);
const char *tryst_key_string(const tryst_key *key);
void tryst_key_release(tryst_key *key);
uint32_t tryst_version(void);
const char *tryst_version_string(void);
const char *tryst_status_name(tryst_status status);
const char *tryst_status_str(tryst_status status);
int tryst_status_visit(int (*fn)(void *arg, tryst_status status, const char *name, const char *text), void *arg);
size_t tryst_dtype_bytes(tryst_dtype dtype);
const char *tryst_dtype_name(tryst_dtype dtype);
tryst_status tryst_config_open(tryst_config **config_p);
tryst_status tryst_config_set(tryst_config *config, const char *name, const char *value);
void tryst_config_close(tryst_config *config);
typedef struct tryst_config_item { size_t struct_size; const char *name; const char *environment; const char *type;
    const char *value; const char *origin; const char *fallback; const char *allowed; const char *help; }
    tryst_config_item;
int tryst_config_visit(const tryst_config *config, int (*fn)(void *arg, const tryst_config_item *item), void *arg);
tryst_status tryst_config_get(const tryst_config *config, const char *name, tryst_config_item *item_p);
typedef struct tryst_launch { size_t struct_size; const char *launcher; int32_t rank; int32_t size; int32_t
    local_rank; int32_t local_size; char why[512]; } tryst_launch;
tryst_status tryst_launch_find(const tryst_config *config, tryst_launch *launch_p);
typedef void (*tryst_log_fn)(void *arg, tryst_log_level level, const char *line);
typedef struct tryst_open_params { size_t struct_size; const tryst_config *config; tryst_log_fn log_fn; void
    *log_arg; } tryst_open_params;
tryst_status tryst_open(const tryst_open_params *params, tryst_ctx **ctx_p);
void tryst_close(tryst_ctx *ctx);
uint64_t tryst_now_ns(const tryst_ctx *ctx);
typedef int (*tryst_allgather_fn)(void *arg, const void *mine, void *all, size_t bytes);
typedef struct tryst_group_params { size_t struct_size; tryst_allgather_fn allgather; void *allgather_arg; int rank;
    int size; const char *device_prefix; uint64_t timeout_ns; } tryst_group_params;
tryst_status tryst_group_open(tryst_ctx *ctx, const tryst_group_params *params, tryst_group **group_p);
void tryst_group_close(tryst_group *group);
int tryst_group_rank(const tryst_group *group);
int tryst_group_size(const tryst_group *group);
int tryst_group_local_rank(const tryst_group *group);
int tryst_group_local_size(const tryst_group *group);
typedef struct tryst_peer_info { size_t struct_size; int32_t rank; bool alive; uint64_t incarnation; const char
    *device_prefix; const char *host; const char *transport; const char *mechanism; uint64_t bytes_sent; uint64_t
    bytes_received; uint64_t window_bytes; uint64_t moving_ns; uint64_t held_ns; uint64_t ungranted_ns; uint64_t
    unready_ns; } tryst_peer_info;
tryst_status tryst_group_peer(const tryst_group *group, int rank, tryst_peer_info *info_p);
tryst_status tryst_step_open(tryst_group *group, uint64_t id, tryst_step **step_p);
tryst_status tryst_step_abort(tryst_step *step, tryst_status status, const char *reason);
tryst_status tryst_step_status(const tryst_step *step, tryst_error *error_p);
tryst_status tryst_step_close(tryst_step *step, tryst_op **op_p);
typedef void (*tryst_op_fn)(void *arg, tryst_op *op, tryst_status status);
typedef tryst_status (*tryst_alloc_fn)(void *arg, tryst_tensor *tensor);
typedef struct tryst_op_params { size_t struct_size; uint32_t flags; int32_t priority; uint64_t deadline_ns;
    tryst_op_fn callback; void *arg; tryst_alloc_fn alloc; void *alloc_arg; double factor; const tryst_subgroup
    *subgroup; } tryst_op_params;
tryst_status tryst_send(tryst_step *step, const char *key, const tryst_tensor *tensor, const tryst_op_params
    *params, tryst_op **op_p);
tryst_status tryst_recv(tryst_step *step, const char *key, const tryst_tensor *tensor, const tryst_op_params
    *params, tryst_op **op_p);
tryst_status tryst_send_key(tryst_step *step, const tryst_key *key, const tryst_tensor *tensor, const
    tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_recv_key(tryst_step *step, const tryst_key *key, const tryst_tensor *tensor, const
    tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_op_test(const tryst_op *op);
tryst_status tryst_wait(tryst_op *op, uint64_t timeout_ns);
tryst_status tryst_wait_all(tryst_op *const *ops, size_t ops_count, uint64_t timeout_ns);
tryst_status tryst_wait_any(tryst_op *const *ops, size_t ops_count, uint64_t timeout_ns, size_t *index_p);
tryst_status tryst_op_cancel(tryst_op *op);
tryst_status tryst_op_reprioritize(tryst_op *op, int32_t priority);
tryst_status tryst_op_stream_wait(tryst_op *op, int32_t device, void *stream);
void tryst_op_release(tryst_op *op);
tryst_status tryst_op_tensor(const tryst_op *op, tryst_tensor *tensor_p);
tryst_status tryst_op_error(const tryst_op *op, tryst_error *error_p);
int tryst_progress(tryst_ctx *ctx);
int tryst_event_fd(tryst_ctx *ctx);
tryst_status tryst_arm(tryst_ctx *ctx);
void tryst_wake(tryst_ctx *ctx);
tryst_status tryst_mem_register(tryst_ctx *ctx, void *data, size_t bytes, tryst_memory_kind memory, int32_t device,
    tryst_mem **mem_p);
tryst_status tryst_mem_alloc(tryst_ctx *ctx, size_t bytes, tryst_memory_kind memory, int32_t device, void **data_p,
    tryst_mem **mem_p);
void tryst_mem_release(tryst_mem *mem);
void tryst_dump(tryst_ctx *ctx, int fd);
int tryst_counter_visit(const tryst_ctx *ctx, int (*fn)(void *arg, const char *name, uint64_t value), void *arg);
typedef struct tryst_transport_info { size_t struct_size; const char *name; bool available; int32_t rails; const
    char *reason; } tryst_transport_info;
int tryst_transport_visit( tryst_ctx *ctx, int (*fn)(void *arg, const tryst_transport_info *info), void *arg);
typedef enum tryst_check_level { TRYST_CHECK_OK = 0, TRYST_CHECK_WARN = 1, TRYST_CHECK_FAIL = 2 } tryst_check_level;
typedef struct tryst_check_item { size_t struct_size; const char *name; tryst_check_level level; const char *text;
    const char *fix; } tryst_check_item;
int tryst_check_visit(const tryst_config *config, int (*fn)(void *arg, const tryst_check_item *item), void *arg);
void tryst_trace_span(tryst_ctx *ctx, const char *name, uint64_t begin_ns, uint64_t end_ns, uint64_t arg);
void tryst_trace_counter(tryst_ctx *ctx, const char *name, uint64_t value);
tryst_status tryst_trace_write(tryst_ctx *ctx, int fd);
tryst_status tryst_allreduce(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    tryst_reduce_op reduce, const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_reduce(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    tryst_reduce_op reduce, int root, const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_broadcast(tryst_step *step, const char *name, const tryst_tensor *tensor, int root, const
    tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_barrier(tryst_step *step, const char *name, const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_allgather(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_allgatherv(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    const uint64_t *out_counts, const uint64_t *out_offsets, const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_reduce_scatter( tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor
    *out, tryst_reduce_op reduce, const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_reduce_scatterv( tryst_step *step, const char *name, const tryst_tensor *in, const uint64_t
    *in_counts, const uint64_t *in_offsets, const tryst_tensor *out, tryst_reduce_op reduce, const tryst_op_params
    *params, tryst_op **op_p);
tryst_status tryst_alltoall(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_alltoallv( tryst_step *step, const char *name, const tryst_tensor *in, const uint64_t *in_counts,
    const uint64_t *in_offsets, const tryst_tensor *out, const uint64_t *out_counts, const uint64_t *out_offsets,
    const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_gather(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out, int
    root, const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_gatherv(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out,
    const uint64_t *out_counts, const uint64_t *out_offsets, int root, const tryst_op_params *params, tryst_op
    **op_p);
tryst_status tryst_scatter(tryst_step *step, const char *name, const tryst_tensor *in, const tryst_tensor *out, int
    root, const tryst_op_params *params, tryst_op **op_p);
tryst_status tryst_scatterv(tryst_step *step, const char *name, const tryst_tensor *in, const uint64_t *in_counts,
    const uint64_t *in_offsets, const tryst_tensor *out, int root, const tryst_op_params *params, tryst_op **op_p);
typedef struct tryst_coll tryst_coll;
typedef enum tryst_coll_kind { TRYST_COLL_INVALID = 0, TRYST_COLL_ALLREDUCE = 1, TRYST_COLL_REDUCE = 2,
    TRYST_COLL_BROADCAST = 3, TRYST_COLL_BARRIER = 4, TRYST_COLL_ALLGATHER = 5, TRYST_COLL_REDUCE_SCATTER = 6,
    TRYST_COLL_ALLTOALL = 7, TRYST_COLL_GATHER = 8, TRYST_COLL_SCATTER = 9 } tryst_coll_kind;
typedef struct tryst_coll_params { size_t struct_size; tryst_coll_kind kind; tryst_reduce_op reduce; uint64_t count;
    tryst_dtype dtype; int32_t root; const char *name; const uint64_t *in_counts; const uint64_t *in_offsets; const
    uint64_t *out_counts; const uint64_t *out_offsets; const tryst_subgroup *subgroup; } tryst_coll_params;
tryst_status tryst_coll_prepare(tryst_group *group, const tryst_coll_params *coll_params, tryst_coll **coll_p);
tryst_status tryst_coll_start(tryst_step *step, tryst_coll *coll, const tryst_tensor *in, const tryst_tensor *out,
    const tryst_op_params *params, tryst_op **op_p);
void tryst_coll_release(tryst_coll *coll);
typedef struct tryst_subgroup_params { size_t struct_size; uint64_t epoch; uint32_t count; const int32_t *members; }
    tryst_subgroup_params;
tryst_status tryst_subgroup_open(tryst_group *group, const tryst_subgroup_params *subgroup_params, tryst_subgroup
    **subgroup_p);
int tryst_subgroup_rank(const tryst_subgroup *subgroup);
int tryst_subgroup_size(const tryst_subgroup *subgroup);
int tryst_subgroup_member(const tryst_subgroup *subgroup, int number);
void tryst_subgroup_close(tryst_subgroup *subgroup);
typedef struct tryst_coll_info { size_t struct_size; double bound_seconds; uint64_t planned_bytes_per_s; uint32_t
    trees; uint32_t slice_bytes; } tryst_coll_info;
tryst_status tryst_coll_estimate(tryst_group *group, const tryst_coll_params *coll_params, tryst_coll_info *info);
tryst_status tryst_coll_tree(tryst_group *group, const tryst_coll_params *coll_params, uint32_t tree, bool is_up,
    int32_t *parents);
typedef struct tryst_coll_order { size_t struct_size; uint32_t trees; uint32_t reserved; uint64_t first; uint64_t
    count; } tryst_coll_order;
tryst_status tryst_coll_order_get(tryst_group *group, const tryst_coll_params *coll_params, const
    tryst_subgroup_params *members, uint32_t tree, tryst_coll_order *order, int32_t *parents);
typedef struct tryst_topo tryst_topo;
typedef struct tryst_plan tryst_plan;
tryst_status tryst_topo_detect(tryst_topo **topo_p);
tryst_status tryst_topo_load(const char *path, tryst_topo **topo_p);
tryst_status tryst_topo_parse(const char *text, size_t bytes, const char *name, tryst_topo **topo_p);
void tryst_topo_close(tryst_topo *topo);
tryst_status tryst_topo_write(const tryst_topo *topo, const char *format, const tryst_plan *plan, char **text_p);
void tryst_text_free(char *text);
int tryst_topo_ranks(const tryst_topo *topo);
const char *tryst_topo_rank_name(const tryst_topo *topo, int rank);
int tryst_topo_rank_find(const tryst_topo *topo, const char *name);
int tryst_topo_nodes(const tryst_topo *topo);
int tryst_topo_links(const tryst_topo *topo);
typedef struct tryst_topo_node { size_t struct_size; const char *name; const char *kind; const char *short_name;
    const char *label, *pci, *cpus; int32_t parent; int32_t machine; } tryst_topo_node;
tryst_status tryst_topo_node_get(const tryst_topo *topo, int number, tryst_topo_node *node_p);
enum { TRYST_LINK_TEXT_BYTES = 128 };
typedef struct tryst_topo_link { size_t struct_size; const char *kind; int32_t from, to; double bytes_per_s; bool
    down; bool two_way; char text[TRYST_LINK_TEXT_BYTES]; } tryst_topo_link;
tryst_status tryst_topo_link_get(const tryst_topo *topo, int number, tryst_topo_link *link_p);
typedef enum tryst_plan_op { TRYST_PLAN_ALLREDUCE = 0, TRYST_PLAN_BROADCAST = 1, TRYST_PLAN_REDUCE = 2,
    TRYST_PLAN_ALLGATHER = 3, TRYST_PLAN_REDUCE_SCATTER = 4 } tryst_plan_op;
const char *tryst_plan_op_name(tryst_plan_op op);
typedef struct tryst_plan_params { size_t struct_size; tryst_plan_op op; int32_t root; const int32_t *ranks; int32_t
    ranks_count; int32_t trees_max; double gap_max; double sum_bytes_per_s; } tryst_plan_params;
tryst_status tryst_plan_open(const tryst_topo *topo, const tryst_plan_params *params, tryst_plan **plan_p);
void tryst_plan_close(tryst_plan *plan);
typedef struct tryst_plan_info { size_t struct_size; tryst_plan_op op; int32_t ranks_count, trees_count; int32_t
    depth_max; double s_per_byte; double bound_s_per_byte; double gap; uint64_t digest; } tryst_plan_info;
tryst_status tryst_plan_info_get(const tryst_plan *plan, tryst_plan_info *info_p);
typedef struct tryst_plan_tree { size_t struct_size; double share; int32_t root; const int32_t *parents; const
    int32_t *ranks; } tryst_plan_tree;
tryst_status tryst_plan_tree_get(const tryst_plan *plan, int number, tryst_plan_tree *tree_p);
tryst_status tryst_plan_json(const tryst_plan *plan, char **text_p);
tryst_status tryst_plan_text(const tryst_plan *plan, char **text_p);
tryst_status tryst_plan_verify(const tryst_topo *topo, const char *json, size_t bytes, const char *name);
typedef struct tryst_route_info { size_t struct_size; int32_t hops; double routes; double bytes_per_s; double
    latency_ns; double bottleneck_share; const char *bottleneck_from, *bottleneck_to; } tryst_route_info;
tryst_status tryst_topo_route(const tryst_topo *topo, int from, int to, tryst_route_info *info_p);
tryst_status tryst_topo_explain(const tryst_topo *topo, int from, int to, uint64_t bytes, char **text_p);
typedef struct tryst_place_pair { int32_t a, b; int32_t weight; } tryst_place_pair;
typedef struct tryst_place_params { size_t struct_size; const char *const *bus_ids; int32_t devices_count; int32_t
    ranks_count; const tryst_place_pair *pairs; int32_t pairs_count; } tryst_place_params;
tryst_status tryst_topo_place(const tryst_topo *topo, const tryst_place_params *params, int32_t *devices, char
    **text_p);
typedef struct tryst_probe_flow { int32_t round; int32_t from, to; double bytes_per_s; } tryst_probe_flow;
tryst_status tryst_probe_schedule(int ranks_count, const int32_t *hosts, tryst_probe_flow **flows_p, int
    *flows_count_p);
void tryst_probe_flows_free(tryst_probe_flow *flows);
typedef struct tryst_probe_info { size_t struct_size; int32_t flows; int32_t explained; int32_t groups; bool mesh; }
    tryst_probe_info;
tryst_status tryst_topo_fit(int ranks_count, const char *const *names, const tryst_probe_flow *flows, int
    flows_count, const double *latency_ns, tryst_probe_info *info_p, tryst_topo **topo_p);
