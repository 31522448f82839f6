/* SPDX-License-Identifier: Apache-2.0 */
/* Implements perf_rank.h. */
#include "perf_rank.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

tryst_status perf_key(const struct perf_rank *rank, int src, const char *edge,
                      tryst_key **key_p)
{
    char key[TRYST_KEY_MAX + 1];
    tryst_status status =
        tryst_key_build(rank->group, src, 1 - src, edge, 0, 0, key, sizeof key);
    if (status == TRYST_OK)
        status = tryst_key_prepare(rank->group, key, key_p);
    return status == TRYST_OK
               ? status
               : perf_fail(rank, "prepare a key", status, tryst_last_error());
}

tryst_status perf_memory(const struct perf_rank *rank, uint64_t bytes, void **data_p,
                         tryst_mem **mem_p)
{
    tryst_memory_kind kind = rank->options->memory[rank->rank];
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

double perf_now_s(const struct perf_rank *rank)
{
    return (double)tryst_now_ns(rank->ctx) / 1e9;
}

void perf_bytes_text(uint64_t bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, capacity, "%" PRIu64 " %s", bytes, units[unit]);
}
