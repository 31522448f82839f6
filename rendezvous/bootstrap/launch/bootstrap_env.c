/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap parameters from the configuration, the launcher's variables (launch.c) and,
 * where these require it, PMIx or PMI: see bootstrap_env_read in bootstrap_env.h.
 *
 * One idea: a half-set environment is an error that names the other half; nothing is
 * guessed. Invariant: a job of several ranks has a token, unless the user has set
 * TRYST_INSECURE=1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap_env.h"
#include "bootstrap_pmi.h"
#include "bootstrap_pmix.h"
#include "core/net/port_range.h"
#include "core/os/fd.h"
#include "core/os/random.h"
#include "core/text/hash.h"
#include "core/text/number.h"
#include "launch.h"
#include "rendezvous/bootstrap/session/bootstrap_auth.h"
#include "rendezvous/bootstrap/session/bootstrap_net.h"

#define TOKEN_LINE \
    "export TRYST_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')"

/* ---- the token --------------------------------------------------------------------- */

static tryst_status token_set(struct bootstrap_env *env, const char *text, size_t bytes,
                              const char *from, struct err *err)
{
    while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]))
        bytes--;
    if (bytes < BOOTSTRAP_TOKEN_MIN || bytes > BOOTSTRAP_TOKEN_MAX)
        return err_set(
            err, TRYST_E_TOKEN,
            "the token in %s has %zu characters; it needs %d to %d, for example: %s",
            from, bytes, BOOTSTRAP_TOKEN_MIN, BOOTSTRAP_TOKEN_MAX, TOKEN_LINE);
    memcpy(env->token, text, bytes);
    env->params.token = env->token;
    env->params.token_bytes = bytes;
    return TRYST_OK;
}

/* Check that no other user can read the file, so that the token is secret. */
static tryst_status token_file_check(int fd, const char *path, struct err *err)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return err_set(err, TRYST_E_IO, "TRYST_TOKEN_FILE=%.200s: %s", path,
                       strerror(errno));
    if (!S_ISREG(about.st_mode))
        return err_set(err, TRYST_E_TOKEN, "TRYST_TOKEN_FILE=%.200s is not a plain file",
                       path);
    if (about.st_uid != geteuid())
        return err_set(err, TRYST_E_TOKEN,
                       "TRYST_TOKEN_FILE=%.200s belongs to user %u, but this process "
                       "runs as user %u; make your own copy",
                       path, about.st_uid, geteuid());
    if (about.st_mode & 077)
        return err_set(
            err, TRYST_E_TOKEN,
            "TRYST_TOKEN_FILE=%.200s can be read by others (mode %04o); type: chmod "
            "600 %.200s",
            path, about.st_mode & 07777, path);
    return TRYST_OK;
}

