/* SPDX-License-Identifier: Apache-2.0 */
/* Starts one rank: environment, pipes, fork, exec.
 *
 * One idea: everything that needs memory is allocated before the fork; the child only
 * rearranges descriptors and signals. A failure of exec returns through a pipe that a
 * successful exec closes.
 * Invariant: before its own code runs, a rank is in its group, in the watcher's
 * table, and set to be killed with the launcher. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher_spawn.h"
#include "tools/options.h"
#include "tools/standard_files.h"

/* ---- shared by all ranks ----------------------------------------------------------- */

static int loopback_listen(const struct sockaddr *at, socklen_t bytes)
{
    int on = 1, fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Accepted sockets inherit SO_REUSEADDR, so that a later session can use the port at
     * once. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at, bytes) == 0 && listen(fd, LAUNCHER_RANKS_MAX) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Return the value of a variable that the ranks will get: that of --env, else ours; "":
 * none. */
static const char *rank_variable(const struct launcher *launcher, const char *name)
{
    size_t bytes = strlen(name);
    const char *value = getenv(name);
    for (char *const *item = launcher->params->env; item && *item; item++)
        if (strncmp(*item, name, bytes) == 0 && (*item)[bytes] == '=')
            value = *item + bytes + 1;
    return value ? value : "";
}

/* Parse "first-last", or one port. */
static bool range_parse(const char *range, uint64_t *first_p, uint64_t *last_p)
{
    char text[16];
    snprintf(text, sizeof text, "%s", range);
    char *dash = strchr(text, '-');
    if (dash)
        *dash++ = '\0';
    return strlen(range) < sizeof text &&
           tool_number_parse(text, 1, UINT16_MAX, first_p) &&
           tool_number_parse(dash ? dash : text, *first_p, UINT16_MAX, last_p);
}

/* Read the first and the last port from TRYST_PORT or, if that is unset or 0, from
 * TRYST_PORT_RANGE; 0 and 0: any port. False if the text does not parse. */
static bool ports_read(const struct launcher *launcher, uint64_t *first_p,
                       uint64_t *last_p)
{
    const char *port = rank_variable(launcher, "TRYST_PORT");
    const char *range = rank_variable(launcher, "TRYST_PORT_RANGE");
    *first_p = *last_p = 0;
    if (!*port || strcmp(port, "0") == 0)
        return !*range || range_parse(range, first_p, last_p);
    bool good = tool_number_parse(port, 1, UINT16_MAX, first_p);
    *last_p = *first_p;
    return good;
}

/* Listen on loopback at one of the ports. The search starts at a random one, because
 * other jobs use the same range. */
static bool ports_listen(struct launcher *launcher, struct sockaddr *at, socklen_t bytes,
                         const char *host, uint64_t first, uint64_t last)
{
    uint64_t count = last - first + 1;
    unsigned start = 0;
    in_port_t *port = at->sa_family == AF_INET ? &((struct sockaddr_in *)at)->sin_port
                                               : &((struct sockaddr_in6 *)at)->sin6_port;
    int fd = -1;
    if (getrandom(&start, sizeof start, 0) != (ssize_t)sizeof start)
        return false;
    for (uint64_t i = 0; i < count && fd < 0; i++) {
        if (i > 0 && errno != EADDRINUSE)
            break;
        *port = htons((uint16_t)(first + (start % count + i) % count));
        fd = loopback_listen(at, bytes);
    }
    launcher->listen_fd = fd;
    if (fd < 0 || getsockname(fd, at, &bytes) != 0)
        return false;
    snprintf(launcher->address, sizeof launcher->address, "%s:%u", host, ntohs(*port));
    return true;
}

static bool listen_prepare(struct launcher *launcher, uint64_t first, uint64_t last)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (ports_listen(launcher, (struct sockaddr *)&v4, sizeof v4, "127.0.0.1", first,
                     last))
        return true;
    return !(launcher->listen_fd < 0 && errno == EADDRINUSE) &&
           ports_listen(launcher, (struct sockaddr *)&v6, sizeof v6, "[::1]", first,
                        last);
}

