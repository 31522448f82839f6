/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes programs as CSV files, in the compute-only form of
 * torch.distributed.pipelining: one row per rank, one cell per time slot, empty cells
 * idle.
 *
 *   0F0,0F1,,0B0,0B1
 *   ,1F0,1B0,1F1,1B1
 *
 * A cell may be a pair, "(0F2;0B1)OVERLAP_F_B": its actions in their order. Two things
 * that the form lacks are written only where needed: "0UPDATE" cells, and a version
 * behind an action ("0F2v1").
 *
 * The one idea: a row is a rank's list, and the numbers of ranks, stages and
 * micro-batches grow with the cells that are read. So they are checked only at the file's
 * end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/base/file.h"
#include "pipeline/base/refuse.h"
#include "program.h"

/* Limit of a number in a cell. */
#define CELL_NUMBER_MAX 999999

/* Limit of a file: about ten million actions. A larger file is not a schedule, or is a
 * stream without an end. */
#define FILE_BYTES_MAX (64u << 20)

struct csv {
    const char *path;
    tryst_program *program; /* the actions read so far */
    int rows_count;
    size_t actions_count;
    size_t updates_count;
    size_t microbatch_actions_count; /* neither UPDATE nor REDUCE_GRAD */
};

/* ---- one cell ---------------------------------------------------------------------- */

/* Read digits at *cursor_p and move *cursor_p past them. False if there is no digit, or
 * the number is above CELL_NUMBER_MAX. */
static bool read_number(const char **cursor_p, int32_t *number_p)
{
    const char *cursor = *cursor_p;
    int32_t number = 0;
    if (*cursor < '0' || *cursor > '9') {
        return false;
    }
    for (; *cursor >= '0' && *cursor <= '9'; cursor++) {
        number = number * 10 + (*cursor - '0');
        if (number > CELL_NUMBER_MAX) {
            return false;
        }
    }
    *cursor_p = cursor;
    *number_p = number;
    return true;
}

static bool take(const char **cursor_p, const char *word)
{
    size_t bytes = strlen(word);
    if (strncmp(*cursor_p, word, bytes) != 0) {
        return false;
    }
    *cursor_p += bytes;
    return true;
}

/* Return the reason why `cursor` cannot be read if it begins with a word of PyTorch's
 * that is not supported here; otherwise NULL. */
static const char *refusal(const char *cursor)
{
    static const char *const communication[] = {"SEND_F", "RECV_F", "SEND_B", "RECV_B"};
    for (size_t i = 0; i < sizeof communication / sizeof *communication; i++) {
        if (strncmp(cursor, communication[i], strlen(communication[i])) == 0) {
            return "is communication: transfers follow from the data that actions need, "
                   "so save "
                   "the schedule in the compute_only form";
        }
    }
    if (strncmp(cursor, "UNSHARD", 7) == 0 || strncmp(cursor, "RESHARD", 7) == 0) {
        return "is sharding, which this engine lacks: save the schedule in the "
               "compute_only form";
    }
    return NULL;
}

static bool read_kind(const char **cursor_p, tryst_action_kind *kind_p)
{
    static const tryst_action_kind kinds[] = {
        TRYST_ACTION_UPDATE,     TRYST_ACTION_FORWARD,     TRYST_ACTION_BACKWARD,
        TRYST_ACTION_INPUT_GRAD, TRYST_ACTION_WEIGHT_GRAD, TRYST_ACTION_REDUCE_GRAD};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (take(cursor_p, tryst_action_kind_name(kinds[i]))) {
            *kind_p = kinds[i];
            return true;
        }
    }
    return false;
}

/* Read an action; return NULL, or the reason why `cell_text` is not an action. */
static const char *read_action(const char *cell_text, tryst_action *action)
{
    const char *cursor = cell_text;
    if (!read_number(&cursor, &action->stage)) {
        return "does not begin with a stage number, as \"2F0\" does";
    }
    const char *reason = refusal(cursor);
    if (reason) {
        return reason;
    }
    if (!read_kind(&cursor, &action->kind)) {
        return "has no known action: F, B, I, W, UPDATE or REDUCE_GRAD follows the stage";
    }
    action->microbatch = -1;
    action->version = action->kind == TRYST_ACTION_UPDATE ? 1 : 0;
    if (action->kind < TRYST_ACTION_UPDATE &&
        !read_number(&cursor, &action->microbatch)) {
        return "has no micro-batch number behind the action, as \"2F0\" has";
    }
    if (take(&cursor, "v")) {
        int32_t sign = take(&cursor, "-") ? -1 : 1;
        if (!read_number(&cursor, &action->version)) {
            return "has no version number behind \"v\"";
        }
        action->version *= sign;
    }
    return *cursor ? "has something behind its last number" : NULL;
}

/* ---- loading ----------------------------------------------------------------------- */

