/* SPDX-License-Identifier: Apache-2.0 */
/* Implements device_finish.h: polls both lanes, with a pause between two polls. */
#include "device_finish.h"

#include <stdio.h>
#include <time.h>

/* Pause between two polls of a device: about the time of a small copy. */
#define POLL_PAUSE_NS 20000

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool lane_is_idle(const struct device_session *session, int32_t lane)
{
    return session->kernels->idle(&session->lanes[lane]) != TRYST_IN_PROGRESS;
}

static void session_fail_late(struct device_session *session, uint64_t patience_ns,
                              const char *what)
{
    if (session->status != TRYST_OK) {
        return;
    }
    bool computes = !lane_is_idle(session, DEVICE_COMPUTE);
    session->status = TRYST_E_DEADLINE;
    snprintf(session->text, sizeof(session->text),
             "%s %d: %s: its %s lane has not ended for %.6g s; a kernel hangs, "
             "an event never came, or other programs keep the device busy (nvidia-smi "
             "lists them)",
             session->kernels->name, (int)session->device, what,
             computes ? "compute" : "weight", (double)patience_ns / 1e9);
}

bool device_session_quiet(struct device_session *session, const char *what)
{
    const struct timespec pause = {.tv_nsec = POLL_PAUSE_NS};
    uint64_t given_ns =
        session->timeout_ns == 0 ? DEVICE_TIMEOUT_NS : session->timeout_ns;
    uint64_t patience_ns = session->status == TRYST_E_DEADLINE ? 0 : given_ns;
    uint64_t begin_ns = now_ns();
    for (;;) {
        if (lane_is_idle(session, DEVICE_COMPUTE) &&
            lane_is_idle(session, DEVICE_WEIGHT)) {
            return true;
        }
        if (now_ns() - begin_ns >= patience_ns) {
            session_fail_late(session, patience_ns, what);
            return false;
        }
        nanosleep(&pause, NULL);
    }
}

tryst_status device_session_finish(struct device_session *session, const char *what)
{
    (void)device_session_quiet(session, what);
    return session->kernels->status(session);
}
