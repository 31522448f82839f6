/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes programs as CSV files, in the form of torch.distributed.pipelining:
 * one row per rank, one cell per time slot, empty cells idle.
 *
 *   0F0,0F1,,0B0,0B1
 *   ,1F0,1B0,1F1,1B1
 *
 * PyTorch's compute_only and compute_comms files load as they are. A pair,
 * "(0F2;0B1)OVERLAP_F_B", is its two actions in their order. Communication (SEND_F,
 * RECV_B, …), its waits and sharding (UNSHARD, RESHARD) are dropped: transfers follow
 * from the data that actions need.
 *
 * REDUCE_GRAD is kept where several ranks have actions of its stage, and dropped where
 * one rank alone has them (program_loaded.c).
 *
 * The cells that PyTorch's form lacks are written only where needed: "0UPDATE", a version
 * ("0F2v1"), a slot ("0F2s1"), "0R2", "0PREDICTs1d0a1.5", the marks of a loop ("BODY"
 * and "EPILOGUE", cells of their own before the first action of that part), and
 * "RATE10", the first cell of row 0.
 *
 * The one idea: a row is a rank's list, and the numbers of ranks, stages and
 * micro-batches follow from the lists. So they are counted and checked at the file's
 * end. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/file.h"
#include "pipeline/base/refuse.h"
#include "program.h"
#include "program_cell.h"
#include "program_loaded.h"

/* Limit of a file: about ten million actions. A larger file is not a schedule, or is a
 * stream without an end. */
#define FILE_BYTES_MAX (64u << 20)

struct csv {
    const char *path;
    tryst_program *program; /* the actions read so far */
    int rows_count;
    size_t actions_count;
};

/* ---- locale ------------------------------------------------------------------------ */

/* The C locale, while a file is read or written: in that of the host program the decimal
 * point may be a comma. */
struct plain_locale {
    locale_t plain;
    locale_t before;
};

static struct plain_locale plain_locale_begin(void)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (struct plain_locale){plain, uselocale(plain)};
}

static void plain_locale_end(struct plain_locale *locale)
{
    uselocale(locale->before);
    if (locale->plain) {
        freelocale(locale->plain);
    }
}

/* ---- loading ----------------------------------------------------------------------- */

/* Return the list of a row, NULL if out of memory. */
static struct program_list *list_of(struct csv *file, int row)
{
    tryst_status status = program_loaded_add_ranks(file->program, row + 1);
    return status == TRYST_OK ? &file->program->lists[row] : NULL;
}

/* Strip blanks and enclosing pairs of quotes, in place. */
static char *trim(char *field)
{
    size_t bytes;
    while (*field == ' ' || *field == '\t') {
        field++;
    }
    bytes = strlen(field);
    while (bytes > 0 && strchr(" \t\r", field[bytes - 1])) {
        field[--bytes] = '\0';
    }
    if (bytes >= 2 && field[0] == '"' && field[bytes - 1] == '"') {
        field[bytes - 1] = '\0';
        return trim(field + 1);
    }
    return field;
}

/* Refuse an invalid cell. */
static tryst_status refuse_cell(const struct csv *file, int row, int column,
                                const char *content, const char *reason)
{
    return refuse(TRYST_E_PROGRAM,
                  "cannot load %s: row %d (rank %d), column %d: \"%.40s\" %s", file->path,
                  row + 1, row, column + 1, content, reason);
}

/* Begin the body or the epilogue of a row's list; NULL, or the reason why it cannot. */
static const char *begin_part(struct program_list *list, tryst_program_part part)
{
    if ((int)part != (int)list->part + 1) {
        return "has another place: a row has one BODY, and behind it one EPILOGUE";
    }
    *(part == TRYST_PROGRAM_BODY ? &list->body : &list->epilogue) = list->count;
    list->part = part;
    return NULL;
}

static const char *set_rate(tryst_program *program, const struct program_list *list,
                            int32_t rate)
{
    if (list != program->lists || list->count > 0 || program->rate > 0 ||
        list->part != TRYST_PROGRAM_PROLOGUE) {
        return "has another place: a rate is the first cell of row 1";
    }
    program->rate = rate;
    return NULL;
}

