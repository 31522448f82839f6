/* SPDX-License-Identifier: Apache-2.0 */
/** @file options.h
 *  A tool's command line as a table.
 *
 *  Idea: one row is an option: its names, what its value is, and where that goes in the tool's own
 *  structure of options. What is wrong with a value is said the same way in every tool.
 */
#ifndef TRYST_TOOLS_OPTIONS_H
#define TRYST_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What an option's value is. */
enum tool_value {
    TOOL_FLAG,   /**< none: a bool becomes true */
    TOOL_TEXT,   /**< const char * */
    TOOL_COUNT,  /**< int, from `least` to `most` */
    TOOL_NUMBER, /**< uint64_t, from `least` to `most` */
    TOOL_BYTES,  /**< uint64_t, from `least` to `most`: "1500", "64K", "1MiB", "40G" */
    TOOL_RATE,   /**< double above 0 */
    TOOL_OTHER   /**< `read` takes it */
};

struct tool_option {
    const char *name; /**< long name; NULL: it has none */
    char letter;      /**< 0: it has none */
    enum tool_value kind;
    size_t offset; /**< of its place in the options */
    uint64_t least, most;
    /** Of TOOL_OTHER; false: it said what is wrong. */
    bool (*read)(const char *text, void *options);
};

struct tool {
    const char *name, *help;
    const struct tool_option *rows; /**< without --help, which every tool has */
    int rows_count;
    const char *const *allowed; /**< long names of those that may be given; NULL: all */
    bool words_end;             /**< options end at the first word */
};

/** What main does next. */
enum tool_next { TOOL_GO, TOOL_DONE, TOOL_REFUSED };

/** Read the options; words begin at getopt's `optind`. TOOL_DONE: help was asked for and printed.
 *  TOOL_REFUSED: what is wrong was said on stderr. */
enum tool_next tool_options_read(const struct tool *tool, int argc, char **argv,
                                 void *options);

/** The whole of `text` as a whole number, or as bytes with K, M, G or T as powers of 1024; false: it is
 *  none, or not from `least` to `most`. */
bool tool_number_parse(const char *text, uint64_t least, uint64_t most,
                       uint64_t *number_p);
bool tool_bytes_parse(const char *text, uint64_t least, uint64_t most, uint64_t *bytes_p);

#endif
