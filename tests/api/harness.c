/* SPDX-License-Identifier: Apache-2.0 */
/* See harness.h. Sections: failing and watching, a rank's context, running ranks, short
 * forms. */
#include "harness.h"

#include "support/child.h"
#include "support/descriptors.h"
#include "support/patience.h"
#include "support/resident.h"
#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *mode = "self";

const char *harness_mode(void)
{
    return mode;
}

bool harness_has_processes(void)
{
    return strcmp(mode, "self") != 0;
}

bool harness_over_fabric(void)
{
    return strcmp(mode, "ucx") == 0 || strcmp(mode, "ofi") == 0;
}

uint64_t harness_setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : fallback;
}

bool harness_is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

/* ---- failing and watching ---------------------------------------------------------- */

/* The contexts of this process, for the dumps of the watchdog. */
static _Atomic(tryst_ctx *) contexts[HARNESS_RANKS_MAX];
static _Thread_local int this_rank = -1;

static void dump_all(void)
{
    for (int i = 0; i < HARNESS_RANKS_MAX; i++) {
        tryst_ctx *ctx = atomic_load(&contexts[i]);
        if (ctx)
            tryst_dump(ctx, 2);
    }
}

void harness_fail(const char *file, int line, const char *format, ...)
{
    static atomic_flag failing = ATOMIC_FLAG_INIT;
    char text[2048];
    va_list list;
    if (atomic_flag_test_and_set(&failing))
        for (;;)
            pause(); /* another thread is already ending this process */
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    dprintf(2, "rank %d failed: %s:%d: %s\n", this_rank, file, line, text);
    dump_all();
    _exit(1);
}

static void *watchdog_main(void *arg)
{
    unsigned seconds = *(const unsigned *)arg;
    struct patience patience = patience_begin();
    while (patience_spent_ns(&patience) < seconds * UINT64_C(1000000000))
        harness_sleep_ms(100);
    dprintf(2, "watchdog: the run has lasted %u s; what each context waits for:\n",
            seconds);
    dump_all();
    _exit(2);
}

static void watchdog_start(const unsigned *seconds)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watchdog_main, (void *)seconds) != 0)
        _exit(3);
    pthread_detach(thread);
}

/* ---- a lab ------------------------------------------------------------------------- */

/* The host and address of rank `rank` in a lab, as netlab.sh lists them. */
struct lab_place {
    char host[64], bootstrap[64];
};

bool harness_in_lab(void)
{
    return getenv("NETLAB") != NULL;
}

static struct lab_place lab_place(int rank)
{
    struct lab_place place;
    FILE *file = fopen("/run/netlab/ranks", "re");
    CHECK(file != NULL);
    for (int i = 0; i <= rank; i++)
        CHECK(fscanf(file, "%63s %63s", place.host, place.bootstrap) == 2);
    fclose(file);
    return place;
}

/* Move this process to the host of its rank, with that host's /sys, where fabrics read
 * the interfaces. */
static void lab_enter(int rank)
{
    struct lab_place place = lab_place(rank);
    char path[96];
    snprintf(path, sizeof path, "/run/netns/%s", place.host);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
    CHECK(unshare(CLONE_NEWNS) == 0);
    (void)umount2("/sys", MNT_DETACH); /* not permitted to an ordinary user, nor needed */
    CHECK(mount("netlab", "/sys", "sysfs", 0, NULL) == 0);
    close(fd);
}

/* ---- a rank's context -------------------------------------------------------------- */

static void config_put(tryst_config *config, const char *name, const char *value)
{
    if (tryst_config_set(config, name, value) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
}

static void config_put_number(tryst_config *config, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    config_put(config, name, text);
}

static void config_put_mode(tryst_config *config)
{
    if (strncmp(mode, "shm-", 4) == 0) {
        config_put(config, "transport", "shm");
        config_put(config, "shm_mech", mode + 4);
    } else {
        config_put(config, "transport", mode);
    }
}

static int listen_port(int fd)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &bytes) == 0);
    return ntohs(address.sin_port);
}