static tryst_status token_file_read(struct bootstrap_env *env, const char *path,
                                    struct err *err)
{
    char text[BOOTSTRAP_TOKEN_MAX + 16];
    ssize_t got = 0;
    int fd = FD_MAKE(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return err_set(err, TRYST_E_IO, "TRYST_TOKEN_FILE=%.200s: %s", path,
                       err_reason(errno));
    tryst_status status = token_file_check(fd, path, err);
    if (status == TRYST_OK)
        got = read(fd, text, sizeof text); /* a plain file: one read gets all of it */
    if (got < 0)
        status = err_set(err, TRYST_E_IO, "TRYST_TOKEN_FILE=%.200s: %s", path,
                         strerror(errno));
    close(fd);
    if (status == TRYST_OK)
        status = token_set(env, text, (size_t)got, "TRYST_TOKEN_FILE", err);
    bootstrap_wipe(text, sizeof text);
    return status;
}

static tryst_status token_read(const struct config *config, const struct log *log,
                               struct err *err, struct bootstrap_env *env)
{
    const char *path = config_str(config, CONFIG_TOKEN_FILE);
    const char *token = config_str(config, CONFIG_TOKEN);
    if (env->params.size == 1)
        return TRYST_OK;
    if (env->params.token_bytes > 0)
        return TRYST_OK; /* the launcher's store has brought the token */
    if (path[0])
        return token_file_read(env, path, err);
    if (token[0])
        return token_set(env, token, strlen(token), "TRYST_TOKEN", err);
    if (!config_bool(config, CONFIG_INSECURE))
        return err_set(
            err, TRYST_E_TOKEN,
            "no job token; type: %s   and give the same value to every rank (or put "
            "it into a file of mode 0600 that TRYST_TOKEN_FILE names; "
            "TRYST_INSECURE=1 goes without)",
            TOKEN_LINE);
    env->params.insecure = true;
    if (env->params.rank == 0)
        LOG_WARN(log,
                 "TRYST_INSECURE=1: this job has no token; every process that reaches %s "
                 "can join",
                 env->address);
    return TRYST_OK;
}

/* ---- by PMIx or PMI ---------------------------------------------------------------- */

static bool has_token(const struct config *config)
{
    return *config_str(config, CONFIG_TOKEN) || *config_str(config, CONFIG_TOKEN_FILE);
}

/* Choose the ports for rank 0's listener: TRYST_PORT, TRYST_PORT_RANGE, or the ports
 * below those that the kernel assigns by itself, since a later session of this process
 * needs the same port again. */
static tryst_status ports_choose(const struct config *config, struct err *err,
                                 struct port_range *ports_p)
{
    enum { LOWEST = 10240 }; /* lower ports belong to other services */
    char text[64] = "";
    const char *at = text;
    uint64_t first = 0;
    uint16_t port = (uint16_t)config_int(config, CONFIG_PORT);
    const char *range = config_str(config, CONFIG_PORT_RANGE);
    *ports_p = (struct port_range){port, port};
    if (port)
        return TRYST_OK;
    if (*range)
        return port_range_parse(range, err, ports_p);
    FILE *file = fd_file_open("/proc/sys/net/ipv4/ip_local_port_range", "re");
    bool read = file && fgets(text, sizeof text, file) && number_read(&at, &first);
    if (read && first > LOWEST + 1000 && first <= UINT16_MAX)
        *ports_p = (struct port_range){LOWEST, (uint16_t)(first - 1)};
    if (file)
        (void)fclose(file);
    return TRYST_OK;
}

/* Prepare rank 0: open a socket, unless TRYST_BOOTSTRAP has the address; draw a token,
 * unless the user has set one. */
static tryst_status root_prepare(const struct config *config, const struct launch *launch,
                                 struct err *err, struct bootstrap_env *env)
{
    struct port_range ports = {0, 0};
    struct hash128 secret;
    char token[HASH128_HEX_BYTES];
    const char *net = config_str(config, CONFIG_NET);
    bool one_host = launch->size == launch->local_size && !*net;
    tryst_status status = TRYST_OK;
    if (!env->address[0])
        status = ports_choose(config, err, &ports);
    if (status == TRYST_OK && !env->address[0]) {
        status = bootstrap_listen_here(one_host, net, ports, err, &env->params.listen_fd,
                                       env->address);
        env->owns_listener = status == TRYST_OK;
    }
    if (status != TRYST_OK || has_token(config) || config_bool(config, CONFIG_INSECURE))
        return status;
    if (random_secret(&secret, sizeof secret) != TRYST_OK)
        return err_set(err, TRYST_E_SYSTEM, "cannot draw a token: %s", strerror(errno));
    hash128_hex(secret, token);
    status = token_set(env, token, sizeof token - 1, "rank 0", err);
    bootstrap_wipe(&secret, sizeof secret);
    bootstrap_wipe(token, sizeof token);
    return status;
}

/* Write "host:port,token", or "host:port,-" if each rank has its own token. */
static void root_text_write(const struct bootstrap_env *env,
                            char text_p[BOOTSTRAP_PMIX_TEXT_BYTES])
{
    (void)snprintf(text_p, BOOTSTRAP_PMIX_TEXT_BYTES, "%s,%.*s", env->address,
                   env->params.token_bytes ? (int)env->params.token_bytes : 1,
                   env->params.token_bytes ? (const char *)env->token : "-");
}

static tryst_status root_text_parse(const struct config *config, char *text,
                                    struct err *err, struct bootstrap_env *env)
{
    char *token = strrchr(text, ',');
    if (!token || token - text >= BOOTSTRAP_ADDRESS_MAX)
        return err_set(err, TRYST_E_BOOTSTRAP,
                       "rank 0 has published no valid address and token; run the same "
                       "version of Tryst on all ranks");
    *token++ = '\0';
    if (!env->address[0])
        memcpy(env->address, text, strlen(text) + 1);
    if (has_token(config) || strcmp(token, "-") == 0)
        return TRYST_OK;
    return token_set(env, token, strlen(token), "rank 0's text", err);
}

/* Get what this process has published or received before; false: nothing. */
static bool store_cached(const struct launch *launch,
                         char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p)
{
#ifdef TRYST_HAVE_PMIX
    if (launch->by_pmix)
        return bootstrap_pmix_cached(text_p, size_p);
#endif
    *size_p = launch->size;
    return bootstrap_pmi_cached(text_p);
}

static tryst_status store_meet(const struct launch *launch,
                               const struct bootstrap_params *params,
                               const char *published, struct err *err,
                               char text_p[BOOTSTRAP_PMIX_TEXT_BYTES], int *size_p)
{
#ifdef TRYST_HAVE_PMIX
    if (launch->by_pmix)
        return bootstrap_pmix_meet(published, params->timeout_ns, params->log, err,
                                   text_p, size_p);
#endif
    *size_p = launch->size;
    return bootstrap_pmi_meet(launch->pmi_fd, published, params->timeout_ns, params->log,
                              err, text_p);
}

/* Get address, token and size by PMIx or PMI. A size from TRYST_SIZE stays. */
static tryst_status store_read(const struct config *config, const struct launch *launch,
                               struct err *err, struct bootstrap_env *env)
{
    char text[BOOTSTRAP_PMIX_TEXT_BYTES] = "";
    int size = 0;
    tryst_status status = TRYST_OK;
    bool is_cached = store_cached(launch, text, &size);
    bool publishes = launch->rank == 0 && !is_cached;
    if (publishes)
        status = root_prepare(config, launch, err, env);
    if (publishes && status == TRYST_OK)
        root_text_write(env, text);
    if (status == TRYST_OK && !is_cached)
        status =
            store_meet(launch, &env->params, publishes ? text : NULL, err, text, &size);
    if (status == TRYST_OK && !publishes)
        status = root_text_parse(config, text, err, env);
    bootstrap_wipe(text, sizeof text);
    if (status != TRYST_OK)
        return status;
    LOG_INFO(env->params.log, "%s: rank 0 serves at %s", launch->by_pmi ? "PMI" : "PMIx",
             env->address);
    env->params.size = launch->size > 0 ? launch->size : size;
    if (launch->rank >= env->params.size)
        return err_set(err, TRYST_E_CONFIG,
                       "rank %d is out of range: PMIx reports %d ranks", launch->rank,
                       env->params.size);
    return status;
}

#ifndef TRYST_HAVE_PMIX
bool bootstrap_pmix_usable(char *text, size_t capacity)
{
    (void)snprintf(text, capacity, ", but this build has no PMIx");
    return false;
}
#endif

/* ---- all of it --------------------------------------------------------------------- */

tryst_status bootstrap_env_read(const struct config *config, uint64_t timeout_ns,
                                const struct log *log, struct err *err,
                                struct bootstrap_env *env_p)
{
    struct launch launch;
    const char *net = config_str(config, CONFIG_NET);
    struct bootstrap_env *env = env_p;
    memset(env, 0, sizeof *env);
    env->params.listen_fd = -1;
    env->params.log = log;
    env->params.timeout_ns =
        timeout_ns ? timeout_ns : config_time_ns(config, CONFIG_BOOTSTRAP_TIMEOUT);
    tryst_status status = launch_detect(config, getenv, err, &launch);
    if (status != TRYST_OK)
        return status;
    LOG_INFO(log, "launched by %s", launch.why);
    if (strlen(net) >= sizeof env->net)
        return err_set(err, TRYST_E_CONFIG, "TRYST_NET is too long");
    memcpy(env->net, net, strlen(net) + 1);
    memcpy(env->address, launch.address, sizeof env->address);
    env->params.rank = launch.rank;
    env->params.size = launch.size;
    env->local_rank = launch.local_rank;
    env->local_size = launch.local_size;
    memcpy(env->job, launch.job, sizeof env->job);
    env->params.job = env->job;
    env->params.address_setting = launch.address_setting;
    env->params.port_setting = launch.port_setting;
    env->params.address = env->address;
    env->params.bind_interface = env->net[0] ? env->net : NULL;
    if (env->params.rank == 0)
        env->params.listen_fd = (int)config_int(config, CONFIG_BOOTSTRAP_FD);
    if (launch.by_pmix || launch.by_pmi)
        status = store_read(config, &launch, err, env);
    if (status != TRYST_OK)
        return status;
    return token_read(config, log, err, env);
}

tryst_status bootstrap_token_check(const struct config *config, struct err *err)
{
    struct bootstrap_env env = {.params = {.rank = 1, .size = 2, .listen_fd = -1}};
    tryst_status status = token_read(config, NULL, err, &env);
    bootstrap_env_wipe(&env);
    return status;
}

void bootstrap_env_wipe(struct bootstrap_env *env)
{
    if (env->owns_listener && env->params.listen_fd >= 0)
        close(env->params.listen_fd);
    bootstrap_wipe(env, sizeof *env);
}
