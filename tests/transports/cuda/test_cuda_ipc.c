/* SPDX-License-Identifier: Apache-2.0 */
/* One process exports device memory in each of the three ways, another imports it;
 * malformed offers are refused. */
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "row.h"
#include "support/child.h"

enum { WAYS = 3, BYTES = 3000, AT = 5000, WHOLE = 16384 };

static int sockets[2];
static pid_t exporter;

struct message {
    struct memory_ipc ipc;
    bool has_fd;
};

static void message_send(int socket, const struct message *message, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)message, sizeof *message};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *first = CMSG_FIRSTHDR(&header);
        first->cmsg_level = SOL_SOCKET;
        first->cmsg_type = SCM_RIGHTS;
        first->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(first), &fd, sizeof fd);
    }
    CHECK(sendmsg(socket, &header, 0) == sizeof *message);
}

static int message_receive(int socket, struct message *message)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {message, sizeof *message};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    int fd = -1;
    CHECK(recvmsg(socket, &header, 0) == sizeof *message);
    if (message->has_fd)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
    return fd;
}

/* --- the exporter --- */

static char *mapped_alloc(CUmemAllocationHandleType type)
{
    struct CUmemLocation_st here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAllocationProp prop = {.location = here, .requestedHandleTypes = type};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CHECK(!cuMemCreate(&handle, WHOLE, &prop, 0));
    CHECK(!cuMemAddressReserve(&at, WHOLE, 0, 0, 0));
    CHECK(!cuMemMap(at, WHOLE, 0, handle, 0));
    CHECK(!cuMemSetAccess(at, WHOLE, &access, 1));
    CHECK(!cuMemRelease(handle));
    return (char *)at;
}

static void memory_fill(char *data, int way)
{
    unsigned char bytes[WHOLE];
    for (int i = 0; i < WHOLE; i++)
        bytes[i] = (unsigned char)(i * (way + 3));
    fake_cuda_write(data, bytes, WHOLE);
}

static void offer(const struct memory_ops *row, char *data, int way)
{
    struct message message = {0};
    int fd = -1;
    memory_fill(data, way);
    CHECK(row->ipc_export(0, data + AT, BYTES, &message.ipc, &fd) == TRYST_OK);
    CHECK(message.ipc.offset == AT && message.ipc.bytes == WHOLE &&
          message.ipc.base == (uintptr_t)data);
    message.has_fd = fd >= 0;
    message_send(sockets[1], &message, fd);
    if (fd >= 0)
        close(fd);
}

static void what_is_not_offered(const struct memory_ops *row, char *plain)
{
    struct memory_ipc ipc;
    int fd;
    char here, *unshared = mapped_alloc(CU_MEM_HANDLE_TYPE_NONE);
    CHECK(row->ipc_export(0, unshared, 10, &ipc, &fd) == TRYST_E_UNSUPPORTED);
    CHECK(strstr(row->error_text(), "without a handle"));
    CHECK(row->ipc_export(0, plain + 10, WHOLE, &ipc, &fd) == TRYST_E_UNSUPPORTED);
    CHECK(strstr(row->error_text(), "not within one CUDA allocation"));
    CHECK(row->ipc_export(0, &here, 1, &ipc, &fd) != TRYST_OK);
    CHECK(!cuMemUnmap((CUdeviceptr)unshared, WHOLE) &&
          !cuMemAddressFree((CUdeviceptr)unshared, WHOLE));
}

/* Run the exporter in another process until the importer closes. */
static int exporter_run(void)
{
    const struct memory_ops *row = row_get();
    void *plain;
    char end, *mapped[2];
    int fd;
    CHECK(row->alloc(0, WHOLE, &plain, &fd) == TRYST_OK);
    offer(row, plain, 0);
    mapped[0] = mapped_alloc(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    offer(row, mapped[0], 1);
    mapped[1] = mapped_alloc(CU_MEM_HANDLE_TYPE_FABRIC);
    offer(row, mapped[1], 2);
    what_is_not_offered(row, plain);
    while (recv(sockets[1], &end, 1, 0) > 0)
        ;
    for (int i = 0; i < 2; i++)
        CHECK(!cuMemUnmap((CUdeviceptr)mapped[i], WHOLE) &&
              !cuMemAddressFree((CUdeviceptr)mapped[i], WHOLE));
    row->free(0, plain, WHOLE, -1);
    return fake_cuda_check();
}

/* --- the importer --- */

static void read_it(const struct memory_ops *row, int32_t device, const void *data,
                    int way)
{
    static unsigned char got[BYTES];
    void *stream, *event;
    assert_int_equal(row->stream_open(device, true, &stream), TRYST_OK);
    assert_int_equal(row->event_open(device, &event), TRYST_OK);
    assert_int_equal(row->copy_async(device, stream, got, data, BYTES), TRYST_OK);
    assert_int_equal(row->event_record(device, stream, event), TRYST_OK);
    assert_int_equal(row_wait(row, device, event), TRYST_OK);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(got[i], (unsigned char)((AT + i) * (way + 3)));
    row->event_close(device, event);
    row->stream_close(device, stream);
}

/* Malformed offers of a peer are refused. */
static void lies_are_refused(const struct memory_ops *row, const struct message *truth,
                             int fd)
{
    struct memory_ipc lie;
    void *data = NULL;
#define REFUSED(change)                                                      \
    do {                                                                     \
        lie = truth->ipc;                                                    \
        change;                                                              \
        assert_int_not_equal(row->ipc_import(0, &lie, fd, &data), TRYST_OK); \
        assert_string_not_equal(row->error_text(), "");                      \
    } while (0)
    REFUSED(lie.how = 0);
    REFUSED(lie.how = 9);
    REFUSED(lie.offset = lie.bytes);
    REFUSED(lie.bytes = 0);
    REFUSED(lie.bytes = UINT64_MAX);
    if (lie.how == MEMORY_IPC_DESCRIPTOR) {
        REFUSED(fd = -1);
        REFUSED(fd = sockets[0]);
    } else {
        REFUSED(memset(lie.handle, 0, sizeof lie.handle));
    }
    if (lie.how != MEMORY_IPC_LEGACY) {
        lie = truth->ipc;
        lie.bytes = WHOLE * 16; /* more bytes than the handle covers */
        assert_int_not_equal(row->ipc_import(0, &lie, fd, &data), TRYST_OK);
    }
    assert_null(data);
    assert_int_equal(fake_cuda_check(), 0);
}

static void test_ways(void **state)
{
    static const uint32_t hows[WAYS] = {MEMORY_IPC_LEGACY, MEMORY_IPC_DESCRIPTOR,
                                        MEMORY_IPC_FABRIC};
    const struct memory_ops *row = row_get();
    for (int way = 0; way < WAYS; way++) {
        struct message message;
        int fd = message_receive(sockets[0], &message);
        assert_int_equal(message.ipc.how, hows[way]);
        lies_are_refused(row, &message, fd);
        for (int32_t device = 0; device < 2; device++) {
            void *data;
            assert_int_equal(row->ipc_import(device, &message.ipc, fd, &data), TRYST_OK);
            read_it(row, device, data, way);
            row->ipc_close(device, data, &message.ipc);
            assert_int_equal(fake_cuda_check(), 0);
        }
        if (fd >= 0)
            close(fd);
    }
    int status;
    close(sockets[0]);
    assert_int_equal(waitpid(exporter, &status, 0), exporter);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways)};
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    exporter = child_fork();
    if (exporter == 0) {
        close(sockets[0]);
        return exporter_run();
    }
    close(sockets[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
