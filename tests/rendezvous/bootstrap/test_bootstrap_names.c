/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's host name: unknown at first, with an address that changes, with several
 * addresses, and a name service that does not answer. The linker puts a scripted name
 * service in the place of getaddrinfo. */
#include "bootstrap_job.h"

#include <dirent.h>
#include <netdb.h>

#include "support/fake_clock.h"
#include "support/patience.h"

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found_p);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found_p);

enum { ANSWERS_MAX = 4 };

/* One answer of the name service: addresses, or a code. */
struct answer {
    const char *addresses[3];
    int code;
    unsigned delay_us;
    bool hangs; /* until the test opens the gate */
};

/* Answers of each side (rank 0 resolves "worker-0.example", rank 1
 * "worker-0.example."), the last one repeated. */
struct script {
    struct answer answers[ANSWERS_MAX];
    _Atomic int asked;
};
static struct script scripts[2];
static _Atomic int running; /* calls that have not returned */
static atomic_bool gate;

static int script_answer(const struct answer *answer, const char *port,
                         const struct addrinfo *hints, struct addrinfo **found_p)
{
    struct addrinfo own = *hints, **tail_p = found_p;
    own.ai_flags |= AI_NUMERICHOST;
    if (answer->delay_us)
        usleep(answer->delay_us);
    while (answer->hangs && !atomic_load(&gate))
        usleep(1000);
    *found_p = NULL;
    for (int i = 0; i < 3 && answer->addresses[i]; i++) {
        if (__real_getaddrinfo(answer->addresses[i], port, &own, tail_p) != 0)
            return EAI_FAIL;
        tail_p = &(*tail_p)->ai_next;
    }
    return answer->code;
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found_p)
{
    if (!host || strncmp(host, "worker-0.example", 16) != 0 ||
        (hints && hints->ai_flags & AI_NUMERICHOST))
        return __real_getaddrinfo(host, port, hints, found_p);
    struct script *script = &scripts[host[16] == '.'];
    atomic_fetch_add(&running, 1);
    int i = atomic_fetch_add(&script->asked, 1);
    while (i > 0 && (i >= ANSWERS_MAX ||
                     (!script->answers[i].addresses[0] && !script->answers[i].code)))
        i--;
    int code = script_answer(&script->answers[i], port, hints, found_p);
    atomic_fetch_sub(&running, 1);
    return code;
}

/* Put a job of two ranks behind the name. `serves`: the test's listener is rank 0's. */
static void names_init(struct job *job, char addresses[2][64], bool serves)
{
    job_init(job, 2, AF_INET);
    for (int rank = 0; rank < 2; rank++) {
        snprintf(addresses[rank], 64, "worker-0.example%s%s", rank ? "." : "",
                 strchr(job->address, ':'));
        job->ranks[rank].params.address = addresses[rank];
    }
    if (!serves) {
        close(job->listen_fd);
        job->ranks[0].params.listen_fd = -1;
    }
    memset(scripts, 0, sizeof scripts);
    atomic_store(&gate, false);
}

static int threads_before; /* threads of this process outside of a test */

