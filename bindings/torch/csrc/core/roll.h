/* SPDX-License-Identifier: Apache-2.0 */
/** @file roll.h
 *  A roll call: a barrier that returns the ranks that did not come, on those that did.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_ROLL_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_ROLL_H

#include "view.h"

namespace tryst_torch
{

/** Send a message from each rank to rank 0, which waits for all at most `timeout_ns` and
 *  sends the outcome to those that came. Returns the ranks that did not come: rank 0
 *  alone where that rank did not, and this rank alone where it came too late.
 *
 *  Blocks: at most twice `timeout_ns` and 5 s, where rank 0 comes late; makes progress
 *  meanwhile. Thread: any; one roll call of a view at a time. Throws Refusal. */
std::vector<int> roll_call(View &view, int rank, int size, uint64_t timeout_ns);

} // namespace tryst_torch

#endif
