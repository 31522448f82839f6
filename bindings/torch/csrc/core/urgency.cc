/* SPDX-License-Identifier: Apache-2.0 */
/* The priority of a thread: one variable for each thread. */
#include "urgency.h"

namespace tryst_torch
{

static thread_local std::optional<int32_t> urgency;

std::optional<int32_t> urgency_get()
{
    return urgency;
}

void urgency_set(std::optional<int32_t> priority)
{
    urgency = priority;
}

} // namespace tryst_torch
