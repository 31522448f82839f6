/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a program as a grid of text, one row per position and one column per rank, with
 * one cell marked. The checker shows the place of every error this way.
 *
 * Of a long program only the rows around the mark are drawn. */
#include "program_grid.h"

#include <string.h>

#define CELL_MAX    40
#define ROWS_AROUND 24 /* a screenful on each side of the mark */

static size_t rows_count(const tryst_program *program)
{
    size_t rows = 0;
    for (int rank = 0; rank < program->ranks_count; rank++) {
        rows = program->lists[rank].count > rows ? program->lists[rank].count : rows;
    }
    return rows;
}

static void cell_format(const tryst_program *program, int rank, size_t row, bool marked,
                        char cell[CELL_MAX])
{
    const struct program_list *list = &program->lists[rank];
    char action[CELL_MAX - 2] = "";
    if (row < list->count) {
        tryst_action_format(&list->actions[row], action, sizeof action);
    }
    struct sentence out = sentence_begin(cell, CELL_MAX);
    sentence_add(&out, marked ? "[%s]" : "%s", action);
}

static int column_width(const tryst_program *program, int rank, size_t first, size_t last)
{
    size_t width = strlen("Rank 00") + 1;
    for (size_t row = first; row < last; row++) {
        char cell[CELL_MAX];
        cell_format(program, rank, row, true, cell);
        width = strlen(cell) > width ? strlen(cell) : width;
    }
    return (int)width;
}

static void add_row(struct sentence *out, const tryst_program *program, size_t row,
                    const int *widths, struct program_place place)
{
    bool row_marked = place.rank >= 0 && row == place.position;
    sentence_add(out, "Step %3zu:", row);
    for (int rank = 0; rank < program->ranks_count; rank++) {
        char cell[CELL_MAX];
        cell_format(program, rank, row, row_marked && rank == place.rank, cell);
        sentence_add(out, " %-*s", widths[rank], cell);
    }
    sentence_add(out, row_marked ? " <-- ERROR HERE\n" : "\n");
}

void program_grid_add(struct sentence *out, const tryst_program *program,
                      struct program_place place)
{
    size_t rows = rows_count(program);
    if (place.rank >= 0 && place.position >= rows) {
        rows = place.position + 1; /* the mark is after the last action */
    }
    size_t first = 0;
    size_t last = rows;
    if (place.rank >= 0 && rows > 2 * ROWS_AROUND) {
        first = place.position > ROWS_AROUND ? place.position - ROWS_AROUND : 0;
        last = place.position + ROWS_AROUND < rows ? place.position + ROWS_AROUND : rows;
    }
    int widths[PROGRAM_GRID_RANKS_MAX];
    if (program->ranks_count > PROGRAM_GRID_RANKS_MAX) {
        sentence_add(out, "(grid of %d ranks left out)\n", program->ranks_count);
        return;
    }
    sentence_add(out, "         ");
    for (int rank = 0; rank < program->ranks_count; rank++) {
        widths[rank] = column_width(program, rank, first, last);
        sentence_add(out, " Rank %-*d", widths[rank] - 5, rank);
    }
    sentence_add(out, first > 0 ? "\n     ...\n" : "\n");
    for (size_t row = first; row < last; row++) {
        add_row(out, program, row, widths, place);
    }
    sentence_add(out, last < rows ? "     ...\n" : "");
}
