/* SPDX-License-Identifier: Apache-2.0 */
/* The suite finds the faults that it exists for: over shm with one fault each, the named
 * case must fail with the text expected here. */
#include "cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

struct fault {
    const char *name;
    conf_body body;
    const char *says;
};

static const char borrow_kept_says[] = "done";

static const struct fault faults[] = {
    {"frame_lost", body_frames_order, "is not the one that was sent"},
    {"frame_twice", body_frames_order, "is not the one that was sent"},
    {"frame_changed", body_frames_order, "is not the one that was sent"},
    {"frames_swapped", body_frames_order, "is not the one that was sent"},
    {"frame_behind", body_control_ahead, "passed a frame"},
    {"bulk_changed", body_bulk_sizes, "is wrong"},
    {"bulk_beyond", body_bulk_sizes, "behind the buffer"},
    {"device_shifted", body_bulk_sizes, "is wrong"},
    {"device_early", body_bulk_sizes, "is wrong"},
    {"device_taken", body_device_raw, "not TRYST_E_UNSUPPORTED"},
    {"borrow_early", body_bulk_borrow, "!send.done"},
    {"borrow_shifted", body_bulk_borrow, "is wrong"},
    {"borrow_unread", body_bulk_borrow, "piece.used"},
    {"borrow_revoked", body_close_borrowed, "outcome"},
    /* borrowed then, or before; or the other rank's wait ends first */
    {"borrow_kept", body_bulk_borrow_cancel, borrow_kept_says},
    {"written_after_close", body_close_busy, "written after the endpoint had closed"},
    {"impatient", body_stopped, "failed"},
    {"cancel_inside", body_bulk_cancel, "inside the call"},
    {"cancel_ignored", body_bulk_cancel, "waited"},
    {"close_ignored", body_killed, "waited 2 s"},
    {"close_inside", body_close_opening, "inside the call"},
    {"arm_not", body_sleep, "a lost wake-up"},
    {"leak", body_cycles, "alloc_live_count"},
    {"leak_fd", body_cycles, "descriptors"},
    {"leak_unseen", body_cycles, "resident memory grew"},
};

static void test_found(void **state)
{
    const struct fault *fault = *state;
    /* of registered device memory at both ends */
    bool on_device = strncmp(fault->name, "device_", 7) == 0;
    const struct conf_subject subject = {.name = fault->name,
                                         .transport = "shm",
                                         .sabotage = fault->name,
                                         .regions = on_device,
                                         .on_device =
                                             on_device ? CONF_SENDS | CONF_RECEIVES : 0};
    char text[CONF_TEXT_MAX];
    if (on_device && !conf_device_there(&subject))
        skip(); /* the reason is printed already */
    if (conf_patience > 1 && strcmp(fault->name, "leak_unseen") == 0)
        skip(); /* sanitizers keep freed memory */
    if (conf_try(&subject, CONF_PROCESSES, 2, 60, fault->body, text))
        fail_msg("the suite did not find the fault %s", fault->name);
    print_message("found: %s\n", text);
    bool is_wait = fault->says == borrow_kept_says && strstr(text, "waited");
    if (!strstr(text, fault->says) && !is_wait)
        fail_msg("the suite found the fault %s, but with another text", fault->name);
}

/* Without a fault the same cases pass. */
static void test_good(void **state)
{
    const struct conf_subject subject = {.name = "good", .transport = "shm"};
    char text[CONF_TEXT_MAX];
    if (!conf_try(&subject, CONF_PROCESSES, 2, 60, body_cycles, text))
        fail_msg("%s", text);
}

int main(void)
{
    conf_wait_s = 4;
    conf_wake_s = 2;
    enum { FAULTS = sizeof faults / sizeof faults[0] };
    struct CMUnitTest tests[FAULTS + 1];
    tests[0] = (struct CMUnitTest){"good", test_good, NULL, NULL, NULL};
    for (size_t i = 0; i < FAULTS; i++)
        tests[i + 1] = (struct CMUnitTest){faults[i].name, test_found, NULL, NULL,
                                           (void *)(uintptr_t)&faults[i]};
    return _cmocka_run_group_tests("sabotage", tests, FAULTS + 1, NULL, NULL) != 0;
}