tryst_config *harness_config(const struct harness_rank *rank)
{
    tryst_config *config;
    char address[32];
    if (tryst_config_open(&config) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "%s", tryst_last_error());
    config_put_mode(config);
    config_put_number(config, "rank", rank->rank);
    config_put_number(config, "size", rank->size);
    if (harness_in_lab()) {
        struct lab_place place = lab_place(rank->rank);
        config_put(config, "bootstrap", place.bootstrap);
        config_put(config, "host_id",
                   place.host); /* the machine's memory is not that of the lab's host */
    } else {
        snprintf(address, sizeof address, "127.0.0.1:%d", listen_port(rank->listen_fd));
        config_put(config, "bootstrap", address);
    }
    config_put(config, "token", "a token of the tests");
    config_put(config, "bootstrap_timeout", "20s");
    if (rank->rank == 0 && !harness_in_lab())
        config_put_number(config, "bootstrap_fd", dup(rank->listen_fd));
    for (const char *const *item = rank->params->config; item && *item; item += 2)
        config_put(config, item[0], item[1]);
    return config;
}

void harness_open(struct harness_rank *rank)
{
    tryst_config *config = harness_config(rank);
    tryst_open_params params = {
        .struct_size = sizeof params, .config = config, .log_fn = rank->params->log_fn};
    if (tryst_open(&params, &rank->ctx) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "tryst_open: %s", tryst_last_error());
    tryst_config_close(config);
    tryst_group_params group = {.struct_size = sizeof group};
    if (tryst_group_open(rank->ctx, &group, &rank->group) != TRYST_OK)
        harness_fail(__FILE__, __LINE__, "tryst_group_open: %s", tryst_last_error());
    atomic_store(&contexts[rank->rank], rank->ctx);
    if (rank->params->opened)
        rank->params->opened(rank);
}

void harness_close(struct harness_rank *rank)
{
    if (!rank->ctx)
        return;
    if (rank->params->closing)
        rank->params->closing(rank);
    atomic_store(&contexts[rank->rank], NULL);
    tryst_group_close(rank->group);
    tryst_close(rank->ctx);
    rank->ctx = NULL;
    rank->group = NULL;
}

/* ---- running ranks ----------------------------------------------------------------- */

static void rank_run(struct harness_rank *rank)
{
    this_rank = rank->rank;
    if (!rank->params->no_group)
        harness_open(rank);
    rank->params->main(rank);
    if (!rank->params->no_group)
        harness_close(rank);
}

static void *rank_thread(void *arg)
{
    rank_run(arg);
    return NULL;
}

static void ranks_as_threads(struct harness_rank *ranks, int size)
{
    pthread_t threads[HARNESS_RANKS_MAX];
    for (int i = 0; i < size; i++)
        CHECK(pthread_create(&threads[i], NULL, rank_thread, &ranks[i]) == 0);
    for (int i = 0; i < size; i++)
        pthread_join(threads[i], NULL);
}

/* Fork a child that runs `count` ranks, from `ranks` on. */
static pid_t child_start(struct harness_rank *ranks, int count, const unsigned *timeout_s)
{
    pid_t pid = child_fork();
    if (pid != 0)
        return pid;
    watchdog_start(timeout_s);
    if (harness_in_lab())
        lab_enter(ranks->rank);
    if (count > 1)
        ranks_as_threads(ranks, count);
    else
        rank_run(ranks);
    close(ranks->listen_fd);
    fflush(NULL);
    exit(0); /* not _exit: the leak checker runs at exit */
}

static int child_result(int index, int status, const struct harness_params *params)
{
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (params->killed != HARNESS_NO_RANK && index == params->killed && killed)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFSIGNALED(status))
        print_error("rank %d was ended by signal %d\n", index, WTERMSIG(status));
    else
        print_error("rank %d ended with status %d\n", index, WEXITSTATUS(status));
    return 1;
}

static int loopback_listen(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, HARNESS_RANKS_MAX) != 0)
        return -1;
    return fd;
}

/* Wait for all children. After the first failure the others have 3 s; then they are
 * killed. */
