/* SPDX-License-Identifier: Apache-2.0 */
/* Implements json.h. */
#include "json.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "utf8.h"

int tool_file_write(const char *path, void (*print)(FILE *file, const void *what),
                    const void *what)
{
    bool is_stdout = strcmp(path, "-") == 0;
    FILE *file = is_stdout ? stdout : fopen(path, "w");
    if (!file) {
        perror(path);
        return 1;
    }
    print(file, what);
    if (is_stdout)
        return 0; /* main checks stdout (standard_output_end) */
    bool failed = ferror(file) != 0;
    failed = fclose(file) != 0 || failed;
    if (failed)
        perror(path);
    return failed;
}

void tool_json_string(FILE *file, const char *text)
{
    if (!text) {
        fprintf(file, "null");
        return;
    }
    fputc('"', file);
    for (int length; *text; text += length ? length : 1) {
        unsigned char c = (unsigned char)*text;
        length = tool_char_bytes(text);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fprintf(file, "%.*s", length ? length : 3, length ? text : TOOL_NO_CHAR);
    }
    fputc('"', file);
}

void tool_json_member(FILE *file, const char *name, const char *text)
{
    fprintf(file, ", \"%s\": ", name);
    tool_json_string(file, text);
}

void tool_json_number(FILE *file, const char *name, double number)
{
    if (isfinite(number))
        fprintf(file, ", \"%s\": %.9g", name, number);
    else
        fprintf(file, ", \"%s\": null", name);
}
