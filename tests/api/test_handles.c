/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that are not usable: in a forked child, NULL, and after tryst_close. Each table
 * has a row for each call of the manual that takes a context, a group, a step, an
 * operation, a key or a trace. */
#include "support/unit.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tryst/device.h>
#include <tryst/pool.h>
#include <tryst/profile.h>
#include <tryst/topo.h>
#include <tryst/tryst.h>

#include "support/child.h"

enum { BYTES = 64, LARGE = 1 << 20 };

static struct rank {
    tryst_ctx *ctx, *plain; /* `plain` has neither group nor trace */
    tryst_group *group;
    tryst_step *step;
    tryst_op *pending, *done;
    tryst_key *key;
    tryst_mem *mem;
    tryst_tensor tensor;
    char text[TRYST_KEY_MAX + 1];
    int fd; /* descriptor of a file that keeps what is written to it */
} r;

static char in[LARGE], out[LARGE];

static tryst_tensor tensor_of(void *data, size_t bytes)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = bytes,
                          .dtype = TRYST_DTYPE_U8};
}

static void key_of(const char *edge, char *key)
{
    assert_int_equal(tryst_key_build(r.group, 0, 0, edge, 0, 0, key, TRYST_KEY_MAX + 1),
                     TRYST_OK);
}

static void context_open(bool trace, tryst_ctx **ctx_p)
{
    tryst_config *config;
    assert_int_equal(tryst_config_open(&config), TRYST_OK);
    assert_int_equal(tryst_config_set(config, "trace", trace ? "1" : "0"), TRYST_OK);
    tryst_open_params params = {.struct_size = sizeof params, .config = config};
    assert_int_equal(tryst_open(&params, ctx_p), TRYST_OK);
    tryst_config_close(config);
}

static tryst_op *recv_of(const char *edge, void *data, size_t bytes)
{
    tryst_op *op;
    tryst_tensor tensor = tensor_of(data, bytes);
    char key[TRYST_KEY_MAX + 1];
    key_of(edge, key);
    assert_int_equal(tryst_recv(r.step, key, &tensor, NULL, &op), TRYST_OK);
    return op;
}

static tryst_op *send_of(const char *edge, void *data, size_t bytes)
{
    tryst_op *op;
    tryst_tensor tensor = tensor_of(data, bytes);
    char key[TRYST_KEY_MAX + 1];
    key_of(edge, key);
    assert_int_equal(tryst_send(r.step, key, &tensor, NULL, &op), TRYST_OK);
    return op;
}

static void rank_open(void)
{
    memset(&r, 0, sizeof r);
    context_open(true, &r.ctx);
    context_open(false, &r.plain);
    assert_int_equal(tryst_group_open(r.ctx, NULL, &r.group), TRYST_OK);
    assert_int_equal(tryst_step_open(r.group, 1, &r.step), TRYST_OK);
    assert_int_equal(
        tryst_mem_register(r.ctx, in, sizeof in, TRYST_MEMORY_HOST, 0, &r.mem), TRYST_OK);
    r.tensor = tensor_of(out, BYTES);
    key_of("done", r.text);
    assert_int_equal(tryst_key_prepare(r.group, r.text, &r.key), TRYST_OK);
    r.done = recv_of("done", in, BYTES);
    tryst_op *send = send_of("done", out, BYTES);
    assert_int_equal(tryst_wait(r.done, TRYST_FOREVER), TRYST_OK);
    assert_int_equal(tryst_wait(send, TRYST_FOREVER), TRYST_OK);
    tryst_op_release(send);
    r.pending = recv_of("pending", in, BYTES);
    FILE *file = tmpfile();
    assert_non_null(file);
    r.fd = dup(fileno(file));
    fclose(file);
}

/* ---- in a forked child ------------------------------------------------------------- */

#define FORKED_CALL(name, expression)                           \
    static tryst_status name(void)                              \
    {                                                           \
        void *data_ = NULL, *handle_ = NULL;                    \
        tryst_tensor tensor_ = {.struct_size = sizeof tensor_}; \
        tryst_error error_ = {.struct_size = sizeof error_};    \
        (void)data_, (void)handle_;                             \
        (void)tensor_, (void)error_;                            \
        return expression;                                      \
    }