static int children_wait(const pid_t *pids, int count,
                         const struct harness_params *params)
{
    int failed = 0, left = count;
    bool ended[HARNESS_RANKS_MAX] = {false};
    uint64_t kill_at_ns = UINT64_MAX;
    while (left) {
        for (int i = 0; i < count; i++) {
            int status;
            if (ended[i] || waitpid(pids[i], &status, WNOHANG) != pids[i])
                continue;
            ended[i] = true;
            left--;
            failed += child_result(i, status, params);
        }
        if (failed && kill_at_ns == UINT64_MAX)
            kill_at_ns = harness_now_ns() + 3000000000ull;
        for (int i = 0; i < count && harness_now_ns() > kill_at_ns; i++)
            if (!ended[i])
                kill(pids[i], SIGKILL);
        harness_sleep_ms(2);
    }
    return failed;
}

int harness_run(const struct harness_params *params)
{
    struct harness_rank ranks[HARNESS_RANKS_MAX];
    pid_t pids[HARNESS_RANKS_MAX];
    bool processes = harness_has_processes();
    unsigned timeout_s = params->timeout_s ? params->timeout_s : 20;
    int listen_fd = loopback_listen();
    if (harness_is_sanitized())
        timeout_s *= 5;
    if (listen_fd < 0) {
        print_error("cannot create a socket on the loopback: %s\n", strerror(errno));
        return 1;
    }
    for (int i = 0; i < params->size; i++)
        ranks[i] = (struct harness_rank){.rank = i,
                                         .size = params->size,
                                         .arg = params->arg,
                                         .params = params,
                                         .listen_fd = listen_fd};
    int children = processes ? params->size : 1;
    for (int i = 0; i < children; i++)
        pids[i] = child_start(&ranks[i], processes ? 1 : params->size, &timeout_s);
    close(listen_fd);
    return children_wait(pids, children, params);
}

/* ---- shared memory and time -------------------------------------------------------- */

void *harness_share(size_t bytes)
{
    void *data =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        harness_fail(__FILE__, __LINE__, "mmap: %s", strerror(errno));
    return data;
}

void harness_unshare(void *data, size_t bytes)
{
    munmap(data, bytes);
}

void harness_barrier(struct harness_rank *rank, _Atomic(uint32_t) *counter)
{
    uint32_t size = (uint32_t)rank->size;
    uint32_t turn = atomic_fetch_add(counter, 1) / size;
    while (atomic_load(counter) < (turn + 1) * size) {
        tryst_progress(rank->ctx);
        harness_sleep_ms(1);
    }
}

void harness_sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        continue;
}

uint64_t harness_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- short forms ------------------------------------------------------------------- */

struct harness_key harness_key(const struct harness_rank *rank, int src, int dst,
                               const char *edge)
{
    struct harness_key key;
    CHECK_STATUS(
        tryst_key_build(rank->group, src, dst, edge, 0, 0, key.text, sizeof key.text),
        TRYST_OK);
    return key;
}

tryst_tensor harness_tensor(void *data, size_t bytes)
{
    return (tryst_tensor){.struct_size = sizeof(tryst_tensor),
                          .data = data,
                          .count = bytes,
                          .dtype = TRYST_DTYPE_U8};
}

tryst_step *harness_step(const struct harness_rank *rank, uint64_t id)
{
    tryst_step *step;
    CHECK_STATUS(tryst_step_open(rank->group, id, &step), TRYST_OK);
    return step;
}

tryst_op *harness_send(const struct harness_rank *rank, tryst_step *step, int dst,
                       const char *edge, const void *data, size_t bytes)
{
    tryst_op *op;
    struct harness_key key = harness_key(rank, rank->rank, dst, edge);
    tryst_tensor tensor = harness_tensor((void *)data, bytes);
    CHECK_STATUS(tryst_send(step, key.text, &tensor, NULL, &op), TRYST_OK);
    return op;
}

tryst_op *harness_recv(const struct harness_rank *rank, tryst_step *step, int src,
                       const char *edge, void *data, size_t bytes)
{
    tryst_op *op;
    struct harness_key key = harness_key(rank, src, rank->rank, edge);
    tryst_tensor tensor = harness_tensor(data, bytes);
    CHECK_STATUS(tryst_recv(step, key.text, &tensor, NULL, &op), TRYST_OK);
    return op;
}

