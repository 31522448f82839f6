/* SPDX-License-Identifier: Apache-2.0 */
/* Implements html.h. The page's head, style and script are those of report.html, which
 * the build embeds (cmake/embed.cmake). */
#include "html.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "svg.h"

/* The text of report.html, and the marks in it. */
extern const char tool_html_template[];
#define TITLE_MARK "<!--title-->" /* two: the window's title, and the heading */
#define BODY_MARK  "<!--body-->"

void tool_html_text(FILE *out, const char *begin, const char *end, const char *format,
                    ...)
{
    va_list args;
    va_start(args, format);
    fputs(begin, out);
    tool_svg_escaped(out, format, args);
    fputs(end, out);
    va_end(args);
}

/* ---- the run ----------------------------------------------------------------------- */

/* Write a word of a command line, in quotes if a shell needs them. */
static void word_print(FILE *out, const char *word)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "%+,-./:=@_";
    bool is_plain = *word && !word[strspn(word, plain)];
    fputs(is_plain ? "" : "'", out);
    for (const char *rest = word; *rest;) {
        size_t bytes = strcspn(rest, "'");
        tool_html_text(out, "", rest[bytes] ? "'\\''" : "", "%.*s", (int)bytes, rest);
        rest += bytes + (rest[bytes] != '\0');
    }
    fputs(is_plain ? " " : "' ", out);
}

/* Write this process's command line; ranks that the tool started have the same one. */
static void command_line_print(FILE *out)
{
    char *word = NULL;
    size_t capacity = 0;
    FILE *words = fopen("/proc/self/cmdline", "re");
    fputs("<dl><dt>command</dt><dd><code>", out);
    while (words && getdelim(&word, &capacity, '\0', words) > 0)
        word_print(out, word);
    fputs("</code></dd></dl>\n", out);
    free(word);
    if (words)
        fclose(words);
}

/* Write the host of rank 0, and each one that is not the host of the rank before. */
static void hosts_print(FILE *out, tryst_group *group, const char *here)
{
    const char *before = "";
    fputs("<dl><dt>hosts</dt><dd>", out);
    for (int rank = 0; group && rank < tryst_group_size(group); rank++) {
        tryst_peer_info info = {.struct_size = sizeof info, .host = ""};
        tryst_group_peer(group, rank, &info);
        if (strcmp(before, info.host) != 0)
            tool_html_text(out, rank ? ", " : "", "", "%s from rank %d", info.host, rank);
        before = info.host;
    }
    tool_html_text(out, "", "</dd></dl>\n", "%s", group ? "" : here);
}

static void run_print(FILE *out, tryst_group *group)
{
    struct utsname system = {.sysname = ""};
    char date[32] = "";
    time_t now = time(NULL);
    uname(&system);
    ctime_r(&now, date);
    command_line_print(out);
    tool_html_fact(out, "version", "%s; %s", tryst_version_string(), tool_build());
    hosts_print(out, group, system.nodename);
    tool_html_fact(out, "system", "%s %s, %s, %ld processors", system.sysname,
                   system.release, system.machine, sysconf(_SC_NPROCESSORS_ONLN));
    tool_html_fact(out, "written", "%s", date);
}

/* Write the template from `from` to `mark`, and return what comes after the mark. */
static const char *template_print(FILE *out, const char *from, const char *mark)
{
    const char *end = strstr(from, mark);
    fwrite(from, 1, (size_t)(end - from), out);
    return end + strlen(mark);
}

void tool_html_begin(FILE *out, const char *title, tryst_group *group)
{
    const char *rest = template_print(out, tool_html_template, TITLE_MARK);
    tool_html_text(out, "", "", "%s", title);
    rest = template_print(out, rest, TITLE_MARK);
    tool_html_text(out, "", "", "%s", title);
    template_print(out, rest, BODY_MARK);
    fputs("<section>\n", out);
    run_print(out, group);
}

void tool_html_end(FILE *out)
{
    fprintf(out, "</section>\n%s",
            strstr(tool_html_template, BODY_MARK) + strlen(BODY_MARK));
}

void tool_html_output(FILE *out, void (*print)(FILE *out, const void *what),
                      const void *what)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return; /* out of memory: the page lacks it */
    print(memory, what);
    fclose(memory);
    tool_html_text(out, "<pre class=\"scroll\" tabindex=\"0\">", "</pre>\n", "%s", text);
    free(text);
}

/* ---- tables ------------------------------------------------------------------------ */

/* Write the cells of `text`, TAB between. */
static void cells_print(FILE *out, const char *text, const char *begin, const char *end)
{
    for (bool more = true; more;) {
        size_t bytes = strcspn(text, "\t");
        tool_html_text(out, begin, end, "%.*s", (int)bytes, text);
        more = text[bytes] == '\t';
        text += bytes + more;
    }
}

void tool_html_table_begin(FILE *out, enum tool_html_table how, const char *caption,
                           const char *columns)
{
    static const char *const pictures[] = {"open", "none", "line", "bars", "timeline"};
    fprintf(out,
            "<figure data-picture=\"%s\"><details%s><summary>Table: %s</summary>\n"
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">"
            "<table><caption>%s</caption>\n<thead><tr>",
            pictures[how], how == TOOL_HTML_OPEN ? " open" : "", caption, caption,
            caption);
    cells_print(out, columns, "<th scope=\"col\">", "</th>");
    fputs("</tr></thead>\n<tbody>\n", out);
}

void tool_html_row(FILE *out, const char *name, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    int bytes = vasprintf(&text, format, args);
    va_end(args);
    tool_html_text(out, "<tr><th scope=\"row\">", "</th>", "%s", name);
    if (bytes >= 0) { /* else out of memory: the row has no more cells */
        cells_print(out, text, "<td>", "</td>");
        free(text);
    }
    fputs("</tr>\n", out);
}

void tool_html_table_end(FILE *out)
{
    fputs("</tbody></table></div></details></figure>\n", out);
}