#define HANDLE(type) ((type **)&handle_)

FORKED_CALL(c_group, tryst_group_open(r.plain, NULL, HANDLE(tryst_group)))
FORKED_CALL(c_group_again, tryst_group_open(r.ctx, NULL, HANDLE(tryst_group)))
FORKED_CALL(c_peer,
            tryst_group_peer(r.group, 0,
                             &(tryst_peer_info){.struct_size = sizeof(tryst_peer_info)}))
FORKED_CALL(c_step, tryst_step_open(r.group, 2, HANDLE(tryst_step)))
FORKED_CALL(c_abort, tryst_step_abort(r.step, TRYST_E_IO, NULL))
FORKED_CALL(c_status, tryst_step_status(r.step, &error_))
FORKED_CALL(c_close, tryst_step_close(r.step, NULL))
FORKED_CALL(c_send, tryst_send(r.step, r.text, &r.tensor, NULL, HANDLE(tryst_op)))
FORKED_CALL(c_recv, tryst_recv(r.step, r.text, &r.tensor, NULL, HANDLE(tryst_op)))
FORKED_CALL(c_send_key, tryst_send_key(r.step, r.key, &r.tensor, NULL, HANDLE(tryst_op)))
FORKED_CALL(c_recv_key, tryst_recv_key(r.step, r.key, &r.tensor, NULL, HANDLE(tryst_op)))
FORKED_CALL(c_test, tryst_op_test(r.pending))
FORKED_CALL(c_wait, tryst_wait(r.pending, TRYST_FOREVER))
FORKED_CALL(c_wait_all, tryst_wait_all(&r.pending, 1, TRYST_FOREVER))
FORKED_CALL(c_wait_any, tryst_wait_any(&r.pending, 1, TRYST_FOREVER, &(size_t){0}))
FORKED_CALL(c_make, tryst_key_make(r.group, 0, 0, "e", 0, HANDLE(tryst_key)))
FORKED_CALL(c_cancel, tryst_op_cancel(r.pending))
FORKED_CALL(c_reprioritize, tryst_op_reprioritize(r.pending, -1))
FORKED_CALL(c_stream_wait, tryst_op_stream_wait(r.pending, 0, NULL))
FORKED_CALL(c_tensor, tryst_op_tensor(r.pending, &tensor_))
FORKED_CALL(c_error, tryst_op_error(r.pending, &error_))
FORKED_CALL(c_arm, tryst_arm(r.ctx))
FORKED_CALL(c_register, tryst_mem_register(r.ctx, out, BYTES, TRYST_MEMORY_HOST, 0,
                                           HANDLE(tryst_mem)))
FORKED_CALL(c_alloc, tryst_mem_alloc(r.ctx, BYTES, TRYST_MEMORY_HOST, 0, &data_,
                                     HANDLE(tryst_mem)))
FORKED_CALL(c_key, tryst_key_prepare(r.group, r.text, HANDLE(tryst_key)))
FORKED_CALL(c_build, tryst_key_build(r.group, 0, 0, "e", 0, 0, (char[256]){0}, 256))
FORKED_CALL(c_trace, tryst_trace_write(r.ctx, r.fd))
FORKED_CALL(c_no_trace, tryst_trace_write(r.plain, r.fd))
FORKED_CALL(c_devices,
            tryst_device_count(r.ctx, TRYST_MEMORY_CUDA, &(int32_t){0}, NULL, 0))
FORKED_CALL(c_device,
            tryst_device_open(r.ctx, TRYST_MEMORY_CUDA, 0, HANDLE(tryst_device)))
FORKED_CALL(c_pool,
            tryst_pool_open(r.ctx,
                            &(tryst_pool_params){.struct_size = sizeof(tryst_pool_params),
                                                 .kind = TRYST_POOL_REGISTERED},
                            HANDLE(tryst_pool)))

