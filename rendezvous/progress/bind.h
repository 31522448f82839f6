/* SPDX-License-Identifier: Apache-2.0 */
/** @file bind.h
 *  Bind the background thread to processors near the NIC of its rank (TRYST_BIND=auto).
 *
 *  Idea: the kernel's own files list PCI devices, NUMA nodes and the processors near
 *  them; the decision is a pure function of these files and of the processors that the
 *  process may use (by cgroup and taskset). One system call applies it.
 *  Invariants: only processors that the process may use are chosen. If the files lack
 *  data, or fewer than two processors would remain, nothing is chosen and nothing is
 *  changed. The host program's own threads are never touched.
 */
#ifndef TRYST_RENDEZVOUS_PROGRESS_BIND_H
#define TRYST_RENDEZVOUS_PROGRESS_BIND_H

#include <stddef.h>
#include <stdint.h>

#include "core/text/err.h"
#include "core/text/index_set.h"

#define BIND_ADDRESS_BYTES 32

struct bind_choice {
    struct index_set cpus;        /**< empty: the thread is not moved */
    char nic[BIND_ADDRESS_BYTES]; /**< its PCI address; "": no NIC was found */
    /** Why `cpus` is empty or near the rank instead of the NIC, for the log; NULL: near
     *  the NIC. */
    const char *why;
};

/** Choose processors near the NIC that is nearest to process number `place` of this
 *  machine. The process is at GPU number `place` modulo their count or, without GPUs, at
 *  such a NUMA node with processors. A NIC is nearer the more PCI bridges it shares with
 *  the GPU, then if it is at the same NUMA node; of several equally near NICs, number
 *  `place` modulo their count is taken. `root` is "/sys" or, in tests, a folder of the
 *  same form; `given` are the processors that the process may use. Returns TRYST_OK or
 *  TRYST_E_NOMEM. */
tryst_status bind_choose(const char *root, uint32_t place, const struct index_set *given,
                         struct bind_choice *choice_p);

/** Bind the calling thread, of process number `place` of this machine. `text` receives
 *  the decision. TRYST_E_NOMEM; TRYST_E_SYSTEM. */
tryst_status bind_thread(uint32_t place, struct err *err, char *text,
                         size_t text_capacity);

#endif
