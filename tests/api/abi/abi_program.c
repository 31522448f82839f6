/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was built against the frozen headers, with the library of the tree:
 * alone (TRYST_SIZE=1), or one of two ranks under tryst-run. It makes a call with each
 * struct of libtryst that a program fills in or reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tryst/pool.h>
#include <tryst/topo.h>
#include <tryst/tryst.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define OK(call) CHECK((call) == TRYST_OK)

enum { WAIT_S = 20 };

static const uint64_t wait_ns = WAIT_S * UINT64_C(1000000000);

/* A struct of this program's version with what lies behind it: no call writes there. */
#define GUARDED(type, name)           \
    struct {                          \
        type sized;                   \
        unsigned char behind[64];     \
    } name;                           \
    memset(&name, 0x5a, sizeof name); \
    name.sized.struct_size = sizeof name.sized
#define GUARD(name)                                            \
    do {                                                       \
        for (size_t i_ = 0; i_ < 64; i_++)                     \
            CHECK((name).behind[i_] == 0x5a);                  \
        CHECK((name).sized.struct_size == sizeof(name).sized); \
    } while (0)

static tryst_tensor tensor_of(void *data, uint64_t count)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = count,
                          .dtype = TRYST_DTYPE_F32};
}

static void on_complete(void *arg, tryst_op *op, tryst_status status)
{
    (void)op;
    *(tryst_status *)arg = status;
}

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    CHECK(tensor->struct_size >= sizeof *tensor && tensor->dtype == TRYST_DTYPE_F32);
    tensor->data = arg;
    return TRYST_OK;
}

/* Send to the next rank, receive from the one before; by string with params, and by
 * prepared key with alloc. */
static void exchange(const tryst_group *group, tryst_step *step, const char *edge)
{
    static float out[1000], in[1000];
    const int rank = tryst_group_rank(group), size = tryst_group_size(group);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    char to[TRYST_KEY_MAX + 1], from[TRYST_KEY_MAX + 1];
    tryst_status seen = TRYST_IN_PROGRESS;
    tryst_op_params params = {.struct_size = sizeof params,
                              .flags = TRYST_OP_PRIORITY,
                              .priority = -1,
                              .deadline_ns = wait_ns,
                              .callback = on_complete,
                              .arg = &seen};
    const tryst_op_params alloc = {
        .struct_size = sizeof alloc, .alloc = on_alloc, .alloc_arg = in};
    const tryst_tensor send = tensor_of(out, 1000);
    tryst_key *key;
    tryst_op *ops[2];
    for (int i = 0; i < 1000; i++)
        out[i] = (float)(rank * 1000 + i);
    OK(tryst_key_build(group, rank, next, edge, 0, 0, to, sizeof to));
    OK(tryst_key_build(group, before, rank, edge, 0, 0, from, sizeof from));
    OK(tryst_key_prepare((tryst_group *)group, from, &key));
    CHECK(strcmp(tryst_key_string(key), from) == 0);
    OK(tryst_recv_key(step, key, NULL, &alloc, &ops[0]));
    OK(tryst_send(step, to, &send, &params, &ops[1]));
    OK(tryst_wait_all(ops, 2, wait_ns));
    CHECK(seen == TRYST_OK && in[999] == (float)(before * 1000 + 999));
    GUARDED(tryst_tensor, got);
    OK(tryst_op_tensor(ops[0], &got.sized));
    CHECK(got.sized.data == in && got.sized.count == 1000);
    GUARD(got);
    tryst_key_release(key);
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
}

