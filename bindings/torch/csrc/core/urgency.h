/* SPDX-License-Identifier: Apache-2.0 */
/** @file urgency.h
 *  The priority that the calling thread gives to the operations that it submits.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_URGENCY_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_URGENCY_H

#include <cstdint>
#include <optional>

namespace tryst_torch
{

/** Return the calling thread's priority; empty: operations have the default one. */
std::optional<int32_t> urgency_get();
/** Set the calling thread's priority; smaller is more urgent. */
void urgency_set(std::optional<int32_t> priority);

} // namespace tryst_torch

#endif
