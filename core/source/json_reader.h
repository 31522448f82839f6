/* SPDX-License-Identifier: Apache-2.0 */
/** @file json_reader.h
 *  Read a JSON text that a person may have written.
 *
 *  One idea: the reader remembers the path from the root to the value that is being read,
 *  so every error is reported at its place; and each object has a table of its valid
 *  members, so a typing mistake is an error and not a default.
 *
 *  A function that fails has written its error to source->err, and leaves the reader
 *  where the error is: nothing more may be read.
 */
#ifndef TRYST_CORE_SOURCE_JSON_READER_H
#define TRYST_CORE_SOURCE_JSON_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "source.h"

enum { JSON_READER_STEPS_MAX = 6 };

struct json_reader {
    const struct source *source;
    struct json_step path[JSON_READER_STEPS_MAX]; /**< from the root */
    size_t path_count;
};

/** Parse source->text; a member that an object has twice is an error. The caller releases
 *  *root_p with json_decref. */
tryst_status reader_parse(const struct source *source, json_t **root_p);

/** Go to the member `name` of the current value or, if `name` is NULL, to its item at
 *  `index`; reader_leave goes back. */
void reader_enter(struct json_reader *reader, const char *name, size_t index);
/** Go to the member `name` of `object`, the current value, and return it; NULL: there is
 *  none. */
json_t *reader_enter_member(struct json_reader *reader, json_t *object, const char *name);
void reader_leave(struct json_reader *reader);

struct text_place reader_place(const struct json_reader *reader);
/** Reject the current value. */
#define reader_refuse(reader, ...) \
    source_refuse((reader)->source, reader_place(reader), __VA_ARGS__)
/** Reject the member `name` of the current value. */
#define reader_refuse_member(reader, name, ...) \
    (reader_enter(reader, name, 0), reader_refuse(reader, __VA_ARGS__))
/** Return `status`; where it is a failure, report `why` at the current value. */
tryst_status reader_judge(const struct json_reader *reader, tryst_status status,
                          const struct err *why);

/** Check that `object`, the current value, is an object with members of `names` alone,
 *  which ends with NULL; `what` names it in messages: "a link". */
tryst_status reader_members(struct json_reader *reader, json_t *object, const char *what,
                            const char *const *names);

/** Read the string `name` of `object`, the current value. *string_p belongs to `object`;
 *  it is NULL if the member is missing and not `needed`. */
tryst_status reader_string(struct json_reader *reader, json_t *object, const char *name,
                           bool needed, const char **string_p);
/** Read the number `name` of `object`, the current value, which has it. */
tryst_status reader_number(struct json_reader *reader, json_t *object, const char *name,
                           double min, double max, double *number_p);
/** Read a whole number up to `max`; *number_p is unchanged where the member is
 *  missing. */
tryst_status reader_whole(struct json_reader *reader, json_t *object, const char *name,
                          uint64_t max, uint64_t *number_p);

/** Call `item_read` for each item of the list `name` of `object`, the current value, with
 *  the item as the current value, until one fails. */
tryst_status reader_list(struct json_reader *reader, json_t *object, const char *name,
                         bool needed,
                         tryst_status (*item_read)(struct json_reader *reader,
                                                   json_t *item, void *arg),
                         void *arg);

#endif
