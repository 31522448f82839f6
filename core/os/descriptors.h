/* SPDX-License-Identifier: Apache-2.0 */
/* The process's limit of open descriptors, and the numbers 0 to 2 while a foreign library
 * makes descriptors.
 *
 * One idea: descriptors_left tests the limit by opening descriptors, and closes them
 * again. RLIMIT_NOFILE alone does not give the number of open ones, and counting those
 * takes a descriptor. Modules call descriptors_left through their host table before they
 * call a library that aborts without a descriptor; other code calls it after a failure,
 * for the message. */
#ifndef TRYST_CORE_OS_DESCRIPTORS_H
#define TRYST_CORE_OS_DESCRIPTORS_H

#include <stdbool.h>

/** Largest `count` of descriptors_left. */
enum { DESCRIPTORS_COUNT_MAX = 128 };

/** True if `count` more descriptors can be opened now. Opens them for a moment, about 0.5
 *  us each. Any thread. */
bool descriptors_left(unsigned count);

/** Keep the numbers 0 to 2 from a foreign library that makes descriptors, as fabrics do:
 *  while any hold is active, each closed number has a placeholder (core/os/fd.h).
 *  `refresh` adds placeholders for numbers that the program has closed since. Any thread;
 *  each hold has its release. */
void descriptors_low_hold(void);
void descriptors_low_release(void);
void descriptors_low_refresh(void);

#endif
