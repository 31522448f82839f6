/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in device memory, through the whole library, over a driver without a GPU
 * (tests/support/fake_cuda). Its device memory kills a process that touches it from the
 * host, and memory that is not freed at exit fails the run.
 *
 * Idea: as in the other tests, the bytes follow from a seed; they reach and leave the
 * device by the public copies (tryst/device.h). */
#include "rooms.h"

#include "support/unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_cuda/fake_cuda.h"
#ifdef TEST_FAKE_FABRIC
#include "support/fake_fabric/fake_fabric.h"
#endif

enum { CUDA_ERROR = 700 };

static void room_check(struct gpu *gpu, const struct room *room, uint64_t seed)
{
    CHECK_EQ(room_mismatch(gpu, room, seed), SIZE_MAX);
}

static tryst_op *room_start(const struct harness_rank *rank, tryst_step *step, bool send,
                            const char *edge, const struct room *room, void *ready)
{
    int peer = 1 - rank->rank;
    tryst_tensor tensor = room_tensor(room, ready);
    struct harness_key key = send ? harness_key(rank, rank->rank, peer, edge)
                                  : harness_key(rank, peer, rank->rank, edge);
    tryst_op *op;
    CHECK_STATUS(send ? tryst_send(step, key.text, &tensor, NULL, &op)
                      : tryst_recv(step, key.text, &tensor, NULL, &op),
                 TRYST_OK);
    return op;
}

static void ranks_run(void (*main)(struct harness_rank *rank), const char *const *config)
{
    struct harness_params params = {
        .size = 2, .main = main, .config = config, .timeout_s = 40};
    assert_int_equal(harness_run(&params), 0);
}

/* ---- every size, between every two kinds of memory --------------------------------- */

/* Exchange a tensor both ways at once. */
static void exchange(struct harness_rank *rank, struct gpu *gpu, uint64_t id, int mine,
                     int theirs, size_t bytes)
{
    tryst_step *step = harness_step(rank, id);
    struct room out = room_open(gpu, rank->rank == 0 ? mine : theirs, ROOM_REGION, bytes);
    struct room in = room_open(gpu, rank->rank == 0 ? mine : theirs, ROOM_REGION, bytes);
    room_fill(gpu, &out, id * 2 + (uint64_t)rank->rank);
    tryst_op *recv = room_start(rank, step, false, "x", &in, NULL);
    tryst_op *send = room_start(rank, step, true, "x", &out, NULL);
    harness_end(recv, TRYST_OK);
    room_check(gpu, &in, id * 2 + (uint64_t)(1 - rank->rank));
    harness_end(send, TRYST_OK);
    harness_step_close(step);
    room_close(gpu, &out);
    room_close(gpu, &in);
}

/* Fail unless device memory moved by the path for which this program was started. */
static void way_check(void)
{
    /* shm copies directly from device to device */
    if (strcmp(harness_mode(), "shm") == 0)
        CHECK(fake_cuda_calls("cuIpcOpenMemHandle") > 0);
#ifdef TEST_FAKE_FABRIC
    struct fake_fabric_counts counts;
    enum { SLICES = 1 + 1 + 4 }; /* slices that sizes_main sends by bulk */
    bool native = !getenv("FAKE_FABRIC_COPIES"), all = !getenv("FAKE_FABRIC_REFUSES");
    fake_fabric_counts(&counts);
    CHECK_EQ(counts.sends > 0, native);
    CHECK_EQ(counts.recvs > 0, native);
    CHECK_EQ(counts.refusals > 0, !all);
    CHECK_EQ(counts.agains > 0, getenv("FAKE_FABRIC_AGAIN") != NULL);
    if (native && all) { /* the fabric moves slices from and to device memory */
        CHECK_EQ(counts.sends, 3 * SLICES);
        CHECK_EQ(counts.recvs, 4 * SLICES);
    }
#endif
}

