/* SPDX-License-Identifier: Apache-2.0 */
/* PMI-1 with a scripted launcher: a child process publishes or gets the text, this
 * process is the other end of its socket. */
#include "support/unit.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/bootstrap/launch/bootstrap_pmi.h"
#include "support/child.h"
#include "support/patience.h"

#define TEXT  "127.0.0.1:4711,0123456789abcdef0123456789abcdef"
#define CLOSE "(close)"
#define QUIET "(no answer)"

enum { REQUESTS_MAX = 16, LONG_MS = 60000, SHORT_MS = 100 };

/* What the child has reached; shared with it. */
struct result {
    tryst_status status, again;
    bool is_cached;
    char text[BOOTSTRAP_PMIX_TEXT_BYTES];
    struct err err, err_again;
};

/* An answer that replaces the usual one. */
struct reply {
    const char *request; /* "put" */
    const char *answer;
};

struct peer {
    int fd;
    pid_t child;
    struct result *result;
    char value[2048];    /* of the last put */
    char requests[1024]; /* their names, in order, each with a space */
};

/* ---- the launcher ------------------------------------------------------------------ */

/* Read one request; false: the child has closed its end. */
static bool request_read(struct peer *peer, char line[2048])
{
    size_t bytes = 0;
    do {
        struct pollfd ready = {.fd = peer->fd, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, LONG_MS), 1);
        if (read(peer->fd, line + bytes, 1) != 1)
            return false;
        assert_true(bytes < 2000);
    } while (line[bytes++] != '\n');
    line[bytes] = '\0';
    return true;
}

static const char *answer_usual(struct peer *peer, const char *name, char answer[2400])
{
    if (strcmp(name, "init") == 0)
        return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
    if (strcmp(name, "get_maxes") == 0)
        return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
    if (strcmp(name, "get_my_kvsname") == 0)
        return "cmd=my_kvsname kvsname=kvs_7_0_vm\n";
    if (strcmp(name, "put") == 0)
        return "cmd=put_result rc=0 msg=success\n";
    if (strcmp(name, "barrier_in") == 0)
        return "cmd=barrier_out\n";
    if (strcmp(name, "finalize") == 0)
        return "cmd=finalize_ack\n";
    assert_string_equal(name, "get");
    snprintf(answer, 2400, "cmd=get_result rc=0 msg=success value=%s\n", peer->value);
    return answer;
}

/* Answer until the child closes its end, or until the script closes this one; then wait
 * for the child's end. */
static void serve(struct peer *peer, const struct reply *other, bool bytewise)
{
    char line[2048], name[32], answer[2400];
    while (peer->fd >= 0 && request_read(peer, line)) {
        assert_int_equal(sscanf(line, "cmd=%31s", name), 1);
        strcat(strcat(peer->requests, name), " ");
        if (strcmp(name, "put") == 0)
            assert_int_equal(sscanf(line, "cmd=put kvsname=kvs_7_0_vm key=tryst value=%s",
                                    peer->value),
                             1);
        bool is_other = other && strcmp(name, other->request) == 0;
        const char *text = is_other ? other->answer : answer_usual(peer, name, answer);
        if (strcmp(text, QUIET) == 0)
            continue;
        for (size_t at = 0, step; strcmp(text, CLOSE) != 0 && text[at]; at += step) {
            step = bytewise ? 1 : strlen(text);
            (void)!send(peer->fd, text + at, step, MSG_NOSIGNAL);
        }
        if (strcmp(text, CLOSE) == 0 || strcmp(name, "finalize") == 0) {
            close(peer->fd);
            peer->fd = -1;
        }
    }
    int status = -1;
    assert_int_equal(waitpid(peer->child, &status, 0), peer->child);
    assert_int_equal(status, 0);
}

/* ---- the child --------------------------------------------------------------------- */

static void child_meet(struct result *result, int fd, const char *published, int ms)
{
    uint64_t timeout_ns = (uint64_t)ms * 1000000;
    char text[BOOTSTRAP_PMIX_TEXT_BYTES] = "";
    result->status =
        bootstrap_pmi_meet(fd, published, timeout_ns, NULL, &result->err, result->text);
    result->is_cached = bootstrap_pmi_cached(text) && strcmp(text, result->text) == 0;
    result->again = result->status == TRYST_OK
                        ? TRYST_OK
                        : bootstrap_pmi_meet(fd, published, timeout_ns, NULL,
                                             &result->err_again, text);
}

