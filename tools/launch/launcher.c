/* SPDX-License-Identifier: Apache-2.0 */
/* Starts ranks, and runs the launcher's loop: deaths, signals, and the phases of an
 * ending, which launcher.h draws.
 *
 * One idea: every event is a signal, the death of a rank too, or the end of a phase.
 * Invariants: before its own code runs, a rank is in its group, and the kernel will kill
 * it with the launcher. After the first failure each phase has an end. */
#include "launcher.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher_output.h"
#include "tools/figures.h"
#include "tools/standard_files.h"

#define SECOND 1000000000ull
/* From SIGTERM to SIGKILL: enough to write a last line, short for a waiting user. */
#define TERM_NS (2 * SECOND)
/* From SIGKILL to giving up: a process may wait for a dead disk in the kernel. */
#define KILL_NS (5 * SECOND)
/* For how long processes that ranks left behind may still write. */
#define LEFTOVER_NS (SECOND / 2)
/* After a failure, how long output waits for a reader that does not read. */
#define DRAIN_NS (5 * SECOND)

struct rank {
    pid_t pid;     /* also the process group; 0: not started */
    bool ended;    /* not reaped: the zombie keeps pid and group from reuse */
    siginfo_t how; /* how the rank ended: si_code, si_status */
};

enum phase {
    PHASE_RUNNING,
    PHASE_GRACE, /* a rank failed; the others may end by themselves */
    PHASE_TERM,
    PHASE_KILL,
    PHASE_OUTPUT, /* all ranks have ended; what they left may still write */
    PHASE_DRAIN,  /* that has been killed; the output is written */
    PHASE_END
};

struct launcher {
    const struct launcher_params *params;
    struct rank *ranks;
    enum phase phase;
    uint64_t phase_end_ns; /* UINT64_MAX: none */
    int failed_rank;       /* the first rank that failed; -1: none */
    int *outputs;     /* output_start; NULL: ranks and messages write to our own files */
    pid_t output_pid; /* 0: no process writes the output, or it has ended */
    int output_error; /* errno of its failed write; 0: none failed */
    int listen_fd;
    char address[32], token[40];
    /* The caller's settings, restored in the ranks. */
    sigset_t mask;
    struct sigaction pipe_action, child_action;
    struct rlimit files;
};

/* Write a message of the launcher's own: "tryst-run: …". It is lost where the process
 * that writes the output, or without one standard error, does not take it. Returns
 * false. */
__attribute__((format(printf, 2, 3))) static bool message(const struct launcher *launcher,
                                                          const char *fmt, ...)
{
    char line[1024];
    va_list args;
    int used = snprintf(line, sizeof line, "%.64s: ", launcher->params->name);
    va_start(args, fmt);
    used += vsnprintf(line + used, sizeof line - (size_t)used - 1, fmt, args);
    va_end(args);
    used = used < (int)sizeof line - 2 ? used : (int)sizeof line - 2;
    line[used++] = '\n';
    struct pollfd to = {.fd = launcher->output_pid > 0
                                  ? launcher->outputs[2 * launcher->params->ranks]
                                  : STDERR_FILENO,
                        .events = POLLOUT};
    if (poll(&to, 1, 0) > 0) /* room for PIPE_BUF bytes: the write does not block */
        (void)!write(to.fd, line, (size_t)used);
    return false;
}

static bool is_running(const struct rank *rank)
{
    return rank->pid && !rank->ended;
}

static int running_count(const struct launcher *launcher)
{
    int count = 0;
    for (int i = 0; i < launcher->params->ranks; i++)
        count += is_running(&launcher->ranks[i]);
    return count;
}

/* ---- ending ranks ------------------------------------------------------------------ */

static void phase_set(struct launcher *launcher, enum phase phase, uint64_t length_ns)
{
    uint64_t now = tool_now_ns();
    launcher->phase = phase;
    launcher->phase_end_ns = length_ns < UINT64_MAX - now ? now + length_ns : UINT64_MAX;
}

static void running_signal(const struct launcher *launcher, int number)
{
    bool whole_group = number != SIGUSR1 && number != SIGUSR2;
    for (int i = 0; i < launcher->params->ranks; i++) {
        const struct rank *rank = &launcher->ranks[i];
        if (is_running(rank))
            kill(whole_group ? -rank->pid : rank->pid, number);
    }
}

/* Report the ranks that still run: "<before> ranks 0, 2 and 3 more<after>". */
static void running_report(const struct launcher *launcher, const char *before,
                           const char *after)
{
    char text[128] = "";
    size_t used = 0;
    int listed = 0, count = running_count(launcher);
    for (int i = 0; i < launcher->params->ranks && listed < 8; i++)
        if (is_running(&launcher->ranks[i]))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d",
                                     listed++ ? ", " : "", i);
    if (listed < count)
        snprintf(text + used, sizeof text - used, " and %d more", count - listed);
    message(launcher, "%s rank%s %s%s", before, count == 1 ? "" : "s", text, after);
}

