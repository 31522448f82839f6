/* SPDX-License-Identifier: Apache-2.0 */
/* One text from rank 0 to the others through PMIx: see bootstrap_pmix.h. */
#include "bootstrap_pmix.h"

#include <dlfcn.h>
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bootstrap_env.h"
#include "core/memory/alloc.h"
#include "core/os/clock.h"
#include "core/os/descriptors.h"
#include "core/thread/thread.h"
#include "rendezvous/bootstrap/session/bootstrap.h"
#include "rendezvous/bootstrap/session/bootstrap_auth.h"
#include "rendezvous/bootstrap/session/bootstrap_net.h"
#include "transports/signal_guard.h"

/* PMIx 3 to 5 */
#define LIBRARY "libpmix.so.2"
#define KEY     "tryst"
/* Time between two requests for what rank 0 has not published yet. */
#define AGAIN_NS (20 * NS_PER_MS)
/* Time-out of one request, in seconds; then the request is repeated. */
#define PMIX_TIMEOUT_S 1

#define API_FUNCTIONS(X) X(Init) X(Finalize) X(Put) X(Commit) X(Get) X(Error_string)

struct pmix_api {
#define API_POINTER(name) __typeof__(PMIx_##name) *name;
    API_FUNCTIONS(API_POINTER)
#undef API_POINTER
};

/* Shared by the caller and its thread. The caller frees it, or the thread if the caller
 * has timed out. */
struct meeting {
    struct thread thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;         /* written under the lock, as are all fields below that change */
    bool abandoned;    /* the caller has timed out */
    bool is_answering; /* PMIx works, and has received the request for rank 0's text */
    uint64_t deadline_ns;
    bool publishes;
    char text[BOOTSTRAP_PMIX_TEXT_BYTES];
    int size;
    tryst_status status;
    char why[256];
};

/* The text that this process has published or received. It does not change until the
 * process ends. */
static struct {
    pthread_mutex_t lock;
    int size; /* 0: nothing yet */
    char text[BOOTSTRAP_PMIX_TEXT_BYTES];
} cached_text = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the thread -------------------------------------------------------------------- */

static tryst_status fail(struct meeting *meeting, const char *what, const char *why)
{
    (void)snprintf(meeting->why, sizeof meeting->why, "%s: %s", what, why);
    return TRYST_E_BOOTSTRAP;
}

static tryst_status api_load(struct meeting *meeting, struct pmix_api *api)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *why = handle ? NULL : dlerror();
    void *symbol;
    if (!handle)
        return fail(meeting, "cannot load its library", why ? why : LIBRARY);
#define API_FIND(name)                                                 \
    symbol = dlsym(handle, "PMIx_" #name);                             \
    if (!symbol)                                                       \
        return fail(meeting, LIBRARY " is too old", "no PMIx_" #name); \
    memcpy(&api->name, &symbol, sizeof symbol);
    API_FUNCTIONS(API_FIND)
#undef API_FIND
    return TRYST_OK;
}

static void key_set(char to[PMIX_MAX_KEYLEN + 1], const char *key)
{
    memset(to, 0, PMIX_MAX_KEYLEN + 1);
    (void)snprintf(to, PMIX_MAX_KEYLEN + 1, "%s", key);
}

static tryst_status size_get(struct meeting *meeting, const struct pmix_api *api,
                             const pmix_proc_t *self)
{
    pmix_proc_t job = *self;
    pmix_value_t *value = NULL;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_status_t code = api->Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    if (code != PMIX_SUCCESS || !value)
        return fail(meeting, "cannot read the number of ranks", api->Error_string(code));
    meeting->size = value->type == PMIX_UINT32 ? (int)value->data.uint32 : -1;
    free(value);
    return meeting->size > 0
               ? TRYST_OK
               : fail(meeting, "cannot read the number of ranks", "PMIx has none");
}

static tryst_status text_put(struct meeting *meeting, const struct pmix_api *api)
{
    pmix_value_t value = {.type = PMIX_STRING, .data.string = meeting->text};
    pmix_status_t code = api->Put(PMIX_GLOBAL, KEY, &value);
    if (code == PMIX_SUCCESS)
        code = api->Commit();
    return code == PMIX_SUCCESS
               ? TRYST_OK
               : fail(meeting, "cannot publish", api->Error_string(code));
}

static bool gives_up(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->lock);
    bool over = thread_exits() || meeting->abandoned ||
                clock_now_ns(NULL) + AGAIN_NS >= meeting->deadline_ns;
    pthread_mutex_unlock(&meeting->lock);
    return over;
}

