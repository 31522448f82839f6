/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings, the environment, setting by name, and the comparison between
 * ranks. */
#include "support/unit.h"

#include <ctype.h>
#include <string.h>

#include "core/config/config.h"
#include "core/config/config_value.h"
#include "core/memory/alloc.h"

extern char **environ;

static const struct config_row table[] = {
#define ROW(id, name, type, fallback, allowed, flags, help) \
    {name, "TRYST_" #id, CONFIG_TYPE_##type, fallback, allowed, flags, help},
    CONFIG_TABLE(ROW)
#undef ROW
};

struct caught {
    int count;
    char line[LOG_LINE_BYTES];
};

static void catch_line(void *arg, tryst_log_level level, const char *line)
{
    struct caught *caught = arg;
    (void)level;
    caught->count++;
    snprintf(caught->line, sizeof caught->line, "%s", line);
}

/* Clear all TRYST_ variables before each test. */
static int clear_environment(void **state)
{
    (void)state;
    for (char **variable = environ; *variable;) {
        char name[128];
        size_t length = strcspn(*variable, "=");
        if (strncmp(*variable, "TRYST_", 6) != 0 || length >= sizeof name) {
            variable++;
            continue;
        }
        memcpy(name, *variable, length);
        name[length] = '\0';
        unsetenv(name);
    }
    return 0;
}

static struct config *open_ok(void)
{
    struct config *config;
    struct err err = ERR_INIT;
    tryst_status status = config_open(NULL, &err, &config);
    if (status != TRYST_OK)
        fail_msg("%s", err.text);
    return config;
}

/* ---- the table --------------------------------------------------------------------- */

static void every_row_is_sound(void **state)
{
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        const struct config_row *row = &table[i];
        uint64_t value;
        if (!value_parse(row, row->fallback, &value))
            fail_msg("%s: the default \"%s\" is not allowed", row->name, row->fallback);
        assert_int_equal(strlen(row->environment) - 6, strlen(row->name));
        for (size_t c = 0; row->name[c]; c++)
            assert_int_equal(tolower((unsigned char)row->environment[6 + c]),
                             row->name[c]);
        assert_true(strlen(row->help) > 0);
        /* name_nearest does not compare longer names */
        assert_true(strlen(row->name) < 60);
        assert_null(strchr(row->help, '|')); /* would break the README's table */
    }
}

static void no_two_rows_share_a_name(void **state)
{
    for (size_t i = 0; i < COUNT_OF(table); i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(table[i].name, table[j].name);
}

static void constants_name_the_words(void **state)
{
    static const struct {
        enum config_id id;
        int index;
        const char *word;
    } cases[] = {{CONFIG_TRANSPORT, CONFIG_TRANSPORT_AUTO, "auto"},
                 {CONFIG_TRANSPORT, CONFIG_TRANSPORT_SELF, "self"},
                 {CONFIG_TRANSPORT, CONFIG_TRANSPORT_SHM, "shm"},
                 {CONFIG_TRANSPORT, CONFIG_TRANSPORT_UCX, "ucx"},
                 {CONFIG_TRANSPORT, CONFIG_TRANSPORT_OFI, "ofi"},
                 {CONFIG_SHM_MECH, CONFIG_SHM_MECH_AUTO, "auto"},
                 {CONFIG_SHM_MECH, CONFIG_SHM_MECH_MAP, "map"},
                 {CONFIG_SHM_MECH, CONFIG_SHM_MECH_CMA, "cma"},
                 {CONFIG_SHM_MECH, CONFIG_SHM_MECH_RING, "ring"},
                 {CONFIG_LOG_LEVEL, TRYST_LOG_ERROR - 1, "error"},
                 {CONFIG_LOG_LEVEL, TRYST_LOG_WARN - 1, "warn"},
                 {CONFIG_LOG_LEVEL, TRYST_LOG_TRACE - 1, "trace"}};
    struct config *config = open_ok();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(
            config_set(config, config_name(cases[i].id), cases[i].word, NULL), TRYST_OK);
        assert_int_equal(config_enum(config, cases[i].id), cases[i].index);
        assert_string_equal(config_enum_word(config, cases[i].id), cases[i].word);
    }
    config_close(config);
}

