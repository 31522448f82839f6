/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the launcher's event loop: deaths, signals, output, and the phases of an ending.
 * launcher.h draws the phases.
 *
 * One idea: every event is a descriptor (pidfd, signalfd, pipe) or the end of the current
 * phase; each turn handles all of them once.
 * Invariant: after the first failure each phase has an end, so the launcher has one
 * too. */
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tryst/tryst.h>

#include "launcher_spawn.h"
#include "tools/standard_files.h"

#define MS     1000000ull
#define SECOND (1000 * MS)
/* From SIGTERM to SIGKILL: enough to write a last line, short for a waiting user. */
#define TERM_NS (2 * SECOND)
/* From SIGKILL to giving up: a process that the kernel cannot end (it waits for a dead
 * disk, say) is left. */
#define KILL_NS (5 * SECOND)
/* Output of processes that ranks left behind is read for this time, then they are
 * killed. */
#define LEFTOVER_NS (SECOND / 2)
/* After a failure, the longest time that output waits for a reader that does not read. */
#define DRAIN_NS (5 * SECOND)
/* Without pidfds, deaths are searched for at this interval. */
#define POLL_LIMIT_NS (20 * MS)

/* Descriptors of one turn: the signals, two sinks, and three for each rank. */
#define POLLS_BEFORE_RANKS 3

enum phase {
    PHASE_RUNNING,
    PHASE_GRACE, /* a rank failed; the others may end by themselves */
    PHASE_TERM,
    PHASE_KILL,
    PHASE_OUTPUT /* all ranks have ended; their output is written */
};

