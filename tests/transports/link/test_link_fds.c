/* SPDX-License-Identifier: Apache-2.0 */
/* Links from which descriptors arrive that block at their close (LINGER_S seconds).
 *
 * Each test leaves such a close to the thread, and checks that the close still blocks
 * there (foreign_fds_wait(0) is false) after the library has gone on: a call that had
 * waited would have ended the block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "core/log/log.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/foreign_fd.h"
#include "support/descriptors.h"
#include "support/lingering.h"
#include "support/patience.h"
#include "transports/link/link_listen.h"
#include "transports/link/link_wire.h"

enum { ENDS_MAX = 4, FDS_MANY = 253 };

struct end {
    struct link *link;
    int received, fds, closed;
    tryst_status status;
    char text[160];
};

static struct poller poller;
static struct link_listener *listener;
static struct link_address address;
static struct end accepted[ENDS_MAX], near;
static int accepted_count;
static bool known; /* accepted links take descriptors */
static int live_before, fds_before;

static void log_sink(void *arg, tryst_log_level level, const char *line)
{
}

static struct log quiet = {.level = TRYST_LOG_DEBUG, .rank = -1, .sink = log_sink};

static void on_message(void *arg, struct link *link, uint8_t type, const void *data,
                       size_t bytes, int fd)
{
    struct end *end = arg;
    end->received++;
    end->fds += fd >= 0;
    foreign_fd_close(fd);
}

static void on_closed(void *arg, struct link *link, tryst_status status, const char *text)
{
    struct end *end = arg;
    end->closed++;
    end->status = status;
    (void)snprintf(end->text, sizeof end->text, "%s", text);
    link_close(link);
    end->link = NULL;
}

static const struct link_events events = {on_message, on_closed};

static void on_accepted(void *arg, struct link *link)
{
    struct end *end = &accepted[accepted_count++];
    assert_true(accepted_count <= ENDS_MAX);
    end->link = link;
    link_events_set(link, &events, end);
    if (known)
        link_fds_take(link);
}

#define PUMP_UNTIL(condition)                                        \
    do {                                                             \
        struct patience patience_ = patience_begin();                \
        while (!(condition)) {                                       \
            poller_run(&poller, NS_PER_MS);                          \
            if (patience_spent_ns(&patience_) > 10 * NS_PER_S)       \
                fail_msg("%s was not true within 10 s", #condition); \
        }                                                            \
    } while (0)

static int setup(void **state)
{
    assert_true(foreign_fds_wait(10 * NS_PER_S));
    memset(accepted, 0, sizeof accepted);
    memset(&near, 0, sizeof near);
    accepted_count = 0;
    known = false;
    live_before = (int)alloc_live_count();
    fds_before = descriptors_open();
    assert_int_equal(poller_open(&poller), TRYST_OK);
    assert_int_equal(
        link_listen(&poller, &quiet, NULL, 8, on_accepted, NULL, &listener, &address),
        TRYST_OK);
    return 0;
}

static void listener_end(void)
{
    link_listener_close(listener);
    listener = NULL;
}

/* Check that a close still blocks in the thread, end the block, and close all. */
static void blocked_elsewhere(struct lingering socket)
{
    assert_false(foreign_fds_wait(0));
    close(socket.other);
    assert_true(foreign_fds_wait(10 * NS_PER_S));
    if (near.link)
        link_close(near.link);
    for (int i = 0; i < accepted_count; i++)
        if (accepted[i].link)
            link_close(accepted[i].link);
    listener_end();
    poller_close(&poller);
    assert_true(foreign_fds_wait(10 * NS_PER_S));
    assert_int_equal(descriptors_open(), fds_before);
    assert_int_equal(alloc_live_count(), live_before);
}

static int raw_connect(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int length = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "tryst-%016llx",
                          (unsigned long long)address.listener_id);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        connect(fd, (struct sockaddr *)&at,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)),
        0);
    return fd;
}

/* Send the header of an empty message, and `count` descriptors with it. */
static void raw_send(int to, uint8_t flags, const int *fds, unsigned count)
{
    const struct link_header header = {.flags = flags, .magic = LINK_MAGIC};
    if (count == 0)
        assert_int_equal(send(to, &header, sizeof header, 0), sizeof header);
    else
        assert_int_equal(fds_send(to, &header, sizeof header, fds, count), sizeof header);
}

static void near_connect(void)
{
    assert_int_equal(link_connect(&poller, &quiet, &address, NULL, true, NS_PER_S,
                                  &events, &near, &near.link),
                     TRYST_OK);
}

/* A descriptor before link_fds_take ends its link; the other link goes on. */
static void test_stranger(void **state)
{
    struct lingering socket = lingering_make();
    near_connect();
    PUMP_UNTIL(accepted_count == 1);
    int raw = raw_connect();
    raw_send(raw, LINK_FLAG_FD, &socket.fd, 1);
    close(raw);
    PUMP_UNTIL(accepted_count == 2 && accepted[1].closed);
    assert_int_equal(accepted[1].status, TRYST_E_PROTOCOL);
    assert_non_null(strstr(accepted[1].text, "not known yet"));
    assert_int_equal(accepted[1].received, 0);
    assert_int_equal(link_send(near.link, 1, "x", 1, -1), TRYST_OK);
    PUMP_UNTIL(accepted[0].received == 1);
    assert_int_equal(accepted[0].closed, 0);
    blocked_elsewhere(socket);
}

