/* SPDX-License-Identifier: Apache-2.0 */
/* See slow_start.h. The functions have the types of the fabrics' headers as far as
 * registers matter, so that this file builds without those headers. */
#include "slow_start.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { UCS_ERR_IO = -3, FI_EIO_CODE = -EIO };

_Atomic(unsigned) slow_start_ms;
_Atomic(int) slow_start_fails;
_Atomic(unsigned) slow_start_begun, slow_start_ended, slow_start_inside;

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int ucp_init_version(unsigned major, unsigned minor, const void *params,
                              const void *config, void **context);
EXPORTED int fi_getinfo(uint32_t version, const char *node, const char *service,
                        uint64_t flags, const void *hints, void **info);
EXPORTED int fi_fabric(void *attr, void **fabric, void *context);

/* Look up the function of the loaded library; function_p points to a pointer to a
 * function of its type. */
static void real_find(const char *library, const char *name, void *function_p)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    void *symbol = handle ? dlsym(handle, name) : NULL;
    if (!symbol)
        abort();
    memcpy(function_p, &symbol, sizeof symbol);
}

static void pause_sleep(unsigned ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (ms && nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

int ucp_init_version(unsigned major, unsigned minor, const void *params,
                     const void *config, void **context)
{
    int (*real)(unsigned, unsigned, const void *, const void *, void **);
    real_find("libucp.so.0", "ucp_init_version", &real);
    atomic_fetch_add(&slow_start_begun, 1);
    atomic_fetch_add(&slow_start_inside, 1);
    pause_sleep(slow_start_ms);
    int rc = slow_start_fails ? UCS_ERR_IO : real(major, minor, params, config, context);
    atomic_fetch_add(&slow_start_ended, 1);
    atomic_fetch_sub(&slow_start_inside, 1);
    return rc;
}

/* Return the delay of this call: in a process only the first call takes time, because
 * providers start then. */
static unsigned first_ms(_Atomic(int) *called, unsigned ms)
{
    return atomic_exchange(called, 1) ? 0 : ms;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const void *hints, void **info)
{
    int (*real)(uint32_t, const char *, const char *, uint64_t, const void *, void **);
    real_find("libfabric.so.1", "fi_getinfo", &real);
    static _Atomic(int) called;
    atomic_fetch_add(&slow_start_inside, 1);
    pause_sleep(first_ms(&called, slow_start_ms / 2));
    int rc = real(version, node, service, flags, hints, info);
    atomic_fetch_sub(&slow_start_inside, 1);
    return rc;
}

int fi_fabric(void *attr, void **fabric, void *context)
{
    int (*real)(void *, void **, void *);
    static _Atomic(int) called;
    real_find("libfabric.so.1", "fi_fabric", &real);
    atomic_fetch_add(&slow_start_begun, 1);
    atomic_fetch_add(&slow_start_inside, 1);
    pause_sleep(first_ms(&called, slow_start_ms - slow_start_ms / 2));
    int rc = slow_start_fails ? FI_EIO_CODE : real(attr, fabric, context);
    atomic_fetch_add(&slow_start_ended, 1);
    atomic_fetch_sub(&slow_start_inside, 1);
    return rc;
}