/* Get rank 0's text. Until rank 0 has published it, PMIx does not find it. */
static tryst_status text_get(struct meeting *meeting, const struct pmix_api *api,
                             const pmix_proc_t *self)
{
    const struct timespec pause = {.tv_nsec = AGAIN_NS};
    pmix_proc_t root = *self;
    pmix_info_t limit;
    pmix_status_t code = PMIX_ERR_NOT_FOUND;
    root.rank = 0;
    pthread_mutex_lock(&meeting->lock);
    meeting->is_answering = true;
    pthread_mutex_unlock(&meeting->lock);
    memset(&limit, 0, sizeof limit);
    key_set(limit.key, PMIX_TIMEOUT);
    limit.value.type = PMIX_INT;
    limit.value.data.integer = PMIX_TIMEOUT_S;
    do {
        pmix_value_t *value = NULL;
        code = api->Get(&root, KEY, &limit, 1, &value);
        if (code == PMIX_SUCCESS && value && value->type == PMIX_STRING) {
            (void)snprintf(meeting->text, sizeof meeting->text, "%s", value->data.string);
            bootstrap_wipe(value->data.string, strlen(value->data.string));
            free(value->data.string);
            free(value);
            return TRYST_OK;
        }
        (void)nanosleep(&pause, NULL);
    } while (!gives_up(meeting));
    return fail(meeting, "rank 0 has published no address", api->Error_string(code));
}

static tryst_status meet(struct meeting *meeting)
{
    struct signal_guard guard;
    struct pmix_api api = {0};
    pmix_proc_t self;
    descriptors_low_hold(); /* for the sockets to the PMIx server */
    signal_guard_begin(&guard);
    tryst_status status = api_load(meeting, &api);
    if (status == TRYST_OK) {
        pmix_status_t code = api.Init(&self, NULL, 0);
        if (code != PMIX_SUCCESS)
            status = fail(meeting, "its server does not answer", api.Error_string(code));
    }
    (void)signal_guard_end(&guard);
    bool initialized = status == TRYST_OK;
    if (initialized)
        status = size_get(meeting, &api, &self);
    if (status == TRYST_OK)
        status =
            meeting->publishes ? text_put(meeting, &api) : text_get(meeting, &api, &self);
    if (initialized)
        (void)api.Finalize(NULL, 0);
    descriptors_low_release();
    return status;
}

static void meeting_free(struct meeting *meeting)
{
    pthread_cond_destroy(&meeting->ended);
    pthread_mutex_destroy(&meeting->lock);
    bootstrap_wipe(meeting, sizeof *meeting);
    mem_free(meeting);
}

static void meeting_main(void *arg)
{
    struct meeting *meeting = arg;
    tryst_status status = meet(meeting);
    pthread_mutex_lock(&meeting->lock);
    bool abandoned = meeting->abandoned;
    meeting->status = status;
    meeting->done = true;
    pthread_cond_signal(&meeting->ended);
    pthread_mutex_unlock(&meeting->lock);
    if (!abandoned)
        return;
    thread_leave();
    meeting_free(meeting);
}

/* ---- the caller -------------------------------------------------------------------- */

