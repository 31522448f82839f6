/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite: one table of cases, run for one transport per call.
 *
 *   test_conformance NAME TRANSPORT [OPTION…] [setting=value…]
 *
 *   --threads   the transport connects ranks of one process only: no processes, no kills
 *   --regions   bulk buffers are memory that the library allocated (memory.h)
 *   --device    the cases that move bulk, three times: device memory at the sender, at
 *               the receiver, at both
 *   --long      the long cases instead of the fast ones
 *   --only X    cases whose name contains X (up to 8 times: any of them)
 *   --except X  without the cases whose name contains X (up to 8 times)
 *   --descriptors N  the limit of open descriptors of a rank (RLIMIT_NOFILE)
 *   --leaks N   the fabric's library is known to leak up to N KiB a life
 *   UCX_Y=z     into the environment, for the fabric's library; FI_Y=z likewise, and
 *               TRYST_FAULT=script for the fault wrapper
 *
 * CMakeLists.txt has one line per transport. Exit 77: the transport or a device is not
 * available; the reason is printed. TRYST_TEST_SEED replays, TRYST_TEST_VERBOSE prints
 * the transports' log. */
#include "cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* BULK: the case moves bulk, so --device repeats it with device memory. */
enum {
    PROCESSES = 1,
    THREADS = 2,
    BOTH = 3,
    ONESELF = 4,
    LONG = 8,
    BULK = 16,
    DEVICE = 32
};

struct conf_case {
    const char *name;
    conf_body body;
    unsigned modes;
    int ranks;
    int times;        /* repetitions, each with another seed */
    unsigned limit_s; /* time limit of each repetition */
};