bool spawn_prepare(struct launcher *launcher)
{
    unsigned char secret[16];
    uint64_t first, last;
    const char *name = launcher->params->name;
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret) {
        sink_message_add(launcher->errors, name, "cannot draw a token: %s",
                         strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sizeof secret; i++)
        snprintf(launcher->token + 2 * i, 3, "%02x", secret[i]);
    if (!ports_read(launcher, &first, &last)) {
        sink_message_add(
            launcher->errors, name,
            "cannot use TRYST_PORT='%.40s', TRYST_PORT_RANGE='%.40s': must be a port, or "
            "first-last, for example 30000-30099",
            rank_variable(launcher, "TRYST_PORT"),
            rank_variable(launcher, "TRYST_PORT_RANGE"));
        return false;
    }
    if (listen_prepare(launcher, first, last))
        return true;
    sink_message_add(launcher->errors, name,
                     "cannot listen on loopback for the bootstrap: %s%s", strerror(errno),
                     first && errno == EADDRINUSE
                         ? " (every port of TRYST_PORT or TRYST_PORT_RANGE)"
                         : "");
    return false;
}

/* ---- environment ------------------------------------------------------------------- */

/* A list of "K=V" strings; those in `owned` must be freed. */
struct environment {
    char **items;
    size_t count;
    char *owned[8];
    size_t owned_count;
};

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return length == strcspn(b, "=") && memcmp(a, b, length) == 0;
}

static void environment_set(struct environment *environment, char *item)
{
    for (size_t i = 0; i < environment->count; i++)
        if (same_name(environment->items[i], item)) {
            environment->items[i] = item;
            return;
        }
    environment->items[environment->count++] = item;
}

static bool environment_add(struct environment *environment, const char *name,
                            const char *value)
{
    char *item;
    if (asprintf(&item, "%s=%s", name, value) < 0)
        return false;
    environment->owned[environment->owned_count++] = item;
    environment_set(environment, item);
    return true;
}

static bool environment_add_number(struct environment *environment, const char *name,
                                   int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return environment_add(environment, name, text);
}

/* True if `item`, inherited from the user's shell or another launcher, must not reach the
 * ranks. */
static bool is_replaced(const char *item)
{
    static const char *const names[] = {
        "TRYST_TOKEN_FILE=", "TRYST_INSECURE=", "TRYST_BOOTSTRAP_FD="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(item, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void environment_free(struct environment *environment)
{
    for (size_t i = 0; i < environment->owned_count; i++)
        free(environment->owned[i]);
    free(environment->items);
}

static bool environment_make(const struct launcher *launcher, int rank,
                             struct environment *environment)
{
    const struct launcher_params *params = launcher->params;
    size_t count = 0, more = 0;
    while (environ[count])
        count++;
    while (params->env && params->env[more])
        more++;
    *environment = (struct environment){
        .items = calloc(count + more + 9, sizeof *environment->items)};
    if (!environment->items)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_replaced(environ[i]))
            environment->items[environment->count++] = environ[i];
    bool made = environment_add_number(environment, "TRYST_RANK", rank) &&
                environment_add_number(environment, "TRYST_SIZE", params->ranks) &&
                environment_add_number(environment, "TRYST_LOCAL_RANK", rank) &&
                environment_add_number(environment, "TRYST_LOCAL_SIZE", params->ranks) &&
                environment_add(environment, "TRYST_BOOTSTRAP", launcher->address) &&
                environment_add(environment, "TRYST_TOKEN", launcher->token);
    if (made && rank == 0)
        made = environment_add_number(environment, "TRYST_BOOTSTRAP_FD",
                                      launcher->listen_fd);
    for (size_t i = 0; made && i < more; i++)
        environment_set(environment, params->env[i]);
    return made;
}

/* ---- the child --------------------------------------------------------------------- */

struct child {
    struct launcher *launcher;
    int rank;
    pid_t launcher_pid;
    /* write ends of the pipes for stdout and stderr; -1: the launcher's own stream */
    int outputs[2];
    int error_fd; /* exec closes it; an errno in it means that exec failed */
    char **environment;
};

static void child_input(int rank)
{
    if (rank == 0 && !isatty(STDIN_FILENO))
        return;
    int fd = open("/dev/null", O_RDONLY);
    if (fd < 0)
        return;
    dup2(fd, STDIN_FILENO);
    if (fd != STDIN_FILENO)
        close(fd);
}

/* Close the launcher's descriptors for a main_fn, which has no exec that closes them. The
 * watcher's pipe is the important one: an open copy keeps the watcher asleep. */
static void child_close(const struct child *child)
{
    struct launcher *launcher = child->launcher;
    close(launcher->watch.fd);
    close(launcher->signal_fd);
    if (child->rank != 0)
        close(launcher->listen_fd);
    for (int i = 0; i <= child->rank; i++) {
        const struct rank *rank = &launcher->ranks[i];
        if (rank->pid_fd >= 0)
            close(rank->pid_fd);
        for (int j = 0; j < 2; j++)
            if (rank->streams[j].fd >= 0)
                close(rank->streams[j].fd);
    }
}

static void child_signals(const struct launcher *launcher)
{
    sigaction(SIGPIPE, &launcher->pipe_action, NULL);
    sigprocmask(SIG_SETMASK, &launcher->mask, NULL);
}

/* Ask the kernel to kill this rank with the launcher; end at once if the launcher is dead
 * already. */
static void child_bind(const struct child *child)
{
    pid_t self = getpid();
    setpgid(0, 0);
    /* Relaxed: see watch_table. */
    atomic_store_explicit(&child->launcher->watch.table->groups[child->rank], self,
                          memory_order_relaxed);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != child->launcher_pid)
        _exit(LAUNCHER_FAILED);
}

static void pipes_close(const struct child *child)
{
    for (int i = 0; i < 2; i++)
        if (child->outputs[i] >= 0)
            close(child->outputs[i]);
}

static void child_run(struct child *child)
{
    const struct launcher_params *params = child->launcher->params;
    child_bind(child);
    child_input(child->rank);
    for (int i = 0; i < 2; i++)
        if (child->outputs[i] >= 0)
            dup2(child->outputs[i], i + 1);
    setrlimit(RLIMIT_NOFILE, &child->launcher->files);
    if (child->rank == 0)
        fcntl(child->launcher->listen_fd, F_SETFD, 0);
    child_close(child);
    child_signals(child->launcher);
    environ = child->environment;
    if (params->main_fn) {
        close(child->error_fd);
        pipes_close(child);
        exit(standard_output_end(params->name, params->main_fn(params->arg, child->rank),
                                 EXIT_FAILURE));
    }
    execvp(params->argv[0], params->argv);
    int error = errno;
    ssize_t wrote = write(child->error_fd, &error, sizeof error);
    (void)wrote;
    _exit(LAUNCHER_FAILED);
}

/* ---- the parent -------------------------------------------------------------------- */

static bool pipes_open(struct launcher *launcher, int rank, struct child *child)
{
    struct rank *self = &launcher->ranks[rank];
    child->outputs[0] = child->outputs[1] = -1;
    for (int i = 0; i < 2 && !launcher->params->no_prefix; i++) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) != 0)
            return false;
        self->streams[i].fd = fds[0];
        child->outputs[i] = fds[1];
    }
    return true;
}