static struct peer peer_open(void (*end)(int fd), const char *published, int ms)
{
    int pair[2];
    struct peer peer = {.value = TEXT};
    peer.result = mmap(NULL, sizeof *peer.result, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(peer.result, MAP_FAILED);
    strcpy(peer.result->text, "unchanged");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    peer.child = child_fork();
    if (peer.child == 0) {
        close(pair[0]);
        child_meet(peer.result, pair[1], published, ms);
        end(pair[1]);
    }
    close(pair[1]);
    peer.fd = pair[0];
    return peer;
}

static void peer_close(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    munmap(peer->result, sizeof *peer->result);
}

static void end_at_once(int fd)
{
    (void)fd;
    _exit(0);
}

/* ---- tests ------------------------------------------------------------------------- */

static void text_travels(void **state)
{
    for (int i = 0; i < 4; i++) {
        bool publishes = i & 1, bytewise = i & 2;
        struct peer peer = peer_open(end_at_once, publishes ? TEXT : NULL, LONG_MS);
        serve(&peer, NULL, bytewise);
        assert_string_equal(peer.result->err.text, "");
        assert_int_equal(peer.result->status, TRYST_OK);
        assert_string_equal(peer.result->text, TEXT);
        assert_true(peer.result->is_cached);
        assert_string_equal(
            peer.requests, publishes ? "init get_my_kvsname get_maxes put barrier_in get "
                                     : "init get_my_kvsname barrier_in get ");
        peer_close(&peer);
    }
}

static char long_line[4096], long_value[2000], long_name[700];

static void long_answers_write(void)
{
    memset(long_line, 'x', sizeof long_line - 1);
    snprintf(long_value, sizeof long_value, "cmd=get_result rc=0 value=%.*s\n",
             BOOTSTRAP_PMIX_TEXT_BYTES, long_line);
    snprintf(long_name, sizeof long_name, "cmd=my_kvsname kvsname=%.600s\n", long_line);
}

/* NOLINTNEXTLINE(readability-function-size): the length is the table's. */
static void failures_as_a_table(void **state)
{
    static const struct {
        struct reply reply;
        const char *text; /* part of the error's text */
    } cases[] = {
        {{"init", CLOSE}, "'init'): the launcher has closed the socket; set TRYST_BOOT"},
        {{"init", QUIET}, "'init'): the launcher has not answered"},
        {{"init", "cmd=response_to_init rc=0"}, "the launcher has not answered"},
        {{"init", "cmd=response_to_init pmi_version=2 rc=-1\n"}, "refused: without a"},
        {{"init", "cmd=response_to_init rc=1 msg=old\n"}, "'init'): refused: old"},
        {{"init", "cmd=maxes rc=0\n"}, "the answer is invalid: cmd=maxes rc=0"},
        {{"init", "hello\n"}, "the answer is invalid: hello"},
        {{"init", "\n"}, "the answer is invalid"},
        {{"init", long_line}, "the answer is too long"},
        {{"init", "cmd=response_to_init rc=0\ncmd=maxes\n"}, "is not one line of text"},
        {{"init", "cmd=response_to_init\a rc=0\n"}, "is not one line of text"},
        {{"get_my_kvsname", "cmd=my_kvsname\n"}, "'get_my_kvsname'): the answer is inv"},
        {{"get_my_kvsname", "cmd=my_kvsname kvsname=\n"}, "the answer is invalid"},
        {{"get_my_kvsname", long_name}, "the answer is invalid"},
        {{"get_maxes", "cmd=maxes\n"}, "'get_maxes'): the answer is invalid"},
        {{"get_maxes", "cmd=maxes vallen_max=-1\n"}, "the answer is invalid"},
        {{"get_maxes", "cmd=maxes vallen_max=47\n"}, "is too long, or has a space"},
        {{"put", "cmd=put_result rc=-1 msg=full\n"}, "'put'): refused: full"},
        {{"barrier_in", QUIET}, "not all processes have opened their group: see their"},
        {{"barrier_in", CLOSE}, "the launcher has closed the socket"},
        {{"get", "cmd=get_result rc=-1 msg=key_tryst_not_found value=unknown\n"},
         "'get'): refused: key_tryst_not_found"},
        {{"get", "cmd=get_result rc=0\n"}, "the answer is invalid"},
        {{"get", long_value}, "the answer is invalid"},
    };
    long_answers_write();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *text = cases[i].text;
        bool ends_late = strstr(text, "has not answered") || strstr(text, "not all");
        int late_ms = (int)(patience_ns(SHORT_MS * 1000000ull) / 1000000);
        struct peer peer = peer_open(end_at_once, TEXT, ends_late ? late_ms : LONG_MS);
        struct result *result = peer.result;
        serve(&peer, &cases[i].reply, false);
        if (result->status != TRYST_E_BOOTSTRAP || !strstr(result->err.text, text))
            print_error("case %zu: status %d: %s\n", i, result->status, result->err.text);
        assert_int_equal(result->status, TRYST_E_BOOTSTRAP);
        assert_non_null(strstr(result->err.text, text));
        assert_null(strstr(result->err.text, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
        assert_string_equal(result->text, "unchanged");
        assert_false(result->is_cached);
        assert_int_equal(result->again, TRYST_E_BOOTSTRAP);
        assert_non_null(strstr(result->err_again.text, "an earlier exchange"));
        peer_close(&peer);
    }
}

static void end_by_exit(int fd)
{
    (void)fd;
    exit(0);
}

static int other_end = -1;

/* The last destructor: it fails if another one has written to the socket. */
__attribute__((destructor(101))) static void other_end_check(void)
{
    char byte;
    if (other_end >= 0 && recv(other_end, &byte, 1, MSG_DONTWAIT) > 0)
        _exit(1);
}

/* After a failure the launcher is to end the others. */
static void failed_exit_does_not_finalize(void **state)
{
    static const struct reply reply = {"barrier_in", "cmd=barrier_out rc=1\n"};
    struct peer peer = peer_open(end_by_exit, NULL, LONG_MS);
    serve(&peer, &reply, false);
    assert_string_equal(peer.requests, "init get_my_kvsname barrier_in ");
    peer_close(&peer);
}

/* As MPI_Finalize does, and the program's next socket has the same number. */
static void end_without_the_socket(int fd)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || dup2(pair[0], fd) != fd)
        _exit(2);
    other_end = pair[1];
    exit(0);
}

