/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that takes seconds to start (FAKE_CUDA_START_MS, tests/support/fake_cuda). The
 * first submission with a tensor on a device returns at once, waits keep their time-outs,
 * tensors on the host are not delayed, and an error in the tensor becomes the outcome of
 * the operation. So do collectives. */
#include "harness.h"

#include "support/unit.h"

#include <stdatomic.h>
#include <string.h>
#include <tryst/coll.h>

#include <cuda.h>

#include "support/fake_cuda/fake_cuda.h"

#define MS 1000000ull

enum { START_MS = 2500, BYTES = 4096 };

static uint64_t since_ms(uint64_t begin_ns)
{
    return (harness_now_ns() - begin_ns) / MS;
}

/* Device memory that the program allocates by the driver, not by the library. */
static CUcontext context;

static CUdeviceptr device_memory(void)
{
    CUdevice device;
    CUdeviceptr data;
    CHECK_EQ(cuInit(0), CUDA_SUCCESS);
    CHECK_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
    CHECK_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    CHECK_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
    CHECK_EQ(cuMemAlloc(&data, BYTES), CUDA_SUCCESS);
    CHECK_EQ(cuCtxPopCurrent(&context), CUDA_SUCCESS);
    return data;
}

static void device_memory_free(void *data)
{
    CHECK_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
    CHECK_EQ(cuMemFree((CUdeviceptr)data), CUDA_SUCCESS);
    CHECK_EQ(cuCtxPopCurrent(&context), CUDA_SUCCESS);
}

static tryst_op *device_start(const struct harness_rank *rank, tryst_step *step,
                              bool send, const char *edge, void *data)
{
    int peer = 1 - rank->rank;
    tryst_tensor tensor = harness_tensor(data, BYTES);
    struct harness_key key = send ? harness_key(rank, rank->rank, peer, edge)
                                  : harness_key(rank, peer, rank->rank, edge);
    uint64_t begin_ns = harness_now_ns();
    tryst_op *op;
    tensor.memory = TRYST_MEMORY_CUDA;
    CHECK_STATUS(send ? tryst_send(step, key.text, &tensor, NULL, &op)
                      : tryst_recv(step, key.text, &tensor, NULL, &op),
                 TRYST_OK);
    CHECK(since_ms(begin_ns) < START_MS / 2);
    return op;
}

static void driver_main(struct harness_rank *rank)
{
    char out[8] = "tensor", in[8] = "", bytes[BYTES];
    void *data = (void *)device_memory();
    memset(bytes, rank->rank == 0 ? 'a' : 'b', BYTES);
    fake_cuda_write(data, bytes, BYTES);
    tryst_step *step = harness_step(rank, 1);
    harness_barrier(rank, rank->arg);
    uint64_t begin_ns = harness_now_ns();
    tryst_op *op = device_start(rank, step, rank->rank == 0, "device", data);
    tryst_op *wrong = device_start(rank, step, true, "wrong", bytes);
    uint64_t wait_ns = harness_now_ns();
    CHECK_STATUS(tryst_wait(op, 100 * MS), TRYST_E_TIMEOUT);
    CHECK(since_ms(wait_ns) < START_MS / 2);
    tryst_op *recv = harness_recv(rank, step, 1 - rank->rank, "host", in, sizeof in);
    harness_end(harness_send(rank, step, 1 - rank->rank, "host", out, sizeof out),
                TRYST_OK);
    harness_end(recv, TRYST_OK);
    CHECK(since_ms(begin_ns) < START_MS);
    harness_end(op, TRYST_OK);
    CHECK(since_ms(begin_ns) >= START_MS - 100);
    harness_end(wrong, TRYST_E_INVALID);
    fake_cuda_read(data, bytes, BYTES);
    CHECK(bytes[0] == 'a' && bytes[BYTES - 1] == 'a');
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
    harness_close(rank);
    device_memory_free(data);
}

static void run(void (*main)(struct harness_rank *rank))
{
    _Atomic(uint32_t) *counter = harness_share(sizeof *counter);
    struct harness_params params = {
        .size = 2, .main = main, .arg = counter, .timeout_s = 40};
    int failed = harness_run(&params);
    harness_unshare((void *)counter, sizeof *counter);
    assert_int_equal(failed, 0);
}

