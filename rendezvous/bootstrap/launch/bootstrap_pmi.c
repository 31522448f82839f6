/* SPDX-License-Identifier: Apache-2.0 */
/* One text from rank 0 to all others through PMI-1: see bootstrap_pmi.h. Called by
 * bootstrap_env.c. */
#include "bootstrap_pmi.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/os/clock.h"
#include "core/text/number.h"
#include "core/text/text.h"
#include "rendezvous/bootstrap/session/bootstrap_auth.h"
#include "rendezvous/bootstrap/session/bootstrap_net.h"

#define KEY "tryst"
/* Hydra sends the acknowledgement and closes its end at once. */
#define FINALIZE_MAX_NS (5 * NS_PER_S)

enum {
    LINE_BYTES = 2048, /* a line with its newline; Hydra's values have up to 1,024 */
    SPACE_BYTES = 512, /* the name of the key-value space; Hydra's limit is 256 */
    SHOWN_BYTES = 32,  /* of an answer in a message; its value, a secret, comes later */
};

struct pmi {
    int fd;
    struct bootstrap_wait wait;
    const struct log *log;
    struct err *err;
    const char *request; /* for messages: "put" */
    char space[SPACE_BYTES];
    char line[LINE_BYTES + 1]; /* the request, then its answer */
};

/* The descriptor that this process has used, and the result. */
static struct {
    pthread_mutex_t lock;
    pid_t pid; /* of the process that has sent requests; 0: none */
    int fd;
    ino_t inode; /* of the socket: an MPI may have closed it, and `fd` be another file */
    bool has_failed;
    char text[BOOTSTRAP_PMIX_TEXT_BYTES]; /* "": none yet */
} used = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- one request ------------------------------------------------------------------- */

static tryst_status fail(struct pmi *self, const char *what, const char *why)
{
    return err_set(self->err, TRYST_E_BOOTSTRAP,
                   "PMI (PMI_FD=%d, request '%s'): %s%s%s; set TRYST_BOOTSTRAP and "
                   "TRYST_TOKEN to run without PMI",
                   self->fd, self->request, what, *why ? ": " : "", why);
}

/* Wait until the socket can be read. */
static tryst_status answer_wait(struct pmi *self)
{
    bool in_barrier = strcmp(self->request, "barrier_in") == 0;
    const char *why = in_barrier ? "not all processes have opened their group"
                                 : "the launcher has not answered";
    uint64_t warn_ns = bootstrap_warn_ns(&self->wait);
    tryst_status status = TRYST_E_TIMEOUT;
    if (!bootstrap_wait_is_long(&self->wait) && warn_ns < self->wait.deadline_ns) {
        status = bootstrap_wait_fd(&self->wait, self->fd, POLLIN, warn_ns);
        if (status == TRYST_E_TIMEOUT)
            bootstrap_wait_warn(&self->wait, self->log, why);
    }
    if (status == TRYST_E_TIMEOUT)
        status = bootstrap_wait_fd(&self->wait, self->fd, POLLIN, UINT64_MAX);
    if (status == TRYST_E_TIMEOUT)
        return fail(self, why,
                    in_barrier ? "see their output, or raise TRYST_BOOTSTRAP_TIMEOUT"
                               : "the time-out (TRYST_BOOTSTRAP_TIMEOUT) has passed");
    return status == TRYST_OK ? status : fail(self, "cannot wait", strerror(errno));
}

/* Receive one line. The launcher sends nothing unasked, so bytes after the newline are an
 * error. */