static const struct {
    const char *name;
    tryst_status (*call)(void);
} forked_calls[] = {
    {"tryst_group_open", c_group},
    {"tryst_group_open, a second one", c_group_again},
    {"tryst_group_peer", c_peer},
    {"tryst_step_open", c_step},
    {"tryst_step_abort", c_abort},
    {"tryst_step_status", c_status},
    {"tryst_step_close", c_close},
    {"tryst_send", c_send},
    {"tryst_recv", c_recv},
    {"tryst_send_key", c_send_key},
    {"tryst_recv_key", c_recv_key},
    {"tryst_op_test", c_test},
    {"tryst_wait", c_wait},
    {"tryst_wait_all", c_wait_all},
    {"tryst_wait_any", c_wait_any},
    {"tryst_key_make", c_make},
    {"tryst_op_cancel", c_cancel},
    {"tryst_op_reprioritize", c_reprioritize},
    {"tryst_op_stream_wait", c_stream_wait},
    {"tryst_op_tensor", c_tensor},
    {"tryst_op_error", c_error},
    {"tryst_arm", c_arm},
    {"tryst_mem_register", c_register},
    {"tryst_mem_alloc", c_alloc},
    {"tryst_key_prepare", c_key},
    {"tryst_key_build", c_build},
    {"tryst_trace_write", c_trace},
    {"tryst_trace_write without a trace", c_no_trace},
    {"tryst_device_count", c_devices},
    {"tryst_device_open", c_device},
    {"tryst_pool_open", c_pool},
};

static int counter_seen(void *arg, const char *name, uint64_t value)
{
    (void)arg, (void)name, (void)value;
    return 1;
}

static int transport_seen(void *arg, const tryst_transport_info *info)
{
    (void)arg, (void)info;
    return 1;
}

static int wrong; /* wrong rows so far, in the child */

static void expect(bool right, const char *what, const char *said)
{
    if (right)
        return;
    dprintf(2, "in a forked child %s returns %s\n", what, said);
    wrong = 1;
}
#define EXPECT(condition) expect(condition, #condition, "no")

/* Calls that return no status have no effect; calls that only read a handle still
 * work. */
static void forked_others(void)
{
    EXPECT(tryst_progress(r.ctx) == 0);
    EXPECT(tryst_event_fd(r.ctx) == -1);
    EXPECT(tryst_counter_visit(r.ctx, counter_seen, NULL) == 0);
    EXPECT(tryst_transport_visit(r.ctx, transport_seen, NULL) == 0);
    tryst_wake(r.ctx);
    tryst_dump(r.ctx, r.fd);
    tryst_trace_span(r.ctx, "span", 1, 2, 3);
    tryst_trace_counter(r.ctx, "counter", 1);
    EXPECT(lseek(r.fd, 0, SEEK_END) == 0);
    EXPECT(tryst_now_ns(r.ctx) > 0);
    EXPECT(tryst_group_rank(r.group) == 0 && tryst_group_size(r.group) == 1);
    EXPECT(tryst_group_local_rank(r.group) == 0 && tryst_group_local_size(r.group) == 1);
    EXPECT(strcmp(tryst_key_string(r.key), r.text) == 0);
    EXPECT(tryst_op_test(r.done) == TRYST_OK);
    EXPECT(tryst_wait(r.done, 0) == TRYST_OK);
    EXPECT(tryst_op_tensor(r.done, &r.tensor) == TRYST_OK && r.tensor.data == in);
    tryst_op_release(r.pending);
    tryst_op_release(r.done);
    tryst_key_release(r.key);
    tryst_mem_release(r.mem);
    tryst_group_close(r.group);
    tryst_close(r.ctx);
    tryst_close(r.plain);
}

static void child_main(void)
{
    alarm(10); /* a call that waits is wrong, and the alarm ends it */
    for (size_t i = 0; i < COUNT_OF(forked_calls); i++) {
        (void)tryst_last_error_set(TRYST_OK, "untouched");
        tryst_status status = forked_calls[i].call();
        expect(status == TRYST_E_FORKED, forked_calls[i].name, tryst_status_name(status));
        expect(strstr(tryst_last_error(), "fork") != NULL, forked_calls[i].name,
               tryst_last_error());
    }
    forked_others();
    _exit(wrong);
}