static void term_begin(struct launcher *launcher)
{
    char before[64];
    snprintf(before, sizeof before, "still running after %.4g s of grace:",
             (double)launcher->params->grace_ns / 1e9);
    running_report(launcher, before, "; sending SIGTERM");
    running_signal(launcher, SIGTERM);
    running_signal(launcher, SIGCONT); /* else a stopped process keeps SIGTERM */
    phase_set(launcher, PHASE_TERM, TERM_NS);
}

static void kill_begin(struct launcher *launcher)
{
    running_report(launcher, "still running after SIGTERM:", "; sending SIGKILL");
    running_signal(launcher, SIGKILL);
    phase_set(launcher, PHASE_KILL, KILL_NS);
}

/* No rank runs any more, or none that SIGKILL ends. */
static void output_phase_begin(struct launcher *launcher)
{
    if (running_count(launcher))
        running_report(launcher, "SIGKILL has not ended", "; leaving");
    if (launcher->outputs)
        close(launcher->outputs[2 * launcher->params->ranks]);
    phase_set(launcher, PHASE_OUTPUT, LEFTOVER_NS);
}

/* Kill the processes that ranks left in their groups; the leaders' zombies keep the group
 * ids from reuse. */
static void leftovers_kill(struct launcher *launcher)
{
    for (int i = 0; i < launcher->params->ranks; i++)
        if (launcher->ranks[i].pid)
            kill(-launcher->ranks[i].pid, SIGKILL);
    phase_set(launcher, PHASE_DRAIN, launcher->failed_rank < 0 ? UINT64_MAX : DRAIN_NS);
}

static void phase_step(struct launcher *launcher)
{
    if (launcher->phase < PHASE_OUTPUT && running_count(launcher) == 0)
        output_phase_begin(launcher);
    if (launcher->phase >= PHASE_OUTPUT && !launcher->output_pid)
        launcher->phase = PHASE_END;
    if (tool_now_ns() < launcher->phase_end_ns)
        return;
    switch (launcher->phase) {
    case PHASE_GRACE: term_begin(launcher); break;
    case PHASE_TERM: kill_begin(launcher); break;
    case PHASE_KILL: output_phase_begin(launcher); break;
    case PHASE_OUTPUT: leftovers_kill(launcher); break;
    case PHASE_DRAIN: launcher->phase = PHASE_END; break;
    default: break;
    }
}

/* ---- deaths ------------------------------------------------------------------------ */

static void failure_report(const struct launcher *launcher, int index, bool first)
{
    const struct rank *rank = &launcher->ranks[index];
    int left = running_count(launcher), number = rank->how.si_status;
    const char *name = sigabbrev_np(number);
    char how[128], rest[64] = "";
    if (rank->how.si_code == CLD_EXITED)
        snprintf(how, sizeof how, "exited with status %d", number);
    else
        snprintf(how, sizeof how, "was killed by signal %d (SIG%s, %s%s)", number,
                 name ? name : "?", strsignal(number),
                 rank->how.si_code == CLD_DUMPED ? ", core dumped" : "");
    if (first && left)
        snprintf(rest, sizeof rest, "; the %d other%s may take %.4g s to end", left,
                 left == 1 ? "" : "s", (double)launcher->params->grace_ns / 1e9);
    message(launcher, "%srank %d (pid %d) %s%s", first ? "" : "then ", index,
            (int)rank->pid, how, rest);
}

/* Handle new deaths, without reaping: first those by a signal, which are causes, while a
 * rank that fails because another one died exits by itself, with its reason. */
