/* SPDX-License-Identifier: Apache-2.0 */
/* A row is a process; the lanes of actions and the network are its threads. The format is
 * Chrome's "Trace Event Format": complete events ("X"), times in microseconds. */
#include "order_trace.h"

#include <stdlib.h>
#include <string.h>

#include "tools/json.h"

enum { NETWORK_TID = 0 }; /* the lanes of actions follow it */

struct trace {
    const struct order_job *job;
    const struct order_rows *rows;
    uint32_t *lanes, *sorted; /* [nodes] */
    double *ends;             /* [nodes] */
};

static void name_print(FILE *file, const char *what, uint32_t pid, uint32_t tid,
                       const char *name)
{
    fprintf(file,
            ",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{"
            "\"name\":",
            pid, tid, what);
    tool_json_string(file, name);
    fputs("}}", file);
}

static void event_begin(FILE *file, uint32_t pid, uint32_t tid, const char *name,
                        double from_s, double to_s)
{
    fprintf(file, ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":", pid, tid);
    tool_json_string(file, name);
    fprintf(file, ",\"ts\":%.3f,\"dur\":%.3f", from_s * 1e6, (to_s - from_s) * 1e6);
}

static void row_print(FILE *file, const struct trace *self, uint32_t pid)
{
    const struct order_profile *profile = self->job->profile;
    const struct order_row *row = &self->rows->rows[pid];
    uint32_t lanes_count,
        actions = order_lanes_assign(profile, row, self->lanes, self->sorted, self->ends,
                                     &lanes_count);
    char name[96];
    snprintf(name, sizeof name, "%s, %s: %.6f s", row->name,
             row->is_measured ? "measured" : "in virtual time", row->seconds);
    name_print(file, "process_name", pid, NETWORK_TID, name);
    name_print(file, "thread_name", pid, NETWORK_TID, "network");
    for (uint32_t lane = 0; lane < lanes_count; lane++)
        name_print(file, "thread_name", pid, 1 + lane, "actions");
    for (uint32_t i = 0; i < actions; i++) {
        uint32_t node = self->sorted[i];
        event_begin(file, pid, 1 + self->lanes[node], profile->nodes[node].name,
                    row->spans[node].start_s, row->spans[node].end_s);
        fputc('}', file);
    }
    for (uint32_t i = 0; i < row->pieces_count; i++) {
        const struct oracle_piece *piece = &row->pieces[i];
        const struct order_node *node = &profile->nodes[piece->node];
        event_begin(file, pid, NETWORK_TID, node->name, piece->from_s, piece->to_s);
        fprintf(file, ",\"args\":{\"bytes\":%llu,\"ready_us\":%.3f}}",
                (unsigned long long)node->bytes, row->spans[piece->node].ready_s * 1e6);
    }
}

static void trace_print(FILE *file, const void *what)
{
    const struct trace *self = what;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
          "{\"ph\":\"M\",\"pid\":0,\"name\":\"trace\",\"args\":{}}",
          file);
    for (uint32_t i = 0; i < self->rows->count; i++)
        row_print(file, self, i);
    fputs("\n]}\n", file);
}

int order_trace(const struct order_job *job, const struct order_rows *rows)
{
    size_t count = job->profile->count;
    struct trace self = {.job = job,
                         .rows = rows,
                         .lanes = order_zalloc(count, sizeof *self.lanes),
                         .sorted = order_zalloc(count, sizeof *self.sorted),
                         .ends = order_zalloc(count, sizeof *self.ends)};
    int failed = tool_file_write(job->trace, trace_print, &self);
    free(self.lanes);
    free(self.sorted);
    free(self.ends);
    return failed;
}
