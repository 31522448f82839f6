/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a device_attention, for emulated devices with an address space apart.
 * C++. */
#ifndef TRYST_TESTS_SUPPORT_ATTENTION_POINTERS_H
#define TRYST_TESTS_SUPPORT_ATTENTION_POINTERS_H

extern "C" {
#include "pipeline/device/device_kernels.h"
}

/** Return a copy with each array at the host address that `reach` returns. */
template <typename Reach>
device_attention attention_reached(device_attention a, Reach reach)
{
    a.qkv = reach(a.qkv);
    a.attended = reach(a.attended);
    a.lse = reach(a.lse);
    a.dattended = reach(a.dattended);
    a.delta = reach(a.delta);
    a.dqkv = reach(a.dqkv);
    return a;
}

#endif