static void deaths_handle(struct launcher *launcher)
{
    int status, count = launcher->params->ranks;
    for (int i = 0; i < 2 * count; i++) {
        struct rank *rank = &launcher->ranks[i % count];
        siginfo_t how = {.si_pid = 0};
        bool first = launcher->failed_rank < 0;
        if (!is_running(rank) ||
            waitid(P_PID, (id_t)rank->pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            how.si_pid == 0 || (how.si_code == CLD_EXITED && i < count))
            continue;
        rank->ended = true;
        rank->how = how;
        if (how.si_status != 0 && launcher->phase <= PHASE_GRACE)
            failure_report(launcher, i % count, first);
        if (how.si_status != 0 && first) {
            launcher->failed_rank = i % count;
            phase_set(launcher, PHASE_GRACE, launcher->params->grace_ns);
        }
    }
    if (launcher->output_pid && waitpid(launcher->output_pid, &status, WNOHANG) > 0) {
        launcher->output_pid = 0;
        launcher->output_error = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    }
}

/* ---- start ------------------------------------------------------------------------- */

/* Read "port" or "first-last". */
static bool ports_read(const char *text, unsigned long *first_p, unsigned long *last_p)
{
    char *end;
    *first_p = *last_p = strtoul(text, &end, 10);
    if (*end == '-')
        *last_p = strtoul(end + 1, &end, 10);
    return !*end && *first_p >= 1 && *first_p <= *last_p && *last_p <= UINT16_MAX;
}

/* Listen on loopback at this port, 0: any. False, with errno: cannot. */
static bool port_listen(struct launcher *launcher, unsigned long port)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    /* Accepted sockets inherit SO_REUSEADDR, so that a later session can use the port at
     * once. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, size) != 0 ||
        listen(fd, LAUNCHER_RANKS_MAX) != 0) {
        close(fd); /* keeps errno where it succeeds */
        return false;
    }
    getsockname(fd, (struct sockaddr *)&at, &size);
    snprintf(launcher->address, sizeof launcher->address, "127.0.0.1:%u",
             ntohs(at.sin_port));
    launcher->listen_fd = fd;
    return true;
}

/* Draw the token, and listen at one of the ports of TRYST_PORT or TRYST_PORT_RANGE, from
 * a drawn one on, because other jobs use the same range. False after a message. */
static bool job_prepare(struct launcher *launcher)
{
    const char *port = getenv("TRYST_PORT"), *range = getenv("TRYST_PORT_RANGE");
    const char *text = port && *port && strcmp(port, "0") != 0 ? port : range;
    unsigned long first = 0, last = 0;
    unsigned drawn[5];
    if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return message(launcher, "cannot draw a token: %s", strerror(errno));
    snprintf(launcher->token, sizeof launcher->token, "%08x%08x%08x%08x", drawn[0],
             drawn[1], drawn[2], drawn[3]);
    if (text && *text && !ports_read(text, &first, &last))
        return message(launcher,
                       "cannot use TRYST_PORT='%.40s', TRYST_PORT_RANGE='%.40s': must be "
                       "a port, or first-last, for example 30000-30099",
                       port ? port : "", range ? range : "");
    for (unsigned long i = 0, count = last - first + 1; i < count; i++)
        if (port_listen(launcher, first + (drawn[4] % count + i) % count))
            return true;
    return message(launcher, "cannot listen on loopback for the bootstrap: %s%s",
                   strerror(errno),
                   first ? " (every port of TRYST_PORT or TRYST_PORT_RANGE)" : "");
}

static void number_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* tryst_run.c lists these variables. */
static void child_environment(const struct launcher *launcher, int rank)
{
    unsetenv("TRYST_TOKEN_FILE");
    unsetenv("TRYST_INSECURE");
    unsetenv("TRYST_BOOTSTRAP_FD");
    number_set("TRYST_RANK", rank);
    number_set("TRYST_SIZE", launcher->params->ranks);
    number_set("TRYST_LOCAL_RANK", rank);
    number_set("TRYST_LOCAL_SIZE", launcher->params->ranks);
    setenv("TRYST_BOOTSTRAP", launcher->address, 1);
    setenv("TRYST_TOKEN", launcher->token, 1);
    if (rank == 0)
        number_set("TRYST_BOOTSTRAP_FD", launcher->listen_fd);
}

/* Redirect the standard files. The listening socket is rank 0's. */
static void child_files(const struct launcher *launcher, int rank)
{
    if (rank != 0 || isatty(STDIN_FILENO)) {
        int fd = open("/dev/null", O_RDONLY);
        dup2(fd, STDIN_FILENO);
        close(fd);
    }
    for (int i = 0; i < 2 && launcher->outputs; i++)
        dup2(launcher->outputs[2 * rank + i], i + 1);
    setrlimit(RLIMIT_NOFILE, &launcher->files);
    if (rank == 0)
        fcntl(launcher->listen_fd, F_SETFD, 0);
    else
        close(launcher->listen_fd);
}

static void child_run(const struct launcher *launcher, int rank, pid_t launcher_pid)
{
    const struct launcher_params *params = launcher->params;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher_pid)
        _exit(LAUNCHER_FAILED); /* the launcher is dead already */
    child_files(launcher, rank);
    child_environment(launcher, rank);
    sigaction(SIGPIPE, &launcher->pipe_action, NULL);
    sigaction(SIGCHLD, &launcher->child_action, NULL);
    sigprocmask(SIG_SETMASK, &launcher->mask, NULL);
    if (params->main_fn)
        exit(standard_output_end(params->name, params->main_fn(params->arg, rank),
                                 EXIT_FAILURE));
    execvp(params->argv[0], params->argv);
    int error = errno;
    fprintf(stderr, "%s: cannot run '%s': %s\n", params->name, params->argv[0],
            strerror(error));
    _exit(error == ENOENT ? LAUNCHER_NOT_FOUND : LAUNCHER_NOT_RUNNABLE);
}

