/* SPDX-License-Identifier: Apache-2.0 */
/** @file json.h
 *  Writes a tool's figures as JSON. */
#ifndef TRYST_TOOLS_JSON_H
#define TRYST_TOOLS_JSON_H

#include <stdio.h>

/** Call `print` with the file at `path` and `what`; stdout where `path` is "-". Returns 1
 *  if that failed, after a message on stderr. */
int tool_file_write(const char *path, void (*print)(FILE *file, const void *what),
                    const void *what);
/** Write `text` as a JSON string; null if it is NULL. */
void tool_json_string(FILE *file, const char *text);
/** Write a member of an object, with a comma before it. */
void tool_json_member(FILE *file, const char *name, const char *text);
/** Write a member of an object, with a comma before it; null if `number` is not finite,
 *  as JSON has no such numbers. */
void tool_json_number(FILE *file, const char *name, double number);

#endif
