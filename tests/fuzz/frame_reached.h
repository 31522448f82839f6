/* SPDX-License-Identifier: Apache-2.0 */
/* Which record handlers and header flags the inputs of fuzz_frame reach.
 *
 * Idea: the linker puts a counter in front of each handler (--wrap; CMakeLists.txt has
 * the names). fuzz_frame reports the header of each frame that was read to its end. */
#ifndef TRYST_TESTS_FUZZ_FRAME_REACHED_H
#define TRYST_TESTS_FUZZ_FRAME_REACHED_H

#include <stdint.h>

/** Count the flags of a header: all records of its frame were read. */
void frame_reached_flags(uint8_t flags);

#endif
