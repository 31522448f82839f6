/* SPDX-License-Identifier: Apache-2.0 */
/* Each function of the driver fails once, at each of its calls in turn, under a script
 * that uses all memory ops: each time a status and an error text result, and no resource
 * is left. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "row.h"

enum { BYTES = 5000 };

static const struct memory_ops *row;

static char own[BYTES] __attribute__((aligned(4096))); /* memory of the program */

struct script {
    bool is_pinned; /* `own` is pinned */
    void *data, *pinned, *stream, *event, *imported;
    struct memory_ipc ipc; /* handle of the imported memory */
    CUdeviceptr mapped;    /* memory that is exported as a descriptor */
    CUmemGenericAllocationHandle handle;
};

/* Make the caller's memory while no call fails; the memory ops do not allocate it. */
static void mapped_make(struct script *self)
{
    struct CUmemLocation_st here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAllocationProp prop = {.location = here,
                                .requestedHandleTypes =
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CHECK(!cuMemCreate(&self->handle, 8192, &prop, 0));
    CHECK(!cuMemAddressReserve(&self->mapped, 8192, 0, 0, 0));
    CHECK(!cuMemMap(self->mapped, 8192, 0, self->handle, 0));
    CHECK(!cuMemSetAccess(self->mapped, 8192, &access, 1));
}

static void mapped_drop(struct script *self)
{
    CHECK(!cuMemUnmap(self->mapped, 8192));
    CHECK(!cuMemAddressFree(self->mapped, 8192));
    CHECK(!cuMemRelease(self->handle));
}

static tryst_status script_open(struct script *self)
{
    int32_t count, device;
    int fd;
    char text[TRANSPORT_TEXT_MAX];
    tryst_device_info info = {.struct_size = sizeof info};
    tryst_status status = row->devices(&count, text);
    if (status == TRYST_OK)
        status = row->describe(0, &info);
    if (status == TRYST_OK)
        status = row->alloc(0, BYTES, &self->data, &fd);
    if (status == TRYST_OK)
        status = row->locate(self->data, &device);
    if (status == TRYST_OK)
        status = row->pinned_alloc(0, BYTES, &self->pinned);
    if (status == TRYST_OK) {
        status = row->pin(0, own, BYTES);
        self->is_pinned = status == TRYST_OK;
    }
    if (status == TRYST_OK)
        status = row->stream_open(0, true, &self->stream);
    if (status == TRYST_OK)
        status = row->event_open(0, &self->event);
    return status;
}

static tryst_status script_queue(struct script *self)
{
    memset(self->pinned, 1, BYTES);
    tryst_status status =
        row->copy_async(0, self->stream, self->data, self->pinned, BYTES);
    if (status == TRYST_OK)
        status = row->stream_wait_word(0, self->stream, self->pinned, 1);
    if (status == TRYST_OK)
        status = row->stream_write_word(0, self->stream, self->pinned, 2);
    if (status == TRYST_OK)
        status = row->event_record(0, self->stream, self->event);
    if (status == TRYST_OK)
        status = row->stream_wait(0, NULL, self->event);
    if (status == TRYST_OK)
        status = row_wait(row, 0, self->event);
    return status;
}

static tryst_status script_share(struct script *self)
{
    struct memory_ipc ipc;
    int fd = -1;
    tryst_status status = row->ipc_export(0, self->data, BYTES, &ipc, &fd);
    if (status == TRYST_OK)
        status = row->ipc_export(0, (void *)(self->mapped + 100), 8000, &ipc, &fd);
    if (status != TRYST_OK)
        return status;
    CHECK(ipc.how == MEMORY_IPC_DESCRIPTOR && fd >= 0);
    status = row->ipc_import(0, &ipc, fd, &self->imported);
    self->ipc = ipc;
    close(fd);
    return status;
}

static void script_close(struct script *self)
{
    fake_cuda_drain();
    if (self->imported)
        row->ipc_close(0, self->imported, &self->ipc);
    if (self->event)
        row->event_close(0, self->event);
    if (self->stream)
        row->stream_close(0, self->stream);
    if (self->is_pinned)
        row->unpin(0, own, BYTES);
    if (self->pinned)
        row->pinned_free(0, self->pinned, BYTES);
    if (self->data)
        row->free(0, self->data, BYTES, -1);
}

static tryst_status script_run(struct script *self)
{
    tryst_status status = script_open(self);
    if (status == TRYST_OK)
        status = script_queue(self);
    if (status == TRYST_OK)
        status = script_share(self);
    return status;
}

/* True for functions whose failure is not reported: those that free or close, and those
 * with a fallback. */
static bool is_silent(const char *function)
{
    static const char *const silent[] = {
        "cuCtxPopCurrent", "cuMemFree",        "cuMemFreeHost",    "cuStreamDestroy",
        "cuEventDestroy",  "cuMemRelease",     "cuMemUnmap",       "cuMemAddressFree",
        "cuGetErrorName",  "cuGetErrorString", "cuDeviceGetCount", "cuMemHostUnregister"};
    for (size_t i = 0; i < COUNT_OF(silent); i++)
        if (strcmp(silent[i], function) == 0)
            return true;
    return false;
}

static void outcome_check(const char *function, bool failed, tryst_status status)
{
    /* the query of the memory's owner is optional: when it fails, a copy goes on */
    bool is_extra = strcmp(function, "cuPointerGetAttributes") == 0;
    if (!failed) {
        assert_int_equal(status, TRYST_OK);
    } else if (status != TRYST_OK) {
        assert_true(status == TRYST_E_SYSTEM || status == TRYST_E_UNSUPPORTED ||
                    (status == TRYST_E_INVALID && is_extra));
        assert_string_not_equal(row->error_text(), "");
    } else if (!is_silent(function) && !is_extra) {
        fail_msg("%s failed, and no status or text reported the failure", function);
    }
}

/* Return false when there was no `nth` call. */
static bool walk_one(const char *function, unsigned nth)
{
    struct script script = {0};
    const char *context = fake_cuda_context(1);
    CUcontext now;
    mapped_make(&script);
    CHECK(!cuCtxSetCurrent((CUcontext)(uintptr_t)context));
    unsigned before = fake_cuda_calls(function);
    fake_cuda_fail(function, nth, CUDA_ERROR_UNKNOWN);
    tryst_status status = script_run(&script);
    if (!is_silent(function)) /* a context that cannot be entered frees nothing */
        fake_cuda_fail(NULL, 0, 0);
    bool failed = fake_cuda_calls(function) >= before + nth;
    script_close(&script);
    bool reached = fake_cuda_calls(function) >= before + nth;
    fake_cuda_fail(NULL, 0, 0);
    outcome_check(function, failed, status);
    CHECK(!cuCtxGetCurrent(&now) && (const char *)now == context);
    mapped_drop(&script);
    fake_cuda_drain();
    CHECK(!cuCtxSetCurrent(NULL));
    assert_int_equal(fake_cuda_check(), 0);
    return reached;
}

static void test_each_fails(void **state)
{
    static const char *const functions[] = {"cuDriverGetVersion",
                                            "cuDeviceGetCount",
                                            "cuDeviceGet",
                                            "cuDeviceGetName",
                                            "cuDeviceGetPCIBusId",
                                            "cuDeviceGetAttribute",
                                            "cuMemGetInfo",
                                            "cuCtxPushCurrent",
                                            "cuCtxPopCurrent",
                                            "cuPointerGetAttributes",
                                            "cuMemAlloc",
                                            "cuMemFree",
                                            "cuMemGetAddressRange",
                                            "cuMemHostAlloc",
                                            "cuMemFreeHost",
                                            "cuMemHostRegister",
                                            "cuMemHostUnregister",
                                            "cuMemcpyAsync",
                                            "cuStreamCreateWithPriority",
                                            "cuStreamDestroy",
                                            "cuStreamWaitEvent",
                                            "cuStreamWaitValue32",
                                            "cuStreamWriteValue32",
                                            "cuStreamIsCapturing",
                                            "cuEventCreate",
                                            "cuEventDestroy",
                                            "cuEventRecord",
                                            "cuEventQuery",
                                            "cuIpcGetMemHandle",
                                            "cuMemRetainAllocationHandle",
                                            "cuMemExportToShareableHandle",
                                            "cuMemImportFromShareableHandle",
                                            "cuMemRelease",
                                            "cuMemAddressReserve",
                                            "cuMemAddressFree",
                                            "cuMemMap",
                                            "cuMemUnmap",
                                            "cuMemSetAccess"};
    unsigned runs = 0;
    row = row_get();
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        unsigned nth = 1;
        /* cuEventQuery is called a varying number of times */
        while (walk_one(functions[i], nth) && nth < 30)
            nth++;
        if (nth == 1)
            fail_msg("%s is never called", functions[i]);
        runs += nth;
    }
    print_message("%u runs\n", runs);
}

