/* SPDX-License-Identifier: Apache-2.0 */
/** @file dump.h
 *  Dumps: the operations of this process (log.h) and the library's live pages (live.h) as
 *  one JSON document, for a program that hangs.
 *
 *  TORCH_TRYST_DUMP_FILE is the file that a time-out writes, in which %r is the rank;
 *  "/tmp/tryst_torch_rank_%r.json" where it is not set, and no file where it is empty.
 *
 *  Thread: any, all functions; not from a callback of the library, since they block for
 *  system calls.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_DUMP_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_DUMP_H

#include <memory>
#include <string>

namespace tryst_torch
{

/** Give dumps the rank of this process in a job of `size` ranks, which lasts as long as
 *  `job`. Dumps name the rank in the largest job, so two processes of it never write one
 *  file. */
void dump_rank_set(int rank, int size, const std::weak_ptr<const void> &job);

/** Return the document, with its `reason` in it. */
std::string dump_text(const std::string &reason);

/** Write the file after a time-out, for `reason`, unless one was written in the last 5 s:
 *  operations that time out together make one. Returns what an error adds to its text:
 *  the pending operations, and the file, or why there is none. Never throws. */
std::string dump_at_timeout(const std::string &reason);

} // namespace tryst_torch

#endif
