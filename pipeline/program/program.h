/* SPDX-License-Identifier: Apache-2.0 */
/* The program behind tryst_program, shared by generators, checker, CSV, simulator and
 * engine. */
#ifndef TRYST_PIPELINE_PROGRAM_H
#define TRYST_PIPELINE_PROGRAM_H

#include <tryst/pipeline.h>

typedef struct program_list {
    tryst_action *actions;
    size_t count;
    size_t capacity;
} program_list;

struct tryst_program {
    int ranks_count;
    int stages_count;
    int microbatches_count;
    program_list *lists; /* one per rank */
};

/* What actions make and others need, one *item* per stage and micro-batch. */
typedef enum program_item_kind {
    PROGRAM_OUTPUT = 0,      /* made by F */
    PROGRAM_GRAD = 1,        /* gradient of the stage's input, made by B or I */
    PROGRAM_WEIGHT_GRAD = 2, /* made by B or W */
    PROGRAM_ITEM_KINDS = 3
} program_item_kind;

typedef struct program_item {
    program_item_kind kind;
    int stage;
    int microbatch;
} program_item;

#define PROGRAM_ITEMS_MAX 2

/* What `action` needs; returns how many (at most PROGRAM_ITEMS_MAX). */
int program_needs(const tryst_program *program, const tryst_action *action,
                  program_item items[PROGRAM_ITEMS_MAX]);
/* What `action` makes. */
int program_makes(const tryst_action *action, program_item items[PROGRAM_ITEMS_MAX]);

/* The stage that uses an item besides its maker's own, -1 where none does. */
int program_item_user(const tryst_program *program, program_item item);

size_t program_items_count(const tryst_program *program);
size_t program_item_index(const tryst_program *program, program_item item);

/* True when every action reads version 0, and after them each rank has what
 * program_append_updates appends, and nothing else: only then can a file leave the UPDATEs out. */
bool program_is_synchronous(const tryst_program *program);

/* Append, whatever the program's numbers are so far. */
tryst_status program_list_add(program_list *list, const tryst_action *action);

/* Append one UPDATE for each stage of `rank`, in ascending order. */
tryst_status program_append_updates(tryst_program *program, int rank);

#endif
