/* SPDX-License-Identifier: Apache-2.0 */
/** @file html.h
 *  Writes a report of a run as one HTML file that needs no other file and no network.
 *
 *  One idea: the report is made of tables, and the script of the page (report.html) draws
 *  a picture from the table beside it, so a picture cannot differ from its numbers.
 *
 *  Formatted texts are escaped, and may have any bytes; those that a page cannot have
 *  become U+FFFD. Captions, names of facts and heads of columns are the tool's own. */
#ifndef TRYST_TOOLS_HTML_H
#define TRYST_TOOLS_HTML_H

#include <stdio.h>
#include <tryst/tryst.h>

/** How a table is shown. */
enum tool_html_table {
    TOOL_HTML_OPEN,   /**< as it is */
    TOOL_HTML_FOLDED, /**< folded, without a picture */
    TOOL_HTML_LINE,   /**< x, y. Rows with "-" as y have no point. */
    TOOL_HTML_BARS,   /**< name, value, and perhaps the bound, which is a mark */
    /** Bars over time, to zoom: name, row, lane, label of the bar ("=": its name), kind
     *  (of the colour), step (0 is in focus, others are pale), begin and length in the
     *  unit of the begin's head, "begin, ms". */
    TOOL_HTML_TIMELINE
};

/** Begin the page: its title, and facts of every run: command line, version, hosts (of
 *  `group`; NULL: this one), system and time. */
void tool_html_begin(FILE *out, const char *title, tryst_group *group);
void tool_html_end(FILE *out);

/** Write a text between tags. */
TRYST_PRINTF(4, 5)
void tool_html_text(FILE *out, const char *begin, const char *end, const char *format,
                    ...);
#define tool_html_note(out, ...) tool_html_text(out, "<p>", "</p>\n", __VA_ARGS__)
#define tool_html_fact(out, name, ...) \
    tool_html_text(out, "<dl><dt>" name "</dt><dd>", "</dd></dl>\n", __VA_ARGS__)
/** Begin a section, which ends the one before. */
#define tool_html_section(out, heading) \
    tool_html_text(out, "</section>\n<section>\n<h2>", "</h2>\n", "%s", heading)
/** Write what `print` prints, as it is. */
void tool_html_output(FILE *out, void (*print)(FILE *out, const void *what),
                      const void *what);

/** Begin a table. `columns` are its heads, TAB between. */
void tool_html_table_begin(FILE *out, enum tool_html_table how, const char *caption,
                           const char *columns);
/** Write a row: its name, then the other cells, TAB between. */
TRYST_PRINTF(3, 4)
void tool_html_row(FILE *out, const char *name, const char *format, ...);
void tool_html_table_end(FILE *out);

#endif