/* ---- sources, values --------------------------------------------------------------- */

static void defaults_hold_where_nothing_is_said(void **state)
{
    struct config *config = open_ok();
    assert_int_equal(config_bytes(config, CONFIG_WINDOW_BYTES), 0); /* auto */
    assert_int_equal(config_time_ns(config, CONFIG_SPIN), 50 * NS_PER_US);
    assert_int_equal(config_int(config, CONFIG_RANK), -1);
    assert_false(config_bool(config, CONFIG_PROGRESS_THREAD));
    assert_string_equal(config_str(config, CONFIG_NET), "");
    assert_int_equal(config_source(config, CONFIG_SPIN), CONFIG_FROM_DEFAULT);
    config_close(config);
}

static void the_environment_overrides_and_a_setting_overrides_that(void **state)
{
    setenv("TRYST_WINDOW_BYTES", "8MiB", 1);
    setenv("TRYST_RANK", "3", 1);
    setenv("TRYST_PROGRESS_THREAD", "yes", 1);
    setenv("TRYST_SPIN", "", 1); /* set but empty: not set */
    setenv("TRYSTING", "not a Tryst setting", 1);
    struct config *config = open_ok();
    assert_int_equal(config_bytes(config, CONFIG_WINDOW_BYTES), 8 << 20);
    assert_int_equal(config_source(config, CONFIG_WINDOW_BYTES), CONFIG_FROM_ENVIRONMENT);
    assert_int_equal(config_int(config, CONFIG_RANK), 3);
    assert_true(config_bool(config, CONFIG_PROGRESS_THREAD));
    assert_int_equal(config_source(config, CONFIG_SPIN), CONFIG_FROM_DEFAULT);
    assert_int_equal(config_set(config, "window_bytes", "1G", NULL), TRYST_OK);
    assert_int_equal(config_set(config, "TRYST_RANK", "4", NULL), TRYST_OK);
    assert_int_equal(config_bytes(config, CONFIG_WINDOW_BYTES), 1 << 30);
    assert_int_equal(config_source(config, CONFIG_WINDOW_BYTES), CONFIG_FROM_SET);
    assert_string_equal(config_get_string(config, "window_bytes"), "1G");
    assert_int_equal(config_int(config, CONFIG_RANK), 4);
    config_close(config);
    unsetenv("TRYSTING");
}

static void values_are_found_by_name(void **state)
{
    struct config *config = open_ok();
    uint64_t value = 0;
    assert_true(config_get_number(config, "peer_timeout", &value));
    assert_int_equal(value, 15 * NS_PER_S);
    /* a text setting has no number */
    assert_false(config_get_number(config, "net", &value));
    assert_false(config_get_number(config, "nonsense", &value));
    assert_null(config_get_string(config, "nonsense"));
    /* a prefix of a name does not match */
    assert_null(config_get_string(config, "windo"));
    assert_string_equal(config_environment(CONFIG_NET), "TRYST_NET");
    config_close(config);
}