static struct meeting *meeting_new(const char *published, uint64_t timeout_ns)
{
    pthread_condattr_t attributes;
    struct meeting *meeting = mem_zalloc(sizeof *meeting);
    if (!meeting)
        return NULL;
    pthread_mutex_init(&meeting->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&meeting->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    meeting->deadline_ns = clock_now_ns(NULL) + timeout_ns;
    meeting->publishes = published != NULL;
    if (published)
        (void)snprintf(meeting->text, sizeof meeting->text, "%s", published);
    return meeting;
}

/* Wait for the thread's end until `end_ns`, under the lock. */
static void meeting_wait_until(struct meeting *meeting, uint64_t end_ns)
{
    const struct timespec end = {.tv_sec = (time_t)(end_ns / NS_PER_S),
                                 .tv_nsec = (long)(end_ns % NS_PER_S)};
    int error = 0;
    while (!meeting->done && error == 0)
        error = pthread_cond_timedwait(&meeting->ended, &meeting->lock, &end);
}

/* Wait for the thread's end; false: the deadline has passed, the thread now owns the
 * record, and *is_answering_p is set if PMIx had received the request. */
static bool meeting_wait(struct meeting *meeting, const struct bootstrap_wait *wait,
                         const struct log *log, bool *is_answering_p)
{
    pthread_t id = meeting->thread.id;
    pthread_mutex_lock(&meeting->lock);
    if (bootstrap_warn_ns(wait) < meeting->deadline_ns) {
        meeting_wait_until(meeting, bootstrap_warn_ns(wait));
        if (!meeting->done)
            bootstrap_wait_warn(wait, log,
                                meeting->is_answering
                                    ? "rank 0 has published no address by PMIx"
                                    : "PMIx has not answered");
    }
    meeting_wait_until(meeting, meeting->deadline_ns);
    bool done = meeting->done;
    meeting->abandoned = !done;
    *is_answering_p = meeting->is_answering;
    pthread_mutex_unlock(&meeting->lock);
    if (done)
        pthread_join(id, NULL);
    else
        pthread_detach(id);
    return done;
}

static void cached_text_set(const struct meeting *meeting)
{
    pthread_mutex_lock(&cached_text.lock);
    cached_text.size = meeting->size;
    memcpy(cached_text.text, meeting->text, sizeof cached_text.text);
    pthread_mutex_unlock(&cached_text.lock);
}

bool bootstrap_pmix_cached(char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p)
{
    pthread_mutex_lock(&cached_text.lock);
    bool known = cached_text.size > 0;
    if (known) {
        memcpy(text_p, cached_text.text, sizeof cached_text.text);
        *size_p = cached_text.size;
    }
    pthread_mutex_unlock(&cached_text.lock);
    return known;
}

bool bootstrap_pmix_usable(char *text, size_t capacity)
{
    struct pmix_api api = {0};
    struct meeting *meeting = meeting_new(NULL, 0);
    struct signal_guard guard;
    if (!meeting)
        return true; /* without memory, PMIx may still be usable */
    signal_guard_begin(&guard);
    bool usable = api_load(meeting, &api) == TRYST_OK;
    (void)signal_guard_end(&guard);
    if (!usable)
        (void)snprintf(text, capacity, ", but %s", meeting->why);
    meeting_free(meeting);
    return usable;
}

tryst_status bootstrap_pmix_meet(const char *published, uint64_t timeout_ns,
                                 const struct log *log, struct err *err,
                                 char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p)
{
    bool is_answering = false;
    struct meeting *meeting = meeting_new(published, timeout_ns);
    struct thread_params params = {.run = meeting_main, .arg = meeting, .name = "PMIx"};
    if (!meeting)
        return err_set(err, TRYST_E_NOMEM,
                       "cannot send a request to PMIx: out of memory");
    int error = thread_open(&meeting->thread, &params);
    if (error != 0) {
        meeting_free(meeting);
        return err_set(err, TRYST_E_SYSTEM, "cannot start a thread for PMIx: %s",
                       strerror(error));
    }
    struct bootstrap_wait wait = {.deadline_ns = meeting->deadline_ns,
                                  .timeout_ns = timeout_ns};
    if (!meeting_wait(meeting, &wait, log, &is_answering))
        return err_set(
            err, TRYST_E_BOOTSTRAP, "%s within %llu ms; %s",
            is_answering ? "rank 0 has published no address by PMIx"
                         : "PMIx has not answered",
            (unsigned long long)(timeout_ns / NS_PER_MS),
            is_answering
                ? "see rank 0's output: it has not opened its group "
                  "(raise TRYST_BOOTSTRAP_TIMEOUT to wait longer)"
                : "check that the launcher runs, or set TRYST_BOOTSTRAP and TRYST_TOKEN "
                  "to run without PMIx");
    tryst_status status = meeting->status;
    if (status == TRYST_OK) {
        cached_text_set(meeting);
        memcpy(text_p, meeting->text, sizeof meeting->text);
        *size_p = meeting->size;
    } else {
        (void)err_set(err, status,
                      "PMIx: %s; set TRYST_BOOTSTRAP and TRYST_TOKEN to run without PMIx",
                      meeting->why);
    }
    meeting_free(meeting);
    return status;
}
