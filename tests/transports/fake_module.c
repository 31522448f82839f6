/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module without functions, for test_module_load.c, built in several ways:
 *   FAKE_NAME         the name that it reports
 *   FAKE_ABI_ID       the ABI id that it reports
 *   FAKE_NO_ENTRY     without the entry
 *   FAKE_NULL         its entry returns NULL
 *   FAKE_MEMORY       a table of memory functions of this size instead of a transport
 * Like libucs, its constructor installs handlers for SIGSEGV and SIGHUP and an alternate
 * stack, and starts a thread; `probe` returns OK when that thread had SIGINT blocked.
 */
#include "transports/module.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

static char stack_bytes[65536];
static sigset_t thread_mask;

static void handler(int signum)
{
    (void)signum;
}

static void *thread_main(void *arg)
{
    (void)arg;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &thread_mask);
    return NULL;
}

__attribute__((constructor)) static void fake_loaded(void)
{
    stack_t stack = {.ss_sp = stack_bytes, .ss_size = sizeof stack_bytes};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    pthread_t thread;
    (void)sigaltstack(&stack, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    if (pthread_create(&thread, NULL, thread_main, NULL) == 0)
        (void)pthread_join(thread, NULL);
}

#ifndef FAKE_NO_ENTRY
#ifndef FAKE_MEMORY
static tryst_status fake_probe(const struct tryst_host *host, char *text)
{
    (void)host;
    text[0] = '\0';
    return sigismember(&thread_mask, SIGINT) ? TRYST_OK : TRYST_E_UNSUPPORTED;
}

static const struct transport_ops ops = {
    .name = FAKE_NAME, .struct_size = sizeof(struct transport_ops), .probe = fake_probe};
#endif
#ifndef FAKE_NULL
#ifdef FAKE_MEMORY
static const struct memory_ops memory = {.name = FAKE_NAME, .struct_size = FAKE_MEMORY};
static const struct tryst_module module = {
    .abi_id = FAKE_ABI_ID, .name = FAKE_NAME, .version = "1.2", .memory = &memory};
#else
static const struct tryst_module module = {
    .abi_id = FAKE_ABI_ID, .name = FAKE_NAME, .version = "1.2", .ops = &ops};
#endif
#endif

__attribute__((visibility("default"))) const struct tryst_module *tryst_module_v1(
    const struct tryst_host *host);

const struct tryst_module *tryst_module_v1(const struct tryst_host *host)
{
#ifdef FAKE_NULL
    host->log(host, TRYST_LOG_WARN, ops.name);
    return NULL;
#else
    (void)host;
    return &module;
#endif
}
#endif