/* A process that this one forks has the socket too, but does not speak for it. */
static void end_in_a_fork(int fd)
{
    int status = -1;
    pid_t pid = fork();
    (void)fd;
    if (pid == 0)
        exit(0);
    _exit(waitpid(pid, &status, 0) != pid || status != 0);
}

static void exit_finalizes(void **state)
{
    struct peer peer = peer_open(end_by_exit, NULL, LONG_MS);
    serve(&peer, NULL, false);
    assert_string_equal(peer.requests, "init get_my_kvsname barrier_in get finalize ");
    peer_close(&peer);
}

static void exit_finalizes_no_other_socket(void **state)
{
    static void (*const ends[])(int) = {end_without_the_socket, end_in_a_fork};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        struct peer peer = peer_open(ends[i], NULL, LONG_MS);
        serve(&peer, NULL, false);
        assert_string_equal(peer.requests, "init get_my_kvsname barrier_in get ");
        peer_close(&peer);
    }
}

static void other_descriptors_are_refused(void **state)
{
    struct result result = {.text = "unchanged"};
    int pipes[2], inet = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(pipe(pipes), 0);
    const int fds[] = {pipes[1], inet, 4321};
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        child_meet(&result, fds[i], NULL, LONG_MS);
        assert_int_equal(result.status, TRYST_E_BOOTSTRAP);
        assert_non_null(strstr(result.err.text, "PMI_FD is not the launcher's socket"));
        assert_string_equal(result.text, "unchanged");
    }
    close(inet);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_travels),
        cmocka_unit_test(failures_as_a_table),
        cmocka_unit_test(exit_finalizes),
        cmocka_unit_test(failed_exit_does_not_finalize),
        cmocka_unit_test(exit_finalizes_no_other_socket),
        cmocka_unit_test(other_descriptors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
