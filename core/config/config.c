/* SPDX-License-Identifier: Apache-2.0 */
/* A set of configuration values; see config.h. The table becomes an array of rows, and
 * each function below is a walk over it. */
#include "core/config/config.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "config_value.h"
#include "core/memory/alloc.h"
#include "core/text/hash.h"
#include "core/text/nearest.h"

#define ENVIRONMENT_PREFIX "TRYST_"
#define TEST_PREFIX        "TRYST_TEST_"
#define PYTHON_VARIABLE    "TRYST_LIBRARY" /* the library's path, for bindings/python */
/* Room for "; did you mean" and the longest name. */
#define NEAREST_TEXT_BYTES 128

extern char **environ;

static const struct config_row rows[CONFIG_COUNT] = {
#define CONFIG_ROW(id, name, type, fallback, allowed, flags, help) \
    {name, ENVIRONMENT_PREFIX #id, CONFIG_TYPE_##type, fallback, allowed, flags, help},
    CONFIG_TABLE(CONFIG_ROW)
#undef CONFIG_ROW
};

struct config_entry {
    char *text; /* the text that was set; NULL: the row's default */
    uint64_t value;
    enum config_source source;
};

struct config {
    struct config_entry entries[CONFIG_COUNT];
};

static const char *entry_text(const struct config *config, enum config_id id)
{
    const char *text = config->entries[id].text;
    return text ? text : rows[id].fallback;
}

static void entry_clear(struct config_entry *entry)
{
    if (entry->text)
        explicit_bzero(entry->text, strlen(entry->text));
    mem_free(entry->text);
    entry->text = NULL;
}

/* --------------------------------------------------------------------- open and close */

tryst_status config_open_defaults(struct config **config_p)
{
    struct config *config = mem_zalloc(sizeof *config);
    if (!config)
        return TRYST_E_NOMEM;
    for (enum config_id id = 0; id < CONFIG_COUNT; id++) {
        bool allowed =
            value_parse(&rows[id], rows[id].fallback, &config->entries[id].value);
        assert(allowed); /* tests/core/test_config.c names the wrong row */
        (void)allowed;
    }
    *config_p = config;
    return TRYST_OK;
}

void config_close(struct config *config)
{
    if (!config)
        return;
    for (enum config_id id = 0; id < CONFIG_COUNT; id++)
        entry_clear(&config->entries[id]);
    mem_free(config);
}

tryst_status config_copy(const struct config *config, struct config **copy_p)
{
    struct config *copy;
    tryst_status status = config_open_defaults(&copy);
    if (status != TRYST_OK)
        return status;
    for (enum config_id id = 0; id < CONFIG_COUNT; id++) {
        const struct config_entry *from = &config->entries[id];
        struct config_entry *to = &copy->entries[id];
        to->value = from->value;
        to->source = from->source;
        if (from->text && !(to->text = mem_strdup(from->text))) {
            config_close(copy);
            return TRYST_E_NOMEM;
        }
    }
    *copy_p = copy;
    return TRYST_OK;
}

/* ------------------------------------------------------------------------ set by name */

/* Find a row by either of its names; CONFIG_COUNT if there is none. */
static enum config_id row_find(const char *name, size_t length)
{
    for (enum config_id id = 0; id < CONFIG_COUNT; id++) {
        const char *candidates[] = {rows[id].name, rows[id].environment};
        for (int i = 0; i < 2; i++)
            if (strlen(candidates[i]) == length &&
                strncmp(candidates[i], name, length) == 0)
                return id;
    }
    return CONFIG_COUNT;
}

static const char *row_name(size_t index)
{
    return rows[index].name;
}

/* Write "; did you mean TRYST_SIZE?", with the name in the form in which `name` is given,
 * or else which command lists all names. */
static void nearest_text(const char *name, char *text, size_t capacity)
{
    size_t prefix = strlen(ENVIRONMENT_PREFIX);
    bool from_environment = strncmp(name, ENVIRONMENT_PREFIX, prefix) == 0;
    size_t id =
        name_nearest(name + (from_environment ? prefix : 0), row_name, CONFIG_COUNT);
    if (id == CONFIG_COUNT)
        snprintf(text, capacity, "; tryst-info -c lists all settings");
    else
        snprintf(text, capacity, "; did you mean %s?",
                 from_environment ? rows[id].environment : rows[id].name);
}

static tryst_status value_refuse(enum config_id id, const char *value,
                                 enum config_source source, struct err *err)
{
    char allowed[256];
    value_describe(&rows[id], allowed, sizeof allowed);
    bool secret = rows[id].flags & CONFIG_SECRET;
    bool from_environment = source == CONFIG_FROM_ENVIRONMENT;
    return err_set(err, TRYST_E_CONFIG, "cannot set %s=\"%.100s\": must be %s",
                   from_environment ? rows[id].environment : rows[id].name,
                   secret ? "(secret)" : value, allowed);
}

static tryst_status entry_set(struct config *config, enum config_id id, const char *text,
                              enum config_source source, struct err *err)
{
    uint64_t value;
    if (!value_parse(&rows[id], text, &value))
        return value_refuse(id, text, source, err);
    char *copy = mem_strdup(text);
    if (!copy)
        return err_set(err, TRYST_E_NOMEM, "cannot set %s: out of memory", rows[id].name);
    struct config_entry *entry = &config->entries[id];
    entry_clear(entry);
    *entry = (struct config_entry){.text = copy, .value = value, .source = source};
    return TRYST_OK;
}

tryst_status config_set(struct config *config, const char *name, const char *value,
                        struct err *err)
{
    enum config_id id = row_find(name, strlen(name));
    if (id != CONFIG_COUNT)
        return entry_set(config, id, value, CONFIG_FROM_SET, err);
    char nearest[NEAREST_TEXT_BYTES];
    nearest_text(name, nearest, sizeof nearest);
    return err_set(err, TRYST_E_CONFIG, "cannot set \"%.100s\": no such setting%s", name,
                   nearest);
}

/* -------------------------------------------------------------------- the environment */

static void warn_unknown(const struct log *log, const char *variable, size_t length)
{
    char name[64];
    if (length >= sizeof name)
        length = sizeof name - 1;
    memcpy(name, variable, length);
    name[length] = '\0';
    if (strncmp(name, TEST_PREFIX, strlen(TEST_PREFIX)) == 0 ||
        strcmp(name, PYTHON_VARIABLE) == 0)
        return;
    char nearest[NEAREST_TEXT_BYTES];
    nearest_text(name, nearest, sizeof nearest);
    LOG_WARN(log, "ignoring environment variable %s: no such setting%s", name, nearest);
}

/* Read one environment variable, "NAME=value"; skip those that do not begin with
 * TRYST_. */
static tryst_status variable_read(struct config *config, const char *variable,
                                  const struct log *log, struct err *err)
{
    const char *equals = strchr(variable, '=');
    if (!equals || strncmp(variable, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0)
        return TRYST_OK;
    size_t length = (size_t)(equals - variable);
    enum config_id id = row_find(variable, length);
    if (id == CONFIG_COUNT) {
        warn_unknown(log, variable, length);
        return TRYST_OK;
    }
    if (equals[1] == '\0')
        return TRYST_OK;
    return entry_set(config, id, equals + 1, CONFIG_FROM_ENVIRONMENT, err);
}

tryst_status config_open(const struct log *log, struct err *err, struct config **config_p)
{
    struct config *config;
    tryst_status status = config_open_defaults(&config);
    if (status != TRYST_OK)
        return err_set(err, status, "cannot read the configuration: out of memory");
    for (char **variable = environ; variable && *variable; variable++) {
        status = variable_read(config, *variable, log, err);
        if (status != TRYST_OK) {
            config_close(config);
            return status;
        }
    }
    *config_p = config;
    return TRYST_OK;
}

/* ------------------------------------------------------------------------------- read */

static uint64_t typed_value(const struct config *config, enum config_id id,
                            enum config_type type)
{
    assert(id < CONFIG_COUNT && rows[id].type == type);
    (void)type;
    return config->entries[id].value;
}

uint64_t config_bytes(const struct config *config, enum config_id id)
{
    return typed_value(config, id, CONFIG_TYPE_BYTES);
}

uint64_t config_time_ns(const struct config *config, enum config_id id)
{
    return typed_value(config, id, CONFIG_TYPE_TIME);
}

int config_enum(const struct config *config, enum config_id id)
{
    return (int)typed_value(config, id, CONFIG_TYPE_ENUM);
}

bool config_bool(const struct config *config, enum config_id id)
{
    return typed_value(config, id, CONFIG_TYPE_BOOL) != 0;
}

int64_t config_int(const struct config *config, enum config_id id)
{
    return (int64_t)typed_value(config, id, CONFIG_TYPE_INT);
}

const char *config_str(const struct config *config, enum config_id id)
{
    typed_value(config, id, CONFIG_TYPE_STRING);
    return entry_text(config, id);
}

const char *config_enum_word(const struct config *config, enum config_id id)
{
    typed_value(config, id, CONFIG_TYPE_ENUM);
    return entry_text(config, id);
}

const char *config_get_string(const struct config *config, const char *name)
{
    enum config_id id = row_find(name, strlen(name));
    return id == CONFIG_COUNT ? NULL : entry_text(config, id);
}

bool config_get_number(const struct config *config, const char *name, uint64_t *value_p)
{
    enum config_id id = row_find(name, strlen(name));
    if (id == CONFIG_COUNT || rows[id].type == CONFIG_TYPE_STRING)
        return false;
    *value_p = config->entries[id].value;
    return true;
}

enum config_source config_source(const struct config *config, enum config_id id)
{
    return config->entries[id].source;
}

const char *config_name(enum config_id id)
{
    return rows[id].name;
}

const char *config_environment(enum config_id id)
{
    return rows[id].environment;
}

static tryst_config_item entry_item(const struct config *config, enum config_id id)
{
    static const char *const origins[] = {"default", "environment", "set"};
    const struct config_row *row = &rows[id];
    const char *text = entry_text(config, id);
    return (tryst_config_item){
        .struct_size = sizeof(tryst_config_item),
        .name = row->name,
        .environment = row->environment,
        .type = value_type_name(row->type),
        .value = row->flags & CONFIG_SECRET && *text ? "(set)" : text,
        .origin = origins[config_source(config, id)],
        .fallback = row->fallback,
        .allowed = row->allowed,
        .help = row->help,
    };
}

int config_visit(const struct config *config,
                 int (*fn)(void *arg, const tryst_config_item *item), void *arg)
{
    int answer = 0;
    for (enum config_id id = 0; id < CONFIG_COUNT && answer == 0; id++) {
        const tryst_config_item item = entry_item(config, id);
        answer = fn(arg, &item);
    }
    return answer;
}

bool config_find(const struct config *config, const char *name, tryst_config_item *item_p)
{
    enum config_id id = row_find(name, strlen(name));
    if (id == CONFIG_COUNT)
        return false;
    *item_p = entry_item(config, id);
    return true;
}

/* ----------------------------------------------------------------- equal on all ranks */

size_t config_agreed(const struct config *config, uint64_t *values_p, size_t capacity)
{
    size_t count = 0;
    for (enum config_id id = 0; id < CONFIG_COUNT; id++)
        if (rows[id].flags & CONFIG_AGREED && count++ < capacity)
            values_p[count - 1] = config->entries[id].value;
    return count;
}

bool config_agreed_differ(const uint64_t *mine, const uint64_t *theirs, size_t count,
                          struct config_difference *difference_p)
{
    size_t index = 0;
    for (enum config_id id = 0; id < CONFIG_COUNT; id++) {
        if (!(rows[id].flags & CONFIG_AGREED) || index >= count)
            continue;
        if (mine[index] != theirs[index]) {
            difference_p->id = id;
            config_format(id, mine[index], difference_p->mine, sizeof difference_p->mine);
            config_format(id, theirs[index], difference_p->theirs,
                          sizeof difference_p->theirs);
            return true;
        }
        index++;
    }
    return false;
}

void config_format(enum config_id id, uint64_t value, char *text_p, size_t text_bytes)
{
    value_format(&rows[id], value, text_p, text_bytes);
}
