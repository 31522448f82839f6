/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of other versions of libtryst (tryst/sized.h): today's program with a later
 * library, and a later program with today's library. */
#include "support/sized_table.h"

#include <tryst/coll.h>
#include <tryst/pool.h>
#include <tryst/profile.h>
#include <tryst/topo.h>
#include <tryst/tryst.h>
#include <unistd.h>

static struct {
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step, *aborted;
    tryst_op *done, *failed;
    tryst_config *config;
    tryst_device *device;
    tryst_pool *pool;
    tryst_topo *topo;
    tryst_plan *plan;
    tryst_profile *profile;
    char key[TRYST_KEY_MAX + 1];
    uint64_t in;
} at;

static uint64_t out = 7;

static void ignore_log(void *arg, tryst_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

/* ---- inputs ------------------------------------------------------------------------ */

static void open_fill(void *sized)
{
    *(tryst_open_params *)sized = (tryst_open_params){.log_fn = ignore_log};
}

static tryst_status open_call(void *sized)
{
    tryst_ctx *ctx = NULL;
    tryst_status status = tryst_open(sized, &ctx);
    tryst_close(ctx);
    return status;
}

static void group_fill(void *sized)
{
    *(tryst_group_params *)sized = (tryst_group_params){.timeout_ns = 1000000000};
}

static tryst_status group_call(void *sized)
{
    const tryst_open_params quiet = {.struct_size = sizeof quiet, .log_fn = ignore_log};
    tryst_ctx *ctx;
    tryst_group *group = NULL;
    assert_int_equal(tryst_open(&quiet, &ctx), TRYST_OK);
    tryst_status status = tryst_group_open(ctx, sized, &group);
    tryst_group_close(group);
    tryst_close(ctx);
    return status;
}

/* Run a pair whose two ends both have `tensor` and `params`, or the defaults where
 * NULL. */
static tryst_status pair(const tryst_tensor *tensor, const tryst_op_params *params)
{
    tryst_tensor usual = {
        .struct_size = sizeof usual, .data = &out, .count = 1, .dtype = TRYST_DTYPE_I64};
    tryst_op *ops[2] = {NULL, NULL};
    tryst_tensor to = usual;
    to.data = &at.in;
    tryst_status status =
        tryst_send(at.step, at.key, tensor ? tensor : &usual, params, &ops[0]);
    if (status == TRYST_OK)
        status = tryst_recv(at.step, at.key, &to, params, &ops[1]);
    if (status == TRYST_OK)
        status = tryst_wait_all(ops, 2, TRYST_FOREVER);
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
    return status;
}

static void tensor_fill(void *sized)
{
    *(tryst_tensor *)sized =
        (tryst_tensor){.data = &out, .count = 1, .dtype = TRYST_DTYPE_I64};
}

static tryst_status tensor_call(void *sized)
{
    return pair(sized, NULL);
}

static void params_fill(void *sized)
{
    *(tryst_op_params *)sized =
        (tryst_op_params){.flags = TRYST_OP_PRIORITY, .priority = -1};
}

static tryst_status params_call(void *sized)
{
    return pair(NULL, sized);
}

static void coll_fill(void *sized)
{
    *(tryst_coll_params *)sized = (tryst_coll_params){.kind = TRYST_COLL_ALLREDUCE,
                                                      .reduce = TRYST_REDUCE_SUM,
                                                      .count = 1,
                                                      .dtype = TRYST_DTYPE_I64,
                                                      .name = "sized"};
}

static tryst_status coll_call(void *sized)
{
    tryst_coll *coll = NULL;
    tryst_status status = tryst_coll_prepare(at.group, sized, &coll);
    tryst_coll_release(coll);
    return status;
}

static const int32_t at_rank = 0;

static void subgroup_fill(void *sized)
{
    *(tryst_subgroup_params *)sized =
        (tryst_subgroup_params){.count = 1, .members = &at_rank};
}

static tryst_status subgroup_call(void *sized)
{
    tryst_subgroup *subgroup = NULL;
    tryst_status status = tryst_subgroup_open(at.group, sized, &subgroup);
    tryst_subgroup_close(subgroup);
    return status;
}

static void pool_fill(void *sized)
{
    *(tryst_pool_params *)sized =
        (tryst_pool_params){.kind = TRYST_POOL_REGISTERED, .name = "sized"};
}

static tryst_status pool_call(void *sized)
{
    tryst_pool *pool = NULL;
    tryst_status status = tryst_pool_open(at.ctx, sized, &pool);
    tryst_pool_close(pool);
    return status;
}

static void plan_fill(void *sized)
{
    *(tryst_plan_params *)sized =
        (tryst_plan_params){.op = TRYST_PLAN_BROADCAST, .root = 1};
}

static tryst_status plan_call(void *sized)
{
    tryst_plan *plan = NULL;
    tryst_status status = tryst_plan_open(at.topo, sized, &plan);
    tryst_plan_close(plan);
    return status;
}

static void place_fill(void *sized)
{
    static const char *const bus_ids[] = {"0000:01:00.0", "0000:02:00.0"};
    *(tryst_place_params *)sized =
        (tryst_place_params){.bus_ids = bus_ids, .devices_count = 2, .ranks_count = 2};
}

static tryst_status place_call(void *sized)
{
    int32_t devices[2];
    return tryst_topo_place(NULL, sized, devices, NULL);
}

/* ---- outputs ----------------------------------------------------------------------- */

static tryst_status op_tensor_call(void *sized)
{
    return tryst_op_tensor(at.done, sized);
}

static tryst_status op_error_call(void *sized)
{
    return tryst_op_error(at.failed, sized);
}

static tryst_status step_status_call(void *sized)
{
    return tryst_step_status(at.aborted, sized);
}

static tryst_status key_parse_call(void *sized)
{
    return tryst_key_parse(at.key, sized, NULL);
}

static tryst_status key_error_call(void *sized)
{
    return tryst_key_parse("no key", NULL, sized);
}

static tryst_status config_get_call(void *sized)
{
    return tryst_config_get(at.config, "window_bytes", sized);
}

static tryst_status launch_call(void *sized)
{
    return tryst_launch_find(at.config, sized);
}

static tryst_status peer_call(void *sized)
{
    return tryst_group_peer(at.group, 0, sized);
}

static tryst_status coll_info_call(void *sized)
{
    const tryst_coll_params params = {.struct_size = sizeof params,
                                      .kind = TRYST_COLL_BROADCAST,
                                      .count = 1,
                                      .dtype = TRYST_DTYPE_I64};
    return tryst_coll_estimate(at.group, &params, sized);
}

static tryst_status coll_order_call(void *sized)
{
    static const int32_t members[] = {0};
    int32_t parents[1];
    const tryst_subgroup_params of = {
        .struct_size = sizeof of, .count = 1, .members = members};
    const tryst_coll_params params = {.struct_size = sizeof params,
                                      .kind = TRYST_COLL_ALLREDUCE,
                                      .count = 1,
                                      .dtype = TRYST_DTYPE_I64};
    return tryst_coll_order_get(at.group, &params, &of, 0, sized, parents);
}

static tryst_status device_call(void *sized)
{
    return tryst_device_describe(at.device, sized);
}

static tryst_status counts_call(void *sized)
{
    return tryst_pool_count(at.pool, sized);
}

static tryst_status plan_info_call(void *sized)
{
    return tryst_plan_info_get(at.plan, sized);
}

static tryst_status plan_tree_call(void *sized)
{
    return tryst_plan_tree_get(at.plan, 0, sized);
}

static tryst_status topo_node_call(void *sized)
{
    return tryst_topo_node_get(at.topo, 0, sized);
}

static tryst_status topo_link_call(void *sized)
{
    return tryst_topo_link_get(at.topo, 0, sized);
}

static tryst_status route_call(void *sized)
{
    return tryst_topo_route(at.topo, 0, 1, sized);
}

static tryst_status profile_node_call(void *sized)
{
    return tryst_profile_node_get(at.profile, 0, sized);
}

static tryst_status profile_origin_call(void *sized)
{
    return tryst_profile_origin_get(at.profile, sized);
}

static tryst_status fit_call(void *sized)
{
    static const char *const names[] = {"a", "b"};
    static const tryst_probe_flow flows[] = {{0, 0, 1, 1e9}, {1, 1, 0, 1e9}};
    tryst_topo *topo = NULL;
    tryst_status status = tryst_topo_fit(2, names, flows, 2, NULL, sized, &topo);
    tryst_topo_close(topo);
    return status;
}

static void test_structs(void **state)
{
    static const struct sized_row rows[] = {
        SIZED_INPUT(tryst_open_params, config, open_fill, open_call, TRYST_OK),
        SIZED_INPUT(tryst_group_params, struct_size, group_fill, group_call, TRYST_OK),
        SIZED_INPUT(tryst_tensor, dtype, tensor_fill, tensor_call, TRYST_OK),
        SIZED_INPUT(tryst_op_params, struct_size, params_fill, params_call, TRYST_OK),
        SIZED_INPUT(tryst_coll_params, name, coll_fill, coll_call, TRYST_OK),
        SIZED_INPUT(tryst_subgroup_params, members, subgroup_fill, subgroup_call,
                    TRYST_OK),
        SIZED_INPUT(tryst_pool_params, kind, pool_fill, pool_call, TRYST_OK),
        SIZED_INPUT(tryst_plan_params, struct_size, plan_fill, plan_call, TRYST_OK),
        SIZED_INPUT(tryst_place_params, ranks_count, place_fill, place_call, TRYST_OK),
        SIZED_OUTPUT(tryst_tensor, op_tensor_call, TRYST_OK),
        SIZED_OUTPUT(tryst_error, op_error_call, TRYST_E_DEAD),
        SIZED_OUTPUT(tryst_error, step_status_call, TRYST_E_ABORTED),
        SIZED_OUTPUT(tryst_parsed_key, key_parse_call, TRYST_OK),
        SIZED_OUTPUT(tryst_key_error, key_error_call, TRYST_E_KEY),
        SIZED_OUTPUT(tryst_config_item, config_get_call, TRYST_OK),
        SIZED_OUTPUT(tryst_launch, launch_call, TRYST_OK),
        SIZED_OUTPUT(tryst_peer_info, peer_call, TRYST_OK),
        SIZED_OUTPUT(tryst_coll_info, coll_info_call, TRYST_OK),
        SIZED_OUTPUT(tryst_coll_order, coll_order_call, TRYST_OK),
        SIZED_OUTPUT(tryst_device_info, device_call, TRYST_OK),
        SIZED_OUTPUT(tryst_pool_counts, counts_call, TRYST_OK),
        SIZED_OUTPUT(tryst_plan_info, plan_info_call, TRYST_OK),
        SIZED_OUTPUT(tryst_plan_tree, plan_tree_call, TRYST_OK),
        SIZED_OUTPUT(tryst_topo_node, topo_node_call, TRYST_OK),
        SIZED_OUTPUT(tryst_topo_link, topo_link_call, TRYST_OK),
        SIZED_OUTPUT(tryst_route_info, route_call, TRYST_OK),
        SIZED_OUTPUT(tryst_profile_node, profile_node_call, TRYST_OK),
        SIZED_OUTPUT(tryst_profile_origin, profile_origin_call, TRYST_OK),
        SIZED_OUTPUT(tryst_probe_info, fit_call, TRYST_OK),
    };
    (void)state;
    sized_check(rows, COUNT_OF(rows));
}

/* ---- structs passed to callbacks --------------------------------------------------- */

static int config_seen(void *arg, const tryst_config_item *item)
{
    *(int *)arg += 1;
    assert_int_equal(item->struct_size, sizeof *item);
    return 0;
}

static int transport_seen(void *arg, const tryst_transport_info *info)
{
    *(int *)arg += 1;
    assert_int_equal(info->struct_size, sizeof *info);
    return 0;
}

static int check_seen(void *arg, const tryst_check_item *item)
{
    *(int *)arg += 1;
    assert_int_equal(item->struct_size, sizeof *item);
    return 0;
}

/* An old program writes the whole tensor without its size; the memory is still
 * accepted. */
static tryst_status give_memory(void *arg, tryst_tensor *tensor)
{
    *(size_t *)arg = tensor->struct_size;
    *tensor = (tryst_tensor){.data = &at.in};
    return TRYST_OK;
}

static void test_callbacks(void **state)
{
    int configs = 0, transports = 0, checks = 0;
    size_t size = 0;
    tryst_tensor from = {
        .struct_size = sizeof from, .data = &out, .count = 1, .dtype = TRYST_DTYPE_I64};
    tryst_tensor got = {.struct_size = sizeof got};
    const tryst_op_params params = {
        .struct_size = sizeof params, .alloc = give_memory, .alloc_arg = &size};
    tryst_op *ops[2];
    (void)state;
    assert_int_equal(tryst_config_visit(at.config, config_seen, &configs), 0);
    assert_int_equal(tryst_transport_visit(at.ctx, transport_seen, &transports), 0);
    assert_int_equal(tryst_check_visit(at.config, check_seen, &checks), 0);
    assert_true(configs > 10 && transports > 1 && checks > 3);
    assert_int_equal(tryst_send(at.step, at.key, &from, NULL, &ops[0]), TRYST_OK);
    assert_int_equal(tryst_recv(at.step, at.key, NULL, &params, &ops[1]), TRYST_OK);
    assert_int_equal(tryst_wait_all(ops, 2, TRYST_FOREVER), TRYST_OK);
    assert_int_equal(tryst_op_tensor(ops[1], &got), TRYST_OK);
    assert_ptr_equal(got.data, &at.in);
    assert_int_equal(size, sizeof got);
    tryst_op_release(ops[0]);
    tryst_op_release(ops[1]);
}

/* ---- texts of refusals, and reading one setting ------------------------------------ */

static void test_sentences(void **state)
{
    tryst_ctx *ctx = NULL;
    tryst_topo *topo = NULL;
    tryst_open_params open = {0};
    struct {
        tryst_open_params known;
        void *later;
    } next = {.known = {.struct_size = sizeof next}, .later = &next};
    tryst_probe_info info = {.flows = 7};
    static const char *const names[] = {"a", "b"};
    (void)state;
    assert_int_equal(tryst_open(&next.known, &ctx), TRYST_E_INVALID);
    assert_string_equal(tryst_last_error(),
                        "cannot read tryst_open_params: a field of a later version is "
                        "set; set it to zero, or use the library that the program "
                        "was built for");
    assert_int_equal(tryst_open(&open, &ctx), TRYST_E_INVALID);
    assert_non_null(strstr(tryst_last_error(), "struct_size is not set"));
    assert_null(ctx);
    assert_int_equal(tryst_topo_fit(2, names, NULL, 0, NULL, &info, &topo),
                     TRYST_E_INVALID);
    assert_string_equal(tryst_last_error(),
                        "cannot write tryst_probe_info: struct_size is not set; "
                        "set it with sizeof");
    assert_true(info.flows == 7 && !topo);
}

static void test_config_get(void **state)
{
    tryst_config_item item = {.struct_size = sizeof item}, other = item;
    (void)state;
    assert_int_equal(tryst_config_set(at.config, "window_bytes", "8M"), TRYST_OK);
    assert_int_equal(tryst_config_get(at.config, "window_bytes", &item), TRYST_OK);
    assert_int_equal(tryst_config_get(at.config, "TRYST_WINDOW_BYTES", &other), TRYST_OK);
    assert_string_equal(item.name, "window_bytes");
    assert_string_equal(item.value, "8M");
    assert_string_equal(item.origin, "set");
    assert_memory_equal(&item, &other, sizeof item);
    assert_int_equal(
        tryst_config_set(at.config, "token", "0123456789abcdef0123456789abcdef"),
        TRYST_OK);
    assert_int_equal(tryst_config_get(at.config, "token", &item), TRYST_OK);
    assert_string_equal(item.value, "(set)");
    assert_int_equal(tryst_config_get(at.config, "window", &item), TRYST_E_CONFIG);
    assert_int_equal(tryst_config_get(at.config, "", &item), TRYST_E_CONFIG);
    assert_int_equal(tryst_config_get(NULL, "token", &item), TRYST_E_INVALID);
    assert_int_equal(tryst_config_get(at.config, NULL, &item), TRYST_E_INVALID);
    assert_int_equal(tryst_config_get(at.config, "token", NULL), TRYST_E_INVALID);
}

static void test_version(void **state)
{
    (void)state;
    assert_int_equal(tryst_version(), TRYST_VERSION);
#if TRYST_VERSION_AT_LEAST(TRYST_VERSION_MAJOR, TRYST_VERSION_MINOR,            \
                           TRYST_VERSION_PATCH) &&                              \
    !TRYST_VERSION_AT_LEAST(TRYST_VERSION_MAJOR, TRYST_VERSION_MINOR + 1, 0) && \
    TRYST_VERSION_AT_LEAST(0, 1, 0)
    assert_true(TRYST_VERSION_NUMBER(1, 2, 3) == 0x010203);
#else
    fail_msg("TRYST_VERSION_AT_LEAST contradicts itself");
#endif
}

