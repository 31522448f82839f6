/* SPDX-License-Identifier: Apache-2.0 */
/* Loads profiles: one file, or a file of each rank of one run, merged.
 *
 * Idea: the library reads and checks a file. The first file has the run and its number of
 * ranks, so the files of the other ranks are known by name.
 * Invariant: a profile is merged of all ranks of one run, or not at all. */
#include "order_profile.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include "order_merge.h"

/* Names of missing files in an error. */
enum { MISSING_SHOWN = 4 };

static void *checked(void *memory)
{
    if (memory)
        return memory;
    fputs("tryst-perf: out of memory\n", stderr);
    exit(1);
}

void *order_zalloc(size_t count, size_t bytes)
{
    return checked(calloc(count + 1, bytes));
}

struct order_node *order_node_name(struct order_profile *profile, uint32_t index,
                                   const char *name)
{
    profile->nodes[index].name = checked(strdup(name));
    return &profile->nodes[index];
}

void order_node_after(struct order_profile *profile, uint32_t index, uint32_t before)
{
    struct order_node *node = &profile->nodes[index];
    node->after =
        checked(realloc(node->after, (node->after_count + 1u) * sizeof *node->after));
    node->after[node->after_count++] = before;
    profile->edges_count++;
}

void order_profile_close(struct order_profile *profile)
{
    for (uint32_t i = 0; profile && i < profile->count; i++) {
        free(profile->nodes[i].name);
        free(profile->nodes[i].after);
    }
    if (profile)
        free(profile->nodes);
    free(profile);
}

/* ---- one file ---------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static bool refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("tryst-perf: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

/* Write `form` with the rank for each %r. False: too long. */
static bool path_write(const char *form, int32_t rank, char path[PATH_MAX])
{
    size_t used = 0;
    for (const char *at = form; *at && used < PATH_MAX; at++)
        if (at[0] == '%' && at[1] == 'r') {
            used += (size_t)snprintf(path + used, PATH_MAX - used, "%" PRId32, rank);
            at++;
        } else {
            path[used++] = *at;
        }
    if (used >= PATH_MAX)
        return refuse("cannot load %s: the name is too long", form);
    path[used] = 0;
    return true;
}

static struct order_profile *rank_load(const char *form, int32_t rank)
{
    tryst_profile *loaded;
    char path[PATH_MAX];
    if (!path_write(form, rank, path))
        return NULL;
    if (tryst_profile_load(path, &loaded) != TRYST_OK) {
        refuse("%s", tryst_last_error());
        return NULL;
    }
    struct order_profile *profile = order_zalloc(1, sizeof *profile);
    profile->origin.struct_size = sizeof profile->origin;
    (void)tryst_profile_origin_get(loaded, &profile->origin);
    profile->count = tryst_profile_nodes(loaded);
    profile->nodes = order_zalloc(profile->count, sizeof *profile->nodes);
    for (uint32_t i = 0; i < profile->count; i++) {
        tryst_profile_node node = {.struct_size = sizeof node};
        (void)tryst_profile_node_get(loaded, i, &node);
        struct order_node *copy = order_node_name(profile, i, node.name);
        copy->is_operation = node.is_operation;
        copy->seconds = node.seconds;
        copy->bytes = node.bytes;
        for (uint32_t a = 0; a < node.after_count; a++)
            order_node_after(profile, i, node.after[a]);
    }
    tryst_profile_close(loaded);
    return profile;
}

/* ---- the files of a run ------------------------------------------------------------ */

static bool file_is_there(const char *form, int32_t rank, char path[PATH_MAX])
{
    return path_write(form, rank, path) && access(path, F_OK) == 0;
}

/* Check that there is a file for each of `size` ranks. */
static bool files_check(const char *form, int32_t size)
{
    char path[PATH_MAX], first[PATH_MAX];
    int32_t missing = 0;
    if (!path_write(form, 0, first))
        return false;
    for (int32_t rank = 1; rank < size; rank++)
        if (!file_is_there(form, rank, path) && missing++ < MISSING_SHOWN)
            fprintf(stderr, "%s%s", missing == 1 ? "tryst-perf: cannot find " : ", ",
                    path);
    if (missing > MISSING_SHOWN)
        fprintf(stderr, " and %" PRId32 " more", missing - MISSING_SHOWN);
    if (missing > 0)
        fprintf(stderr,
                ": %s is of a run of %" PRId32 " ranks; give the files of all of them\n",
                first, size);
    if (missing == 0 && file_is_there(form, size, path))
        return refuse("cannot merge %s with %s: the run of %s has %" PRId32
                      " ranks, so %s is of another run; remove the files of that run",
                      path, first, first, size, path);
    return missing == 0;
}