static void sizes_main(struct harness_rank *rank)
{
    static const size_t sizes[] = {0, 1, 8, 2048, 2049, 4096, 5000, 65537, (3 << 20) + 7};
    static const int ends[][2] = {{-1, 0}, {0, -1}, {0, 0}, {0, 1}, {1, 0}};
    struct gpu gpu;
    uint64_t id = 0;
    gpu_open(rank, &gpu);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            exchange(rank, &gpu, ++id, ends[i][0], ends[i][1], sizes[k]);
    way_check();
    gpu_close(&gpu);
}

static void test_sizes(void **state)
{
    /* fixes the number of slices, which way_check compares */
    setenv("TRYST_SLICE_BYTES", "1M", 1);
    ranks_run(sizes_main, NULL);
    unsetenv("TRYST_SLICE_BYTES");
}

/* Move many tensors at once with little pinned memory. */
static void many_main(struct harness_rank *rank)
{
    enum { MANY = 24 };
    struct room out[MANY], in[MANY];
    tryst_op *ops[2 * MANY];
    struct gpu gpu;
    char edge[16];
    gpu_open(rank, &gpu);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < MANY; i++) {
        size_t bytes = (size_t)(i % 5 == 0 ? 700 : 30000 + 17000 * i);
        int device = i % 3 - 1;
        out[i] = room_open(&gpu, rank->rank ? device : i % 2, ROOM_REGION, bytes);
        in[i] = room_open(&gpu, rank->rank ? i % 2 : device, ROOM_REGION, bytes);
        room_fill(&gpu, &out[i], (uint64_t)i * 2 + (uint64_t)rank->rank);
    }
    for (int i = 0; i < MANY; i++) {
        int k = rank->rank ? MANY - 1 - i : i; /* the ranks submit in opposite orders */
        snprintf(edge, sizeof edge, "m%d", k);
        ops[2 * k] = room_start(rank, step, true, edge, &out[k], NULL);
        ops[2 * k + 1] = room_start(rank, step, false, edge, &in[k], NULL);
    }
    for (int i = 0; i < 2 * MANY; i++)
        harness_end(ops[i], TRYST_OK);
    for (int i = 0; i < MANY; i++) {
        room_check(&gpu, &in[i], (uint64_t)(i * 2 + 1 - rank->rank));
        room_close(&gpu, &out[i]);
        room_close(&gpu, &in[i]);
    }
    harness_step_close(step);
    gpu_close(&gpu);
}

static void test_many(void **state)
{
    static const char *const tight[] = {"stage_bytes", "64K", "slice_bytes", "64K", NULL};
    ranks_run(many_main, NULL);
    ranks_run(many_main, tight);
}

/* ---- events, and streams that wait ------------------------------------------------- */

/* Let rank 0's stream wait for `go` from rank 1. Behind `go` the stream writes the tensor
 * to send and reads the memory to receive into. The library must do neither before. */