/* ---- setup ------------------------------------------------------------------------- */

static void ops_open(void)
{
    const tryst_op_params dead = {.struct_size = sizeof dead, .flags = TRYST_OP_DEAD};
    tryst_tensor from = {
        .struct_size = sizeof from, .data = &out, .count = 1, .dtype = TRYST_DTYPE_I64};
    tryst_tensor to = from;
    tryst_op *other = NULL;
    to.data = &at.in;
    assert_int_equal(tryst_send(at.step, at.key, &from, NULL, NULL), TRYST_OK);
    assert_int_equal(tryst_recv(at.step, at.key, &to, NULL, &at.done), TRYST_OK);
    assert_int_equal(tryst_wait(at.done, TRYST_FOREVER), TRYST_OK);
    assert_int_equal(tryst_send(at.step, at.key, &from, &dead, &other), TRYST_OK);
    assert_int_equal(tryst_recv(at.step, at.key, &to, NULL, &at.failed), TRYST_OK);
    assert_int_equal(tryst_wait(at.failed, TRYST_FOREVER), TRYST_E_DEAD);
    tryst_op_release(other);
    assert_int_equal(tryst_step_abort(at.aborted, TRYST_E_IO, "for a test"), TRYST_OK);
    while (tryst_progress(at.ctx))
        ;
}