static int threads_count(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* End the lookups that were left to their threads. */
static void lookups_end(void)
{
    atomic_store(&gate, true);
    /* A lookup that was left may not have called yet. (A sanitizer has a thread, too.) */
    for (int i = 0;
         atomic_load(&running) || (i < 300 && threads_count() > threads_before); i++)
        usleep(1000);
}

#define ANSWER(...)                  \
    {                                \
        .addresses = { __VA_ARGS__ } \
    }
#define HERE ANSWER("127.0.0.1")
#define UNKNOWN            \
    {                      \
        .code = EAI_NONAME \
    }
#define AGAIN             \
    {                     \
        .code = EAI_AGAIN \
    }

/* 192.0.2.0/24 is for documentation: no machine has such an address. */
static void names_that_come_late(void **state)
{
    static const struct {
        const char *name;
        struct answer own[ANSWERS_MAX], other[ANSWERS_MAX];
    } cases[] = {
        {"unknown at both ends", {UNKNOWN, HERE}, {UNKNOWN, HERE}},
        {"the service has no answer yet", {AGAIN, HERE}, {AGAIN, HERE}},
        {"an old address of rank 0's host", {ANSWER("192.0.2.1"), HERE}, {HERE}},
        {"loopback first, at rank 1", {HERE}, {ANSWER("127.0.1.1"), HERE}},
        {"another address once rank 0 serves", {ANSWER("127.0.0.9"), HERE}, {HERE}},
        {"several addresses", {HERE}, {ANSWER("127.0.0.9", "::1", "127.0.0.1")}},
        {"known, then unknown, then elsewhere",
         {HERE},
         {ANSWER("127.0.0.9"), UNKNOWN, HERE}},
        {"slow", {HERE}, {{.addresses = {"127.0.0.1"}, .delay_us = 100000}}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct job job;
        char addresses[2][64];
        names_init(&job, addresses, false);
        memcpy(scripts[0].answers, cases[i].own, sizeof cases[i].own);
        memcpy(scripts[1].answers, cases[i].other, sizeof cases[i].other);
        print_message("%s\n", cases[i].name);
        job_run(&job);
        job_expect(&job, TRYST_OK, NULL);
        lookups_end();
    }
}

/* The reason of the last attempt is in the sentence. */
static void names_that_never_come(void **state)
{
    static const struct {
        struct answer own, other;
        const char *own_text, *other_text;
    } cases[] = {
        {UNKNOWN, UNKNOWN, "cannot resolve the host: Name or service not known",
         "(cannot resolve the host: Name or service not known)"},
        {AGAIN, AGAIN, "Temporary failure in name resolution",
         "Temporary failure in name resolution"},
        {ANSWER("192.0.2.1"), ANSWER("127.0.0.9"), "not an address of this machine",
         "(127.0.0.9:"},
        {{.code = EAI_FAIL, .hangs = true},
         {.code = EAI_FAIL, .hangs = true},
         "the name service has not answered",
         "the name service has not answered"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct job job;
        char addresses[2][64];
        uint64_t began_ns = clock_monotonic_ns();
        names_init(&job, addresses, false);
        scripts[0].answers[0] = cases[i].own;
        scripts[1].answers[0] = cases[i].other;
        for (int rank = 0; rank < 2; rank++)
            job.ranks[rank].params.timeout_ns = 300 * NS_PER_MS;
        job_run(&job);
        assert_true(clock_monotonic_ns() - began_ns < patience_ns(700 * NS_PER_MS));
        job_expect(&job, TRYST_E_BOOTSTRAP, NULL);
        print_message("%s\n%s\n", job.ranks[0].err.text, job.ranks[1].err.text);
        assert_non_null(strstr(job.ranks[0].err.text, cases[i].own_text));
        assert_non_null(strstr(job.ranks[1].err.text, cases[i].other_text));
        lookups_end();
    }
}

/* A name service that stops answering delays no attempt at the address that is known. */
static void known_address_outlasts_the_service(void **state)
{
    struct job job;
    char addresses[2][64];
    names_init(&job, addresses, false);
    scripts[0].answers[0] = (struct answer)HERE;
    scripts[1].answers[0] = (struct answer)HERE;
    scripts[1].answers[1] = (struct answer){.code = EAI_AGAIN, .hangs = true};
    pthread_create(&job.ranks[1].thread, NULL, job_rank_main, &job.ranks[1]);
    while (atomic_load(&scripts[1].asked) < 2)
        usleep(10000);
    pthread_create(&job.ranks[0].thread, NULL, job_rank_main, &job.ranks[0]);
    job_join(&job);
    job_expect(&job, TRYST_OK, NULL);
    assert_int_equal(atomic_load(&running), 1);
    lookups_end();
}

/* A lookup that hangs, on a name service that could not be reached when it began, does
 * not keep a later one from its answer. */
static void hanging_lookup_is_left(void **state)
{
    struct job job;
    char addresses[2][64];
    struct clock_fake fake;
    names_init(&job, addresses, false);
    clock_fake_init(&fake, 1000);
    for (int rank = 0; rank < 2; rank++) {
        job.ranks[rank].params.clock = &fake.clock;
        scripts[rank].answers[0] = (struct answer){.code = EAI_AGAIN, .hangs = true};
        scripts[rank].answers[1] = (struct answer)HERE;
    }
    job_start(&job);
    while (atomic_load(&running) < 2)
        usleep(1000);
    while (pthread_tryjoin_np(job.ranks[1].thread, NULL) != 0) {
        assert_true(clock_now_ns(&fake.clock) < 19 * NS_PER_S);
        clock_fake_advance(&fake, 100 * NS_PER_MS);
        usleep(5000);
    }
    pthread_join(job.ranks[0].thread, NULL);
    job_expect(&job, TRYST_OK, NULL);
    assert_int_equal(atomic_load(&running), 2);
    lookups_end();
}

static void cancel_ends_a_lookup(void **state)
{
    for (int rank = 0; rank < 2; rank++) {
        struct job job;
        char addresses[2][64];
        atomic_bool cancel = true;
        names_init(&job, addresses, false);
        scripts[rank].answers[0] = (struct answer){.code = EAI_FAIL, .hangs = true};
        job.ranks[1 - rank].absent = true;
        job.ranks[rank].params.cancel = &cancel;
        job_run(&job);
        job_expect(&job, TRYST_E_CANCELED, "was cancelled");
        lookups_end();
    }
}

/* Lookups that were left to their threads have freed what they held. */
static void nothing_is_left(void **state)
{
    for (int i = 0; alloc_live_count() != 0; i++) {
        assert_true(i < 500);
        usleep(10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_come_late),
        cmocka_unit_test(names_that_never_come),
        cmocka_unit_test(known_address_outlasts_the_service),
        cmocka_unit_test(hanging_lookup_is_left),
        cmocka_unit_test(cancel_ends_a_lookup),
        cmocka_unit_test(nothing_is_left),
    };
    threads_before = threads_count();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
