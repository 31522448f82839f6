/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends UCX's log lines to the context's log, not to the host program's stdout.
 *
 * Idea: UCX has one list of log handlers per process, and other code of the process may
 * use UCX too. So the thread of a line decides. A line of a thread inside a call of this
 * module goes to that call's context. A line of UCX's own thread, which works for all
 * workers, goes to the rail that has been open longest. This handler passes on all other
 * lines unchanged.
 * Invariant: where the user has set UCX_LOG_FILE, UCX writes there, and this handler is
 * not installed. UCX calls the handler from any thread.
 */
#include "ucx_log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

/* The open rails, the longest open one first. The lock is held while a line of UCX's
 * thread is written, so that the rail's host stays valid. */
static pthread_mutex_t rails_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list rails = {{&rails.head, &rails.head}};

static tryst_log_level log_level(ucs_log_level_t level, const char *message)
{
    /* UCX's line for a setting of this module if the machine lacks the transport */
    if (strncmp(message, "invalid configuration", 21) == 0)
        return TRYST_LOG_DEBUG;
    /* errors of UCX are warnings here: this module decides what is an error */
    if (level <= UCS_LOG_LEVEL_WARN)
        return TRYST_LOG_WARN;
    return level <= UCS_LOG_LEVEL_INFO ? TRYST_LOG_INFO : TRYST_LOG_DEBUG;
}

/* True in UCX's own thread, by the name that UCX gives it (1.13 to the newest). */
static bool is_thread_of_ucx(void)
{
    char name[16] = "";
    return pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
           strcmp(name, "async") == 0;
}

static bool line_forward(tryst_log_level level, const char *text)
{
    bool taken = false;
    if (fabric_log_host) {
        fabric_log_host->log(fabric_log_host, level, text);
        return true;
    }
    if (!is_thread_of_ucx())
        return false;
    pthread_mutex_lock(&rails_lock);
    if (!list_empty(&rails)) {
        const struct ucx_rail *rail =
            container_of(list_first(&rails), struct ucx_rail, log_node);
        rail->fabric.host->log(rail->fabric.host, level, text);
        taken = true;
    }
    pthread_mutex_unlock(&rails_lock);
    return taken;
}

static ucs_log_func_rc_t log_handler(const char *file, unsigned line,
                                     const char *function, ucs_log_level_t level,
                                     const ucs_log_component_config_t *component,
                                     const char *message, va_list args)
{
    char text[512];
    int used;
    (void)function;
    (void)component;
    if (level == UCS_LOG_LEVEL_FATAL)
        return UCS_LOG_FUNC_RC_CONTINUE;
    used = snprintf(text, sizeof text, "ucx: ");
    (void)vsnprintf(text + used, sizeof text - (size_t)used, message, args);
    used = (int)strlen(text);
    (void)snprintf(text + used, sizeof text - (size_t)used, " (%s:%u)", file, line);
    return line_forward(log_level(level, message), text) ? UCS_LOG_FUNC_RC_STOP
                                                         : UCS_LOG_FUNC_RC_CONTINUE;
}

void ucx_log_setup(void)
{
    if (!getenv("UCX_LOG_FILE"))
        ucs_log_push_handler(log_handler);
}

void ucx_log_open(struct ucx_rail *rail)
{
    pthread_mutex_lock(&rails_lock);
    list_push_back(&rails, &rail->log_node);
    pthread_mutex_unlock(&rails_lock);
}

void ucx_log_close(struct ucx_rail *rail)
{
    pthread_mutex_lock(&rails_lock);
    (void)list_remove(&rail->log_node);
    pthread_mutex_unlock(&rails_lock);
}
