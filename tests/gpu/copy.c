/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_copy BYTES: measure how fast the first GPU copies within its memory, and from and
 * to pinned host memory. Transfers are compared with these rates. Prints one line of
 * JSON, in GB/s (1e9 bytes, each byte counted once): the median of several runs of queued
 * copies. Exits with 77 without a GPU. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tryst/device.h>
#include <tryst/tryst.h>

enum { RUNS = 9, COPIES = 20 };
#define RUN_MAX_S 30.0

struct copier {
    tryst_device *device;
    void *stream, *event;
    size_t bytes;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Return the seconds of one run, below 0 on failure. */
static double run_once(const struct copier *self, void *to, const void *from)
{
    double begin = now_s();
    tryst_status status = TRYST_OK;
    for (int i = 0; i < COPIES && status == TRYST_OK; i++)
        status = tryst_copy_async(self->device, self->stream, to, from, self->bytes);
    if (status == TRYST_OK)
        status = tryst_event_record(self->device, self->stream, self->event);
    while (status == TRYST_OK &&
           (status = tryst_event_test(self->device, self->event)) == TRYST_IN_PROGRESS)
        status = now_s() - begin > RUN_MAX_S ? TRYST_E_TIMEOUT : TRYST_OK;
    return status == TRYST_OK ? now_s() - begin : -1;
}

/* Return the median in GB/s, below 0 on failure. The first run does not count. */
static double speed(const struct copier *self, void *to, const void *from)
{
    double seconds[RUNS];
    double first = run_once(self, to, from);
    for (int i = 0; i < RUNS; i++) {
        seconds[i] = first < 0 ? first : run_once(self, to, from);
        if (seconds[i] < 0)
            return -1;
    }
    qsort(seconds, RUNS, sizeof *seconds, by_value);
    return (double)self->bytes * COPIES / seconds[RUNS / 2] / 1e9;
}

static int measure(tryst_ctx *ctx, struct copier *self)
{
    void *here = NULL, *there = NULL, *pinned = NULL;
    tryst_mem *mems[2] = {NULL, NULL};
    double ways[3] = {-1, -1, -1};
    tryst_status status = tryst_stream_open(self->device, 0, &self->stream);
    if (status == TRYST_OK)
        status = tryst_event_open(self->device, &self->event);
    if (status == TRYST_OK)
        status = tryst_mem_alloc(ctx, self->bytes, TRYST_MEMORY_CUDA, 0, &here, &mems[0]);
    if (status == TRYST_OK)
        status =
            tryst_mem_alloc(ctx, self->bytes, TRYST_MEMORY_CUDA, 0, &there, &mems[1]);
    if (status == TRYST_OK)
        status = tryst_pinned_alloc(self->device, self->bytes, &pinned);
    if (status == TRYST_OK) {
        ways[0] = speed(self, there, here);
        ways[1] = speed(self, here, pinned);
        ways[2] = speed(self, pinned, here);
    }
    tryst_pinned_free(self->device, pinned, self->bytes);
    tryst_mem_release(mems[0]);
    tryst_mem_release(mems[1]);
    tryst_event_close(self->device, self->event);
    tryst_stream_close(self->device, self->stream);
    if (status != TRYST_OK || ways[0] < 0 || ways[1] < 0 || ways[2] < 0) {
        fprintf(stderr, "gpu_copy: %s\n",
                status == TRYST_OK ? "a copy failed" : tryst_status_str(status));
        return 1;
    }
    printf("{\"bytes\": %zu, \"device_to_device\": %.1f, \"host_to_device\": %.1f, "
           "\"device_to_host\": %.1f}\n",
           self->bytes, ways[0], ways[1], ways[2]);
    return 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    struct copier self = {.bytes = argc == 2 ? strtoull(argv[1], &end, 10) : 0};
    tryst_ctx *ctx = NULL;
    if (self.bytes == 0 || *end) {
        fprintf(stderr, "usage: gpu_copy BYTES\n");
        return 2;
    }
    tryst_open_params params = {.struct_size = sizeof params};
    tryst_status status = tryst_open(&params, &ctx);
    if (status == TRYST_OK)
        status = tryst_device_open(ctx, TRYST_MEMORY_CUDA, 0, &self.device);
    int result = status == TRYST_OK              ? measure(ctx, &self)
                 : status == TRYST_E_UNSUPPORTED ? 77
                                                 : 1;
    if (status != TRYST_OK)
        fprintf(stderr, "gpu_copy: %s\n", tryst_last_error());
    tryst_device_close(self.device);
    if (ctx)
        tryst_close(ctx);
    return result;
}