static tryst_status line_receive(struct pmi *self)
{
    size_t bytes = 0;
    char *end = NULL;
    while (!end) {
        if (bytes == LINE_BYTES)
            return fail(self, "the answer is too long", "");
        tryst_status status = answer_wait(self);
        if (status != TRYST_OK)
            return status;
        ssize_t got =
            recv(self->fd, self->line + bytes, LINE_BYTES - bytes, MSG_DONTWAIT);
        if (got == 0)
            return fail(self, "the launcher has closed the socket", "");
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return fail(self, "cannot receive", strerror(errno));
        bytes += got > 0 ? (size_t)got : 0;
        end = memchr(self->line, '\n', bytes);
    }
    *end = '\0';
    const char *at = self->line;
    while ((unsigned char)*at >= ' ')
        at++;
    if (at != end || end != self->line + bytes - 1)
        return fail(self, "the answer is not one line of text", "");
    return TRYST_OK;
}

/* Copy the value of `name` in the answer to `value`. False: absent or too long. */
static bool value_find(const struct pmi *self, const char *name, char *value, size_t size)
{
    size_t name_bytes = strlen(name), bytes;
    for (const char *at = self->line; *at; at += bytes + (at[bytes] == ' ')) {
        bytes = strcspn(at, " ");
        if (strncmp(at, name, name_bytes) != 0 || at[name_bytes] != '=')
            continue;
        size_t rest = bytes - name_bytes - 1;
        if (rest < size)
            (void)snprintf(value, size, "%.*s", (int)rest, at + name_bytes + 1);
        return rest < size;
    }
    return false;
}

static tryst_status answer_refuse(struct pmi *self)
{
    char shown[SHOWN_BYTES + 1];
    (void)text_escape(self->line, strnlen(self->line, SHOWN_BYTES), shown, sizeof shown);
    return fail(self, "the answer is invalid", shown);
}

/* Send "cmd=request" with the arguments `fmt`, and receive the answer `expected`. */
__attribute__((format(printf, 4, 5))) static tryst_status ask(struct pmi *self,
                                                              const char *request,
                                                              const char *expected,
                                                              const char *fmt, ...)
{
    char command[32] = "", code[16] = "0", reason[80] = "without a reason";
    va_list args;
    self->request = request;
    int bytes = snprintf(self->line, LINE_BYTES, "cmd=%s", request);
    va_start(args, fmt);
    bytes += vsnprintf(self->line + bytes, (size_t)(LINE_BYTES - bytes), fmt, args);
    va_end(args);
    if (bytes >= LINE_BYTES)
        return fail(self, "the request is too long", "");
    /* the socket's buffer is empty, since no request is unanswered */
    if (send(self->fd, self->line, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL) != bytes)
        return fail(self, "cannot send", strerror(errno));
    tryst_status status = line_receive(self);
    if (status != TRYST_OK)
        return status;
    if (!value_find(self, "cmd", command, sizeof command) ||
        strcmp(command, expected) != 0)
        return answer_refuse(self);
    (void)value_find(self, "rc", code, sizeof code);
    (void)value_find(self, "msg", reason, sizeof reason);
    return strcmp(code, "0") == 0 ? status : fail(self, "refused", reason);
}

/* ---- the exchange ------------------------------------------------------------------ */

static tryst_status text_put(struct pmi *self, const char *text)
{
    char limit[16] = "";
    uint64_t value_max = 0;
    tryst_status status = ask(self, "get_maxes", "maxes", "\n");
    if (status != TRYST_OK)
        return status;
    if (!value_find(self, "vallen_max", limit, sizeof limit) ||
        !number_parse(limit, UINT32_MAX, &value_max))
        return answer_refuse(self);
    if (strlen(text) >= value_max || strchr(text, ' '))
        return fail(self, "the address of rank 0 is too long, or has a space", "");
    return ask(self, "put", "put_result", " kvsname=%s key=" KEY " value=%s\n",
               self->space, text);
}