static void a_bad_variable_names_itself_its_value_and_what_is_allowed(void **state)
{
    static const struct {
        const char *variable, *value, *words[3];
    } cases[] = {
        {"TRYST_WINDOW_BYTES", "7Q", {"TRYST_WINDOW_BYTES", "\"7Q\"", "from 4K to 1T"}},
        {"TRYST_PEER_TIMEOUT", "15", {"TRYST_PEER_TIMEOUT", "\"15\"", "60s"}},
        {"TRYST_TRANSPORT",
         "tcp",
         {"TRYST_TRANSPORT", "\"tcp\"", "auto|self|shm|ucx|ofi"}},
        {"TRYST_INSECURE", "maybe", {"TRYST_INSECURE", "\"maybe\"", "yes"}},
        {"TRYST_RANK", "-2", {"TRYST_RANK", "\"-2\"", "from -1"}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err err = ERR_INIT;
        struct config *config = NULL;
        uint64_t live = alloc_live_count();
        setenv(cases[i].variable, cases[i].value, 1);
        assert_int_equal(config_open(NULL, &err, &config), TRYST_E_CONFIG);
        assert_null(config);
        for (size_t w = 0; w < COUNT_OF(cases[i].words); w++)
            if (!strstr(err.text, cases[i].words[w]))
                fail_msg("\"%s\" does not say %s", err.text, cases[i].words[w]);
        assert_int_equal(alloc_live_count(), live);
        unsetenv(cases[i].variable);
    }
}

static void a_refused_setting_changes_nothing(void **state)
{
    struct config *config = open_ok();
    struct err err = ERR_INIT;
    assert_int_equal(config_set(config, "slice_bytes", "2M", &err), TRYST_OK);
    assert_int_equal(config_set(config, "slice_bytes", "many", &err), TRYST_E_CONFIG);
    assert_non_null(strstr(err.text, "slice_bytes=\"many\""));
    assert_int_equal(config_bytes(config, CONFIG_SLICE_BYTES), 2 << 20);
    assert_int_equal(config_set(config, "slice_byte", "1M", &err), TRYST_E_CONFIG);
    assert_string_equal(err.text,
                        "cannot set \"slice_byte\": no such setting; did you mean "
                        "slice_bytes?");
    config_close(config);
}

static void an_unknown_variable_is_warned_about_with_the_nearest_name(void **state)
{
    static const struct {
        const char *variable, *nearest;
    } cases[] = {{"TRYST_WINDOW_BYTE", "TRYST_WINDOW_BYTES"},
                 {"TRYST_WINDOW", "TRYST_WINDOW_BYTES"},
                 {"TRYST_WINDWO", "TRYST_WINDOW_BYTES"},
                 {"TRYST_SLICE", "TRYST_SLICE_BYTES"},
                 {"TRYST_CONNECT", "TRYST_CONNECT_TIMEOUT"},
                 {"TRYST_SHM", "TRYST_SHM_MECH"},
                 {"TRYST_SZIE", "TRYST_SIZE"},
                 {"TRYST_TRANSPROT", "TRYST_TRANSPORT"},
                 {"TRYST_BOOSTRAP_TIMEOUT", "TRYST_BOOTSTRAP_TIMEOUT"},
                 {"TRYST_rank", "TRYST_RANK"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct caught caught = {0};
        struct log log = LOG_INIT;
        struct config *config;
        char question[128];
        log.sink = catch_line;
        log.arg = &caught;
        setenv(cases[i].variable, "1", 1);
        assert_int_equal(config_open(&log, NULL, &config), TRYST_OK);
        unsetenv(cases[i].variable);
        config_close(config);
        assert_int_equal(caught.count, 1);
        assert_non_null(strstr(caught.line, cases[i].variable));
        snprintf(question, sizeof question, "did you mean %s?", cases[i].nearest);
        assert_non_null(strstr(caught.line, question));
    }
}

static void a_name_like_no_setting_gets_no_suggestion(void **state)
{
    struct config *config = open_ok();
    struct err err = ERR_INIT;
    assert_int_equal(config_set(config, "TRYST_COLOUR", "1", &err), TRYST_E_CONFIG);
    assert_string_equal(err.text,
                        "cannot set \"TRYST_COLOUR\": no such setting; tryst-info -c "
                        "lists all settings");
    config_close(config);
}

static void variables_of_tests_and_of_python_are_passed_over(void **state)
{
    struct caught caught = {0};
    struct log log = LOG_INIT;
    struct config *config;
    log.sink = catch_line;
    log.arg = &caught;
    setenv("TRYST_TEST_SEED", "1", 1);
    setenv("TRYST_LIBRARY", "libtryst.so", 1);
    assert_int_equal(config_open(&log, NULL, &config), TRYST_OK);
    unsetenv("TRYST_TEST_SEED");
    unsetenv("TRYST_LIBRARY");
    config_close(config);
    assert_int_equal(caught.count, 0);
}

static void without_the_environment_there_are_defaults(void **state)
{
    struct config *config;
    setenv("TRYST_RANK", "not even a number", 1);
    assert_int_equal(config_open_defaults(&config), TRYST_OK);
    assert_int_equal(config_int(config, CONFIG_RANK), -1);
    unsetenv("TRYST_RANK");
    config_close(config);
}

/* ---- visit, copy ------------------------------------------------------------------- */

struct visited {
    size_t count, stop_after;
    char token[32], window[32], origin[32];
};

static int visit(void *arg, const tryst_config_item *item)
{
    struct visited *visited = arg;
    assert_string_equal(item->name, table[visited->count].name);
    assert_string_equal(item->fallback, table[visited->count].fallback);
    if (strcmp(item->name, "token") == 0)
        snprintf(visited->token, sizeof visited->token, "%s", item->value);
    if (strcmp(item->name, "window_bytes") == 0) {
        snprintf(visited->window, sizeof visited->window, "%s", item->value);
        snprintf(visited->origin, sizeof visited->origin, "%s", item->origin);
    }
    return ++visited->count == visited->stop_after ? 7 : 0;
}

static void a_visit_sees_all_rows_but_no_secret(void **state)
{
    struct config *config = open_ok();
    struct visited before = {0}, after = {0}, some = {.stop_after = 3};
    assert_int_equal(config_visit(config, visit, &before), 0);
    assert_int_equal(before.count, CONFIG_COUNT);
    assert_string_equal(before.token, "");
    assert_string_equal(before.origin, "default");
    config_set(config, "token", "hush", NULL);
    config_set(config, "window_bytes", "8M", NULL);
    assert_int_equal(config_visit(config, visit, &after), 0);
    assert_string_equal(after.token, "(set)");
    assert_string_equal(after.window, "8M");
    assert_string_equal(after.origin, "set");
    assert_string_equal(config_str(config, CONFIG_TOKEN), "hush");
    assert_int_equal(config_visit(config, visit, &some), 7);
    assert_int_equal(some.count, 3);
    config_close(config);
}

static void a_copy_stands_by_itself(void **state)
{
    struct config *config = open_ok(), *copy;
    config_set(config, "net", "eth0", NULL);
    assert_int_equal(config_copy(config, &copy), TRYST_OK);
    config_set(config, "net", "eth1", NULL);
    assert_string_equal(config_str(copy, CONFIG_NET), "eth0");
    assert_int_equal(config_source(copy, CONFIG_NET), CONFIG_FROM_SET);
    config_close(config);
    assert_string_equal(config_str(copy, CONFIG_NET), "eth0");
    config_close(copy);
    config_close(NULL);
}

static tryst_status open_set_copy(void)
{
    struct config *config, *copy;
    tryst_status status = config_open(NULL, NULL, &config);
    if (status != TRYST_OK)
        return status;
    status = config_set(config, "net", "eth0", NULL);
    if (status == TRYST_OK)
        status = config_copy(config, &copy);
    if (status == TRYST_OK)
        config_close(copy);
    config_close(config);
    return status;
}

static void no_memory_is_a_status(void **state)
{
    setenv("TRYST_RANK", "1", 1);
    setenv("TRYST_NET", "10.0.0.0/8", 1);
    WALK_ALLOCATIONS(open_set_copy());
    unsetenv("TRYST_RANK");
    unsetenv("TRYST_NET");
}

/* ---- equal on all ranks ------------------------------------------------------------ */

static bool agreed_equal(const struct config *a, const struct config *b)
{
    uint64_t values[2][32];
    struct config_difference difference;
    size_t count = config_agreed(a, values[0], COUNT_OF(values[0]));
    assert_true(count <= COUNT_OF(values[0]));
    assert_int_equal(config_agreed(b, values[1], COUNT_OF(values[1])), count);
    return !config_agreed_differ(values[0], values[1], count, &difference);
}

static void only_agreed_rows_are_compared(void **state)
{
    struct config *mine = open_ok(), *theirs = open_ok();
    assert_true(agreed_equal(mine, theirs));
    config_set(theirs, "window_bytes", "64M", NULL);
    config_set(theirs, "rank", "3", NULL);
    config_set(theirs, "eager_max", "4K", NULL); /* another spelling of 4096 */
    assert_true(agreed_equal(mine, theirs));
    config_set(theirs, "eager_max", "2K", NULL);
    assert_true(!agreed_equal(mine, theirs));
    config_close(mine);
    config_close(theirs);
}

static void every_agreed_row_is_compared(void **state)
{
    size_t agreed = 0, count = 0;
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        if (!(table[i].flags & CONFIG_AGREED))
            continue;
        struct config *config = open_ok(), *before = open_ok();
        const char *other = strcmp(table[i].fallback, "64") == 0 ? "128" : "64";
        if (table[i].type == CONFIG_TYPE_BYTES)
            other = "8K";
        if (table[i].type == CONFIG_TYPE_BOOL)
            other = strcmp(table[i].fallback, "0") == 0 ? "1" : "0";
        tryst_status status = config_set(config, table[i].name, other, NULL);
        assert_int_equal(status, TRYST_OK);
        assert_false(agreed_equal(config, before));
        count = config_agreed(config, NULL, 0);
        config_close(before);
        config_close(config);
        agreed++;
    }
    assert_int_equal(agreed, count);
    assert_true(agreed > 0);
}

static void the_first_difference_is_named(void **state)
{
    struct config *mine = open_ok(), *theirs = open_ok();
    uint64_t my_values[32], their_values[32];
    struct config_difference difference;
    size_t count = config_agreed(mine, my_values, COUNT_OF(my_values));
    assert_true(count <= COUNT_OF(my_values));
    config_agreed(theirs, their_values, COUNT_OF(their_values));
    assert_false(config_agreed_differ(my_values, their_values, count, &difference));
    config_set(theirs, "wants_max", "64", NULL);
    config_set(theirs, "eager_credit", "128K", NULL);
    config_agreed(theirs, their_values, COUNT_OF(their_values));
    assert_true(config_agreed_differ(my_values, their_values, count, &difference));
    assert_int_equal(difference.id, CONFIG_EAGER_CREDIT);
    assert_string_equal(difference.mine, "64K");
    assert_string_equal(difference.theirs, "128K");
    config_close(mine);
    config_close(theirs);
}

#define CLEAN(test) cmocka_unit_test_setup(test, clear_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(every_row_is_sound),
        CLEAN(no_two_rows_share_a_name),
        CLEAN(constants_name_the_words),
        CLEAN(defaults_hold_where_nothing_is_said),
        CLEAN(the_environment_overrides_and_a_setting_overrides_that),
        CLEAN(values_are_found_by_name),
        CLEAN(a_bad_variable_names_itself_its_value_and_what_is_allowed),
        CLEAN(a_refused_setting_changes_nothing),
        CLEAN(an_unknown_variable_is_warned_about_with_the_nearest_name),
        CLEAN(a_name_like_no_setting_gets_no_suggestion),
        CLEAN(variables_of_tests_and_of_python_are_passed_over),
        CLEAN(without_the_environment_there_are_defaults),
        CLEAN(a_visit_sees_all_rows_but_no_secret),
        CLEAN(a_copy_stands_by_itself),
        CLEAN(no_memory_is_a_status),
        CLEAN(only_agreed_rows_are_compared),
        CLEAN(every_agreed_row_is_compared),
        CLEAN(the_first_difference_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