static int pid_fd_open(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

/* Wait until exec closes the pipe. Returns 0, or the errno of the failure. */
static int exec_error(int fd)
{
    int error = 0;
    ssize_t got;
    do
        got = read(fd, &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof error ? error : 0;
}

static int not_started(struct launcher *launcher, int rank, const char *what, int error)
{
    sink_message_add(launcher->errors, launcher->params->name,
                     "cannot start rank %d: %s: %s", rank, what, strerror(error));
    return LAUNCHER_FAILED;
}

static int exec_refused(struct launcher *launcher, int error)
{
    const struct launcher_params *params = launcher->params;
    sink_message_add(launcher->errors, params->name, "cannot run '%s': %s",
                     params->argv[0], strerror(error));
    return error == ENOENT ? LAUNCHER_NOT_FOUND : LAUNCHER_NOT_RUNNABLE;
}

static int child_fork(struct launcher *launcher, struct child *child)
{
    struct rank *self = &launcher->ranks[child->rank];
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return not_started(launcher, child->rank, "pipe", errno);
    child->error_fd = fds[1];
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        child_run(child);
    }
    int error = errno;
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return not_started(launcher, child->rank, "fork", error);
    }
    setpgid(pid, pid);
    self->pid = pid;
    self->pid_fd = pid_fd_open(pid);
    error = exec_error(fds[0]);
    close(fds[0]);
    return error ? exec_refused(launcher, error) : 0;
}

int spawn_rank(struct launcher *launcher, int rank)
{
    struct child child = {.launcher = launcher, .rank = rank, .launcher_pid = getpid()};
    struct environment environment = {.items = NULL};
    int status = LAUNCHER_FAILED;
    if (!environment_make(launcher, rank, &environment)) {
        not_started(launcher, rank, "its environment", ENOMEM);
        goto free_environment;
    }
    child.environment = environment.items;
    if (!pipes_open(launcher, rank, &child))
        not_started(launcher, rank, "its output pipes", errno);
    else
        status = child_fork(launcher, &child);
    pipes_close(&child);
free_environment:
    environment_free(&environment);
    return status;
}
