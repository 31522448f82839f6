/* SPDX-License-Identifier: Apache-2.0 */
/* The program behind tryst_program, shared by generators, checker, CSV, simulator and
 * engine. */
#ifndef TRYST_PIPELINE_PROGRAM_PROGRAM_H
#define TRYST_PIPELINE_PROGRAM_PROGRAM_H

#include <tryst/pipeline.h>

struct program_list {
    tryst_action *actions;
    size_t count;
    size_t capacity;
    /** Where body and epilogue begin; see program_list_parts. Of an unrolled loop, `body`
     *  is the number of the prologue's actions, and `part` the prologue. */
    tryst_program_part part; /**< the part that appended actions belong to */
    size_t body;
    size_t epilogue;
};

struct tryst_program {
    int ranks_count;
    int stages_count;
    int microbatches_count;
    int32_t rate;               /**< see tryst_program_rate_set */
    struct program_list *lists; /**< [ranks] */
};

/** Limits of an action's numbers, so that sums of some of them fit an int32_t. */
#define PROGRAM_VERSION_MAX (1 << 30)
#define PROGRAM_SLOT_MAX    255

/** Data that one action makes and others need: one *item* per kind, stage and
 *  micro-batch. */
enum program_item_kind {
    PROGRAM_OUTPUT = 0,      /**< made by F */
    PROGRAM_GRAD = 1,        /**< gradient of the stage's input, made by B or I */
    PROGRAM_WEIGHT_GRAD = 2, /**< made by B or W */
    PROGRAM_ITEM_KINDS = 3
};

struct program_item {
    enum program_item_kind kind;
    int stage;
    int microbatch;
};

#define PROGRAM_ITEMS_MAX 2

/** List the items that `action` needs; return their number (at most
 *  PROGRAM_ITEMS_MAX). */
int program_needs(const tryst_program *program, const tryst_action *action,
                  struct program_item items[PROGRAM_ITEMS_MAX]);
/** List the items that `action` makes; return their number. */
int program_makes(const tryst_action *action,
                  struct program_item items[PROGRAM_ITEMS_MAX]);

/** Return the stage, other than the item's own, that needs `item`; -1: no other stage
 *  needs it. */
int program_item_user(const tryst_program *program, struct program_item item);

/** Return the number of items of all stages and micro-batches. */
size_t program_items_count(const tryst_program *program);
/** Return the index of `item` among all items: 0 to program_items_count - 1. */
size_t program_item_index(const tryst_program *program, struct program_item item);

/** Where stages and micro-batches are. */
struct program_places {
    int *owners;   /**< [stages × micro-batches]: the rank; -1: none */
    int *replicas; /**< [stages]: ranks that run a micro-batch there */
};

/** Find the places; the first rank of a micro-batch that is on several counts. Returns
 *  TRYST_OK or TRYST_E_NOMEM; close the places in both cases. */
tryst_status program_places_open(const tryst_program *program,
                                 struct program_places *places_p);
void program_places_close(struct program_places *places);

static inline int *program_owner(const tryst_program *program,
                                 const struct program_places *places, int stage,
                                 int microbatch)
{
    return &places->owners[(size_t)stage * (size_t)program->microbatches_count +
                           (size_t)microbatch];
}

/** True if `kind` belongs to a micro-batch: F, B, I, W, R. */
bool program_kind_has_microbatch(tryst_action_kind kind);
/** True if `kind` reads weights: F, B, I, W, R. */
static inline bool program_kind_reads(tryst_action_kind kind)
{
    return program_kind_has_microbatch(kind);
}
/** True if `kind` adds a micro-batch's gradient: B, W. */
static inline bool program_kind_adds(tryst_action_kind kind)
{
    return kind == TRYST_ACTION_BACKWARD || kind == TRYST_ACTION_WEIGHT_GRAD;
}

/** True if the program is a loop. */
bool program_is_looped(const tryst_program *program);
/** Return true if the list has a body's mark, and write where body and epilogue begin;
 *  without marks 0 and the list's end. */
bool program_list_parts(const struct program_list *list, size_t *body_p,
                        size_t *epilogue_p);

/** True if every action reads version 0, and the only UPDATEs of each rank are, at the
 *  end of its list, those that program_append_updates would append. Only then can a file
 *  omit the UPDATEs. */
bool program_is_synchronous(const tryst_program *program);

/** Append an action without checking that stage and micro-batch are in range. Returns
 *  TRYST_OK or TRYST_E_NOMEM, and sets no tryst_last_error. */
tryst_status program_list_add(struct program_list *list, const tryst_action *action);

/** Append one UPDATE to the list of `rank` for each stage that the list names, in
 *  ascending order of stages. */
tryst_status program_append_updates(tryst_program *program, int rank);

#endif
