/* SPDX-License-Identifier: Apache-2.0 */
/** @file options.h
 *  Reads a tool's command line from a table.
 *
 *  Idea: one row is an option: its names, the kind of its value, and the place of that
 *  value in the tool's own structure of options. Every tool refuses a bad value with the
 *  same words. */
#ifndef TRYST_TOOLS_OPTIONS_H
#define TRYST_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The kind of an option's value. */
enum tool_value {
    TOOL_FLAG,   /**< no value: a bool becomes true */
    TOOL_TEXT,   /**< const char * */
    TOOL_WORD,   /**< const char *, one of `values` */
    TOOL_COUNT,  /**< int, from `least` to `most` */
    TOOL_NUMBER, /**< uint64_t, from `least` to `most` */
    TOOL_BYTES,  /**< uint64_t, from `least` to `most`: "1500", "64K", "1MiB", "40G" */
    TOOL_RATE,   /**< double above 0 */
    TOOL_OTHER   /**< `read` parses and stores it */
};

struct tool_option {
    const char *name; /**< long name; NULL: none */
    char letter;      /**< 0: none */
    enum tool_value kind;
    size_t offset; /**< offset of the value in the tool's structure of options */
    uint64_t least, most;
    /** Parse and store a value of TOOL_OTHER. False if it is refused, after a message on
     *  stderr. */
    bool (*read)(const char *text, void *options);
    /** The words that the value can be, with blanks between, for completion and for
     *  TOOL_WORD; NULL: not listed. */
    const char *values;
    /** The same by number, for words that the library lists. NULL after the last. */
    const char *(*value)(int i);
};

/** The words of --transport. */
#define TOOL_TRANSPORTS "auto shm ucx ofi"

struct tool {
    const char *name, *help;
    /** The name of the program in `help`, which is printed as the one of `name`; NULL:
     *  `help` is printed as it is. */
    const char *help_name;
    /** All options but --help and --version, which every tool has. */
    const struct tool_option *rows;
    int rows_count;
    /** Long names of the options that may be given, NULL at the end; NULL: all. */
    const char *const *allowed;
    bool words_end; /**< true: options end at the first word */
    /** The commands that can be the first word, by number, NULL after the last. A command
     *  may go on with an option that gives it others ("sched --simulate"). NULL: none. */
    const char *(*command)(int i);
    /** Words of other programs, each before the word that replaces it where an option
     *  begins ("-np", "--ranks"), NULL at the end; NULL: none. */
    const char *const *synonyms;
};

/** The next step of main: run, end with 0, or end with the status for bad usage. */
enum tool_next { TOOL_GO, TOOL_DONE, TOOL_REFUSED };

/** Read the options; words begin at getopt's `optind`. TOOL_DONE: --help or --version
 *  was given, and its text printed. TOOL_REFUSED: a message is on stderr.
 *
 *  --options as the only argument, which no help names, prints the table for the
 *  generator of completions (cmake/completions.sh), TAB between the columns:
 *
 *      program                                  if options end at the first word
 *      command  plan
 *      option   --output -o  file|flag|value|word  the words */
enum tool_next tool_options_read(const struct tool *tool, int argc, char **argv,
                                 void *options);

/** Parse all of `text` as a whole number, or as bytes with K, M, G or T as powers of
 *  1024. False if it does not parse or is not from `least` to `most`. */
bool tool_number_parse(const char *text, uint64_t least, uint64_t most,
                       uint64_t *number_p);
bool tool_bytes_parse(const char *text, uint64_t least, uint64_t most, uint64_t *bytes_p);
/** Parse a time: "10", "10s", "500ms", "2m", "1.5", "1h"; at most 10^6 of the unit. False
 *  if it does not parse. */
bool tool_time_parse(const char *text, uint64_t *ns_p);

/** Return the commit and the modules of the build, as --version prints them. */
const char *tool_build(void);

#endif
