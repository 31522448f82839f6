/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a job in the environment, as a table; and the token's file. */
#include "support/unit.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/bootstrap/launch/bootstrap_env.h"
#include "rendezvous/bootstrap/session/bootstrap.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

/* up to eight "name=value" settings */
static tryst_status read_settings(const char *const *settings, struct err *err,
                                  struct bootstrap_env *env)
{
    struct config *config = NULL;
    assert_int_equal(config_open_defaults(&config), TRYST_OK);
    for (size_t i = 0; i < 8 && settings[i]; i++) {
        char name[64];
        const char *value = strchr(settings[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(value - settings[i]), settings[i]);
        assert_int_equal(config_set(config, name, value + 1, err), TRYST_OK);
    }
    tryst_status status = bootstrap_env_read(config, 0, NULL, err, env);
    config_close(config);
    return status;
}

/* NOLINTNEXTLINE(readability-function-size): the length is the table's. */
static void environment_as_a_table(void **state)
{
    static const struct {
        const char *settings[8];
        tryst_status status;
        const char *text; /* part of the error's text */
        int rank, size;
    } cases[] = {
        {{NULL}, TRYST_OK, NULL, 0, 1},
        {{"size=1"}, TRYST_OK, NULL, 0, 1},
        {{"size=1", "rank=0"}, TRYST_OK, NULL, 0, 1},
        {{"rank=2", "size=4", "bootstrap=h:1", ("token=" TOKEN)}, TRYST_OK, NULL, 2, 4},
        {{"rank=0", "size=2", "bootstrap=h:1", "insecure=1"}, TRYST_OK, NULL, 0, 2},
        {{("token=" TOKEN)}, TRYST_OK, NULL, 0, 1},
        {{"rank=1"},
         TRYST_E_CONFIG,
         "TRYST_RANK is set, but TRYST_SIZE and TRYST_BOOTSTRAP are not",
         0,
         0},
        {{"size=4"},
         TRYST_E_CONFIG,
         "TRYST_SIZE is set, but TRYST_RANK and TRYST_BOOTSTRAP are not",
         0,
         0},
        {{"bootstrap=h:1"},
         TRYST_E_CONFIG,
         "TRYST_BOOTSTRAP is set, but TRYST_RANK and TRYST_SIZE are not",
         0,
         0},
        {{"rank=1", "size=4"},
         TRYST_E_CONFIG,
         "TRYST_RANK and TRYST_SIZE are set, but TRYST_BOOTSTRAP is not",
         0,
         0},
        {{"size=4", "bootstrap=h:1"},
         TRYST_E_CONFIG,
         "TRYST_SIZE and TRYST_BOOTSTRAP are set, but TRYST_RANK is not",
         0,
         0},
        {{"rank=1", "bootstrap=h:1"},
         TRYST_E_CONFIG,
         "TRYST_RANK and TRYST_BOOTSTRAP are set, but TRYST_SIZE is not",
         0,
         0},
        {{"rank=4", "size=4", "bootstrap=h:1", ("token=" TOKEN)},
         TRYST_E_CONFIG,
         "TRYST_RANK=4, but TRYST_SIZE=4",
         0,
         0},
        {{"rank=1", "size=1"}, TRYST_E_CONFIG, "the last one is 0", 0, 0},
        {{"size=0"}, TRYST_E_CONFIG, "at least one rank", 0, 0},
        {{"rank=1", "size=4", "bootstrap=h:1"},
         TRYST_E_TOKEN,
         "export TRYST_TOKEN=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n')",
         0,
         0},
        {{"rank=1", "size=4", "bootstrap=h:1", "token=short"},
         TRYST_E_TOKEN,
         "has 5 characters; it needs 16",
         0,
         0},
        {{"rank=1", "size=4", "bootstrap=h:1", "token_file=/nowhere/token"},
         TRYST_E_IO,
         "TRYST_TOKEN_FILE=/nowhere/token: No such file",
         0,
         0},
        {{"rank=1", "size=4", "bootstrap=h:1", "token_file=/dev/null"},
         TRYST_E_TOKEN,
         "is not a plain file",
         0,
         0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct bootstrap_env env;
        struct err err = ERR_INIT;
        tryst_status status = read_settings(cases[i].settings, &err, &env);
        if (status != cases[i].status ||
            (cases[i].text && !strstr(err.text, cases[i].text)))
            print_error("case %zu: status %d: %s\n", i, status, err.text);
        assert_int_equal(status, cases[i].status);
        if (cases[i].text)
            assert_non_null(strstr(err.text, cases[i].text));
        if (status != TRYST_OK)
            continue;
        assert_int_equal(env.params.rank, cases[i].rank);
        assert_int_equal(env.params.size, cases[i].size);
        bootstrap_env_wipe(&env);
    }
}

static void everything_arrives(void **state)
{
    static const char *const settings[8] = {
        "rank=0",          "size=2",   "bootstrap=h:1",       ("token=" TOKEN),
        "bootstrap_fd=17", "net=eth0", "bootstrap_timeout=3s"};
    struct bootstrap_env env;
    struct err err = ERR_INIT;
    assert_int_equal(read_settings(settings, &err, &env), TRYST_OK);
    assert_string_equal(env.params.address, "h:1");
    assert_int_equal(env.params.token_bytes, strlen(TOKEN));
    assert_memory_equal(env.params.token, TOKEN, strlen(TOKEN));
    assert_int_equal(env.params.listen_fd, 17);
    assert_string_equal(env.params.bind_interface, "eth0");
    assert_true(env.params.timeout_ns == 3 * NS_PER_S);
    assert_false(env.params.insecure);
    bootstrap_env_wipe(&env);
    assert_int_equal(env.token[0], 0);
}

/* The socket belongs to rank 0. Other ranks may get its number from a careless
 * wrapper. */
static void socket_is_for_rank_0_alone(void **state)
{
    static const char *const settings[8] = {"rank=1", "size=2", "bootstrap=h:1",
                                            ("token=" TOKEN), "bootstrap_fd=17"};
    struct bootstrap_env env;
    struct err err = ERR_INIT;
    assert_int_equal(read_settings(settings, &err, &env), TRYST_OK);
    assert_int_equal(env.params.listen_fd, -1);
}

struct lines {
    int count;
    char last[256];
};

static void line_note(void *arg, tryst_log_level level, const char *line)
{
    struct lines *lines = arg;
    assert_int_equal(level, TRYST_LOG_WARN);
    lines->count++;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

static void insecure_is_said_aloud(void **state)
{
    struct lines lines = {.count = 0};
    struct log log = LOG_INIT;
    struct config *config = NULL;
    struct bootstrap_env env;
    log.sink = line_note;
    log.arg = &lines;
    assert_int_equal(config_open_defaults(&config), TRYST_OK);
    assert_int_equal(config_set(config, "rank", "0", NULL), TRYST_OK);
    assert_int_equal(config_set(config, "size", "2", NULL), TRYST_OK);
    assert_int_equal(config_set(config, "bootstrap", "h:1", NULL), TRYST_OK);
    assert_int_equal(config_set(config, "insecure", "1", NULL), TRYST_OK);
    assert_int_equal(bootstrap_env_read(config, 0, &log, NULL, &env), TRYST_OK);
    assert_true(env.params.insecure);
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.last, "TRYST_INSECURE=1"));
    /* With a token, `insecure` is ignored. */
    assert_int_equal(config_set(config, "token", TOKEN, NULL), TRYST_OK);
    assert_int_equal(bootstrap_env_read(config, 0, &log, NULL, &env), TRYST_OK);
    assert_false(env.params.insecure);
    assert_int_equal(lines.count, 1);
    config_close(config);
}

static void file_write(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static tryst_status read_file(const char *path, struct err *err,
                              struct bootstrap_env *env)
{
    char setting[512];
    const char *settings[8] = {"rank=1", "size=2", "bootstrap=h:1",
                               "token=" TOKEN "other", setting};
    snprintf(setting, sizeof setting, "token_file=%s", path);
    return read_settings(settings, err, env);
}

static void token_file_is_ours_alone(void **state)
{
    static const mode_t open_modes[] = {0640, 0604, 0660, 0644, 0610, 0601};
    const char *base = getenv("TMPDIR");
    char folder[256], path[300];
    struct bootstrap_env env;
    struct err err = ERR_INIT;
    snprintf(folder, sizeof folder, "%s/tryst-XXXXXX", base ? base : P_tmpdir);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/token", folder);

    file_write(path, TOKEN "\n", 0600);
    assert_int_equal(read_file(path, &err, &env),
                     TRYST_OK); /* and the file wins over TRYST_TOKEN */
    assert_int_equal(env.params.token_bytes, strlen(TOKEN));
    assert_memory_equal(env.params.token, TOKEN, strlen(TOKEN));
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(read_file(path, &err, &env), TRYST_OK);
    for (size_t i = 0; i < COUNT_OF(open_modes); i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        assert_int_equal(read_file(path, &err, &env), TRYST_E_TOKEN);
        assert_non_null(strstr(err.text, "type: chmod 600 "));
        assert_non_null(strstr(err.text, path));
    }
    file_write(path, "short\n", 0600);
    assert_int_equal(read_file(path, &err, &env), TRYST_E_TOKEN);
    assert_non_null(strstr(err.text, "TRYST_TOKEN_FILE has 5 characters"));
    file_write(path, "", 0600);
    assert_int_equal(read_file(path, &err, &env), TRYST_E_TOKEN);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 5000; i++)
        fputc('x', file);
    fclose(file);
    assert_int_equal(read_file(path, &err, &env), TRYST_E_TOKEN);
    file_write(path, TOKEN, 0600);
    if (chown(path, 12345, 12345) == 0 && geteuid() != 12345) {
        assert_int_equal(read_file(path, &err, &env), TRYST_E_TOKEN);
        assert_non_null(strstr(err.text, "belongs to user 12345"));
    } else {
        print_message("left out: a token file of another user\n");
    }
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_as_a_table),
        cmocka_unit_test(everything_arrives),
        cmocka_unit_test(socket_is_for_rank_0_alone),
        cmocka_unit_test(insecure_is_said_aloud),
        cmocka_unit_test(token_file_is_ours_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