/* ---- the loop ---------------------------------------------------------------------- */

/* Start all ranks; if one cannot be started, kill the others at once. */
static bool ranks_start(struct launcher *launcher)
{
    pid_t self = getpid();
    bool started = job_prepare(launcher);
    fflush(NULL);
    for (int i = 0; started && i < launcher->params->ranks; i++) {
        pid_t pid = fork();
        if (pid == 0)
            child_run(launcher, i, self);
        started =
            pid > 0 || message(launcher, "cannot start rank %d: %s", i, strerror(errno));
        launcher->ranks[i].pid = pid > 0 ? pid : 0;
        if (pid > 0)
            setpgid(pid, pid);
    }
    if (launcher->listen_fd >= 0)
        close(launcher->listen_fd);
    for (int i = 0; i < 2 * launcher->params->ranks && launcher->outputs; i++)
        close(launcher->outputs[i]);
    if (!started) {
        running_signal(launcher, SIGKILL);
        phase_set(launcher, PHASE_KILL, KILL_NS);
        launcher->failed_rank = 0;
    }
    return started;
}

/* Kill what is left, and reap it. */
static void ranks_end(struct launcher *launcher)
{
    leftovers_kill(launcher);
    for (int i = 0; i < launcher->params->ranks; i++)
        if (launcher->ranks[i].ended)
            waitpid(launcher->ranks[i].pid, NULL, 0);
    if (launcher->output_pid) {
        kill(launcher->output_pid, SIGKILL);
        waitpid(launcher->output_pid, NULL, 0);
    }
}

/* Run the ranks. Returns the exit status; the launcher fails too if it could not write
 * the ranks' output. */
static int launcher_go(struct launcher *launcher, const sigset_t *wanted)
{
    int status = ranks_start(launcher) ? 0 : LAUNCHER_FAILED;
    for (phase_step(launcher); launcher->phase != PHASE_END; phase_step(launcher)) {
        uint64_t now = tool_now_ns(), end = launcher->phase_end_ns;
        uint64_t left = end > now ? end - now : 0;
        struct timespec time = {(time_t)(left / SECOND), (long)(left % SECOND)};
        int number = sigtimedwait(wanted, NULL, &time);
        if (number > 0 && number != SIGCHLD)
            running_signal(launcher, number);
        deaths_handle(launcher);
    }
    ranks_end(launcher);
    if (status == 0 && launcher->failed_rank >= 0) {
        const siginfo_t *how = &launcher->ranks[launcher->failed_rank].how;
        status = how->si_code == CLD_EXITED ? how->si_status : 128 + how->si_status;
    }
    if (launcher->output_error)
        standard_output_refused(launcher->params->name, launcher->output_error);
    return launcher->output_error && status == 0 ? LAUNCHER_FAILED : status;
}

int launcher_run(const struct launcher_params *params)
{
    static const int received[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    struct launcher launcher = {
        .params = params,
        .ranks = calloc((size_t)params->ranks, sizeof *launcher.ranks),
        .outputs =
            params->no_prefix ? NULL : calloc(2 * (size_t)params->ranks + 1, sizeof(int)),
        .phase_end_ns = UINT64_MAX,
        .failed_rank = -1,
        .listen_fd = -1};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t wanted;
    int status = LAUNCHER_FAILED;
    getrlimit(RLIMIT_NOFILE, &launcher.files);
    setrlimit(RLIMIT_NOFILE,
              &(struct rlimit){launcher.files.rlim_max, launcher.files.rlim_max});
    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof received / sizeof received[0]; i++)
        sigaddset(&wanted, received[i]);
    sigprocmask(SIG_BLOCK, &wanted, &launcher.mask);
    sigaction(SIGPIPE, &ignore, &launcher.pipe_action);
    sigaction(SIGCHLD, &standard, &launcher.child_action); /* ignored, none would come */
    if (launcher.outputs)
        launcher.output_pid = output_start(params->ranks, launcher.outputs);
    if (launcher.ranks && (launcher.output_pid > 0 || params->no_prefix))
        status = launcher_go(&launcher, &wanted);
    else
        fprintf(stderr, "%s: cannot start: %s%s\n", params->name, strerror(errno),
                errno == EMFILE ? " (four descriptors for each rank; ulimit -Hn)" : "");
    sigaction(SIGPIPE, &launcher.pipe_action, NULL);
    sigaction(SIGCHLD, &launcher.child_action, NULL);
    sigprocmask(SIG_SETMASK, &launcher.mask, NULL);
    setrlimit(RLIMIT_NOFILE, &launcher.files);
    free(launcher.ranks);
    free(launcher.outputs);
    return status;
}