/* A receive that nothing sends for, cancelled; and a step that is aborted. */
static void errors(tryst_group *group, tryst_step *step)
{
    float in;
    char key[TRYST_KEY_MAX + 1];
    const int rank = tryst_group_rank(group);
    const tryst_tensor to = tensor_of(&in, 1);
    tryst_op *op;
    OK(tryst_key_build(group, rank, rank, "never", 0, 0, key, sizeof key));
    OK(tryst_recv(step, key, &to, NULL, &op));
    OK(tryst_op_reprioritize(op, -3));
    OK(tryst_op_cancel(op));
    CHECK(tryst_wait(op, wait_ns) == TRYST_E_CANCELED);
    CHECK(tryst_op_test(op) == TRYST_E_CANCELED);
    GUARDED(tryst_error, error);
    CHECK(tryst_op_error(op, &error.sized) == TRYST_E_CANCELED);
    CHECK(error.sized.status == TRYST_E_CANCELED && strcmp(error.sized.key, key) == 0);
    CHECK(error.sized.text && *error.sized.text && error.sized.step == 1);
    GUARD(error);
    tryst_op_release(op);
    OK(tryst_step_status(step, &error.sized));
    GUARDED(tryst_parsed_key, parsed);
    GUARDED(tryst_key_error, wrong);
    OK(tryst_key_parse(key, &parsed.sized, &wrong.sized));
    CHECK(parsed.sized.edge.bytes == strlen("never"));
    CHECK(tryst_key_parse("a;b", NULL, &wrong.sized) == TRYST_E_KEY &&
          *wrong.sized.reason);
    GUARD(parsed);
    GUARD(wrong);
}

static void peers(const tryst_group *group)
{
    for (int rank = 0; rank < tryst_group_size(group); rank++) {
        GUARDED(tryst_peer_info, peer);
        OK(tryst_group_peer(group, rank, &peer.sized));
        CHECK(peer.sized.rank == rank && peer.sized.alive && *peer.sized.device_prefix);
        GUARD(peer);
    }
}

static void memory(tryst_ctx *ctx)
{
    const tryst_pool_params params = {
        .struct_size = sizeof params, .kind = TRYST_POOL_REGISTERED, .name = "abi"};
    void *piece, *data;
    float own[64];
    tryst_pool *pool;
    tryst_mem *mem;
    tryst_device *device;
    OK(tryst_mem_register(ctx, own, sizeof own, TRYST_MEMORY_HOST, 0, &mem));
    tryst_mem_release(mem);
    OK(tryst_mem_alloc(ctx, 4096, TRYST_MEMORY_HOST, 0, &data, &mem));
    tryst_mem_release(mem);
    OK(tryst_pool_open(ctx, &params, &pool));
    OK(tryst_pool_alloc(pool, 1000, &piece));
    GUARDED(tryst_pool_counts, counts);
    OK(tryst_pool_count(pool, &counts.sized));
    CHECK(counts.sized.in_use == 1 && counts.sized.allocations == 1);
    GUARD(counts);
    OK(tryst_pool_free(pool, piece));
    CHECK(tryst_pool_close(pool) == 0);
    OK(tryst_device_open(ctx, TRYST_MEMORY_HOST, 0, &device));
    GUARDED(tryst_device_info, info);
    OK(tryst_device_describe(device, &info.sized));
    CHECK(info.sized.memory == TRYST_MEMORY_HOST && *info.sized.name);
    GUARD(info);
    tryst_device_close(device);
}

static void topology(void)
{
    static const char star[] =
        "{\"ranks\": [\"a\",\"b\"], \"nodes\": [\"s\"], \"links\": ["
        "{\"a\":\"a\",\"b\":\"s\",\"gbit_per_s\":8},"
        "{\"a\":\"b\",\"b\":\"s\",\"gbit_per_s\":8}]}";
    char *text;
    const tryst_plan_params params = {.struct_size = sizeof params,
                                      .op = TRYST_PLAN_BROADCAST};
    static const char *const bus_ids[] = {"0000:01:00.0"};
    const tryst_place_params place = {.struct_size = sizeof place,
                                      .bus_ids = bus_ids,
                                      .devices_count = 1,
                                      .ranks_count = 1};
    static const char *const names[] = {"a", "b"};
    static const tryst_probe_flow flows[] = {{0, 0, 1, 1e9}, {1, 1, 0, 1e9}};
    int32_t devices[1];
    tryst_topo *topo, *fitted;
    tryst_plan *plan;
    OK(tryst_topo_parse(star, sizeof star - 1, "star", &topo));
    CHECK(tryst_topo_ranks(topo) == 2);
    OK(tryst_plan_open(topo, &params, &plan));
    GUARDED(tryst_plan_info, info);
    OK(tryst_plan_info_get(plan, &info.sized));
    CHECK(info.sized.ranks_count == 2 && info.sized.op == TRYST_PLAN_BROADCAST);
    CHECK(info.sized.s_per_byte > 0 && info.sized.digest);
    GUARD(info);
    OK(tryst_plan_text(plan, &text));
    tryst_text_free(text);
    GUARDED(tryst_plan_tree, tree);
    OK(tryst_plan_tree_get(plan, 0, &tree.sized));
    CHECK(tree.sized.share == 1 && tree.sized.parents[tree.sized.root] == -1);
    GUARD(tree);
    GUARDED(tryst_topo_node, node);
    OK(tryst_topo_node_get(topo, tryst_topo_nodes(topo) - 1, &node.sized));
    CHECK(node.sized.name && node.sized.parent == -1);
    GUARD(node);
    GUARDED(tryst_topo_link, link);
    OK(tryst_topo_link_get(topo, tryst_topo_links(topo) - 1, &link.sized));
    CHECK(link.sized.bytes_per_s == 1e9 && !link.sized.down);
    GUARD(link);
    GUARDED(tryst_route_info, route);
    OK(tryst_topo_route(topo, 0, 1, &route.sized));
    CHECK(route.sized.hops == 2 && route.sized.bytes_per_s == 1e9);
    GUARD(route);
    OK(tryst_topo_place(topo, &place, devices, NULL));
    GUARDED(tryst_probe_info, fit);
    OK(tryst_topo_fit(2, names, flows, 2, NULL, &fit.sized, &fitted));
    CHECK(fit.sized.flows == 2);
    GUARD(fit);
    tryst_topo_close(fitted);
    tryst_plan_close(plan);
    tryst_topo_close(topo);
}

