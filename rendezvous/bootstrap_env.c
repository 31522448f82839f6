/* SPDX-License-Identifier: Apache-2.0 */
/* Bootstrap parameters out of the configuration: see bootstrap_env_read in bootstrap.h.
 *
 * One idea: a half-set environment is an error that names the other half; nothing is guessed.
 * Invariant: a job of several ranks has a token, unless the user has said TRYST_INSECURE=1. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap_auth.h"
#include "rendezvous/bootstrap.h"

#define TOKEN_LINE \
    "export TRYST_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')"

/* ---- who and where ---- */

/* "TRYST_RANK and TRYST_BOOTSTRAP", of what is not set. */
static void missing_text(bool rank, bool size, bool address, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s%s%s%s%s", rank ? "TRYST_RANK" : "",
             rank && (size || address) ? " and " : "", size ? "TRYST_SIZE" : "",
             size && address ? " and " : "", address ? "TRYST_BOOTSTRAP" : "");
}

static void present_text(bool rank, bool size, bool address, char *text, size_t bytes)
{
    missing_text(!rank, !size, !address, text, bytes);
}

static tryst_status half_set(bool no_rank, bool no_size, bool no_address, struct err *err)
{
    char missing[64], present[64];
    missing_text(no_rank, no_size, no_address, missing, sizeof missing);
    present_text(no_rank, no_size, no_address, present, sizeof present);
    bool one = no_rank + no_size + no_address == 1, one_there = !one;
    return err_set(
        err, TRYST_E_CONFIG,
        "%s %s set, but %s %s not: each process of a job needs TRYST_RANK, "
        "TRYST_SIZE and TRYST_BOOTSTRAP=host:port (where rank 0 runs); tryst-run "
        "sets them, and a process alone has none",
        present, one_there ? "is" : "are", missing, one ? "is" : "are");
}

static tryst_status place_read(const struct config *config, struct err *err,
                               struct bootstrap_env *env)
{
    int64_t rank = config_int(config, CONFIG_RANK),
            size = config_int(config, CONFIG_SIZE);
    const char *address = config_str(config, CONFIG_BOOTSTRAP);
    bool no_rank = rank < 0, no_size = size < 0, no_address = address[0] == '\0';
    if (size == 0)
        return err_set(err, TRYST_E_CONFIG, "TRYST_SIZE=0: a job has at least one rank");
    if (no_rank && no_size && no_address) {
        rank = 0;
        size = 1;
    } else if (size == 1 && no_rank) {
        rank = 0;
    } else if (no_rank || no_size || (no_address && size > 1)) {
        return half_set(no_rank, no_size, no_address, err);
    }
    if (rank >= size)
        return err_set(
            err, TRYST_E_CONFIG,
            "TRYST_RANK=%lld, but TRYST_SIZE=%lld: ranks count from 0, the last one "
            "is %lld",
            (long long)rank, (long long)size, (long long)size - 1);
    if (strlen(address) >= sizeof env->address)
        return err_set(err, TRYST_E_CONFIG, "TRYST_BOOTSTRAP is too long");
    snprintf(env->address, sizeof env->address, "%s", address);
    env->params.rank = (int)rank;
    env->params.size = (int)size;
    return TRYST_OK;
}

/* ---- the token ---- */

static tryst_status token_take(struct bootstrap_env *env, const char *text, size_t bytes,
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

/* The file must be ours alone, or the secret is none. */
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
        return err_set(
            err, TRYST_E_TOKEN,
            "TRYST_TOKEN_FILE=%.200s belongs to user %u, not to us (user %u); make "
            "a copy of your own",
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
    size_t used = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return err_set(err, TRYST_E_IO, "TRYST_TOKEN_FILE=%.200s: %s", path,
                       err_reason(errno));
    tryst_status status = token_file_check(fd, path, err);
    while (status == TRYST_OK && got > 0 && used < sizeof text) {
        got = read(fd, text + used, sizeof text - used);
        if (got > 0)
            used += (size_t)got;
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got < 0)
            status = err_set(err, TRYST_E_IO, "TRYST_TOKEN_FILE=%.200s: %s", path,
                             strerror(errno));
    }
    close(fd);
    if (status == TRYST_OK)
        status = token_take(env, text, used, "TRYST_TOKEN_FILE", err);
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
    if (path[0])
        return token_file_read(env, path, err);
    if (token[0])
        return token_take(env, token, strlen(token), "TRYST_TOKEN", err);
    if (!config_bool(config, CONFIG_INSECURE))
        return err_set(
            err, TRYST_E_TOKEN,
            "no job token; type: %s   and give the same value to every rank (or put "
            "it into a file of mode 0600 that TRYST_TOKEN_FILE names; "
            "TRYST_INSECURE=1 goes without)",
            TOKEN_LINE);
    env->params.insecure = true;
    if (env->params.rank == 0)
        LOG_WARN(
            log,
            "TRYST_INSECURE=1: this job has no token; whoever reaches %s can join it",
            env->address);
    return TRYST_OK;
}

tryst_status bootstrap_env_read(const struct config *config, const struct log *log,
                                struct err *err, struct bootstrap_env *env_p)
{
    const char *net = config_str(config, CONFIG_NET);
    struct bootstrap_env *env = env_p;
    memset(env, 0, sizeof *env);
    env->params.log = log;
    env->params.timeout_ns = config_time_ns(config, CONFIG_BOOTSTRAP_TIMEOUT);
    tryst_status status = place_read(config, err, env);
    if (status != TRYST_OK)
        return status;
    if (strlen(net) >= sizeof env->net)
        return err_set(err, TRYST_E_CONFIG, "TRYST_NET is too long");
    snprintf(env->net, sizeof env->net, "%s", net);
    env->params.address = env->address;
    env->params.bind_interface = env->net[0] ? env->net : NULL;
    env->params.listen_fd =
        env->params.rank == 0 ? (int)config_int(config, CONFIG_BOOTSTRAP_FD) : -1;
    return token_read(config, log, err, env);
}

void bootstrap_env_wipe(struct bootstrap_env *env)
{
    bootstrap_wipe(env, sizeof *env);
}