static tryst_status load_cell(struct csv *file, int row, int column, const char *content)
{
    struct program_cell cell;
    const char *reason = program_cell_read(content, &cell);
    /* check_size refuses a file with more rows */
    bool kept = row < PROGRAM_CELL_NUMBER_MAX && cell.kind != PROGRAM_CELL_DROPPED;
    struct program_list *list = !reason && kept ? list_of(file, row) : NULL;
    if (!reason && kept && !list) {
        return TRYST_E_NOMEM;
    }
    if (list && cell.kind == PROGRAM_CELL_ACTION) {
        file->actions_count++;
        return program_list_add(list, &cell.action);
    }
    if (list && cell.kind == PROGRAM_CELL_RATE) {
        reason = set_rate(file->program, list, cell.rate);
    } else if (list) {
        reason =
            begin_part(list, cell.kind == PROGRAM_CELL_BODY ? TRYST_PROGRAM_BODY
                                                            : TRYST_PROGRAM_EPILOGUE);
    }
    return reason ? refuse_cell(file, row, column, content, reason) : TRYST_OK;
}

/* Load one action of a pair. */
static tryst_status load_member(struct csv *file, int row, int column,
                                const char *content)
{
    return *content >= '0' && *content <= '9'
               ? load_cell(file, row, column, content)
               : refuse_cell(file, row, column, content,
                             "does not begin with a stage number, as \"2F0\" does");
}

/* Load a pair, "(1F1;0B0)OVERLAP_F_B", as the actions between the parentheses, in their
 * order: the engine runs one action of a rank at a time, and transfers overlap with every
 * action. */
static tryst_status load_pair(struct csv *file, int row, int column, char *content)
{
    char *end = strchr(content, ')');
    tryst_status status = TRYST_OK;
    if (!end || strcmp(end + 1, "OVERLAP_F_B") != 0) {
        return refuse_cell(file, row, column, content,
                           "opens a parenthesis: only a pair as \"(1F1;0B0)OVERLAP_F_B\" "
                           "has one");
    }
    *end = '\0';
    for (char *part = content + 1; part && status == TRYST_OK;) {
        char *semicolon = strchr(part, ';');
        if (semicolon) {
            *semicolon = '\0';
        }
        status = load_member(file, row, column, trim(part));
        part = semicolon ? semicolon + 1 : NULL;
    }
    return status;
}

static tryst_status load_field(struct csv *file, int row, int column, char *field)
{
    char *content = trim(field);
    if (!*content) {
        return TRYST_OK;
    }
    return *content == '(' ? load_pair(file, row, column, content)
                           : load_cell(file, row, column, content);
}

static tryst_status load_row(struct csv *file, char *line)
{
    int row = file->rows_count++;
    tryst_status status = TRYST_OK;
    int column = 0;
    for (char *field = line; field && status == TRYST_OK; column++) {
        char *comma = strchr(field, ',');
        if (comma) {
            *comma = '\0';
        }
        status = load_field(file, row, column, field);
        field = comma ? comma + 1 : NULL;
    }
    return status;
}

/* Make room after the first `bytes` bytes for the next read and for the zero at the end.
 * False if out of memory. */
static bool make_room(char **content_p, size_t bytes, size_t *room_p)
{
    if (bytes + 1 < *room_p) {
        return true;
    }
    size_t room = *room_p ? 2 * *room_p : 65536;
    char *content = realloc(*content_p, room);
    if (content) {
        *content_p = content;
        *room_p = room;
    }
    return content != NULL;
}

/* Read the whole file, which may be a pipe, and terminate it. The caller frees
 * *content_p, also after a failure. */
