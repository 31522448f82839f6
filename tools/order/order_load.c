/* SPDX-License-Identifier: Apache-2.0 */
/* Loads profiles: one file, or a file of each rank of one run, merged.
 *
 * Idea: the first file has the run and its number of ranks, so the files of the other
 * ranks are known by name. tryst_profile_merge checks that all are of that run.
 * Invariant: a profile is merged of all ranks of one run, or not at all. */
#include "order_load.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/tryst.h>
#include <unistd.h>

/* Names of missing files in an error. */
enum { MISSING_SHOWN = 4 };

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

static tryst_profile_origin origin_of(const tryst_profile *profile)
{
    tryst_profile_origin origin = {.struct_size = sizeof origin};
    (void)tryst_profile_origin_get(profile, &origin);
    return origin;
}

static bool rank_load(const char *form, int32_t rank, tryst_profile **profile_p)
{
    char path[PATH_MAX];
    if (!path_write(form, rank, path))
        return false;
    return tryst_profile_load(path, profile_p) == TRYST_OK ||
           refuse("%s", tryst_last_error());
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

/* Load the profiles of ranks 1 on, and merge them with that of rank 0. */
static bool run_load(const char *form, int32_t size, tryst_profile **profiles,
                     tryst_profile **merged_p)
{
    for (int32_t rank = 1; rank < size; rank++)
        if (!rank_load(form, rank, &profiles[rank]))
            return false;
    return tryst_profile_merge(profiles, (uint32_t)size, merged_p) == TRYST_OK ||
           refuse("%s", tryst_last_error());
}

static bool run_merge(const char *form, tryst_profile *first, tryst_profile **merged_p)
{
    tryst_profile_origin origin = origin_of(first);
    char path[PATH_MAX];
    if ((!origin.run || origin.rank < 0) && path_write(form, 0, path))
        return refuse(
            "cannot merge %s: %s has no \"run\", \"rank\" and \"size\", so files "
            "of several runs could be mixed; record the ranks again "
            "(TRYST_PROFILE), or give one file",
            form, path);
    if (!files_check(form, origin.size))
        return false;
    tryst_profile **profiles = calloc((size_t)origin.size, sizeof(tryst_profile *));
    if (!profiles)
        return refuse("cannot merge %s: out of memory", form);
    profiles[0] = first;
    bool merged = run_load(form, origin.size, profiles, merged_p);
    for (int32_t rank = 1; rank < origin.size; rank++)
        tryst_profile_close(profiles[rank]);
    free(profiles);
    return merged;
}

bool order_profile_load(const char *path, tryst_profile **profile_p)
{
    tryst_profile *first;
    if (!rank_load(path, 0, &first))
        return false;
    if (!strstr(path, "%r")) {
        *profile_p = first;
        return true;
    }
    bool merged = run_merge(path, first, profile_p);
    tryst_profile_close(first);
    return merged;
}

/* ---- the origin in outputs --------------------------------------------------------- */

void order_origin_print(const struct order_job *job)
{
    tryst_profile_origin origin = origin_of(job->profile);
    if (!origin.run)
        return;
    if (origin.rank >= 0)
        printf("# recorded by rank %" PRId32 " of %" PRId32, origin.rank, origin.size);
    else if (origin.size == 1)
        printf("# recorded by rank 0, the only one");
    else
        printf("# recorded by ranks 0 to %" PRId32, origin.size - 1);
    printf(", run %016" PRIx64 "\n", origin.run);
}

void order_origin_json(FILE *file, const struct order_job *job)
{
    tryst_profile_origin origin = origin_of(job->profile);
    if (!origin.run)
        return;
    fprintf(file, "\"profile_run\": \"%016" PRIx64 "\", ", origin.run);
    if (origin.rank >= 0)
        fprintf(file, "\"profile_rank\": %" PRId32 ", ", origin.rank);
    fprintf(file, "\"profile_ranks\": %" PRId32 ", ", origin.size);
}