static void test_forked(void **state)
{
    int status;
    (void)state;
    rank_open();
    pid_t pid = child_fork();
    if (pid == 0)
        child_main();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* The parent's context is unchanged. */
    tryst_op *send = send_of("pending", out, BYTES);
    assert_int_equal(tryst_wait(r.pending, TRYST_FOREVER), TRYST_OK);
    assert_int_equal(tryst_wait(send, TRYST_FOREVER), TRYST_OK);
    assert_int_equal(tryst_trace_write(r.ctx, r.fd), TRYST_OK);
    tryst_op_release(send);
    tryst_op_release(r.pending);
    tryst_op_release(r.done);
    tryst_key_release(r.key);
    tryst_mem_release(r.mem);
    tryst_close(r.ctx);
    tryst_close(r.plain);
    close(r.fd);
}

/* ---- NULL -------------------------------------------------------------------------- */

/* Print the name of the row, then evaluate it: if a NULL crashes the call, the last line
 * of output names the row. */
#define ROW(expression)                     \
    do {                                    \
        print_message("%s\n", #expression); \
        assert_true(expression);            \
    } while (0)
/* Also fail unless the error text has the form "cannot do X: reason". */
#define INVALID(expression)                                            \
    ROW((tryst_last_error_set(TRYST_OK, "untouched"), (expression)) == \
            TRYST_E_INVALID &&                                         \
        strncmp(tryst_last_error(), "cannot ", 7) == 0 &&              \
        strchr(tryst_last_error(), ':'))

static void null_getters(void)
{
    tryst_pool_counts counts = {.struct_size = sizeof counts, .in_use = 7};
    tryst_plan_info info = {.struct_size = sizeof info, .ranks_count = 7};
    ROW(tryst_group_rank(NULL) == -1);
    ROW(tryst_group_size(NULL) == -1);
    ROW(tryst_group_local_rank(NULL) == -1);
    ROW(tryst_group_local_size(NULL) == -1);
    ROW(strcmp(tryst_key_string(NULL), "") == 0);
    ROW(tryst_now_ns(NULL) > 0);
    ROW(tryst_progress(NULL) == 0);
    ROW(tryst_event_fd(NULL) == -1);
    ROW(tryst_counter_visit(NULL, counter_seen, NULL) == 0);
    ROW(tryst_transport_visit(NULL, transport_seen, NULL) == 0);
    ROW(tryst_config_visit(NULL, NULL, NULL) == 0);
    ROW(strcmp(tryst_device_error(NULL), "") == 0);
    ROW(tryst_pool_trim(NULL) == 0);
    ROW(tryst_topo_ranks(NULL) == 0);
    ROW(tryst_topo_nodes(NULL) == 0);
    ROW(tryst_topo_links(NULL) == 0);
    ROW(tryst_topo_rank_name(NULL, 0) == NULL);
    ROW(tryst_topo_rank_find(NULL, "a") == -1);
    ROW(tryst_plan_info_get(NULL, &info) == TRYST_E_INVALID && info.ranks_count == 7);
    ROW(tryst_pool_count(NULL, &counts) == TRYST_E_INVALID && counts.in_use == 7);
    ROW(strcmp(tryst_dtype_name((tryst_dtype)-1), "invalid") == 0);
    ROW(tryst_status_name((tryst_status)-1) != NULL);
}

static void null_statuses(void)
{
    tryst_error error = {.struct_size = sizeof error};
    tryst_tensor tensor = tensor_of(out, BYTES);
    tryst_op *op;
    INVALID(tryst_open(NULL, NULL));
    INVALID(tryst_config_open(NULL));
    INVALID(tryst_config_set(NULL, "trace", "1"));
    INVALID(tryst_launch_find(NULL, NULL));
    INVALID(tryst_group_open(NULL, NULL, &r.group));
    INVALID(tryst_group_peer(NULL, 0,
                             &(tryst_peer_info){.struct_size = sizeof(tryst_peer_info)}));
    INVALID(tryst_step_open(NULL, 1, &r.step));
    INVALID(tryst_step_abort(NULL, TRYST_E_IO, NULL));
    INVALID(tryst_step_status(NULL, &error));
    INVALID(tryst_step_close(NULL, &op));
    INVALID(tryst_send(NULL, "k", &tensor, NULL, &op));
    INVALID(tryst_recv(NULL, "k", &tensor, NULL, &op));
    INVALID(tryst_send_key(NULL, NULL, &tensor, NULL, &op));
    INVALID(tryst_recv_key(NULL, NULL, &tensor, NULL, &op));
    INVALID(tryst_op_test(NULL));
    INVALID(tryst_wait(NULL, 0));
    INVALID(tryst_wait_all(NULL, 1, 0));
    INVALID(tryst_wait_any(NULL, 1, 0, &(size_t){0}));
    INVALID(tryst_key_make(NULL, 0, 0, "e", 0, &r.key));
    INVALID(tryst_op_cancel(NULL));
    INVALID(tryst_op_reprioritize(NULL, 0));
    INVALID(tryst_op_stream_wait(NULL, 0, NULL));
    INVALID(tryst_op_tensor(NULL, &tensor));
    INVALID(tryst_op_error(NULL, &error));
    INVALID(tryst_arm(NULL));
    INVALID(tryst_mem_register(NULL, out, 1, TRYST_MEMORY_HOST, 0, &r.mem));
    INVALID(tryst_mem_alloc(NULL, 1, TRYST_MEMORY_HOST, 0, (void *[1]){0}, &r.mem));
    INVALID(tryst_key_build(NULL, 0, 0, "e", 0, 0, r.text, sizeof r.text));
    INVALID(tryst_key_prepare(NULL, "k", &r.key));
    INVALID(tryst_trace_write(NULL, 1));
    INVALID(tryst_device_count(NULL, TRYST_MEMORY_CUDA, &(int32_t){0}, NULL, 0));
    INVALID(tryst_device_open(NULL, TRYST_MEMORY_CUDA, 0, (tryst_device *[1]){0}));
    INVALID(tryst_device_describe(
        NULL, &(tryst_device_info){.struct_size = sizeof(tryst_device_info)}));
    INVALID(tryst_pool_open(NULL, NULL, (tryst_pool *[1]){0}));
    INVALID(tryst_pool_alloc(NULL, 1, (void *[1]){0}));
    INVALID(tryst_pool_free(NULL, out));
    INVALID(tryst_pool_use(NULL, NULL, out));
    INVALID(tryst_pool_test(NULL, out));
    ROW(tryst_key_parse(NULL, NULL, NULL) == TRYST_E_KEY);
    ROW(tryst_wait_all(NULL, 0, 0) == TRYST_OK);
}

static void test_null(void **state)
{
    (void)state;
    null_getters();
    null_statuses();
    tryst_wake(NULL);
    tryst_dump(NULL, 2);
    tryst_trace_span(NULL, "span", 1, 2, 3);
    tryst_trace_counter(NULL, "counter", 1);
    ROW(tryst_profile_action(NULL, "action") == TRYST_E_INVALID);
    ROW(tryst_period_begin(NULL) == TRYST_E_INVALID);
    tryst_op_release(NULL);
    tryst_key_release(NULL);
    tryst_mem_release(NULL);
    tryst_device_close(NULL);
    tryst_pool_stream_forget(NULL, NULL);
    ROW(tryst_pool_close(NULL) == 0);
    tryst_config_close(NULL);
    tryst_group_close(NULL);
    tryst_close(NULL);
}

/* ---- after the close --------------------------------------------------------------- */

/* All pending operations, announced or not, end with TRYST_E_CONTEXT. */
static void test_closed(void **state)
{
    static const size_t sizes[] = {BYTES, LARGE};
    tryst_error error = {.struct_size = sizeof error};
    (void)state;
    for (int passes = 0; passes <= 2000; passes += 1000) {
        tryst_op *ops[2 * COUNT_OF(sizes)];
        rank_open();
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            ops[2 * i] = recv_of(i ? "large" : "small", in, sizes[i]);
            ops[2 * i + 1] = send_of(i ? "large not" : "small not", out, sizes[i]);
        }
        for (int i = 0; i < passes; i++)
            tryst_progress(r.ctx);
        tryst_op_release(r.done);
        tryst_key_release(r.key);
        tryst_mem_release(r.mem);
        tryst_close(r.ctx);
        tryst_close(r.plain);
        close(r.fd);
        assert_int_equal(tryst_op_test(r.pending), TRYST_E_CONTEXT);
        tryst_op_release(r.pending);
        for (size_t i = 0; i < COUNT_OF(ops); i++) {
            assert_int_equal(tryst_op_error(ops[i], &error), TRYST_E_CONTEXT);
            assert_non_null(strstr(error.text, "clos"));
            tryst_op_release(ops[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forked),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