static tryst_status read_file(struct csv *file, FILE *stream, char **content_p)
{
    size_t bytes = 0, room = 0, got;
    do {
        if (!make_room(content_p, bytes, &room)) {
            return TRYST_E_NOMEM;
        }
        got = fread(*content_p + bytes, 1, room - bytes - 1, stream);
        if (memchr(*content_p + bytes, '\0', got)) {
            return refuse(TRYST_E_PROGRAM,
                          "cannot load %s: it holds a zero byte: this is not a CSV file",
                          file->path);
        }
        bytes += got;
        if (bytes > FILE_BYTES_MAX) {
            return refuse(
                TRYST_E_PROGRAM,
                "cannot load %s: it is larger than %u MiB: it is not a schedule",
                file->path, FILE_BYTES_MAX >> 20);
        }
    } while (got > 0);
    (*content_p)[bytes] = '\0';
    if (ferror(stream)) {
        return refuse(TRYST_E_IO, "cannot load %s: %s", file->path, strerror(errno));
    }
    return TRYST_OK;
}

static tryst_status load_rows(struct csv *file, FILE *stream)
{
    char *content = NULL;
    tryst_status status = read_file(file, stream, &content);
    char *row = content;
    while (status == TRYST_OK && *row) {
        char *end = row + strcspn(row, "\n");
        char *next = *end ? end + 1 : end;
        *end = '\0';
        status = load_row(file, row);
        row = next;
    }
    free(content);
    return status;
}

tryst_status tryst_program_load_csv(const char *path, tryst_program **program_p)
{
    FILE *stream = file_open(path, "re");
    if (!stream) {
        return refuse(TRYST_E_IO, "cannot load %s: %s", path, strerror(errno));
    }
    struct plain_locale locale = plain_locale_begin();
    struct csv file = {.path = path, .program = calloc(1, sizeof *file.program)};
    tryst_status status = file.program ? load_rows(&file, stream) : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        status = program_loaded_complete(file.program, path, file.rows_count);
    }
    plain_locale_end(&locale);
    if (status == TRYST_E_NOMEM) {
        (void)refuse(status, "cannot load %s: out of memory for %zu actions", path,
                     file.actions_count);
    }
    if (status == TRYST_OK) {
        *program_p = file.program;
    } else {
        tryst_program_close(file.program);
    }
    fclose(stream);
    return status;
}

/* ---- saving ------------------------------------------------------------------------ */

static void save_cell(FILE *stream, const char **separator, const char *text)
{
    fprintf(stream, "%s%s", *separator, text);
    *separator = ",";
}

/* Write the marks that are before action `i`. */
static void save_marks(FILE *stream, const char **separator,
                       const struct program_list *list, size_t i)
{
    if (list->part != TRYST_PROGRAM_PROLOGUE && list->body == i) {
        save_cell(stream, separator, "BODY");
    }
    if (list->part == TRYST_PROGRAM_EPILOGUE && list->epilogue == i) {
        save_cell(stream, separator, "EPILOGUE");
    }
}

/* Write a row; `rate`, unless it is 0, before its actions. */
static void save_row(FILE *stream, const struct program_list *list, bool synchronous,
                     int32_t rate)
{
    const char *separator = "";
    char text[PROGRAM_CELL_TEXT_MAX];
    if (rate > 0) {
        snprintf(text, sizeof text, "RATE%d", rate);
        save_cell(stream, &separator, text);
    }
    for (size_t i = 0; i < list->count; i++) {
        save_marks(stream, &separator, list, i);
        if (!synchronous || list->actions[i].kind != TRYST_ACTION_UPDATE) {
            save_cell(stream, &separator,
                      tryst_action_format(&list->actions[i], text, sizeof text));
        }
    }
    save_marks(stream, &separator, list, list->count);
    fputs("\r\n", stream);
}

tryst_status tryst_program_save_csv(const tryst_program *program, const char *path)
{
    if (!program || !path) {
        return refuse_null("save a program", program ? "path" : "program");
    }
    bool synchronous = program_is_synchronous(program);
    FILE *stream = file_open(path, "we");
    if (!stream) {
        return refuse(TRYST_E_IO, "cannot save %s: %s", path, strerror(errno));
    }
    struct plain_locale locale = plain_locale_begin();
    for (int rank = 0; rank < program->ranks_count; rank++) {
        save_row(stream, &program->lists[rank], synchronous,
                 rank == 0 ? program->rate : 0);
    }
    plain_locale_end(&locale);
    bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        return refuse(TRYST_E_IO, "cannot save %s: %s", path, strerror(errno));
    }
    return TRYST_OK;
}