static void ready_round(struct harness_rank *rank, struct gpu *gpu, uint64_t id,
                        size_t bytes)
{
    tryst_step *step = harness_step(rank, id);
    struct room word = room_open(gpu, -1, ROOM_REGION, 8);
    struct room a = room_open(gpu, rank->rank ? -1 : 0, ROOM_REGION, bytes);
    struct room b = room_open(gpu, rank->rank ? -1 : 0, ROOM_REGION, bytes);
    if (rank->rank == 0) {
        void *now, *before;
        CHECK_STATUS(tryst_pinned_alloc(gpu->devices[0], bytes, &now), TRYST_OK);
        CHECK_STATUS(tryst_pinned_alloc(gpu->devices[0], bytes, &before), TRYST_OK);
        harness_fill(now, bytes, 3 * id);
        room_fill(gpu, &b, 3 * id + 1);
        tryst_op *go = room_start(rank, step, false, "go", &word, NULL);
        CHECK_STATUS(tryst_op_stream_wait(go, 0, gpu->streams[0]), TRYST_OK);
        CHECK_STATUS(
            tryst_copy_async(gpu->devices[0], gpu->streams[0], a.data, now, bytes),
            TRYST_OK);
        CHECK_STATUS(
            tryst_copy_async(gpu->devices[0], gpu->streams[0], before, b.data, bytes),
            TRYST_OK);
        CHECK_STATUS(tryst_event_record(gpu->devices[0], gpu->streams[0], gpu->events[0]),
                     TRYST_OK);
        tryst_op *send = room_start(rank, step, true, "a", &a, gpu->events[0]);
        tryst_op *recv = room_start(rank, step, false, "b", &b, gpu->events[0]);
        harness_end(send, TRYST_OK);
        harness_end(recv, TRYST_OK);
        CHECK_EQ(harness_mismatch(before, bytes, 3 * id + 1), SIZE_MAX);
        room_check(gpu, &b, 3 * id + 2);
        harness_end(go, TRYST_OK);
        tryst_pinned_free(gpu->devices[0], now, bytes);
        tryst_pinned_free(gpu->devices[0], before, bytes);
    } else {
        room_fill(gpu, &b, 3 * id + 2);
        tryst_op *recv = room_start(rank, step, false, "a", &a, NULL);
        tryst_op *send = room_start(rank, step, true, "b", &b, NULL);
        CHECK_STATUS(tryst_wait(recv, 20000000), TRYST_E_TIMEOUT);
        harness_end(room_start(rank, step, true, "go", &word, NULL), TRYST_OK);
        harness_end(recv, TRYST_OK);
        room_check(gpu, &a, 3 * id);
        harness_end(send, TRYST_OK);
    }
    harness_step_close(step);
    room_close(gpu, &word);
    room_close(gpu, &a);
    room_close(gpu, &b);
}

static void ready_main(struct harness_rank *rank)
{
    struct gpu gpu;
    gpu_open(rank, &gpu);
    ready_round(rank, &gpu, 1, 100);
    ready_round(rank, &gpu, 2, 3000000);
    ready_round(rank, &gpu, 3, 2000);
    gpu_close(&gpu);
}

static void test_ready(void **state)
{
    ranks_run(ready_main, NULL);
}

/* Cancel a send and a receive whose event does not pass. Both ends end with that status,
 * the cancelled operations keep their numbers, and later operations of the key meet. */
static void held_main(struct harness_rank *rank)
{
    struct gpu gpu;
    gpu_open(rank, &gpu);
    tryst_step *step = harness_step(rank, 1);
    struct room word = room_open(&gpu, -1, ROOM_REGION, 8);
    struct room small = room_open(&gpu, 0, ROOM_REGION, 64),
                large = room_open(&gpu, 0, ROOM_REGION, 100000);
    struct room *rooms[2] = {&small, &large};
    tryst_op *go = NULL;
    if (rank->rank == 0) {
        go = room_start(rank, step, false, "go", &word, NULL);
        CHECK_STATUS(tryst_op_stream_wait(go, 0, gpu.streams[0]), TRYST_OK);
        CHECK_STATUS(tryst_event_record(gpu.devices[0], gpu.streams[0], gpu.events[0]),
                     TRYST_OK);
    }
    void *ready = rank->rank == 0 ? gpu.events[0] : NULL;
    /* i / 2: small, large; i % 2: rank 0 sends, rank 0 receives */
    for (int i = 0; i < 4; i++) {
        struct room *room = rooms[i / 2];
        bool send = (i % 2 == 0) == (rank->rank == 0);
        char edge[16];
        snprintf(edge, sizeof edge, "held%d", i);
        tryst_op *op = room_start(rank, step, send, edge, room, ready);
        if (rank->rank == 0) {
            harness_sleep_ms(i % 2 * 5);
            CHECK_STATUS(tryst_op_cancel(op), TRYST_OK);
        }
        harness_end(op, TRYST_E_CANCELED);
        harness_end(room_start(rank, step, send, edge, room, NULL), TRYST_OK);
    }
    tryst_op *left = rank->rank == 0
                         ? room_start(rank, step, true, "left", &large, ready)
                         : room_start(rank, step, false, "left", &large, NULL);
    if (rank->rank == 1)
        harness_end(room_start(rank, step, true, "go", &word, NULL), TRYST_OK);
    else
        harness_end(go, TRYST_OK);
    harness_end(left, TRYST_OK);
    harness_step_close(step);
    room_close(&gpu, &word);
    room_close(&gpu, &small);
    room_close(&gpu, &large);
    gpu_close(&gpu);
}