/* Before link_fds_take no descriptor is received: 253 in a message use none here. */
static void test_stranger_many(void **state)
{
    struct lingering socket = lingering_make();
    int fds[FDS_MANY];
    int raw = raw_connect();
    for (int i = 1; i < FDS_MANY; i++)
        fds[i] = dup(0);
    fds[0] = socket.fd;
    raw_send(raw, 0, fds, FDS_MANY);
    int before = descriptors_open();
    PUMP_UNTIL(accepted_count == 1 && accepted[0].closed);
    assert_true(descriptors_open() <= before + 1); /* the connection, in the thread */
    close(raw);
    blocked_elsewhere(socket);
}

/* Descriptors behind bytes that end the link, which stay unread. */
static void test_unread(void **state)
{
    struct lingering socket = lingering_make();
    int raw = raw_connect();
    static const char noise[24] = "noise, noise, noise";
    assert_int_equal(send(raw, noise, sizeof noise, 0), sizeof noise);
    PUMP_UNTIL(accepted_count == 1 && accepted[0].closed);
    close(raw);
    raw = raw_connect();
    PUMP_UNTIL(accepted_count == 2);
    raw_send(raw, LINK_FLAG_FD, &socket.fd, 1);
    link_close(accepted[1].link);
    accepted[1].link = NULL;
    close(raw);
    blocked_elsewhere(socket);
}

/* A connection that is not accepted yet when the listener closes. */
static void test_waiting(void **state)
{
    struct lingering socket = lingering_make();
    int first = raw_connect(), raw = raw_connect();
    raw_send(raw, LINK_FLAG_FD, &socket.fd, 1);
    close(raw);
    listener_end();
    close(first);
    blocked_elsewhere(socket);
}

/* A connection that is refused for want of descriptors. */
static void test_refused(void **state)
{
    struct lingering socket = lingering_make();
    struct rlimit before, none;
    int raw = raw_connect();
    raw_send(raw, LINK_FLAG_FD, &socket.fd, 1);
    int lowest = dup(0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    PUMP_UNTIL(link_listener_counters(listener).failed == 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(raw);
    blocked_elsewhere(socket);
}

/* A known peer: more descriptors than a message carries. The kernel would close those
 * that a read has no room for. */
static void test_known_many(void **state)
{
    struct lingering socket = lingering_make();
    int fds[FDS_MANY], file = memfd_create("test", MFD_CLOEXEC); /* not for the thread */
    known = true;
    int raw = raw_connect();
    for (int i = 0; i < FDS_MANY - 1; i++)
        fds[i] = dup(file);
    fds[FDS_MANY - 1] = lingering_wrap(socket);
    close(file);
    raw_send(raw, LINK_FLAG_FD, fds, FDS_MANY);
    PUMP_UNTIL(accepted_count == 1 && accepted[0].closed);
    assert_int_equal(accepted[0].status, TRYST_E_PROTOCOL);
    close(raw);
    blocked_elsewhere(socket);
}

/* A known peer's descriptor that no message claims. */
static void test_known_unclaimed(void **state)
{
    struct lingering socket = lingering_make();
    int fd = lingering_wrap(socket);
    known = true;
    int raw = raw_connect();
    raw_send(raw, 0, &fd, 1);
    PUMP_UNTIL(accepted_count == 1 && accepted[0].closed);
    assert_int_equal(accepted[0].status, TRYST_E_PROTOCOL);
    close(raw);
    blocked_elsewhere(socket);
}

/* The listening side is not known either, until it has answered. */
static void test_listener_sends(void **state)
{
    struct lingering socket = lingering_make();
    int fd = lingering_wrap(socket);
    near_connect();
    PUMP_UNTIL(accepted_count == 1);
    assert_int_equal(link_send(accepted[0].link, 1, "x", 1, fd), TRYST_OK);
    close(fd);
    PUMP_UNTIL(near.closed == 1);
    assert_int_equal(near.received, 0);
    assert_int_equal(near.status, TRYST_E_PROTOCOL);
    blocked_elsewhere(socket);
}

/* The message that makes a peer known, and a descriptor, in one read. */
static void on_first(void *arg, struct link *link, uint8_t type, const void *data,
                     size_t bytes, int fd)
{
    link_fds_take(link);
    on_message(arg, link, type, data, bytes, fd);
}

static void test_known_meanwhile(void **state)
{
    static const struct link_events first = {on_first, on_closed};
    struct lingering socket = lingering_make();
    int fd = lingering_wrap(socket);
    near_connect();
    link_events_set(near.link, &first, &near);
    PUMP_UNTIL(accepted_count == 1);
    assert_int_equal(link_send(accepted[0].link, 1, "x", 1, -1), TRYST_OK);
    assert_int_equal(link_send(accepted[0].link, 1, "x", 1, fd), TRYST_OK);
    close(fd);
    PUMP_UNTIL(near.received == 2);
    assert_int_equal(near.fds, 1);
    assert_int_equal(near.closed, 0);
    blocked_elsewhere(socket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_stranger, setup),
        cmocka_unit_test_setup(test_stranger_many, setup),
        cmocka_unit_test_setup(test_unread, setup),
        cmocka_unit_test_setup(test_waiting, setup),
        cmocka_unit_test_setup(test_refused, setup),
        cmocka_unit_test_setup(test_known_many, setup),
        cmocka_unit_test_setup(test_known_unclaimed, setup),
        cmocka_unit_test_setup(test_listener_sends, setup),
        cmocka_unit_test_setup(test_known_meanwhile, setup),
    };
    return cmocka_run_group_tests_name("link_fds", tests, NULL, NULL);
}
