/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one cell of a program's CSV file: an action, an action of PyTorch's that a
 * program does not have, a mark, or a rate.
 *
 *   stage kind [micro-batch] [v version] [s slot]   2F0  2F0v-1  2R0s1  2UPDATEv2
 *   stage PREDICT s slot d direction a ahead        2PREDICTs1d0a1.5
 *   BODY  EPILOGUE  RATE10
 *
 * The one idea: a reader takes its word or number at the cursor and moves the cursor
 * behind it; what is left at the end is an error. Numbers above PROGRAM_CELL_NUMBER_MAX
 * are refused, so that no count of a file overflows. Called by program_csv.c. */
#include "program_cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Read digits at *cursor_p and move *cursor_p past them. Return true if there is a
 * digit and the number is at most `most`. */
static bool take_number(const char **cursor_p, int32_t most, int32_t *number_p)
{
    const char *cursor = *cursor_p;
    int64_t number = 0;
    if (*cursor < '0' || *cursor > '9') {
        return false;
    }
    for (; *cursor >= '0' && *cursor <= '9'; cursor++) {
        number = number * 10 + (*cursor - '0');
        if (number > most) {
            return false;
        }
    }
    *cursor_p = cursor;
    *number_p = (int32_t)number;
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

/* Read a finite decimal number, "-1.5e-3". The characters are checked first: strtod reads
 * infinities and hexadecimal numbers, too. */
static bool take_real(const char **cursor_p, double *real_p)
{
    const char *digits = *cursor_p + (**cursor_p == '-');
    const char *end = digits + strspn(digits, "0123456789.eE+-");
    char *read = NULL;
    if (*digits < '0' || *digits > '9') {
        return false;
    }
    double real = strtod(*cursor_p, &read);
    if (read != end || !isfinite(real)) {
        return false;
    }
    *cursor_p = end;
    *real_p = real;
    return true;
}

/* Take an action of PyTorch's compute_comms form that a program does not have. NULL in
 * *reason_p: it is well formed. */
static bool take_dropped(const char **cursor_p, const char **reason_p)
{
    static const struct {
        const char *word;
        bool has_microbatch;
    } words[] = {
        {"SEND_F", true},   {"RECV_F", true},      {"SEND_B", true},
        {"RECV_B", true},   {"WAIT_SEND_F", true}, {"WAIT_SEND_B", true},
        {"UNSHARD", false}, {"RESHARD", false},    {"WAIT_REDUCE_GRAD", false},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int32_t microbatch;
        if (!take(cursor_p, words[i].word)) {
            continue;
        }
        bool whole = !words[i].has_microbatch ||
                     take_number(cursor_p, PROGRAM_CELL_NUMBER_MAX, &microbatch);
        *reason_p = whole ? NULL : "has no micro-batch number, as \"2SEND_F0\" has";
        return true;
    }
    return false;
}

static bool take_kind(const char **cursor_p, tryst_action_kind *kind_p)
{
    /* a name that begins another one comes behind it */
    static const tryst_action_kind kinds[] = {
        TRYST_ACTION_UPDATE,      TRYST_ACTION_REDUCE_GRAD, TRYST_ACTION_PREDICT,
        TRYST_ACTION_FORWARD,     TRYST_ACTION_BACKWARD,    TRYST_ACTION_INPUT_GRAD,
        TRYST_ACTION_WEIGHT_GRAD, TRYST_ACTION_RECOMPUTE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (take(cursor_p, tryst_action_kind_name(kinds[i]))) {
            *kind_p = kinds[i];
            return true;
        }
    }
    return false;
}

static const char *take_version(const char **cursor_p, tryst_action *action)
{
    int32_t sign = take(cursor_p, "-") ? -1 : 1;
    if (!take_number(cursor_p, PROGRAM_VERSION_MAX, &action->version)) {
        return "has no version number behind \"v\"";
    }
    action->version *= sign;
    return NULL;
}

_Static_assert(PROGRAM_SLOT_MAX == 255, "named in the reason below");

static const char *take_slot(const char **cursor_p, tryst_action *action)
{
    return take_number(cursor_p, PROGRAM_SLOT_MAX, &action->slot) && action->slot > 0
               ? NULL
               : "has no slot number, from 1 to 255, behind \"s\"";
}

static const char *take_prediction(const char **cursor_p, tryst_action *action)
{
    static const char *const form =
        "is not of the form \"2PREDICTs1d0a1.5\": slot 1, direction 0, 1.5 ahead";
    if (!take(cursor_p, "s") || take_slot(cursor_p, action) || !take(cursor_p, "d") ||
        !take_number(cursor_p, PROGRAM_CELL_NUMBER_MAX, &action->direction) ||
        !take(cursor_p, "a") || !take_real(cursor_p, &action->ahead)) {
        return form;
    }
    return NULL;
}

/* Take what follows the kind: micro-batch, version and slot, or a prediction. */
static const char *take_rest(const char **cursor_p, tryst_action *action)
{
    bool own = action->kind < TRYST_ACTION_UPDATE ||
               action->kind == TRYST_ACTION_RECOMPUTE; /* of a micro-batch */
    const char *reason = NULL;
    action->microbatch = -1;
    action->version = action->kind == TRYST_ACTION_UPDATE ? 1 : 0;
    if (action->kind == TRYST_ACTION_PREDICT) {
        return take_prediction(cursor_p, action);
    }
    if (own && !take_number(cursor_p, PROGRAM_CELL_NUMBER_MAX, &action->microbatch)) {
        return "has no micro-batch number behind the action, as \"2F0\" has";
    }
    if (take(cursor_p, "v")) {
        reason = take_version(cursor_p, action);
    }
    if (!reason && own && take(cursor_p, "s")) {
        reason = take_slot(cursor_p, action);
    }
    return reason;
}

static const char *take_action(const char **cursor_p, struct program_cell *cell)
{
    const char *reason = NULL;
    cell->kind = PROGRAM_CELL_DROPPED;
    if (!take_number(cursor_p, PROGRAM_CELL_NUMBER_MAX, &cell->action.stage)) {
        return "does not begin with a stage number, as \"2F0\" does";
    }
    if (take_dropped(cursor_p, &reason)) {
        return reason;
    }
    cell->kind = PROGRAM_CELL_ACTION;
    return take_kind(cursor_p, &cell->action.kind)
               ? take_rest(cursor_p, &cell->action)
               : "has no known action: F, B, I, W, R, UPDATE, REDUCE_GRAD or PREDICT "
                 "follows the stage";
}

static const char *take_cell(const char **cursor_p, struct program_cell *cell)
{
    if (take(cursor_p, "BODY")) {
        cell->kind = PROGRAM_CELL_BODY;
        return NULL;
    }
    if (take(cursor_p, "EPILOGUE")) {
        cell->kind = PROGRAM_CELL_EPILOGUE;
        return NULL;
    }
    if (take(cursor_p, "RATE")) {
        cell->kind = PROGRAM_CELL_RATE;
        return take_number(cursor_p, INT32_MAX, &cell->rate) && cell->rate > 0
                   ? NULL
                   : "has no number of updates, from 1, behind \"RATE\"";
    }
    return take_action(cursor_p, cell);
}

const char *program_cell_read(const char *text, struct program_cell *cell_p)
{
    *cell_p = (struct program_cell){.kind = PROGRAM_CELL_DROPPED};
    const char *cursor = text;
    const char *reason = take_cell(&cursor, cell_p);
    return reason || !*cursor ? reason : "has something behind its last number";
}