/* Check that profile `at` can be one of those of the first one's run, and is of no rank
 * of those before it. */
static bool origin_check(const char *form, struct order_profile *const *profiles,
                         int32_t at)
{
    tryst_profile_origin origin = profiles[at]->origin, wanted = profiles[0]->origin;
    char path[PATH_MAX], first[PATH_MAX], other[PATH_MAX];
    int32_t same = 0;
    if (!path_write(form, at, path) || !path_write(form, 0, first))
        return false;
    if (!origin.run || origin.rank < 0)
        return refuse("cannot merge %s with %s: %s has no \"run\" and \"rank\"; record "
                      "all ranks in one run (TRYST_PROFILE)",
                      path, first, path);
    if (origin.run != wanted.run || origin.size != wanted.size)
        return refuse("cannot merge %s (rank %" PRId32 " of %" PRId32
                      ") with %s (rank %" PRId32 " of %" PRId32
                      "): the files are of two runs; record all ranks in one run, and "
                      "remove the files of others",
                      path, origin.rank, origin.size, first, wanted.rank, wanted.size);
    while (same < at && profiles[same]->origin.rank != origin.rank)
        same++;
    return same == at || (path_write(form, same, other) &&
                          refuse("cannot merge %s with %s: both are of rank %" PRId32
                                 "; give the file of each rank once",
                                 path, other, origin.rank));
}

/* Load the profiles of ranks 1 on, and merge them with that of rank 0. */
static struct order_profile *run_load(const char *form, int32_t size,
                                      struct order_profile **profiles)
{
    for (int32_t rank = 1; rank < size; rank++) {
        profiles[rank] = rank_load(form, rank);
        if (!profiles[rank] || !origin_check(form, profiles, rank))
            return NULL;
    }
    return order_merge(profiles, (uint32_t)size);
}

static struct order_profile *run_merge(const char *form, struct order_profile *first)
{
    int32_t size = first->origin.size;
    char path[PATH_MAX];
    if ((!first->origin.run || first->origin.rank < 0) && path_write(form, 0, path))
        refuse("cannot merge %s: %s has no \"run\", \"rank\" and \"size\", so files "
               "of several runs could be mixed; record the ranks again "
               "(TRYST_PROFILE), or give one file",
               form, path);
    if (!first->origin.run || first->origin.rank < 0 || !files_check(form, size))
        return NULL;
    struct order_profile **profiles =
        order_zalloc((size_t)size, sizeof(struct order_profile *));
    profiles[0] = first;
    struct order_profile *merged = run_load(form, size, profiles);
    for (int32_t rank = 1; rank < size; rank++)
        order_profile_close(profiles[rank]);
    free(profiles);
    return merged;
}

struct order_profile *order_profile_open(const char *path)
{
    struct order_profile *first = rank_load(path, 0);
    if (!first || !strstr(path, "%r"))
        return first;
    struct order_profile *merged = run_merge(path, first);
    order_profile_close(first);
    return merged;
}

/* ---- the origin in outputs --------------------------------------------------------- */

void order_origin_print(FILE *out, const struct order_profile *profile)
{
    tryst_profile_origin origin = profile->origin;
    if (!origin.run)
        return;
    if (origin.rank >= 0)
        fprintf(out, "# recorded by rank %" PRId32 " of %" PRId32, origin.rank,
                origin.size);
    else if (origin.size == 1)
        fprintf(out, "# recorded by rank 0, the only one");
    else
        fprintf(out, "# recorded by ranks 0 to %" PRId32, origin.size - 1);
    fprintf(out, ", run %016" PRIx64 "\n", origin.run);
}

void order_origin_json(FILE *file, const struct order_profile *profile)
{
    tryst_profile_origin origin = profile->origin;
    if (!origin.run)
        return;
    fprintf(file, "\"profile_run\": \"%016" PRIx64 "\", ", origin.run);
    if (origin.rank >= 0)
        fprintf(file, "\"profile_rank\": %" PRId32 ", ", origin.rank);
    fprintf(file, "\"profile_ranks\": %" PRId32 ", ", origin.size);
}
