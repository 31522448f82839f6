/* SPDX-License-Identifier: Apache-2.0 */
/* Frozen by tests/api/abi/freeze.sh: do not edit. */
#ifndef TRYST_TRYST_H
#define TRYST_TRYST_H

#include <stdbool.h>
#include <tryst/key.h>
#include <tryst/status.h>
#include <tryst/types.h>

TRYST_BEGIN_DECLS

#define TRYST_VERSION_MAJOR 0
#define TRYST_VERSION_MINOR 1
#define TRYST_VERSION_PATCH 0

#define TRYST_VERSION_NUMBER(major, minor, patch) ((major) << 16 | (minor) << 8 | (patch))
#define TRYST_VERSION \
    TRYST_VERSION_NUMBER(TRYST_VERSION_MAJOR, TRYST_VERSION_MINOR, TRYST_VERSION_PATCH)
#define TRYST_VERSION_AT_LEAST(major, minor, patch) \
    (TRYST_VERSION >= TRYST_VERSION_NUMBER(major, minor, patch))

TRYST_API uint32_t tryst_version(void);
TRYST_API const char *tryst_version_string(void);

TRYST_API const char *tryst_status_name(tryst_status status);
TRYST_API const char *tryst_status_str(tryst_status status);
TRYST_API int tryst_status_visit(int (*fn)(void *arg, tryst_status status,
                                           const char *name, const char *text),
                                 void *arg);

TRYST_API size_t tryst_dtype_bytes(tryst_dtype dtype);
TRYST_API const char *tryst_dtype_name(tryst_dtype dtype);

#define TRYST_FOREVER UINT64_MAX

TRYST_API tryst_status tryst_config_open(tryst_config **config_p);

TRYST_API tryst_status tryst_config_set(tryst_config *config, const char *name,
                                        const char *value);

TRYST_API void tryst_config_close(tryst_config *config);

typedef struct tryst_config_item {
    size_t struct_size;
    const char *name;
    const char *environment;
    const char *type;
    const char *value;
    const char *origin;
    const char *fallback;
    const char *allowed;
    const char *help;
} tryst_config_item;

TRYST_API int tryst_config_visit(const tryst_config *config,
                                 int (*fn)(void *arg, const tryst_config_item *item),
                                 void *arg);

TRYST_API tryst_status tryst_config_get(const tryst_config *config, const char *name,
                                        tryst_config_item *item_p);

typedef struct tryst_launch {
    size_t struct_size;
    const char *launcher;
    int32_t rank;
    int32_t size;
    int32_t local_rank;
    int32_t local_size;
    char why[512];
} tryst_launch;

TRYST_API tryst_status tryst_launch_find(const tryst_config *config,
                                         tryst_launch *launch_p);

typedef void (*tryst_log_fn)(void *arg, tryst_log_level level, const char *line);

typedef struct tryst_open_params {
    size_t struct_size;
    const tryst_config *config;
    tryst_log_fn log_fn;
    void *log_arg;
} tryst_open_params;

TRYST_API tryst_status tryst_open(const tryst_open_params *params, tryst_ctx **ctx_p);

TRYST_API void tryst_close(tryst_ctx *ctx);

TRYST_API uint64_t tryst_now_ns(const tryst_ctx *ctx);

typedef int (*tryst_allgather_fn)(void *arg, const void *mine, void *all, size_t bytes);

typedef struct tryst_group_params {
    size_t struct_size;
    tryst_allgather_fn allgather;
    void *allgather_arg;
    int rank;
    int size;
    const char *device_prefix;
    uint64_t timeout_ns;
} tryst_group_params;

TRYST_API tryst_status tryst_group_open(tryst_ctx *ctx, const tryst_group_params *params,
                                        tryst_group **group_p);

TRYST_API void tryst_group_close(tryst_group *group);

TRYST_API int tryst_group_rank(const tryst_group *group);
TRYST_API int tryst_group_size(const tryst_group *group);
TRYST_API int tryst_group_local_rank(const tryst_group *group);
TRYST_API int tryst_group_local_size(const tryst_group *group);

typedef struct tryst_peer_info {
    size_t struct_size;
    int32_t rank;
    bool alive;
    uint64_t incarnation;
    const char *device_prefix;
    const char *host;
    const char *transport;
    const char *mechanism;
    uint64_t bytes_sent;
    uint64_t bytes_received;
    uint64_t window_bytes;
    uint64_t moving_ns;
    uint64_t held_ns;
    uint64_t ungranted_ns;
    uint64_t unready_ns;
} tryst_peer_info;

TRYST_API tryst_status tryst_group_peer(const tryst_group *group, int rank,
                                        tryst_peer_info *info_p);

TRYST_API tryst_status tryst_step_open(tryst_group *group, uint64_t id,
                                       tryst_step **step_p);

TRYST_API tryst_status tryst_step_abort(tryst_step *step, tryst_status status,
                                        const char *reason);

TRYST_API tryst_status tryst_step_status(const tryst_step *step, tryst_error *error_p);

