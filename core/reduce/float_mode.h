/* SPDX-License-Identifier: Apache-2.0 */
/** @file float_mode.h
 *  The default floating-point mode of IEEE 754 for the time of a kernel: rounding to
 *  nearest, subnormal numbers kept, no traps. A thread may have another mode, because the
 *  program was linked with -ffast-math or has called fesetround.
 */
#ifndef TRYST_CORE_REDUCE_FLOAT_MODE_H
#define TRYST_CORE_REDUCE_FLOAT_MODE_H

#include <stdint.h>

#if defined(__x86_64__)

enum { FLOAT_MODE_DEFAULT = 0x1f80, FLOAT_MODE_FLAGS = 0x3f }; /* bits of MXCSR */

static inline uint32_t float_mode_read(void)
{
    uint32_t mode;
    __asm__ volatile("stmxcsr %0" : "=m"(mode));
    return mode;
}

static inline void float_mode_write(uint32_t mode)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(mode) : "memory");
}

#elif defined(__aarch64__)

/** bits of FPCR, which has no flags */
enum { FLOAT_MODE_DEFAULT = 0, FLOAT_MODE_FLAGS = 0 };

static inline uint32_t float_mode_read(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (uint32_t)mode;
}

static inline void float_mode_write(uint32_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode) : "memory");
}

#else

enum { FLOAT_MODE_DEFAULT = 0, FLOAT_MODE_FLAGS = 0 }; /* the mode is left unchanged */

static inline uint32_t float_mode_read(void)
{
    return FLOAT_MODE_DEFAULT;
}

static inline void float_mode_write(uint32_t mode)
{
    (void)mode;
}

#endif

/** Enter the default mode and return the thread's mode, for float_mode_leave. Writing a
 *  mode drains the processor's pipeline, so a thread that has the default keeps it. */
static inline uint32_t float_mode_enter(void)
{
    uint32_t mode = float_mode_read();
    if ((mode & ~(uint32_t)FLOAT_MODE_FLAGS) != FLOAT_MODE_DEFAULT)
        float_mode_write(FLOAT_MODE_DEFAULT);
    return mode;
}

static inline void float_mode_leave(uint32_t mode)
{
    if ((mode & ~(uint32_t)FLOAT_MODE_FLAGS) != FLOAT_MODE_DEFAULT)
        float_mode_write(mode);
}

#endif