/* Fail the start, which cannot be tried twice in one process once it has succeeded. */
static void test_start_fails(void **state)
{
    static const struct {
        const char *function, *says;
    } starts[] = {{"cuInit", "cuda_driver_open"},
                  {"cuDeviceGetCount", "device_count"},
                  {"cuDevicePrimaryCtxRetain", "primary_retain"},
                  {"cuCtxGetStreamPriorityRange", "context_priorities"}};
    const struct memory_ops *found = NULL;
    char text[TRANSPORT_TEXT_MAX];
    void *stream;
    fake_cuda_fail("cuInit", 1, CUDA_ERROR_NO_DEVICE);
    assert_int_equal(row_load(&found, text), TRYST_E_UNSUPPORTED);
    assert_non_null(strstr(text, "CUDA_ERROR_NO_DEVICE"));
    assert_null(memory_ops_get(TRYST_MEMORY_CUDA));
    fake_cuda_fail("cuDeviceGetCount", 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(row_load(&found, text), TRYST_E_UNSUPPORTED);
    assert_int_equal(row_load(&found, text), TRYST_OK); /* retried */
    assert_ptr_equal(found, memory_ops_get(TRYST_MEMORY_CUDA));
    for (size_t i = 2; i < COUNT_OF(starts); i++) {
        fake_cuda_fail(starts[i].function, 1, CUDA_ERROR_UNKNOWN);
        assert_int_equal(found->stream_open(0, false, &stream), TRYST_E_SYSTEM);
        assert_non_null(strstr(found->error_text(), starts[i].says));
    }
    assert_int_equal(found->stream_open(0, false, &stream), TRYST_OK);
    found->stream_close(0, stream);
}

/* The status of a copy that fails on the device comes from the event behind the copy. */
static void test_copy_fails(void **state)
{
    struct script script = {0};
    fake_cuda_drain();
    assert_int_equal(script_open(&script), TRYST_OK);
    fake_cuda_fail("copy", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(row->copy_async(0, script.stream, script.data, script.pinned, BYTES),
                     TRYST_OK);
    tryst_status status = row->event_record(0, script.stream, script.event);
    if (status == TRYST_OK)
        status = row_wait(row, 0, script.event);
    fake_cuda_drain();
    /* or the failure has not arrived yet */
    assert_true(status == TRYST_E_SYSTEM || status == TRYST_OK);
    assert_int_equal(row->event_query(0, script.event), TRYST_E_SYSTEM);
    assert_non_null(strstr(row->error_text(), "(700)"));
    script_close(&script);
    assert_int_equal(fake_cuda_check(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_start_fails),
                                       cmocka_unit_test(test_each_fails),
                                       cmocka_unit_test(test_copy_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