tryst_status harness_outcome(tryst_op *op, tryst_error *error_p)
{
    static _Thread_local char text[512];
    *error_p = (tryst_error){.struct_size = sizeof *error_p, .text = ""};
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    (void)tryst_op_error(op, error_p);
    snprintf(text, sizeof text, "%s", error_p->text);
    error_p->text = text;
    error_p->key = NULL;
    tryst_op_release(op);
    return status;
}

void harness_end(tryst_op *op, tryst_status wanted)
{
    tryst_status status = tryst_wait(op, TRYST_FOREVER);
    tryst_error error = {.struct_size = sizeof error, .text = "", .key = ""};
    tryst_op_error(op, &error);
    if (status != wanted)
        harness_fail(__FILE__, __LINE__, "operation ended with %s, not %s: %s (%s)",
                     tryst_status_name(status), tryst_status_name(wanted), error.text,
                     error.key);
    tryst_op_release(op);
}

void harness_step_close(tryst_step *step)
{
    tryst_op *op;
    CHECK_STATUS(tryst_step_close(step, &op), TRYST_OK);
    harness_end(op, TRYST_OK);
}

void harness_fill(void *data, size_t bytes, uint64_t seed)
{
    uint64_t word = seed * 0x9E3779B97F4A7C15ull + 1;
    unsigned char *at = data;
    for (; bytes >= 8; bytes -= 8, at += 8, word += 0x0101010101010101ull)
        memcpy(at, &word, 8);
    memcpy(at, &word, bytes);
}

size_t harness_mismatch(const void *data, size_t bytes, uint64_t seed)
{
    uint64_t word = seed * 0x9E3779B97F4A7C15ull + 1;
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i += 8, word += 0x0101010101010101ull) {
        size_t part = bytes - i < 8 ? bytes - i : 8;
        if (memcmp(at + i, &word, part) != 0)
            for (size_t j = i; j < i + part; j++)
                if (at[j] != ((const unsigned char *)&word)[j - i])
                    return j;
    }
    return SIZE_MAX;
}

struct counter_search {
    const char *name;
    uint64_t value;
    bool found;
};

static int counter_match(void *arg, const char *name, uint64_t value)
{
    struct counter_search *search = arg;
    if (strcmp(name, search->name) != 0)
        return 0;
    search->value = value;
    search->found = true;
    return 1;
}

uint64_t harness_counter(const tryst_ctx *ctx, const char *name)
{
    struct counter_search search = {.name = name};
    tryst_counter_visit(ctx, counter_match, &search);
    if (!search.found)
        harness_fail(__FILE__, __LINE__, "no counter is named %s", name);
    return search.value;
}

size_t harness_heap_bytes(void)
{
    if (harness_is_sanitized())
        /* with a sanitizer mallinfo2 would set up the C library's unused heap */
        return 0;
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

size_t harness_resident_bytes(void)
{
    /* with a sanitizer the resident memory is mostly the sanitizer's */
    return harness_is_sanitized() ? 0 : resident_kib() << 10;
}

int harness_fds(void)
{
    return descriptors_open();
}

/* ---- main -------------------------------------------------------------------------- */

static char probe_word = 1;

/* True if a process of this machine may read another's memory. Some containers forbid
 * that. */
static bool cma_works(void)
{
    int status;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        char word = 0;
        struct iovec to = {&word, 1}, from = {&probe_word, 1};
        _exit(process_vm_readv(parent, &to, 1, &from, 1, 0) == 1 ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

int harness_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    static const char *const modes[] = {"self",     "auto",    "shm",
                                        "shm-map",  "shm-cma", "shm-stage",
                                        "shm-ring", "ucx",     "ofi"};
    bool known = false;
    if (argc > 1)
        mode = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        known = known || strcmp(mode, modes[i]) == 0;
    if (!known) {
        fprintf(stderr,
                "usage: %s [self|auto|shm|shm-map|shm-cma|shm-stage|shm-ring|ucx|ofi "
                "[pattern]]\n",
                argv[0]);
        return 2;
    }
    if (strcmp(mode, "shm-cma") == 0 && !cma_works()) {
        printf("skipped: process_vm_readv is not allowed on this machine\n");
        return HARNESS_SKIP;
    }
    return _cmocka_run_group_tests(mode, tests, count, NULL, NULL);
}
