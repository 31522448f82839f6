/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the device of a rank. --device cuda:N names it. Otherwise the ranks of a host
 * are placed by the topology of its devices (tryst_topo_place), so that consecutive
 * stages communicate over the best links.
 *
 * Every rank of a host computes the same choice from the same data: the program, the
 * driver's devices, the topology. A rank that sees one device only, because of its
 * launcher, takes that one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/device.h>
#include <tryst/topo.h>

#include "bench_place.h"

struct place_work {
    int32_t devices_count;
    tryst_device_info *infos; /* [devices] */
    const char **bus_ids;     /* [devices] */
    tryst_place_pair *pairs;  /* [pairs_max] */
    int32_t pairs_count;
    bool paired; /* `pairs` is valid; false: assume that each rank sends to the next */
    int *locals; /* [size]: index among the ranks of this host; -1: on another host */
    int32_t *of; /* [ranks of this host]: device */
    tryst_topo *topo;
};

/* Return the number of micro-batches that may each take other ranks. */
static int routes_count(const struct bench_options *options)
{
    return options->replicas > 1 ? tryst_program_microbatches(options->program) : 1;
}

static size_t pairs_max(const struct bench_options *options)
{
    return (size_t)tryst_program_stages(options->program) * (size_t)routes_count(options);
}

static bool work_open(struct place_work *work, const struct bench_run *run,
                      int32_t devices_count)
{
    size_t devices = (size_t)devices_count;
    size_t locals = (size_t)tryst_group_local_size(run->group);
    work->devices_count = devices_count;
    work->infos = calloc(devices, sizeof *work->infos);
    work->bus_ids = calloc(devices, sizeof *work->bus_ids);
    work->pairs = calloc(pairs_max(run->options), sizeof *work->pairs);
    work->locals = calloc((size_t)run->size, sizeof *work->locals);
    work->of = calloc(locals, sizeof *work->of);
    return work->infos && work->bus_ids && work->pairs && work->locals && work->of;
}

static void work_close(struct place_work *work)
{
    tryst_topo_close(work->topo);
    free(work->infos);
    free(work->bus_ids);
    free(work->pairs);
    free(work->locals);
    free(work->of);
}

/* ---- devices and topology ---------------------------------------------------------- */

static tryst_status find_devices(struct place_work *work, struct bench_run *run)
{
    tryst_memory_kind memory = run->options->device.memory;
    for (int32_t i = 0; i < work->devices_count; i++) {
        char text[256] = "";
        tryst_device *device = NULL;
        tryst_status status = tryst_device_open(run->ctx, memory, i, &device);
        if (status == TRYST_OK) {
            work->infos[i].struct_size = sizeof work->infos[i];
            status = tryst_device_describe(device, &work->infos[i]);
            if (status != TRYST_OK) {
                snprintf(text, sizeof text, "%s", tryst_device_error(device));
            }
        }
        tryst_device_close(device);
        if (status != TRYST_OK) {
            return bench_fail(run, status, "--device: device %d: %s", (int)i, text);
        }
        work->bus_ids[i] = work->infos[i].bus_id;
    }
    return TRYST_OK;
}

/* Number the ranks of this host. False if a rank's host is unknown, or if the numbers
 * differ from the group's local ranks. */
static bool find_locals(struct place_work *work, const struct bench_run *run)
{
    tryst_peer_info self = {.struct_size = sizeof self},
                    other = {.struct_size = sizeof other};
    int count = 0;
    if (tryst_group_peer(run->group, run->rank, &self) != TRYST_OK) {
        return false;
    }
    for (int rank = 0; rank < run->size; rank++) {
        if (tryst_group_peer(run->group, rank, &other) != TRYST_OK) {
            return false;
        }
        work->locals[rank] = strcmp(self.host, other.host) == 0 ? count++ : -1;
    }
    return count == tryst_group_local_size(run->group) &&
           work->locals[run->rank] == tryst_group_local_rank(run->group);
}