static void profile_open(void)
{
    char path[] = "/tmp/tryst_sized_XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs("{\"tryst_profile\": 1, \"nodes\": [{\"name\": \"a\", \"bytes\": 1}]}", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(tryst_profile_load(path, &at.profile), TRYST_OK);
    unlink(path);
}

/* ---- nodes, links and trees -------------------------------------------------------- */

static void test_topology_is_read(void **state)
{
    tryst_topo_node node = {.struct_size = sizeof node};
    tryst_topo_link link = {.struct_size = sizeof link};
    tryst_plan_tree tree = {.struct_size = sizeof tree};
    (void)state;
    assert_int_equal(tryst_topo_nodes(at.topo), 3);
    assert_int_equal(tryst_topo_links(at.topo), 4);
    assert_int_equal(tryst_topo_node_get(at.topo, 2, &node), TRYST_OK);
    assert_string_equal(node.name, "s");
    assert_string_equal(node.short_name, "s");
    assert_string_equal(node.kind, "switch");
    assert_true(node.parent == -1 && node.machine == -1 && !node.label && !node.pci);
    assert_int_equal(tryst_topo_link_get(at.topo, 2, &link), TRYST_OK);
    assert_true(link.from == 1 && link.to == 2 && link.two_way && !link.down);
    assert_true(link.bytes_per_s == 1e9 / 8);
    assert_string_equal(link.kind, "unknown");
    assert_string_equal(link.text, "link 1.00 Gbit/s (imported)");
    assert_int_equal(tryst_topo_link_get(at.topo, 3, &link), TRYST_OK);
    assert_true(link.from == 2 && link.to == 1 && !link.two_way);
    assert_int_equal(tryst_plan_tree_get(at.plan, 0, &tree), TRYST_OK);
    assert_true(tree.share > 0 && tree.parents[tree.root] == -1 && !tree.ranks);
    assert_int_equal(tree.parents[1 - tree.root], tree.root);
    assert_int_equal(tryst_topo_node_get(at.topo, 3, &node), TRYST_E_INVALID);
    assert_string_equal(tryst_last_error(),
                        "not a node of the topology: 3 (it has 3, from 0)");
    assert_int_equal(tryst_topo_link_get(at.topo, -1, &link), TRYST_E_INVALID);
    assert_int_equal(tryst_plan_tree_get(at.plan, 99, &tree), TRYST_E_INVALID);
    assert_int_equal(tryst_topo_node_get(NULL, 0, &node), TRYST_E_INVALID);
    assert_int_equal(tryst_topo_link_get(at.topo, 0, NULL), TRYST_E_INVALID);
}

static int setup(void **state)
{
    static const char racks[] =
        "{\"ranks\": [\"a\",\"b\"], \"nodes\": [\"s\"], \"links\": ["
        "{\"a\":\"a\",\"b\":\"s\",\"gbit_per_s\":1},"
        "{\"a\":\"b\",\"b\":\"s\",\"gbit_per_s\":1}]}";
    const tryst_pool_params pool = {.struct_size = sizeof pool,
                                    .kind = TRYST_POOL_REGISTERED};
    (void)state;
    setenv("TRYST_SIZE", "1", 1);
    assert_int_equal(tryst_config_open(&at.config), TRYST_OK);
    assert_int_equal(tryst_open(NULL, &at.ctx), TRYST_OK);
    assert_int_equal(tryst_group_open(at.ctx, NULL, &at.group), TRYST_OK);
    assert_int_equal(tryst_step_open(at.group, 1, &at.step), TRYST_OK);
    assert_int_equal(tryst_step_open(at.group, 3, &at.aborted), TRYST_OK);
    assert_int_equal(tryst_key_build(at.group, 0, 0, "e", 0, 0, at.key, sizeof at.key),
                     TRYST_OK);
    assert_int_equal(tryst_device_open(at.ctx, TRYST_MEMORY_HOST, 0, &at.device),
                     TRYST_OK);
    assert_int_equal(tryst_pool_open(at.ctx, &pool, &at.pool), TRYST_OK);
    assert_int_equal(tryst_topo_parse(racks, sizeof racks - 1, "racks", &at.topo),
                     TRYST_OK);
    assert_int_equal(tryst_plan_open(at.topo, NULL, &at.plan), TRYST_OK);
    profile_open();
    ops_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tryst_profile_close(at.profile);
    tryst_plan_close(at.plan);
    tryst_topo_close(at.topo);
    tryst_pool_close(at.pool);
    tryst_device_close(at.device);
    tryst_op_release(at.done);
    tryst_op_release(at.failed);
    tryst_step_close(at.step, NULL);
    tryst_step_close(at.aborted, NULL);
    tryst_group_close(at.group);
    tryst_close(at.ctx);
    tryst_config_close(at.config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topology_is_read), cmocka_unit_test(test_structs),
        cmocka_unit_test(test_callbacks),        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_config_get),       cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