static tryst_status add_ranks(tryst_program *program, int ranks_count)
{
    while (program->ranks_count < ranks_count) {
        size_t count = (size_t)program->ranks_count + 1;
        struct program_list *lists = realloc(program->lists, count * sizeof *lists);
        if (!lists) {
            return TRYST_E_NOMEM;
        }
        lists[program->ranks_count++] = (struct program_list){0};
        program->lists = lists;
    }
    return TRYST_OK;
}

/* Add one action. Actions of a row beyond CELL_NUMBER_MAX are only counted: check_size
 * refuses such a file. */
static tryst_status add_action(struct csv *file, int row, const tryst_action *action)
{
    tryst_program *program = file->program;
    if (action->stage >= program->stages_count) {
        program->stages_count = action->stage + 1;
    }
    if (action->microbatch >= program->microbatches_count) {
        program->microbatches_count = action->microbatch + 1;
    }
    file->actions_count++;
    file->updates_count += action->kind == TRYST_ACTION_UPDATE;
    file->microbatch_actions_count += action->microbatch >= 0;
    if (row > CELL_NUMBER_MAX) {
        return TRYST_OK;
    }
    tryst_status status = add_ranks(program, row + 1);
    return status == TRYST_OK ? program_list_add(&program->lists[row], action) : status;
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

static tryst_status load_action(struct csv *file, int row, int column,
                                const char *content)
{
    tryst_action action;
    const char *reason = read_action(content, &action);
    return reason ? refuse_cell(file, row, column, content, reason)
                  : add_action(file, row, &action);
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
        status = load_action(file, row, column, trim(part));
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
                           : load_action(file, row, column, content);
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

/* Refuse a file without actions or micro-batches, with too many rows, or with fewer
 * actions than forwards are needed: one for each stage and micro-batch. */
static tryst_status check_size(struct csv *file)
{
    const tryst_program *program = file->program;
    uint64_t forwards =
        (uint64_t)program->stages_count * (uint64_t)program->microbatches_count;
    if (file->actions_count == 0) {
        return refuse(TRYST_E_PROGRAM, "cannot load %s: no actions", file->path);
    }
    if (program->microbatches_count == 0) {
        return refuse(TRYST_E_PROGRAM,
                      "cannot load %s: no micro-batch: there are only UPDATEs and "
                      "REDUCE_GRADs",
                      file->path);
    }
    if (forwards < (uint64_t)file->rows_count || file->rows_count > CELL_NUMBER_MAX) {
        return refuse(TRYST_E_PROGRAM,
                      "cannot load %s: %d rows (ranks), but stages only to %d and "
                      "micro-batches to %d; every rank needs a micro-batch at a stage "
                      "(%d ranks at most)",
                      file->path, file->rows_count, program->stages_count - 1,
                      program->microbatches_count - 1, CELL_NUMBER_MAX);
    }
    if (forwards > file->microbatch_actions_count) {
        return refuse(
            TRYST_E_PROGRAM,
            "cannot load %s: it names stage %d and micro-batch %d, so it needs at least "
            "%llu "
            "forwards, but has %zu actions with a micro-batch",
            file->path, program->stages_count - 1, program->microbatches_count - 1,
            (unsigned long long)forwards, file->microbatch_actions_count);
    }
    return TRYST_OK;
}

tryst_status tryst_program_load_csv(const char *path, tryst_program **program_p)
{
    FILE *stream = file_open(path, "re");
    if (!stream) {
        return refuse(TRYST_E_IO, "cannot load %s: %s", path, strerror(errno));
    }
    struct csv file = {.path = path, .program = calloc(1, sizeof *file.program)};
    tryst_status status = file.program ? load_rows(&file, stream) : TRYST_E_NOMEM;
    if (status == TRYST_OK) {
        status = check_size(&file);
    }
    if (status == TRYST_OK) { /* the last rows may be empty */
        status = add_ranks(file.program, file.rows_count);
    }
    for (int rank = 0; status == TRYST_OK && file.updates_count == 0 &&
                       rank < file.program->ranks_count;
         rank++) {
        status = program_append_updates(file.program, rank);
    }
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

static void save_row(FILE *stream, const struct program_list *list, bool synchronous)
{
    const char *separator = "";
    for (size_t i = 0; i < list->count; i++) {
        char action[40];
        if (synchronous && list->actions[i].kind == TRYST_ACTION_UPDATE) {
            continue;
        }
        fprintf(stream, "%s%s", separator,
                tryst_action_format(&list->actions[i], action, sizeof action));
        separator = ",";
    }
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
    for (int rank = 0; rank < program->ranks_count; rank++) {
        save_row(stream, &program->lists[rank], synchronous);
    }
    bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        return refuse(TRYST_E_IO, "cannot save %s: %s", path, strerror(errno));
    }
    return TRYST_OK;
}