static void test_held(void **state)
{
    ranks_run(held_main, NULL);
}

/* ---- waits for a device, off the progress path ------------------------------------- */

/* A stream of rank 0 waits for `last` during the whole test. The driver waits for all
 * streams when it frees, unpins and closes. Meanwhile tensors of many sizes are received
 * through little pinned memory. Rank 1 closes the regions that it sends from, one after
 * the other. */
static void waiting_main(struct harness_rank *rank)
{
    enum { COUNT = 12 };
    struct room rooms[COUNT], word;
    struct gpu gpu;
    void *stream;
    char edge[16];
    tryst_op *last = NULL;
    gpu_open(rank, &gpu);
    word = room_open(&gpu, -1, ROOM_REGION, 8);
    tryst_step *step = harness_step(rank, 1);
    CHECK_STATUS(tryst_stream_open(gpu.devices[0], 0, &stream), TRYST_OK);
    for (int i = 0; i < COUNT; i++) {
        int device = rank->rank == 0 || i % 3 ? i % 2 : -1;
        rooms[i] = room_open(&gpu, device, ROOM_REGION,
                             i % 4 == 3 ? 900 : (size_t)40000 << i % 5);
        if (rank->rank == 1)
            room_fill(&gpu, &rooms[i], (uint64_t)i);
    }
    if (rank->rank == 0) {
        last = room_start(rank, step, false, "last", &word, NULL);
        CHECK_STATUS(tryst_op_stream_wait(last, 0, stream), TRYST_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        snprintf(edge, sizeof edge, "w%d", i);
        harness_end(room_start(rank, step, rank->rank == 1, edge, &rooms[i], NULL),
                    TRYST_OK);
        if (rank->rank == 1)
            room_close(&gpu, &rooms[i]);
    }
    harness_end(rank->rank ? room_start(rank, step, true, "last", &word, NULL) : last,
                TRYST_OK);
    for (int i = 0; i < COUNT && rank->rank == 0; i++) {
        room_check(&gpu, &rooms[i], (uint64_t)i);
        room_close(&gpu, &rooms[i]);
    }
    harness_step_close(step);
    tryst_stream_close(gpu.devices[0], stream);
    room_close(&gpu, &word);
    gpu_close(&gpu);
}

static void test_waiting(void **state)
{
    static const char *const tight[] = {"stage_bytes", "64K", NULL};
    if (!harness_has_processes())
        /* in one process, rank 1's frees would rightly wait for rank 0's stream */
        skip();
    setenv("FAKE_CUDA_WAITS", "1", 1);
    ranks_run(waiting_main, tight);
    unsetenv("FAKE_CUDA_WAITS");
}

/* ---- unknown shapes ---------------------------------------------------------------- */

static tryst_status on_alloc(void *arg, tryst_tensor *tensor)
{
    struct room *room = arg;
    CHECK_EQ(tensor->count, room->bytes);
    tensor->data = room->data;
    tensor->memory = TRYST_MEMORY_CUDA;
    tensor->device = room->device;
    return TRYST_OK;
}

static void alloc_main(struct harness_rank *rank)
{
    static const size_t sizes[] = {0, 500, 200000};
    struct gpu gpu;
    gpu_open(rank, &gpu);
    tryst_step *step = harness_step(rank, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct room room = room_open(&gpu, (int)(i % 2), ROOM_REGION, sizes[i]);
        struct harness_key key = harness_key(rank, 0, 1, "shape");
        tryst_op_params params = {
            .struct_size = sizeof params, .alloc = on_alloc, .alloc_arg = &room};
        tryst_op *op;
        if (rank->rank == 0) {
            room_fill(&gpu, &room, i);
            op = room_start(rank, step, true, "shape", &room, NULL);
        } else {
            CHECK_STATUS(tryst_recv(step, key.text, NULL, &params, &op), TRYST_OK);
        }
        harness_end(op, TRYST_OK);
        if (rank->rank == 1)
            room_check(&gpu, &room, i);
        room_close(&gpu, &room);
    }
    harness_step_close(step);
    gpu_close(&gpu);
}

static void test_alloc(void **state)
{
    ranks_run(alloc_main, NULL);
}

/* ---- invalid tensors --------------------------------------------------------------- */

/* Give a `mem` of other bytes, of another device and of another kind. */
static void invalid_mem(struct harness_rank *rank, struct gpu *gpu, tryst_step *step,
                        const char *key)
{
    struct room room = room_open(gpu, 0, ROOM_REGION, 1 << 20),
                short_room = room_open(gpu, 0, ROOM_REGION, 4096);
    tryst_mem *mems[3] = {short_room.mem};
    tryst_tensor tensor = room_tensor(&room, NULL);
    for (int i = 1; i < 3; i++)
        CHECK_STATUS(tryst_mem_register(rank->ctx, room.data, room.bytes,
                                        i == 1 ? TRYST_MEMORY_CUDA : TRYST_MEMORY_HOST,
                                        i == 1, &mems[i]),
                     TRYST_OK);
    for (int i = 0; i < 3; i++) {
        tensor.mem = mems[i];
        CHECK_STATUS(tryst_send(step, key, &tensor, NULL, NULL), TRYST_E_INVALID);
    }
    tensor.mem = room.mem;
    /* more than the region: a room has one byte more than its tensor */
    tensor.count += 2;
    CHECK_STATUS(tryst_send(step, key, &tensor, NULL, NULL), TRYST_E_INVALID);
    tryst_mem_release(mems[1]);
    tryst_mem_release(mems[2]);
    room_close(gpu, &room);
    room_close(gpu, &short_room);
}

static void invalid_main(struct harness_rank *rank)
{
    struct gpu gpu;
    gpu_open(rank, &gpu);
    tryst_step *step = harness_step(rank, 1);
    struct room host = room_open(&gpu, -1, ROOM_REGION, 64),
                room = room_open(&gpu, 0, ROOM_REGION, 64);
    struct harness_key key = harness_key(rank, rank->rank, 1 - rank->rank, "no");
    tryst_tensor tensor = room_tensor(&host, gpu.events[0]);
    CHECK_STATUS(tryst_send(step, key.text, &tensor, NULL, NULL), TRYST_E_INVALID);
    tensor = room_tensor(&host, NULL);
    tensor.memory = TRYST_MEMORY_CUDA;
    CHECK_STATUS(tryst_send(step, key.text, &tensor, NULL, NULL), TRYST_E_INVALID);
    tensor = room_tensor(&room, NULL);
    tensor.device = 1;
    CHECK_STATUS(tryst_send(step, key.text, &tensor, NULL, NULL), TRYST_E_INVALID);
    tensor = room_tensor(&room, NULL);
    tensor.memory = (tryst_memory_kind)7;
    CHECK_STATUS(tryst_send(step, key.text, &tensor, NULL, NULL), TRYST_E_UNSUPPORTED);
    invalid_mem(rank, &gpu, step, key.text);
    harness_step_close(step);
    room_close(&gpu, &host);
    room_close(&gpu, &room);
    gpu_close(&gpu);
}

static void test_invalid(void **state)
{
    ranks_run(invalid_main, NULL);
}

/* ---- copies that fail -------------------------------------------------------------- */

/* One call of the driver fails in one rank. The transfer fails at both ends, or succeeds
 * if the copy was not needed; later transfers succeed. */
static void fail_round(struct harness_rank *rank, struct gpu *gpu, uint64_t id,
                       size_t bytes, bool sender_fails, unsigned nth)
{
    tryst_step *step = harness_step(rank, id);
    struct room room = room_open(gpu, 0, ROOM_REGION, bytes),
                word = room_open(gpu, -1, ROOM_REGION, 8);
    bool send = rank->rank == 0;
    room_fill(gpu, &room, id);
    harness_end(room_start(rank, step, send, "before", &word, NULL), TRYST_OK);
    if (send == sender_fails)
        fake_cuda_fail("cuMemcpyAsync", nth, 999);
    tryst_op *op = room_start(rank, step, send, "fails", &room, NULL);
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    fake_cuda_fail(NULL, 0, 0);
    CHECK(status == TRYST_OK || status == TRYST_E_SYSTEM);
    /* otherwise the receiver may do all the copies */
    if (nth == 1 && (!sender_fails || bytes < 2000))
        CHECK_STATUS(status, TRYST_E_SYSTEM);
    if (status == TRYST_OK)
        room_check(gpu, &room, id);
    tryst_op_release(op);
    harness_end(room_start(rank, step, send, "after", &word, NULL), TRYST_OK);
    harness_end(room_start(rank, step, send, "again", &room, NULL), TRYST_OK);
    if (!send)
        room_check(gpu, &room, id);
    harness_step_close(step);
    room_close(gpu, &room);
    room_close(gpu, &word);
}

static void fail_main(struct harness_rank *rank)
{
    struct gpu gpu;
    uint64_t id = 0;
    gpu_open(rank, &gpu);
    for (unsigned nth = 1; nth <= 3; nth++)
        for (int sender = 0; sender < 2; sender++) {
            fail_round(rank, &gpu, ++id, 1000, sender, nth);
            fail_round(rank, &gpu, ++id, 700000, sender, nth);
        }
    gpu_close(&gpu);
}

static void test_fail(void **state)
{
    static const char *const slices[] = {"slice_bytes", "128K", NULL};
    if (!harness_has_processes())
        skip(); /* fake_cuda_fail works on one process */
#ifdef TEST_FAKE_FABRIC
    skip(); /* the fabric makes no copy that could fail */
#endif
    ranks_run(fail_main, slices);
}

/* ---- a rank is killed while copies run --------------------------------------------- */

struct killed_run {
    _Atomic(uint32_t) started;
};

static void killed_main(struct harness_rank *rank)
{
    enum { COUNT = 16 };
    struct killed_run *run = rank->arg;
    struct gpu gpu;
    struct room rooms[COUNT];
    tryst_op *ops[COUNT];
    char edge[16];
    gpu_open(rank, &gpu);
    tryst_step *step = harness_step(rank, 1);
    for (int i = 0; i < COUNT; i++) {
        rooms[i] = room_open(&gpu, i % 2, ROOM_REGION, i % 4 == 3 ? 900 : 600000);
        room_fill(&gpu, &rooms[i], (uint64_t)i);
    }
    for (int i = 0; i < COUNT; i++) {
        snprintf(edge, sizeof edge, "k%d", i);
        ops[i] = room_start(rank, step, (i % 2 == 0) == (rank->rank == 0), edge,
                            &rooms[i], NULL);
    }
    harness_barrier(rank, &run->started);
    if (rank->rank == 1) {
        for (uint64_t until = harness_now_ns() + 1000000; harness_now_ns() < until;)
            tryst_progress(rank->ctx);
        raise(SIGKILL);
    }
    for (int i = 0; i < COUNT; i++) {
        tryst_status status = tryst_wait(ops[i], TRYST_FOREVER);
        CHECK(status == TRYST_OK || status == TRYST_E_PEER);
        tryst_op_release(ops[i]);
        room_close(&gpu, &rooms[i]); /* nothing writes into the region any more */
    }
    harness_step_close(step);
    gpu_close(&gpu);
}

static void test_killed(void **state)
{
    if (!harness_has_processes())
        skip();
    struct killed_run *run = harness_share(sizeof *run);
    struct harness_params params = {
        .size = 2, .main = killed_main, .arg = run, .timeout_s = 40, .killed = 1};
    for (int i = 0; i < 3; i++) {
        atomic_store(&run->started, 0);
        assert_int_equal(harness_run(&params), 0);
    }
    harness_unshare(run, sizeof *run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_many),
        cmocka_unit_test(test_ready),   cmocka_unit_test(test_held),
        cmocka_unit_test(test_waiting), cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_invalid), cmocka_unit_test(test_fail),
        cmocka_unit_test(test_killed),
    };
    return HARNESS_MAIN(argc, argv, tests);
}
