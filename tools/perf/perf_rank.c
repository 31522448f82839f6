/* SPDX-License-Identifier: Apache-2.0 */
/* Implements perf_rank.h. */
#include "perf_rank.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json.h"

tryst_status perf_fail(const struct perf_rank *rank, const char *what,
                       tryst_status status, const char *text)
{
    fprintf(stderr, "tryst-perf: rank %d cannot %s: %s%s%s\n", rank->rank, what,
            tryst_status_str(status), *text ? ": " : "", text);
    return status;
}

tryst_status perf_op_end(const struct perf_rank *rank, tryst_op *op, const char *what,
                         uint64_t timeout_ns)
{
    tryst_status status = tryst_wait(op, timeout_ns);
    if (status != TRYST_OK) {
        tryst_error error = {.struct_size = sizeof error, .text = ""};
        tryst_op_error(op, &error);
        perf_fail(rank, what, status, error.text);
        if (status == TRYST_E_TIMEOUT)
            tryst_dump(rank->ctx, 2);
    }
    tryst_op_release(op);
    return status;
}

tryst_status perf_key(const struct perf_rank *rank, int from, int to, const char *edge,
                      tryst_key **key_p)
{
    char key[TRYST_KEY_MAX + 1];
    tryst_status status =
        tryst_key_build(rank->group, from, to, edge, 0, 0, key, sizeof key);
    if (status == TRYST_OK)
        status = tryst_key_prepare(rank->group, key, key_p);
    return perf_judge(rank, "prepare a key", status);
}

tryst_status perf_memory(const struct perf_rank *rank, uint64_t bytes, void **data_p,
                         tryst_mem **mem_p)
{
    tryst_memory_kind kind = rank->options->memory[rank->rank > rank->peer];
    tryst_status status = tryst_mem_alloc(rank->ctx, bytes, kind, 0, data_p, mem_p);
    if (status != TRYST_OK)
        return perf_fail(rank,
                         kind == TRYST_MEMORY_HOST ? "allocate a tensor"
                                                   : "allocate a tensor on device 0",
                         status, tryst_last_error());
    if (kind == TRYST_MEMORY_HOST)
        memset(*data_p, rank->rank + 1,
               bytes); /* its pages exist before the clock runs */
    return status;
}

tryst_status perf_numbers_move(const struct perf_rank *rank, tryst_step *step, int from,
                               int to, void *numbers, size_t bytes)
{
    const char *what = rank->rank == from ? "send figures" : "receive figures";
    tryst_tensor tensor = {.struct_size = sizeof tensor,
                           .data = numbers,
                           .count = bytes,
                           .dtype = TRYST_DTYPE_U8};
    char key[TRYST_KEY_MAX + 1];
    tryst_op *op;
    tryst_status status = tryst_key_build(rank->group, from, to, "tryst-perf figures", 0,
                                          0, key, sizeof key);
    if (status == TRYST_OK)
        status = rank->rank == from ? tryst_send(step, key, &tensor, NULL, &op)
                                    : tryst_recv(step, key, &tensor, NULL, &op);
    return status == TRYST_OK ? perf_op_end(rank, op, what, PERF_WAIT_NS)
                              : perf_judge(rank, what, status);
}

uint64_t perf_iters_more(uint64_t ran, double elapsed_s, double wanted_s)
{
    if (elapsed_s >= wanted_s / 2 || ran >= PERF_TIMED_MOST)
        return ran;
    double growth = elapsed_s > wanted_s / 10 ? wanted_s / elapsed_s : 10;
    double more = (double)ran * growth;
    return more > PERF_TIMED_MOST ? PERF_TIMED_MOST : (uint64_t)more;
}

double perf_now_s(const struct perf_rank *rank)
{
    return (double)tryst_now_ns(rank->ctx) / 1e9;
}

tryst_status perf_judge(const struct perf_rank *rank, const char *what,
                        tryst_status status)
{
    return status == TRYST_OK ? status
                              : perf_fail(rank, what, status, tryst_last_error());
}

tryst_status perf_numbers_reduce(const struct perf_rank *rank, tryst_step *step,
                                 const char *name, void *numbers, uint64_t count,
                                 tryst_dtype dtype, tryst_reduce_op reduce)
{
    static const char what[] = "share the ranks' figures";
    tryst_tensor tensor = {
        .struct_size = sizeof tensor, .data = numbers, .count = count, .dtype = dtype};
    tryst_op *op;
    tryst_status status = tryst_allreduce(step, name, NULL, &tensor, reduce, NULL, &op);
    return status == TRYST_OK ? perf_op_end(rank, op, what, PERF_WAIT_NS)
                              : perf_judge(rank, what, status);
}

tryst_status perf_tensor_memory(const struct perf_rank *rank, uint64_t bytes,
                                tryst_mem **mem_p, void **memory_p, void **data_p)
{
    static const char what[] = "allocate the tensors";
    tryst_memory_kind kind = rank->options->memory[0];
    tryst_status status = TRYST_OK;
    if (rank->options->mapped || kind != TRYST_MEMORY_HOST)
        status = tryst_mem_alloc(rank->ctx, bytes, kind, 0, data_p, mem_p);
    else
        *data_p = *memory_p = malloc(bytes ? bytes : 1);
    if (status != TRYST_OK)
        return perf_judge(rank, what, status);
    if (!*data_p)
        return perf_fail(rank, what, TRYST_E_NOMEM, "");
    if (kind == TRYST_MEMORY_HOST)
        memset(*data_p, 0, bytes);
    return TRYST_OK;
}

static bool prints(const struct perf_rank *rank)
{
    return rank->rank == 0 || rank->options->remote;
}

bool perf_has_csv(const struct perf_rank *rank)
{
    return prints(rank) && rank->options->csv;
}

bool perf_has_table(const struct perf_rank *rank)
{
    const char *json = rank->options->json;
    return prints(rank) && !rank->options->csv && !(json && strcmp(json, "-") == 0);
}

int perf_json_write(const struct perf_rank *rank,
                    void (*print)(FILE *file, const void *what), const void *what)
{
    const char *path = rank->options->json;
    return path && prints(rank) ? tool_file_write(path, print, what) : 0;
}

uint64_t perf_warmup(const struct perf_options *options, uint64_t standard)
{
    return options->warmup == UINT64_MAX ? standard : options->warmup;
}

const char *perf_bytes_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, "%" PRIu64 " %s", bytes, units[unit]);
    return text;
}
