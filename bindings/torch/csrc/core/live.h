/* SPDX-License-Identifier: Apache-2.0 */
/** @file live.h
 *  The library's live pages of this process (tryst/live.h), copied. One for each World.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_LIVE_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_LIVE_H

#include "json.h"

#include <tryst/live.h>
#include <vector>

namespace tryst_torch
{

struct LiveOperation {
    bool is_collective;
    int peer; /* that the operation waits for, a rank of the World; -1: not known */
    std::string key;
    tryst_live_op record;
};

struct LivePage {
    tryst_live_header header;
    std::vector<tryst_live_peer> peers;    /* those with an endpoint */
    std::vector<LiveOperation> operations; /* oldest first */
};

/** Copy the pages of this process. Blocks for system calls; any thread. Pages that cannot
 *  be read are left out. */
std::vector<LivePage> live_read();

/** Write the member "library": the pages. */
void live_write(Json &json, const std::vector<LivePage> &pages);

} // namespace tryst_torch

#endif