static void test_driver(void **state)
{
    (void)state;
    run(driver_main);
}

static tryst_op *sum_start(tryst_step *step, const char *name, void *data,
                           tryst_memory_kind memory)
{
    tryst_tensor tensor = harness_tensor(data, BYTES);
    tryst_op *op;
    tensor.memory = memory;
    CHECK_STATUS(tryst_allreduce(step, name, NULL, &tensor, TRYST_REDUCE_SUM, NULL, &op),
                 TRYST_OK);
    return op;
}

/* Rank 1's result of the broadcast is in host memory before the driver has started. */
static void coll_main(struct harness_rank *rank)
{
    char bytes[BYTES], host[BYTES] = "";
    void *sum = (void *)device_memory(), *copy = (void *)device_memory();
    tryst_tensor tensor = harness_tensor(rank->rank ? copy : bytes, BYTES);
    tryst_step *step = harness_step(rank, 1);
    tryst_op *broadcast;
    memset(bytes, 1 + rank->rank, BYTES);
    fake_cuda_write(sum, bytes, BYTES);
    tensor.memory = rank->rank ? TRYST_MEMORY_CUDA : TRYST_MEMORY_HOST;
    harness_barrier(rank, rank->arg);
    uint64_t begin_ns = harness_now_ns();
    tryst_op *allreduce = sum_start(step, "sum", sum, TRYST_MEMORY_CUDA);
    tryst_op *wrong = sum_start(step, "wrong", host, TRYST_MEMORY_CUDA);
    CHECK_STATUS(tryst_broadcast(step, "copy", &tensor, 0, NULL, &broadcast), TRYST_OK);
    harness_end(sum_start(step, "host", host, TRYST_MEMORY_HOST), TRYST_OK);
    CHECK(since_ms(begin_ns) < START_MS - 300);
    harness_end(allreduce, TRYST_OK);
    CHECK(since_ms(begin_ns) >= START_MS - 100);
    harness_end(broadcast, TRYST_OK);
    harness_end(wrong, TRYST_E_INVALID);
    fake_cuda_read(sum, bytes, BYTES);
    CHECK(bytes[0] == 3 && bytes[BYTES - 1] == 3);
    fake_cuda_read(copy, bytes, BYTES);
    CHECK(rank->rank == 0 || (bytes[0] == 1 && bytes[BYTES - 1] == 1));
    harness_step_close(step);
    harness_barrier(rank, rank->arg);
    harness_close(rank);
    device_memory_free(sum);
    device_memory_free(copy);
}

static void test_coll(void **state)
{
    (void)state;
    run(coll_main);
}

/* Held operations can be cancelled, fail with their step, and do not delay the closes. */
static void cancel_main(struct harness_rank *rank)
{
    char bytes[BYTES] = "";
    uint64_t begin_ns = harness_now_ns();
    tryst_step *step = harness_step(rank, 1);
    tryst_op *recv = device_start(rank, step, false, "device", bytes);
    tryst_op *send = device_start(rank, step, true, "device", bytes);
    tryst_op *sum = sum_start(step, "sum", bytes, TRYST_MEMORY_CUDA);
    CHECK_STATUS(tryst_op_cancel(recv), TRYST_OK);
    harness_end(recv, TRYST_E_CANCELED);
    CHECK(since_ms(begin_ns) < START_MS - 300);
    CHECK_STATUS(tryst_step_abort(step, TRYST_E_CANCELED, "over"), TRYST_OK);
    harness_end(send, TRYST_E_ABORTED);
    harness_end(sum, TRYST_E_ABORTED);
    CHECK(since_ms(begin_ns) < START_MS - 300);
    tryst_step_close(step, NULL);
    harness_close(rank);
    CHECK(since_ms(begin_ns) < START_MS + 5000);
}

static void test_cancel(void **state)
{
    (void)state;
    run(cancel_main);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_driver),
                                       cmocka_unit_test(test_coll),
                                       cmocka_unit_test(test_cancel)};
    return HARNESS_MAIN(argc, argv, tests);
}