struct loop {
    struct launcher *launcher;
    enum phase phase;
    uint64_t phase_end_ns; /* UINT64_MAX: none */
    int failed_rank;       /* the first rank that failed; -1: none */
    bool leftovers_killed;
    struct pollfd *polls;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static struct sink *errors(struct loop *loop)
{
    return loop->launcher->errors;
}

static int ranks_count(const struct loop *loop)
{
    return loop->launcher->params->ranks;
}

static int running_count(const struct loop *loop)
{
    int count = 0;
    for (int i = 0; i < ranks_count(loop); i++)
        if (loop->launcher->ranks[i].pid && !loop->launcher->ranks[i].ended)
            count++;
    return count;
}

/* Write the ranks that still run: "0, 2, 5 and 3 more". */
static void running_text(const struct loop *loop, char *text, size_t bytes)
{
    size_t used = 0;
    int told = 0, count = running_count(loop);
    text[0] = '\0';
    for (int i = 0; i < ranks_count(loop) && told < 8; i++) {
        if (!loop->launcher->ranks[i].pid || loop->launcher->ranks[i].ended)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", told ? ", " : "", i);
        told++;
    }
    if (told < count)
        snprintf(text + used, bytes - used, " and %d more", count - told);
}

/* ---- ending ranks ------------------------------------------------------------------ */

static void group_signal(const struct rank *rank, int number)
{
    if (rank->pid)
        kill(-rank->pid, number);
}

static void running_signal(struct loop *loop, int number)
{
    for (int i = 0; i < ranks_count(loop); i++)
        if (!loop->launcher->ranks[i].ended)
            group_signal(&loop->launcher->ranks[i], number);
}

static void phase_set(struct loop *loop, enum phase phase, uint64_t length_ns)
{
    uint64_t now = now_ns();
    loop->phase = phase;
    loop->phase_end_ns = length_ns < UINT64_MAX - now ? now + length_ns : UINT64_MAX;
}

static void seconds_text(uint64_t ns, char *text, size_t bytes)
{
    snprintf(text, bytes, "%.4g s", (double)(ns / MS) / 1000.0);
}

/* Report the ranks that still run: "<before> ranks 0, 2<after>". */
static void running_report(struct loop *loop, const char *before, const char *after)
{
    char ranks[128];
    running_text(loop, ranks, sizeof ranks);
    sink_message_add(errors(loop), loop->launcher->params->name, "%s rank%s %s%s", before,
                     running_count(loop) == 1 ? "" : "s", ranks, after);
}

static void term_begin(struct loop *loop)
{
    char before[64], seconds[32];
    seconds_text(loop->launcher->params->grace_ns, seconds, sizeof seconds);
    snprintf(before, sizeof before, "still running after %s of grace:", seconds);
    running_report(loop, before, "; sending SIGTERM");
    running_signal(loop, SIGTERM);
    /* a stopped process acts on SIGTERM only once it continues */
    running_signal(loop, SIGCONT);
    phase_set(loop, PHASE_TERM, TERM_NS);
}

static void kill_begin(struct loop *loop)
{
    running_report(loop, "still running after SIGTERM:", "; sending SIGKILL");
    running_signal(loop, SIGKILL);
    phase_set(loop, PHASE_KILL, KILL_NS);
}

static void give_up(struct loop *loop)
{
    running_report(loop, "SIGKILL has not ended", " (stuck inside the kernel?); leaving");
    phase_set(loop, PHASE_OUTPUT, LEFTOVER_NS);
}

/* Kill the processes that ranks left in their groups; the leaders' zombies keep the group
 * ids from reuse. */
static void leftovers_kill(struct loop *loop)
{
    for (int i = 0; i < ranks_count(loop); i++)
        group_signal(&loop->launcher->ranks[i], SIGKILL);
    loop->leftovers_killed = true;
}

static void phase_step(struct loop *loop)
{
    if (now_ns() < loop->phase_end_ns)
        return;
    switch (loop->phase) {
    case PHASE_RUNNING: break;
    case PHASE_GRACE: term_begin(loop); break;
    case PHASE_TERM: kill_begin(loop); break;
    case PHASE_KILL: give_up(loop); break;
    case PHASE_OUTPUT:
        if (!loop->leftovers_killed) {
            leftovers_kill(loop);
            phase_set(loop, PHASE_OUTPUT, loop->failed_rank < 0 ? UINT64_MAX : DRAIN_NS);
            break;
        }
        for (int i = 0; i < 2; i++)
            loop->launcher->sinks[i].discards = true;
        break;
    }
}

/* ---- deaths ------------------------------------------------------------------------ */

static bool ended_well(const struct rank *rank)
{
    return rank->how.si_code == CLD_EXITED && rank->how.si_status == 0;
}

static void how_text(const siginfo_t *how, char *text, size_t bytes)
{
    const char *name = how->si_code == CLD_EXITED ? NULL : sigabbrev_np(how->si_status);
    if (how->si_code == CLD_EXITED)
        snprintf(text, bytes, "exited with status %d", how->si_status);
    else
        snprintf(text, bytes, "was killed by signal %d (SIG%s, %s%s)", how->si_status,
                 name ? name : "?", strsignal(how->si_status),
                 how->si_code == CLD_DUMPED ? ", core dumped" : "");
}

static void failure_report(struct loop *loop, int index)
{
    const struct rank *rank = &loop->launcher->ranks[index];
    const char *name = loop->launcher->params->name;
    char how[128], seconds[32];
    int left = running_count(loop);
    how_text(&rank->how, how, sizeof how);
    seconds_text(loop->launcher->params->grace_ns, seconds, sizeof seconds);
    if (loop->failed_rank != index || left == 0)
        sink_message_add(errors(loop), name, "%srank %d (pid %d) %s",
                         loop->failed_rank != index ? "then " : "", index, (int)rank->pid,
                         how);
    else
        sink_message_add(errors(loop), name,
                         "rank %d (pid %d) %s; the %d other%s may take %s to end", index,
                         (int)rank->pid, how, left, left == 1 ? "" : "s", seconds);
}

/* Report a failure, after the rank's last output. */
static void failure_note(struct loop *loop, int index)
{
    struct rank *rank = &loop->launcher->ranks[index];
    for (int i = 0; i < 2; i++)
        if (rank->streams[i].fd >= 0)
            stream_drain(&rank->streams[i], now_ns());
    bool first = loop->failed_rank < 0;
    if (first)
        loop->failed_rank = index;
    if (loop->phase <= PHASE_GRACE)
        failure_report(loop, index);
    if (first)
        phase_set(loop, PHASE_GRACE, loop->launcher->params->grace_ns);
}

/* Find a death without reaping: the zombie keeps pid and group from reuse. */
static bool death_poll(struct rank *rank)
{
    siginfo_t how = {.si_pid = 0};
    if (!rank->pid || rank->ended)
        return false;
    if (waitid(P_PID, (id_t)rank->pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        how.si_pid == 0)
        return false;
    rank->how = how;
    rank->ended = true;
    return true;
}

/* Handle new deaths, first those by a signal: these are causes, while a rank that fails
 * because another one died exits by itself, with its reason. */
static void deaths_handle(struct loop *loop)
{
    bool fresh[LAUNCHER_RANKS_MAX] = {false};
    bool any = false;
    for (int i = 0; i < ranks_count(loop); i++) {
        fresh[i] = death_poll(&loop->launcher->ranks[i]);
        any |= fresh[i];
    }
    for (int pass = 0; any && pass < 2; pass++)
        for (int i = 0; i < ranks_count(loop); i++) {
            const struct rank *rank = &loop->launcher->ranks[i];
            bool by_signal = rank->how.si_code != CLD_EXITED;
            if (fresh[i] && !ended_well(rank) && by_signal == (pass == 0))
                failure_note(loop, i);
        }
    if (loop->phase < PHASE_OUTPUT && running_count(loop) == 0)
        phase_set(loop, PHASE_OUTPUT, LEFTOVER_NS);
}

/* ---- signals ----------------------------------------------------------------------- */

static void signals_forward(struct loop *loop)
{
    struct signalfd_siginfo info;
    while (read(loop->launcher->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        bool whole_group = number != SIGUSR1 && number != SIGUSR2;
        for (int i = 0; i < ranks_count(loop); i++) {
            const struct rank *rank = &loop->launcher->ranks[i];
            if (rank->pid && !rank->ended)
                kill(whole_group ? -rank->pid : rank->pid, number);
        }
    }
}

/* ---- the loop ---------------------------------------------------------------------- */

static size_t polls_fill(struct loop *loop)
{
    struct launcher *launcher = loop->launcher;
    uint64_t now = now_ns();
    size_t count = 0;
    loop->polls[count++] = (struct pollfd){.fd = launcher->signal_fd, .events = POLLIN};
    for (int i = 0; i < 2; i++)
        loop->polls[count++] =
            (struct pollfd){.fd = launcher->sinks[i].bytes ? launcher->sinks[i].fd : -1,
                            .events = POLLOUT};
    for (int i = 0; i < ranks_count(loop); i++) {
        const struct rank *rank = &launcher->ranks[i];
        loop->polls[count++] =
            (struct pollfd){.fd = rank->ended ? -1 : rank->pid_fd, .events = POLLIN};
        for (int j = 0; j < 2; j++) {
            const struct stream *stream = &rank->streams[j];
            loop->polls[count++] = (struct pollfd){
                .fd = stream_is_wanted(stream, now) ? stream->fd : -1, .events = POLLIN};
        }
    }
    return count;
}

static bool polls_deaths(const struct loop *loop)
{
    for (int i = 0; i < ranks_count(loop); i++)
        if (!loop->launcher->ranks[i].ended && loop->launcher->ranks[i].pid_fd < 0)
            return true;
    return false;
}

/* Return the earliest time at which the beginning of a line is due. */
static uint64_t lines_due_ns(const struct loop *loop, uint64_t now)
{
    uint64_t first = UINT64_MAX;
    for (int i = 0; i < ranks_count(loop); i++)
        for (int j = 0; j < 2; j++) {
            uint64_t due = stream_due_ns(&loop->launcher->ranks[i].streams[j], now);
            first = due < first ? due : first;
        }
    return first;
}

static int poll_ms(const struct loop *loop)
{
    uint64_t now = now_ns(), end = loop->phase_end_ns, due = lines_due_ns(loop, now);
    end = due < end ? due : end;
    if (polls_deaths(loop) && now + POLL_LIMIT_NS < end)
        end = now + POLL_LIMIT_NS;
    uint64_t ms = end <= now ? 0 : (end - now + MS - 1) / MS;
    return end == UINT64_MAX ? -1 : (int)(ms < 60000 ? ms : 60000);
}

static void streams_handle(struct loop *loop, uint64_t now)
{
    const struct pollfd *at = loop->polls + POLLS_BEFORE_RANKS;
    for (int i = 0; i < ranks_count(loop); i++, at += 3)
        for (int j = 0; j < 2; j++) {
            struct stream *stream = &loop->launcher->ranks[i].streams[j];
            if (at[1 + j].revents && stream_is_wanted(stream, now))
                stream_read(stream, now);
            stream_show_due(stream, now);
        }
}

static void polls_handle(struct loop *loop)
{
    struct launcher *launcher = loop->launcher;
    uint64_t now = now_ns();
    streams_handle(loop, now);
    if (loop->polls[0].revents)
        signals_forward(loop);
    deaths_handle(loop);
    for (int i = 0; i < 2; i++)
        if (launcher->sinks[i].bytes)
            sink_flush(&launcher->sinks[i], now);
}

static bool streams_open(const struct loop *loop)
{
    for (int i = 0; i < ranks_count(loop); i++)
        for (int j = 0; j < 2; j++)
            if (loop->launcher->ranks[i].streams[j].fd >= 0)
                return true;
    return false;
}

static bool loop_ended(const struct loop *loop)
{
    const struct sink *sinks = loop->launcher->sinks;
    if (loop->phase != PHASE_OUTPUT)
        return false;
    if (sinks[0].discards)
        return true;
    return !streams_open(loop) && sinks[0].bytes == 0 && sinks[1].bytes == 0;
}

static void loop_run(struct loop *loop)
{
    while (!loop_ended(loop)) {
        size_t count = polls_fill(loop);
        if (poll(loop->polls, count, poll_ms(loop)) < 0 && errno != EINTR)
            break;
        polls_handle(loop);
        phase_step(loop);
    }
}

/* ---- beginning and end ------------------------------------------------------------- */

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* Receive signals by descriptor from here on, and save the caller's mask and action for
 * the ranks. */
static bool signals_redirect(struct launcher *launcher)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t wanted;
    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
        sigaddset(&wanted, forwarded[i]);
    sigprocmask(SIG_BLOCK, &wanted, &launcher->mask);
    sigaction(SIGPIPE, &ignore, &launcher->pipe_action);
    launcher->signal_fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    return launcher->signal_fd >= 0;
}

static void signals_give_back(struct launcher *launcher)
{
    if (launcher->signal_fd >= 0)
        close(launcher->signal_fd);
    sigaction(SIGPIPE, &launcher->pipe_action, NULL);
    sigprocmask(SIG_SETMASK, &launcher->mask, NULL);
}

/* Raise the limit of descriptors: each rank takes three. The ranks themselves get the
 * caller's limit back. */
static void files_raise(struct launcher *launcher)
{
    struct rlimit raised;
    if (getrlimit(RLIMIT_NOFILE, &launcher->files) != 0)
        return;
    raised = launcher->files;
    raised.rlim_cur = raised.rlim_max;
    setrlimit(RLIMIT_NOFILE, &raised);
}

static bool ranks_make(struct launcher *launcher)
{
    int count = launcher->params->ranks;
    launcher->ranks = calloc((size_t)count, sizeof *launcher->ranks);
    for (int i = 0; launcher->ranks && i < count; i++) {
        launcher->ranks[i].pid_fd = -1;
        for (int j = 0; j < 2; j++)
            launcher->ranks[i].streams[j] = (struct stream){
                .fd = -1, .rank = i, .sink = j ? launcher->errors : &launcher->sinks[0]};
    }
    return launcher->ranks != NULL;
}

static void ranks_free(struct launcher *launcher)
{
    for (int i = 0; i < launcher->params->ranks; i++) {
        struct rank *rank = &launcher->ranks[i];
        if (rank->pid_fd >= 0)
            close(rank->pid_fd);
        for (int j = 0; j < 2; j++) {
            if (rank->streams[j].fd >= 0)
                close(rank->streams[j].fd);
            free(rank->streams[j].line);
        }
    }
    free(launcher->ranks);
}

/* Kill all groups, then reap their leaders. */
static void ranks_reap(struct loop *loop)
{
    leftovers_kill(loop);
    for (int i = 0; i < ranks_count(loop); i++) {
        const struct rank *rank = &loop->launcher->ranks[i];
        if (rank->pid && rank->ended)
            waitpid(rank->pid, NULL, 0);
    }
}

static int exit_status(const struct loop *loop)
{
    if (loop->failed_rank < 0)
        return 0;
    const siginfo_t *how = &loop->launcher->ranks[loop->failed_rank].how;
    return how->si_code == CLD_EXITED ? how->si_status : 128 + how->si_status;
}

/* Start all ranks; if one cannot be started, kill the others at once. */
static int ranks_start(struct loop *loop)
{
    struct launcher *launcher = loop->launcher;
    int status = spawn_prepare(launcher) ? 0 : LAUNCHER_FAILED;
    for (int i = 0; status == 0 && i < ranks_count(loop); i++)
        status = spawn_rank(launcher, i);
    if (launcher->listen_fd >= 0)
        close(launcher->listen_fd);
    launcher->listen_fd = -1;
    if (status == 0)
        return 0;
    running_signal(loop, SIGKILL);
    phase_set(loop, PHASE_KILL, KILL_NS);
    loop->failed_rank = 0;
    return status;
}

static int launcher_go(struct launcher *launcher)
{
    struct loop loop = {
        .launcher = launcher, .phase_end_ns = UINT64_MAX, .failed_rank = -1};
    size_t polls = POLLS_BEFORE_RANKS + 3 * (size_t)launcher->params->ranks;
    loop.polls = calloc(polls, sizeof *loop.polls);
    if (!loop.polls)
        return LAUNCHER_FAILED;
    int status = ranks_start(&loop);
    loop_run(&loop);
    ranks_reap(&loop);
    free(loop.polls);
    return status ? status : exit_status(&loop);
}

/* True if standard output and error are one terminal, pipe or file, so that the lines of
 * both must not mix. */
static bool outputs_are_one(void)
{
    struct stat output, error;
    return fstat(STDOUT_FILENO, &output) == 0 && fstat(STDERR_FILENO, &error) == 0 &&
           output.st_dev == error.st_dev && output.st_ino == error.st_ino;
}

/* Return the final status: the launcher fails if it could not write the ranks' output. */
static int output_end(const struct launcher *launcher, int status)
{
    int error = launcher->sinks[0].error;
    if (error)
        standard_output_refused(launcher->params->name, error);
    return error && status == 0 ? LAUNCHER_FAILED : status;
}

int launcher_run(const struct launcher_params *params)
{
    struct launcher launcher = {.params = params,
                                .sinks = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}},
                                .signal_fd = -1,
                                .listen_fd = -1};
    int status = LAUNCHER_FAILED;
    if (params->ranks < 1 || params->ranks > LAUNCHER_RANKS_MAX) {
        fprintf(stderr, "%s: cannot start ranks: must be 1 to %d, not %d\n", params->name,
                LAUNCHER_RANKS_MAX, params->ranks);
        return status;
    }
    launcher.errors = &launcher.sinks[outputs_are_one() ? 0 : 1];
    files_raise(&launcher);
    if (!signals_redirect(&launcher) || !ranks_make(&launcher) ||
        !watch_open(params->ranks, &launcher.watch)) {
        fprintf(stderr, "%s: cannot start: %s\n", params->name, strerror(errno));
        goto give_back;
    }
    status = output_end(&launcher, launcher_go(&launcher));
    watch_close(&launcher.watch);
give_back:
    if (launcher.ranks)
        ranks_free(&launcher);
    signals_give_back(&launcher);
    setrlimit(RLIMIT_NOFILE, &launcher.files);
    free(launcher.sinks[0].data);
    free(launcher.sinks[1].data);
    return status;
}

int launcher_run_local(const char *name, int ranks, int (*main_fn)(void *arg, int rank),
                       void *arg, uint64_t grace_ns)
{
    const struct launcher_params params = {.name = name,
                                           .ranks = ranks,
                                           .main_fn = main_fn,
                                           .arg = arg,
                                           .grace_ns = grace_ns,
                                           .no_prefix = true};
    return launcher_run(&params);
}

int launcher_place(const char *name, int *rank_p, int *size_p)
{
    tryst_launch launch = {.struct_size = sizeof launch};
    tryst_status status = tryst_launch_find(NULL, &launch);
    if (status != TRYST_OK) {
        fprintf(stderr, "%s: %s\n", name, tryst_last_error());
        return -1;
    }
    if (launch.size < 0) {
        fprintf(stderr, "%s: %s; set TRYST_SIZE for this program\n", name, launch.why);
        return -1;
    }
    *rank_p = launch.rank;
    *size_p = launch.size;
    return strcmp(launch.launcher, "none") != 0;
}