static const struct conf_case cases[] = {
    {"frames_order", body_frames_order, BOTH, 2, 1, 40},
    {"frames_full", body_frames_full, BOTH, 2, 1, 20},
    {"loopback", body_loopback, ONESELF | BULK, 1, 1, 20},
    {"bulk_sizes", body_bulk_sizes, BOTH | BULK, 2, 1, 20},
    {"bulk_many", body_bulk_many, BOTH | BULK, 2, 1, 60},
    {"bulk_mismatch", body_bulk_mismatch, BOTH | BULK, 2, 1, 20},
    {"bulk_cancel", body_bulk_cancel, BOTH | BULK, 2, 1, 20},
    {"bulk_borrow", body_bulk_borrow, BOTH | BULK, 2, 1, 20},
    {"bulk_borrow_many", body_bulk_borrow_many, BOTH | BULK, 2, 1, 20},
    {"bulk_borrow_cancel", body_bulk_borrow_cancel, BOTH | BULK, 2, 1, 20},
    {"bulk_unexpected", body_bulk_unexpected, BOTH | BULK, 2, 1, 20},
    {"device_raw", body_device_raw, BOTH | BULK | DEVICE, 2, 1, 20},
    {"control_ahead", body_control_ahead, BOTH | BULK, 2, 1, 20},
    {"peers_64", body_peers, BOTH | BULK, 65, 1, 120},
    {"close_busy", body_close_busy, BOTH | BULK, 2, 6, 20},
    {"close_borrowed", body_close_borrowed, BOTH, 2, 6, 20},
    {"close_opening", body_close_opening, BOTH, 2, 1, 20},
    {"connect_hostile", body_connect_hostile, BOTH, 2, 1, 20},
    {"killed", body_killed, PROCESSES | BULK, 2, 5, 20},
    {"killed_leaves_child", body_killed_leaves_child, PROCESSES | BULK, 2, 2, 20},
    {"killed_others", body_killed_others, PROCESSES | BULK, 3, 3, 20},
    {"stopped", body_stopped, PROCESSES | BULK, 2, 1, 20},
    {"sleep", body_sleep, BOTH | BULK, 2, 1, 60},
    {"cycles", body_cycles, BOTH | BULK, 2, 1, 60},
    {"bulk_huge", body_bulk_huge, LONG | BOTH | BULK, 2, 1, 300},
    {"cycles_1000", body_cycles, LONG | BOTH | BULK, 2, 1, 300},
    {"close_busy_often", body_close_busy, LONG | BOTH | BULK, 2, 100, 20},
    {"killed_often", body_killed, LONG | PROCESSES | BULK, 2, 100, 20},
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* The parameter of one cmocka test: one case in one mode, with the memory of one
 * subject. */
struct conf_test {
    const struct conf_subject *subject;
    const struct conf_case *what;
    enum conf_mode mode;
    char name[96];
};

/* The memory at the two ends, by enum conf_ends. */
enum { ENDS_MAX = 4 };
static const char *const ends[ENDS_MAX] = {"", ", device to host", ", host to device",
                                           ", device to device"};

static bool memory_there(const struct conf_case *what)
{
    long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %ld", &kib) == 1)
            break;
    if (file)
        (void)fclose(file);
    return what->body != body_bulk_huge || kib > 10L << 20;
}

static void test_run(void **state)
{
    const struct conf_test *test = *state;
    const char *seed = getenv("TRYST_TEST_SEED");
    int times = test->what->times;
    if (test->subject->on_device && !test->subject->run_long && times > 3)
        times = 3; /* driver calls for each buffer are slow */
    if (!memory_there(test->what)) {
        print_message("skipped: 4 GiB twice need 10 GiB of memory available\n");
        skip();
    }
    for (int i = 0; i < times; i++) {
        conf_round = (uint64_t)i;
        if (i == 0)
            print_message("TRYST_TEST_SEED=%s\n", seed ? seed : "1");
        conf_run(test->subject, test->mode, test->what->ranks, test->what->limit_s,
                 test->what->body);
    }
}

static bool mode_applies(const struct conf_subject *subject, const struct conf_case *what,
                         enum conf_mode mode)
{
    bool run_long = what->modes & LONG;
    if (run_long != subject->run_long ||
        (what->modes & (subject->on_device ? BULK : DEVICE)) !=
            (subject->on_device ? BULK : 0))
        return false;
    if (what->modes & ONESELF)
        return subject->threads_only && mode == CONF_THREADS;
    if (mode == CONF_PROCESSES)
        return (what->modes & PROCESSES) && !subject->threads_only;
    if (subject->on_device && !subject->threads_only && (what->modes & PROCESSES))
        return false; /* ranks as threads add no coverage of devices */
    return what->modes & THREADS;
}

enum { CHOICE_MAX = 8 };

/* The cases that the command line selects. */
struct choice {
    const char *onlys[CHOICE_MAX], *excepts[CHOICE_MAX];
    int onlys_count, excepts_count;
};

static bool is_chosen(const struct choice *choice, const char *name)
{
    bool chosen = choice->onlys_count == 0;
    for (int i = 0; i < choice->onlys_count; i++)
        chosen = chosen || strstr(name, choice->onlys[i]);
    if (!chosen)
        return false;
    for (int i = 0; i < choice->excepts_count; i++)
        if (strstr(name, choice->excepts[i])) {
            print_message("%s is excluded by --except %s\n", name, choice->excepts[i]);
            return false;
        }
    return true;
}

static size_t tests_make(const struct conf_subject *subject, const struct choice *choice,
                         struct conf_test *tests)
{
    size_t count = 0;
    for (size_t i = 0; i < CASES; i++) {
        if (!is_chosen(choice, cases[i].name))
            continue;
        if (subject->threads_only && !(cases[i].modes & (THREADS | ONESELF)))
            print_message("%s is skipped: %s works in one process only\n", cases[i].name,
                          subject->transport);
        for (int mode = 0; mode < 2; mode++) {
            if (!mode_applies(subject, &cases[i], (enum conf_mode)mode))
                continue;
            struct conf_test *test = &tests[count++];
            *test = (struct conf_test){subject, &cases[i], (enum conf_mode)mode, ""};
            (void)snprintf(test->name, sizeof test->name, "%s, %s, %s%s", subject->name,
                           cases[i].name, mode == CONF_THREADS ? "threads" : "processes",
                           ends[subject->on_device]);
        }
    }
    return count;
}

static void descriptors_limit(rlim_t most)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && most < limit.rlim_cur) {
        limit.rlim_cur = most;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool arguments_read(int argc, char **argv, struct conf_subject *subject,
                           struct choice *choice)
{
    int settings = 0;
    if (argc < 3)
        return false;
    subject->name = argv[1];
    subject->transport = argv[2];
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0)
            subject->threads_only = true;
        else if (strcmp(argv[i], "--regions") == 0)
            subject->regions = true;
        else if (strcmp(argv[i], "--device") == 0)
            subject->on_device = CONF_SENDS | CONF_RECEIVES;
        else if (strcmp(argv[i], "--long") == 0)
            subject->run_long = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc &&
                 choice->onlys_count < CHOICE_MAX)
            choice->onlys[choice->onlys_count++] = argv[++i];
        else if (strcmp(argv[i], "--except") == 0 && i + 1 < argc &&
                 choice->excepts_count < CHOICE_MAX)
            choice->excepts[choice->excepts_count++] = argv[++i];
        else if (strcmp(argv[i], "--descriptors") == 0 && i + 1 < argc)
            descriptors_limit(strtoul(argv[++i], NULL, 10));
        else if (strcmp(argv[i], "--leaks") == 0 && i + 1 < argc)
            subject->leaks_kib = strtol(argv[++i], NULL, 10);
        else if (strncmp(argv[i], "UCX_", 4) == 0 || strncmp(argv[i], "FI_", 3) == 0 ||
                 strncmp(argv[i], "TRYST_FAULT=", 12) == 0)
            (void)putenv(argv[i]);
        else if (strchr(argv[i], '=') && settings < 7)
            subject->settings[settings++] = argv[i];
        else
            return false;
    }
    return true;
}

/* Make the tests for each kind of memory in turn, or for host memory alone. */
static size_t all_tests_make(const struct conf_subject *subject,
                             const struct choice *choice, struct conf_test *tests)
{
    static struct conf_subject subjects[ENDS_MAX];
    unsigned first = subject->on_device ? CONF_SENDS : 0;
    size_t count = 0;
    for (unsigned i = first; i <= subject->on_device; i++) {
        subjects[i] = *subject;
        subjects[i].on_device = i;
        count += tests_make(&subjects[i], choice, tests + count);
    }
    return count;
}

int main(int argc, char **argv)
{
    enum { TESTS_MAX = 2 * CASES * (ENDS_MAX - 1) };
    struct conf_subject subject = {0};
    static struct conf_test tests[TESTS_MAX];
    static struct CMUnitTest units[TESTS_MAX];
    struct choice choice = {0};
    char text[TRANSPORT_TEXT_MAX];
    if (!arguments_read(argc, argv, &subject, &choice)) {
        (void)fprintf(stderr, "usage: see the head of test_conformance.c\n");
        return 2;
    }
    if (!conf_ops(&subject, text)) {
        (void)printf("skipped: %s: %s\n", subject.transport, text);
        return 77;
    }
    if (subject.on_device && !conf_device_there(&subject))
        return 77;
    size_t count = all_tests_make(&subject, &choice, tests);
    for (size_t i = 0; i < count; i++)
        units[i] = (struct CMUnitTest){tests[i].name, test_run, NULL, NULL, &tests[i]};
    return _cmocka_run_group_tests(subject.name, units, count, NULL, NULL) != 0;
}