static tryst_status exchange(struct pmi *self, const char *published,
                             char text_p[BOOTSTRAP_PMIX_TEXT_BYTES])
{
    tryst_status status =
        ask(self, "init", "response_to_init", " pmi_version=1 pmi_subversion=1\n");
    if (status == TRYST_OK)
        status = ask(self, "get_my_kvsname", "my_kvsname", "\n");
    if (status == TRYST_OK &&
        (!value_find(self, "kvsname", self->space, SPACE_BYTES) || !*self->space))
        status = answer_refuse(self);
    if (status == TRYST_OK && published)
        status = text_put(self, published);
    if (status == TRYST_OK)
        status = ask(self, "barrier_in", "barrier_out", "\n");
    if (status == TRYST_OK)
        status = ask(self, "get", "get_result", " kvsname=%s key=" KEY "\n", self->space);
    if (status == TRYST_OK &&
        !value_find(self, "value", text_p, BOOTSTRAP_PMIX_TEXT_BYTES))
        status = answer_refuse(self);
    bootstrap_wipe(self->line, sizeof self->line);
    return status;
}

/* True if `fd` is a Unix socket, as the one that Hydra passes on. */
static bool is_socket(int fd, struct stat *about_p)
{
    int domain = 0;
    socklen_t bytes = sizeof domain;
    return fstat(fd, about_p) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
           domain == AF_UNIX;
}

static tryst_status meet(struct pmi *self, const char *published,
                         char text_p[BOOTSTRAP_PMIX_TEXT_BYTES])
{
    struct stat about;
    if (used.has_failed)
        return fail(self, "an earlier exchange of this process failed", "");
    if (!is_socket(self->fd, &about))
        return fail(self, "PMI_FD is not the launcher's socket",
                    "an earlier program or MPI_Finalize may have closed it");
    used.pid = getpid();
    used.fd = self->fd;
    used.inode = about.st_ino;
    tryst_status status = exchange(self, published, text_p);
    used.has_failed = status != TRYST_OK;
    if (status == TRYST_OK)
        (void)snprintf(used.text, sizeof used.text, "%s", text_p);
    return status;
}

tryst_status bootstrap_pmi_meet(int fd, const char *published, uint64_t timeout_ns,
                                const struct log *log, struct err *err,
                                char text_p[BOOTSTRAP_PMIX_TEXT_BYTES])
{
    struct pmi self = {.fd = fd, .log = log, .err = err, .request = "init"};
    self.wait.timeout_ns = timeout_ns;
    self.wait.deadline_ns = clock_now_ns(NULL) + timeout_ns;
    pthread_mutex_lock(&used.lock);
    tryst_status status = meet(&self, published, text_p);
    pthread_mutex_unlock(&used.lock);
    return status;
}

bool bootstrap_pmi_cached(char text_p[BOOTSTRAP_PMIX_TEXT_BYTES])
{
    pthread_mutex_lock(&used.lock);
    bool known = used.text[0] != '\0';
    if (known)
        (void)snprintf(text_p, BOOTSTRAP_PMIX_TEXT_BYTES, "%s", used.text);
    pthread_mutex_unlock(&used.lock);
    return known;
}

/* Send finalize when this process exits, unless an MPI has or the exchange failed, and
 * wait for the launcher to close its end: until then its acknowledgement must find a
 * reader. */
__attribute__((destructor)) static void socket_finalize(void)
{
    static const char request[] = "cmd=finalize\n";
    char ignored[128];
    struct stat about;
    struct bootstrap_wait wait = {.deadline_ns = clock_now_ns(NULL) + FINALIZE_MAX_NS};
    if (used.pid != getpid() || used.has_failed || pthread_mutex_trylock(&used.lock) != 0)
        return;
    ssize_t bytes =
        is_socket(used.fd, &about) && about.st_ino == used.inode
            ? send(used.fd, request, sizeof request - 1, MSG_DONTWAIT | MSG_NOSIGNAL)
            : 0;
    while (bytes > 0 && bootstrap_wait_fd(&wait, used.fd, POLLIN, UINT64_MAX) == TRYST_OK)
        bytes = recv(used.fd, ignored, sizeof ignored, MSG_DONTWAIT);
    pthread_mutex_unlock(&used.lock);
}
