/* SPDX-License-Identifier: Apache-2.0 */
/** @file log.h
 *  The operations of this process, for dumps: all that are pending, and the last ones
 *  that have ended, of all process groups together.
 *
 *  TORCH_TRYST_DUMP_OPERATIONS is the number of ended operations that are kept (2000; 0:
 *  none).
 *
 *  Thread: any, all functions. None blocks.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_LOG_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_LOG_H

#include "json.h"
#include "live.h"

#include <memory>
#include <optional>
#include <tryst/status.h>
#include <vector>

namespace tryst_torch
{

/** A process group, as the log names it. */
struct GroupName {
    std::string name;
    int rank;
    int size;
    std::vector<int32_t> ranks; /* of the World, by rank of the group */
};

/** A tensor of an operation. */
struct Shape {
    const char *dtype; /* static */
    std::vector<int64_t> sizes;
};

/** An operation, as it was submitted. */
struct Record {
    std::shared_ptr<const GroupName> group;
    const char *kind = ""; /* "all_reduce"; static */
    uint64_t number = 0;   /* of a collective in its group, from 1; 0: a message */
    std::string name;      /* the library's name of a collective */
    int peer = -1;         /* of a message: rank of the group */
    std::vector<Shape> inputs;
    std::vector<Shape> outputs;
    std::optional<int32_t> priority;
    uint64_t timeout_ms = 0; /* 0: none */
};

/** Add an operation that is about to be submitted. Return its number in the log. */
uint64_t log_begin(Record record);
/** Note the end of an operation, with the reason of a failure. */
void log_end(uint64_t id, tryst_status status, const std::string &reason);
/** Remove an operation that the library refused. */
void log_remove(uint64_t id);

/** Return one sentence about the pending operations; "" where there are none. */
std::string log_pending();

/** Return the rank of its group that a pending operation waits for; -1: not known. */
int log_awaited(uint64_t id, const std::vector<LivePage> &pages);

/** Write the members "process_groups" and "operations", oldest first. `pages` gives the
 *  ranks that collectives wait for. */
void log_write(Json &json, const std::vector<LivePage> &pages);

} // namespace tryst_torch

#endif
