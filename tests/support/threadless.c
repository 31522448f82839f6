/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into tests that are THREADLESS (cmake/TrystTests.cmake) with
 * --wrap=pthread_create: these tests are left out under TSan because the code under test
 * starts no thread in them, so a thread is a failure. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*body)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*body)(void *), void *arg)
{
    (void)thread, (void)attr, (void)body, (void)arg;
    (void)fputs("a test that is THREADLESS started a thread\n", stderr);
    abort();
}
