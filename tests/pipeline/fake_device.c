/* SPDX-License-Identifier: Apache-2.0 */
/* Implements fake_device.h. */
#include "fake_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum task_kind { TASK_CALL, TASK_UNTIL, TASK_WAIT, TASK_RECORD, TASK_COPY };

struct fake_event {
    uint64_t recorded; /* number of records */
    uint64_t passed;   /* the newest record that the stream has reached */
};

struct task {
    struct task *next;
    enum task_kind kind;
    void (*call)(void *arg);
    bool (*until)(void *arg);
    void *arg;
    struct fake_event *event;
    uint64_t ticket; /* number of the event's record */
    void *to;
    const void *from;
    size_t bytes;
};

struct fake_stream {
    pthread_t thread;
    struct task *first, **end;
    bool busy, closing;
};

struct tryst_device {
    int32_t ordinal;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t random_state = 1, delay_most_ns;
static int open_count, copied_count;

static void count_open(int change)
{
    pthread_mutex_lock(&lock);
    open_count += change;
    pthread_mutex_unlock(&lock);
}

void fake_device_begin(uint64_t seed, uint64_t delay_max_ns)
{
    pthread_mutex_lock(&lock);
    random_state = seed * 2 + 1;
    delay_most_ns = delay_max_ns;
    open_count = 0;
    copied_count = 0;
    pthread_mutex_unlock(&lock);
}

int fake_device_left(void)
{
    pthread_mutex_lock(&lock);
    int left = open_count;
    pthread_mutex_unlock(&lock);
    return left;
}

int fake_device_copied(void)
{
    pthread_mutex_lock(&lock);
    int copied = copied_count;
    pthread_mutex_unlock(&lock);
    return copied;
}

static void pause_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* Draw a delay (xorshift64*). Under the lock. */
static uint64_t draw_delay(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return delay_most_ns ? random_state * 2685821657736338717ull % delay_most_ns : 0;
}

/* ---- streams ----------------------------------------------------------------------- */

/* Without the lock. */
static void task_run(struct task *self)
{
    switch (self->kind) {
    case TASK_CALL: self->call(self->arg); break;
    case TASK_COPY:
        memcpy(self->to, self->from, self->bytes);
        pthread_mutex_lock(&lock);
        copied_count++;
        pthread_mutex_unlock(&lock);
        break;
    case TASK_UNTIL:
        while (!self->until(self->arg)) {
            pause_ns(20000);
        }
        break;
    case TASK_WAIT:
        pthread_mutex_lock(&lock);
        while (self->event->passed < self->ticket) {
            pthread_cond_wait(&changed, &lock);
        }
        pthread_mutex_unlock(&lock);
        break;
    case TASK_RECORD:
        pthread_mutex_lock(&lock);
        if (self->event->passed < self->ticket) {
            self->event->passed = self->ticket;
        }
        pthread_mutex_unlock(&lock);
        break;
    }
}

static void *stream_main(void *arg)
{
    struct fake_stream *self = arg;
    pthread_mutex_lock(&lock);
    while (self->first || !self->closing) {
        if (!self->first) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        struct task *next = self->first;
        self->first = next->next;
        if (!self->first) {
            self->end = &self->first;
        }
        self->busy = true;
        uint64_t delay_ns =
            next->kind == TASK_COPY || next->kind == TASK_CALL ? draw_delay() : 0;
        pthread_mutex_unlock(&lock);
        if (delay_ns) {
            pause_ns(delay_ns);
        }
        task_run(next);
        free(next);
        pthread_mutex_lock(&lock);
        self->busy = false;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void put(void *stream, struct task model)
{
    struct fake_stream *self = stream;
    struct task *made = malloc(sizeof *made);
    *made = model;
    pthread_mutex_lock(&lock);
    if (made->kind == TASK_RECORD) {
        made->ticket = ++made->event->recorded;
    } else if (made->kind == TASK_WAIT) {
        made->ticket = made->event->recorded;
    }
    made->next = NULL;
    *self->end = made;
    self->end = &made->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_device_call(void *stream, void (*fn)(void *arg), void *arg)
{
    put(stream, (struct task){.kind = TASK_CALL, .call = fn, .arg = arg});
}

void fake_device_until(void *stream, bool (*fn)(void *arg), void *arg)
{
    put(stream, (struct task){.kind = TASK_UNTIL, .until = fn, .arg = arg});
}

void fake_device_finish(void *stream)
{
    const struct fake_stream *self = stream;
    pthread_mutex_lock(&lock);
    while (self->first || self->busy) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

bool fake_device_idle(void *stream)
{
    const struct fake_stream *self = stream;
    pthread_mutex_lock(&lock);
    bool idle = !self->first && !self->busy;
    pthread_mutex_unlock(&lock);
    return idle;
}

tryst_status tryst_stream_open(const tryst_device *device, bool urgent, void **stream_p)
{
    (void)device;
    (void)urgent;
    struct fake_stream *self = calloc(1, sizeof *self);
    self->end = &self->first;
    count_open(1);
    if (pthread_create(&self->thread, NULL, stream_main, self) != 0) {
        abort();
    }
    *stream_p = self;
    return TRYST_OK;
}

void tryst_stream_close(const tryst_device *device, void *stream)
{
    struct fake_stream *self = stream;
    (void)device;
    if (!self) {
        return;
    }
    pthread_mutex_lock(&lock);
    self->closing = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(self->thread, NULL);
    count_open(-1);
    free(self);
}

tryst_status tryst_copy_async(const tryst_device *device, void *stream, void *to,
                              const void *from, size_t bytes)
{
    (void)device;
    put(stream, (struct task){.kind = TASK_COPY, .to = to, .from = from, .bytes = bytes});
    return TRYST_OK;
}

/* ---- events ------------------------------------------------------------------------ */

tryst_status tryst_event_open(const tryst_device *device, void **event_p)
{
    (void)device;
    *event_p = calloc(1, sizeof(struct fake_event));
    count_open(1);
    return TRYST_OK;
}

void tryst_event_close(const tryst_device *device, void *event)
{
    (void)device;
    if (event) {
        count_open(-1);
        free(event);
    }
}

tryst_status tryst_event_record(const tryst_device *device, void *stream, void *event)
{
    (void)device;
    put(stream, (struct task){.kind = TASK_RECORD, .event = event});
    return TRYST_OK;
}

tryst_status tryst_event_test(const tryst_device *device, void *event)
{
    const struct fake_event *self = event;
    (void)device;
    pthread_mutex_lock(&lock);
    bool passed = self->passed == self->recorded;
    pthread_mutex_unlock(&lock);
    return passed ? TRYST_OK : TRYST_IN_PROGRESS;
}

tryst_status tryst_stream_wait(const tryst_device *device, void *stream, void *event)
{
    (void)device;
    put(stream, (struct task){.kind = TASK_WAIT, .event = event});
    return TRYST_OK;
}

/* ---- handles and pinned memory ----------------------------------------------------- */

tryst_status tryst_device_open(tryst_ctx *ctx, tryst_memory_kind memory, int32_t ordinal,
                               tryst_device **device_p)
{
    (void)ctx;
    (void)memory;
    *device_p = calloc(1, sizeof **device_p);
    (*device_p)->ordinal = ordinal;
    count_open(1);
    return TRYST_OK;
}

void tryst_device_close(tryst_device *device)
{
    if (device) {
        count_open(-1);
        free(device);
    }
}

tryst_status tryst_pinned_alloc(const tryst_device *device, size_t bytes, void **data_p)
{
    (void)device;
    *data_p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    count_open(1);
    return TRYST_OK;
}

void tryst_pinned_free(const tryst_device *device, void *data, size_t bytes)
{
    (void)device;
    (void)bytes;
    if (data) {
        count_open(-1);
        free(data);
    }
}