/* List the pairs of ranks that send the micro-batch to each other. */
static void microbatch_pairs(struct place_work *work, const tryst_program *program,
                             int microbatch)
{
    for (int s = 0; s + 1 < tryst_program_stages(program); s++) {
        int a = work->locals[tryst_program_rank_of_microbatch(program, s, microbatch)];
        int b =
            work->locals[tryst_program_rank_of_microbatch(program, s + 1, microbatch)];
        if (a >= 0 && b >= 0 && a != b) {
            work->pairs[work->pairs_count++] =
                (tryst_place_pair){.a = a, .b = b, .weight = 1};
        }
    }
}

/* List the pairs of ranks with consecutive stages, which send to each other once for each
 * micro-batch. Without replicated stages all micro-batches have the same pairs, and those
 * of one are listed. */
static void find_pairs(struct place_work *work, const struct bench_run *run)
{
    work->paired = find_locals(work, run);
    for (int m = 0; work->paired && m < routes_count(run->options); m++) {
        microbatch_pairs(work, run->options->program, m);
    }
}

/* Load or detect the topology. A file named by --topology must load. If detection fails,
 * leave `topo` NULL: devices are then taken in the driver's order. */
static tryst_status find_topology(struct place_work *work, struct bench_run *run)
{
    const char *path = run->options->device.topology;
    tryst_status status =
        path ? tryst_topo_load(path, &work->topo) : tryst_topo_detect(&work->topo);
    if (status == TRYST_OK) {
        return TRYST_OK;
    }
    work->topo = NULL;
    if (path) {
        return bench_fail(run, status, "--topology: %s", tryst_last_error());
    }
    if (tryst_group_local_rank(run->group) == 0) {
        fprintf(stderr, "%s: cannot detect the topology of this machine: %s\n",
                bench_name(), tryst_last_error());
    }
    return TRYST_OK;
}

/* ---- the choice -------------------------------------------------------------------- */

static tryst_status choose(struct place_work *work, struct bench_run *run)
{
    char *text = NULL;
    const tryst_place_params params = {
        .struct_size = sizeof params,
        .bus_ids = work->bus_ids,
        .devices_count = work->devices_count,
        .ranks_count = tryst_group_local_size(run->group),
        .pairs = work->paired ? work->pairs : NULL,
        .pairs_count = work->pairs_count,
    };
    tryst_status status = tryst_topo_place(work->topo, &params, work->of, &text);
    if (status != TRYST_OK) {
        return bench_fail(run, status, "--device: %s", tryst_last_error());
    }
    run->ordinal = work->of[tryst_group_local_rank(run->group)];
    if (tryst_group_local_rank(run->group) == 0) {
        fprintf(stderr, "%s: %s\n", bench_name(), text);
    }
    tryst_text_free(text);
    return TRYST_OK;
}

static tryst_status place_among(struct bench_run *run, int32_t devices_count)
{
    struct place_work work = {0};
    tryst_status status = TRYST_OK;
    if (!work_open(&work, run, devices_count)) {
        status = bench_fail(run, TRYST_E_NOMEM,
                            "cannot place ranks on devices: out of memory");
    }
    if (status == TRYST_OK) {
        find_pairs(&work, run);
        status = find_devices(&work, run);
    }
    if (status == TRYST_OK) {
        status = find_topology(&work, run);
    }
    if (status == TRYST_OK) {
        status = choose(&work, run);
    }
    work_close(&work);
    return status;
}

tryst_status bench_place_on_device(struct bench_run *run)
{
    const struct bench_device *device = &run->options->device;
    char text[256] = "";
    int32_t count = 0;
    if (device->memory == TRYST_MEMORY_HOST) {
        return TRYST_OK;
    }
    tryst_status status =
        tryst_device_count(run->ctx, device->memory, &count, text, sizeof text);
    if (status != TRYST_OK || count < 1) {
        return bench_fail(run, status == TRYST_OK ? TRYST_E_UNSUPPORTED : status,
                          "--device: no device here: %s", text);
    }
    if (device->ordinal_given && device->ordinal >= count) {
        return bench_fail(
            run, TRYST_E_INVALID,
            "--device cuda:%d: must be below %d, the number of devices here (%s)",
            device->ordinal, count, text);
    }
    run->ordinal = device->ordinal_given ? device->ordinal : 0;
    return device->ordinal_given || count == 1 ? TRYST_OK : place_among(run, count);
}
