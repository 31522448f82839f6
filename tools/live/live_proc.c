/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc: a process's name, whether it runs, sleeps or is stopped, and in which
 * kernel call. The process need not cooperate; the kernel may refuse any file, and any
 * file may be gone. */
#include "live_proc.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Read the beginning of a small file, and terminate it. False if it is refused or
 * gone. */
static bool file_read(const char *path, char *text, size_t capacity, size_t *bytes_p)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t bytes = fread(text, 1, capacity - 1, file);
    bool failed = ferror(file);
    fclose(file);
    text[bytes] = '\0';
    if (bytes_p)
        *bytes_p = bytes;
    return !failed;
}

static bool proc_file_read(pid_t pid, pid_t tid, const char *name, char *text,
                           size_t capacity)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    return file_read(path, text, capacity, NULL);
}

/* Return the number behind the last tab of the line that begins with `field`; -1:
 * none. */
static int status_last(const char *status, const char *field)
{
    const char *line = strstr(status, field);
    if (!line)
        return -1;
    const char *end = strchr(line + 1, '\n');
    while (end && end > line && end[-1] != '\t')
        end--;
    return end ? (int)strtol(end, NULL, 10) : -1;
}

int live_proc_own_pid(pid_t pid)
{
    char status[4096];
    return proc_file_read(pid, pid, "status", status, sizeof status)
               ? status_last(status, "\nNSpid:")
               : -1;
}

/* Return the offset of CLOCK_MONOTONIC in a process's time namespace: the line "monotonic
 * <seconds> <nanoseconds>", where the nanoseconds count forward. */
static int64_t clock_offset_ns(const char *path)
{
    static const char name[] = "monotonic";
    char text[256], *end;
    if (!file_read(path, text, sizeof text, NULL) ||
        strncmp(text, name, sizeof name - 1) != 0)
        return 0;
    long long seconds = strtoll(text + sizeof name - 1, &end, 10);
    return (int64_t)(seconds * 1000000000 + strtoll(end, NULL, 10));
}

int64_t live_proc_clock_ns(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/timens_offsets", (int)pid);
    return clock_offset_ns(path) - clock_offset_ns("/proc/self/timens_offsets");
}

/* Return the thread with the id `own_tid` in its own namespace, else the first one. */
static pid_t thread_find(pid_t pid, int32_t own_tid)
{
    char path[64], status[4096];
    pid_t found = pid;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = own_tid ? opendir(path) : NULL;
    while (dir && (entry = readdir(dir))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid && proc_file_read(pid, tid, "status", status, sizeof status) &&
            status_last(status, "\nNSpid:") == own_tid)
            found = tid;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* ---- the kernel call --------------------------------------------------------------- */

static const struct {
    long number;
    const char *name;
} calls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_openat, "openat"},
    {SYS_close, "close"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect6"},
    {SYS_connect, "connect"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_madvise, "madvise"},
    {SYS_mprotect, "mprotect"},
    {SYS_msync, "msync"},
    {SYS_getdents64, "getdents64"},
#ifdef SYS_poll /* older calls, which newer architectures do not have */
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
    {SYS_open, "open"},
    {SYS_stat, "stat"},
#endif
};

static void call_read(pid_t pid, pid_t tid, struct live_proc *proc)
{
    char text[256];
    if (!proc_file_read(pid, tid, "syscall", text, sizeof text)) {
        proc->call_refused = true;
        return;
    }
    if (!isdigit((unsigned char)text[0]))
        return; /* "running", or -1: in the kernel without a call */
    long number = strtol(text, NULL, 10);
    snprintf(proc->call, sizeof proc->call, "system call %ld", number);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].number == number)
            snprintf(proc->call, sizeof proc->call, "%s", calls[i].name);
}

static void wchan_read(pid_t pid, pid_t tid, struct live_proc *proc)
{
    char text[sizeof proc->wchan];
    if (!proc_file_read(pid, tid, "wchan", text, sizeof text) || strcmp(text, "0") == 0)
        return;
    for (char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.')
            *c = '?';
    memcpy(proc->wchan, text, sizeof proc->wchan);
}

/* ---- the process ------------------------------------------------------------------- */

void live_text_clean(char *text)
{
    for (; *text; text++)
        if (!isprint((unsigned char)*text))
            *text = '?';
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Read how the process was started: "pp_bench", "python3 train.py". (Its comm may be
 * "exe".) */
static void command_read(pid_t pid, struct live_proc *proc)
{
    char path[64], words[1024] = "";
    size_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    if (!file_read(path, words, sizeof words, &bytes) || !words[0]) {
        snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        (void)file_read(path, words, sizeof words, NULL);
        words[strcspn(words, "\n")] = '\0';
        bytes = 0;
    }
    const char *program = base_of(words);
    size_t next = strlen(words) + 1;
    const char *script = next < bytes ? words + next : "";
    bool shown = strncmp(program, "python", 6) == 0 && script[0] && script[0] != '-';
    snprintf(proc->command, sizeof proc->command, "%.40s%s%.20s", program,
             shown ? " " : "", shown ? base_of(script) : "");
    live_text_clean(proc->command);
}

void live_proc_read(pid_t pid, int32_t tid, struct live_proc *proc_p)
{
    char text[4096];
    *proc_p = (struct live_proc){.state = 0};
    pid_t thread = thread_find(pid, tid);
    if (proc_file_read(pid, thread, "stat", text, sizeof text)) {
        const char *end = strrchr(text, ')');
        proc_p->state = end && end[1] ? end[2] : 0;
    }
    command_read(pid, proc_p);
    if (proc_file_read(pid, thread, "status", text, sizeof text)) {
        int tracer = status_last(text, "\nTracerPid:");
        proc_p->tracer = tracer > 0 ? tracer : 0;
    }
    call_read(pid, thread, proc_p);
    wchan_read(pid, thread, proc_p);
}

static bool word_is(const char *word, const char *name)
{
    return strcmp(word, name) == 0 || strcmp(base_of(word), name) == 0;
}

/* True if `name` is the process's own name, or that of the program or script among its
 * first three words: "python3 train.py". */
bool live_proc_is_called(pid_t pid, const char *name)
{
    char path[64], text[2048] = "";
    size_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    if (file_read(path, text, sizeof text, NULL)) {
        text[strcspn(text, "\n")] = '\0';
        if (strcmp(text, name) == 0)
            return true;
    }
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    if (!file_read(path, text, sizeof text, &bytes))
        return false;
    size_t at = 0;
    for (int words = 0; at < bytes && words < 3; words++, at += strlen(text + at) + 1)
        if (word_is(text + at, name))
            return true;
    return false;
}

int live_proc_byte_read(pid_t pid, uint64_t address)
{
    unsigned char byte = 0;
    struct iovec here = {&byte, 1};
    struct iovec there = {(void *)(uintptr_t)address, 1};
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 ? byte != 0 : -1;
}