TRYST_API tryst_status tryst_step_close(tryst_step *step, tryst_op **op_p);

#define TRYST_OP_PRIORITY   1u
#define TRYST_OP_DEAD       2u
#define TRYST_OP_BACKGROUND 4u

typedef void (*tryst_op_fn)(void *arg, tryst_op *op, tryst_status status);

typedef tryst_status (*tryst_alloc_fn)(void *arg, tryst_tensor *tensor);

typedef struct tryst_op_params {
    size_t struct_size;
    uint32_t flags;
    int32_t priority;
    uint64_t deadline_ns;
    tryst_op_fn callback;
    void *arg;
    tryst_alloc_fn alloc;
    void *alloc_arg;
    double factor;
    const tryst_subgroup *subgroup;
} tryst_op_params;

TRYST_API tryst_status tryst_send(tryst_step *step, const char *key,
                                  const tryst_tensor *tensor,
                                  const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_recv(tryst_step *step, const char *key,
                                  const tryst_tensor *tensor,
                                  const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_send_key(tryst_step *step, const tryst_key *key,
                                      const tryst_tensor *tensor,
                                      const tryst_op_params *params, tryst_op **op_p);
TRYST_API tryst_status tryst_recv_key(tryst_step *step, const tryst_key *key,
                                      const tryst_tensor *tensor,
                                      const tryst_op_params *params, tryst_op **op_p);

TRYST_API tryst_status tryst_op_test(const tryst_op *op);

TRYST_API tryst_status tryst_wait(tryst_op *op, uint64_t timeout_ns);

TRYST_API tryst_status tryst_wait_all(tryst_op *const *ops, size_t ops_count,
                                      uint64_t timeout_ns);

TRYST_API tryst_status tryst_wait_any(tryst_op *const *ops, size_t ops_count,
                                      uint64_t timeout_ns, size_t *index_p);

TRYST_API tryst_status tryst_op_cancel(tryst_op *op);

TRYST_API tryst_status tryst_op_reprioritize(tryst_op *op, int32_t priority);

TRYST_API tryst_status tryst_op_stream_wait(tryst_op *op, int32_t device, void *stream);

TRYST_API void tryst_op_release(tryst_op *op);

TRYST_API tryst_status tryst_op_tensor(const tryst_op *op, tryst_tensor *tensor_p);

TRYST_API tryst_status tryst_op_error(const tryst_op *op, tryst_error *error_p);

TRYST_API int tryst_progress(tryst_ctx *ctx);

TRYST_API int tryst_event_fd(tryst_ctx *ctx);

TRYST_API tryst_status tryst_arm(tryst_ctx *ctx);

TRYST_API void tryst_wake(tryst_ctx *ctx);

TRYST_API tryst_status tryst_mem_register(tryst_ctx *ctx, void *data, size_t bytes,
                                          tryst_memory_kind memory, int32_t device,
                                          tryst_mem **mem_p);

TRYST_API tryst_status tryst_mem_alloc(tryst_ctx *ctx, size_t bytes,
                                       tryst_memory_kind memory, int32_t device,
                                       void **data_p, tryst_mem **mem_p);

TRYST_API void tryst_mem_release(tryst_mem *mem);

TRYST_API tryst_status tryst_mem_share(tryst_group *group, int rank, tryst_mem *mem,
                                       uint64_t *id_p);

TRYST_API tryst_status tryst_mem_view(tryst_group *group, int rank, uint64_t id,
                                      const void **data_p, size_t *bytes_p);

TRYST_API void tryst_mem_view_close(const void *data, size_t bytes);

TRYST_API void tryst_dump(tryst_ctx *ctx, int fd);

TRYST_API int tryst_counter_visit(const tryst_ctx *ctx,
                                  int (*fn)(void *arg, const char *name, uint64_t value),
                                  void *arg);

typedef struct tryst_transport_info {
    size_t struct_size;
    const char *name;
    bool available;
    int32_t rails;
    const char *reason;
} tryst_transport_info;

TRYST_API int tryst_transport_visit(
    tryst_ctx *ctx, int (*fn)(void *arg, const tryst_transport_info *info), void *arg);

typedef enum tryst_check_level {
    TRYST_CHECK_OK = 0,
    TRYST_CHECK_WARN = 1,
    TRYST_CHECK_FAIL = 2
} tryst_check_level;

typedef struct tryst_check_item {
    size_t struct_size;
    const char *name;
    tryst_check_level level;
    const char *text;
    const char *fix;
} tryst_check_item;

TRYST_API int tryst_check_visit(const tryst_config *config,
                                int (*fn)(void *arg, const tryst_check_item *item),
                                void *arg);

TRYST_API void tryst_trace_span(tryst_ctx *ctx, const char *name, uint64_t begin_ns,
                                uint64_t end_ns, uint64_t arg);
TRYST_API void tryst_trace_counter(tryst_ctx *ctx, const char *name, uint64_t value);

TRYST_API tryst_status tryst_trace_write(tryst_ctx *ctx, int fd);

TRYST_END_DECLS

#endif
