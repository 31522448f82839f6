/* SPDX-License-Identifier: Apache-2.0 */
/* Is this process at its limit of open descriptors? Which foreign library gets 0 to 2?
 *
 * One idea: it is tried. RLIMIT_NOFILE alone does not say how many are open, and to count them takes
 * one. Nothing is left open. Callers: those who fail and say why, and modules, through their host
 * table, before they call a library that aborts when it finds none. */
#ifndef TRYST_CORE_DESCRIPTORS_H
#define TRYST_CORE_DESCRIPTORS_H

#include <stdbool.h>

/* The most that descriptors_left asks for. */
enum { DESCRIPTORS_ASKED_MAX = 128 };

/* Could `count` more be made just now? Takes them for a moment: some 0.5 us each. Any thread. */
bool descriptors_left(unsigned count);

/* Keep 0 to 2 from a foreign library that makes descriptors, as fabrics do: as long as
 * holds are counted, each closed number has a placeholder (core/os/fd.h). `refresh` adds
 * placeholders for numbers that the program has closed since. Any thread; each hold has
 * its release. */
void descriptors_low_hold(void);
void descriptors_low_release(void);
void descriptors_low_refresh(void);

#endif
