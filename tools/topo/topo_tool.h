/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that the commands of tryst-topo share. All data come from tryst/topo.h. */
#ifndef TRYST_TOOLS_TOPO_TOPO_TOOL_H
#define TRYST_TOOLS_TOPO_TOPO_TOOL_H

#include <stdbool.h>
#include <tryst/topo.h>
#include <tryst/tryst.h>

#include "tools/options.h"

/** Exit statuses. */
enum { TOPO_FINE = 0, TOPO_WRONG = 1, TOPO_USAGE = 2 };

/** The options of all commands; a command refuses those that it does not have. */
struct topo_options {
    const char *input, *format, *output, *json;
    const char *op, *root, *ranks, *from, *to;
    uint64_t size_bytes;
    int trees_max;
    double gap, sum_gbit;
    const char *file; /**< the plan to verify */
    int local_ranks;  /**< 0: not given */
    const char *transport, *probe_cache;
    double probe_seconds; /**< 0: not given */
    bool probe, probe_again;
};

extern const char topo_help[], topo_help_plan[], topo_help_verify[], topo_help_explain[];

/** Read the command line after the command. `allowed` are the names of its options, NULL
 *  at the end; `help` is its page; `command` gives the commands by number, NULL after the
 *  last. */
enum tool_next topo_options_read(int argc, char **argv, const char *help,
                                 const char *const *allowed,
                                 const char *(*command)(int i),
                                 struct topo_options *options);

/** Find a rank by its name or number; -1 after a message. */
int topo_rank_parse(const tryst_topo *topo, const char *text, const char *input);
/** Parse ranks: "0,2-4", "h0,h2". The caller frees *ranks_p. False after a message. */
bool topo_ranks_parse(const tryst_topo *topo, const char *text, const char *input,
                      int32_t **ranks_p, int32_t *count_p);

/** Print one sentence on stderr; return `exit_status`. */
int topo_fail(int exit_status, const char *fmt, ...) TRYST_PRINTF(2, 3);

/** Write all of `text` to the file `path`, or to stdout ("-" or NULL). Returns the exit
 *  status, after a message on failure. */
int topo_text_put(const char *text, const char *path);
/** Read a whole file ("-": standard input) and terminate its text. The caller frees it;
 *  NULL after a message. */
char *topo_file_get(const char *path, size_t *bytes_p);

#endif
