/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options of a schedule, "interleaved:v=2,group=4". */
#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "pipeline/base/refuse.h"
#include "pipeline/base/sentence.h"

struct option {
    const char *key;
    uint32_t bit;  /* TRYST_SCHEDULE_… */
    size_t offset; /* of an int32_t in tryst_schedule_params */
    const char *words[3];
    int32_t values[3]; /* of the words; three words: no number is allowed */
};

#define AT(member) offsetof(tryst_schedule_params, member)
static const struct option options[] = {
    {.key = "v", .bit = TRYST_SCHEDULE_CHUNKS, .offset = AT(chunks_count)},
    {.key = "group",
     .bit = TRYST_SCHEDULE_GROUP,
     .offset = AT(group),
     .words = {"torch"},
     .values = {TRYST_GROUP_TORCH}},
    {.key = "every", .bit = TRYST_SCHEDULE_EVERY, .offset = AT(every)},
    {.key = "inflight", .bit = TRYST_SCHEDULE_INFLIGHT, .offset = AT(inflight)},
    {.key = "cap", .bit = TRYST_SCHEDULE_CAP, .offset = AT(cap)},
    {.key = "updates", .bit = TRYST_SCHEDULE_UPDATES, .offset = AT(updates_count)},
    {.key = "recompute",
     .bit = TRYST_SCHEDULE_RECOMPUTE,
     .offset = AT(recompute),
     .words = {"never", "except_last", "always"},
     .values = {TRYST_RECOMPUTE_NEVER, TRYST_RECOMPUTE_EXCEPT_LAST,
                TRYST_RECOMPUTE_ALWAYS}},
    {.key = "rate", .bit = TRYST_SCHEDULE_RATE, .offset = AT(rate)},
    {.key = "waves", .bit = TRYST_SCHEDULE_WAVES, .offset = AT(waves)},
};
#undef AT
#define OPTIONS_COUNT (sizeof options / sizeof *options)

static int32_t *member_of(tryst_schedule_params *params, const struct option *option)
{
    return (int32_t *)(void *)((char *)params + option->offset);
}

static const struct option *option_find(const char *key, size_t bytes)
{
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        if (strlen(options[i].key) == bytes && strncmp(options[i].key, key, bytes) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

static tryst_status refuse_option(const tryst_schedule *schedule, const char *key,
                                  size_t bytes)
{
    char known[128];
    struct sentence out = sentence_begin(known, sizeof known);
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        if (schedule->options & options[i].bit) {
            sentence_add(&out, "%s%s", *known ? ", " : "", options[i].key);
        }
    }
    return refuse(TRYST_E_PROGRAM,
                  "cannot generate a program: %s has no option \"%.*s\"; it has %s",
                  schedule->name, (int)bytes, key, *known ? known : "none");
}

static tryst_status refuse_value(const tryst_schedule *schedule,
                                 const struct option *option, const char *value,
                                 size_t bytes)
{
    char known[96] = "";
    struct sentence out = sentence_begin(known, sizeof known);
    for (int i = 0; i < 3 && option->words[i]; i++) {
        sentence_add(&out, "%s%s", i ? " or " : "", option->words[i]);
    }
    if (!option->words[2]) {
        sentence_add(&out, "%sa whole number of 1 or more", *known ? " or " : "");
    }
    return refuse(TRYST_E_PROGRAM,
                  "cannot generate a program: %s: %s=%.*s: the value must be %s",
                  schedule->name, option->key, (int)bytes, value, known);
}

/* Read a word or a positive number; false if `value` is neither. */
static bool value_read(const struct option *option, const char *value, size_t bytes,
                       int32_t *number_p)
{
    for (int i = 0; i < 3 && option->words[i]; i++) {
        if (strlen(option->words[i]) == bytes &&
            strncmp(option->words[i], value, bytes) == 0) {
            *number_p = option->values[i];
            return true;
        }
    }
    int64_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (value[i] < '0' || value[i] > '9' || number > INT32_MAX / 10) {
            return false;
        }
        number = number * 10 + (value[i] - '0');
    }
    *number_p = (int32_t)number;
    return bytes > 0 && number > 0 && number <= INT32_MAX && !option->words[2];
}

/* Read one "key=value" of `bytes` bytes. */
static tryst_status pair_read(const tryst_schedule *schedule, const char *pair,
                              size_t bytes, tryst_schedule_params *params)
{
    const char *equals = memchr(pair, '=', bytes);
    size_t key_bytes = equals ? (size_t)(equals - pair) : bytes;
    const struct option *option = option_find(pair, key_bytes);
    if (!option || !(schedule->options & option->bit)) {
        return refuse_option(schedule, pair, key_bytes);
    }
    const char *value = pair + key_bytes + (equals ? 1 : 0);
    size_t value_bytes = bytes - (size_t)(value - pair);
    return value_read(option, value, value_bytes, member_of(params, option))
               ? TRYST_OK
               : refuse_value(schedule, option, value, value_bytes);
}

size_t options_name_bytes(const char *text)
{
    return strcspn(text, ":");
}

/* True if `number` is the default, the value of a word, or a positive number where one is
 * allowed. */
static bool number_is_valid(const struct option *option, int32_t number)
{
    bool valid = number == 0 || (number > 0 && !option->words[2]);
    for (int i = 0; i < 3 && option->words[i]; i++) {
        valid = valid || number == option->values[i];
    }
    return valid;
}

/* Refuse an option that is set in `params` but that the schedule does not have, or to a
 * value that it cannot have. */
static tryst_status params_check(const tryst_schedule *schedule,
                                 tryst_schedule_params *params)
{
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        int32_t number = *member_of(params, &options[i]);
        char text[16];
        if (number != 0 && !(schedule->options & options[i].bit)) {
            return refuse_option(schedule, options[i].key, strlen(options[i].key));
        }
        if (!number_is_valid(&options[i], number)) {
            snprintf(text, sizeof text, "%d", (int)number);
            return refuse_value(schedule, &options[i], text, strlen(text));
        }
    }
    return TRYST_OK;
}

tryst_status options_read(const tryst_schedule *schedule, const char *text,
                          tryst_schedule_params *params)
{
    tryst_status status = params_check(schedule, params);
    const char *pair = text + options_name_bytes(text);
    while (*pair && status == TRYST_OK) {
        pair++; /* the colon or comma before it */
        size_t bytes = strcspn(pair, ",");
        status = pair_read(schedule, pair, bytes, params);
        pair += bytes;
    }
    return status;
}
