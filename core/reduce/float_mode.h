/* SPDX-License-Identifier: Apache-2.0 */
/** @file float_mode.h
 *  The floating-point mode of IEEE 754's defaults, for the time of a kernel: to nearest,
 *  subnormal numbers kept, no traps. A program that was linked with -ffast-math, or that
 *  has called fesetround, else gives its threads another one.
 */
#ifndef CORE_REDUCE_FLOAT_MODE_H
#define CORE_REDUCE_FLOAT_MODE_H

#include <stdint.h>

#if defined(__x86_64__)

enum { FLOAT_MODE_DEFAULT = 0x1f80, FLOAT_MODE_FLAGS = 0x3f }; /* of MXCSR */

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

enum { FLOAT_MODE_DEFAULT = 0, FLOAT_MODE_FLAGS = 0 }; /* of FPCR, which has no flags */

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

enum { FLOAT_MODE_DEFAULT = 0, FLOAT_MODE_FLAGS = 0 }; /* left as it is */

static inline uint32_t float_mode_read(void)
{
    return FLOAT_MODE_DEFAULT;
}

static inline void float_mode_write(uint32_t mode)
{
    (void)mode;
}

#endif

/** Enter the default mode and return the thread's, for float_mode_leave. Writing a mode
 *  drains the processor's pipeline, so a thread that has the default keeps it. */
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