static int config_seen(void *arg, const tryst_config_item *item)
{
    CHECK(item->struct_size >= sizeof *item && *item->name && *item->help);
    (*(int *)arg)++;
    return 0;
}

static int transport_seen(void *arg, const tryst_transport_info *info)
{
    CHECK(info->struct_size >= sizeof *info && *info->name);
    *(int *)arg += info->available;
    return 0;
}

static int check_seen(void *arg, const tryst_check_item *item)
{
    CHECK(item->struct_size >= sizeof *item && *item->name &&
          item->level <= TRYST_CHECK_FAIL);
    (*(int *)arg)++;
    return 0;
}

static void settings(const tryst_config *config, tryst_ctx *ctx)
{
    int items = 0, transports = 0, checks = 0;
    GUARDED(tryst_config_item, item);
    OK(tryst_config_get(config, "TRYST_WINDOW_BYTES", &item.sized));
    CHECK(strcmp(item.sized.name, "window_bytes") == 0);
    GUARD(item);
    CHECK(tryst_config_visit(config, config_seen, &items) == 0 && items > 10);
    CHECK(tryst_transport_visit(ctx, transport_seen, &transports) == 0 && transports > 0);
    CHECK(tryst_check_visit(config, check_seen, &checks) == 0 && checks > 3);
    GUARDED(tryst_launch, launch);
    OK(tryst_launch_find(config, &launch.sized));
    CHECK(strcmp(launch.sized.launcher, "tryst") == 0 && *launch.sized.why);
    GUARD(launch);
}

int main(int argc, char **argv)
{
    tryst_config *config;
    tryst_open_params open = {.struct_size = sizeof open};
    const tryst_group_params params = {.struct_size = sizeof params,
                                       .timeout_ns = wait_ns};
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    tryst_op *closed;
    const int ranks = argc > 1 ? atoi(argv[1]) : 1;
    CHECK(tryst_version() >= TRYST_VERSION && TRYST_VERSION_AT_LEAST(0, 1, 0));
    OK(tryst_config_open(&config));
    OK(tryst_config_set(config, "window_bytes", "8M"));
    open.config = config;
    OK(tryst_open(&open, &ctx));
    OK(tryst_group_open(ctx, &params, &group));
    CHECK(tryst_group_size(group) == ranks);
    OK(tryst_step_open(group, 1, &step));
    exchange(group, step, "a");
    peers(group);
    errors(group, step);
    OK(tryst_step_close(step, &closed));
    OK(tryst_wait(closed, wait_ns));
    tryst_op_release(closed);
    settings(config, ctx);
    memory(ctx);
    topology();
    tryst_group_close(group);
    tryst_close(ctx);
    tryst_config_close(config);
    printf("built against %u.%u.%u, runs with %s\n", TRYST_VERSION_MAJOR,
           TRYST_VERSION_MINOR, TRYST_VERSION_PATCH, tryst_version_string());
    return 0;
}
