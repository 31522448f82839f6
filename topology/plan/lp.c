/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restricted master through Clp's C interface (see lp.h).
 *
 * One idea: the first column is T, the rest are the caller's. New columns are packed, and
 * go to Clp together before the next solve.
 * Invariant: Clp's prototypes are those of Clp_C_Interface.h, unchanged since Clp 1.
 * Side effects of loading: libClp loads LAPACK, perhaps OpenBLAS, which may start
 * threads; those inherit a mask with all signals blocked.
 * Side effects of a solve: Clp passes the dense part of a basis (more than 71 rows) to
 * LAPACK. With several threads OpenBLAS is slower there, since idle threads spin, and
 * rounds differently, so equal hosts with another number of processors would find other
 * trees. So OpenBLAS is held to one thread while any solve of the process runs.
 */
#include "lp.h"

#include <dlfcn.h>
#include <float.h>
#include <pthread.h>
#include <signal.h>

#include "core/log/log.h"
#include "core/memory/alloc.h"

#define LIBRARY   "libClp.so.1"
#define TOLERANCE 1e-10 /* Clp's primal and dual tolerance; values are about 1 */

/* clang-format off */
#define CLP_FUNCTIONS(X)                                                                 \
    X(void *, newModel, (void))                                                          \
    X(void, deleteModel, (void *))                                                       \
    X(void, setLogLevel, (void *, int))                                                  \
    X(void, scaling, (void *, int))                                                      \
    X(void, setPerturbation, (void *, int))                                              \
    X(void, setPrimalTolerance, (void *, double))                                        \
    X(void, setDualTolerance, (void *, double))                                          \
    X(void, setMaximumIterations, (void *, int))                                         \
    X(void, setNumberIterations, (void *, int))                                          \
    X(int, numberIterations, (void *))                                                   \
    X(void, resize, (void *, int, int))                                                  \
    X(void, addColumns, (void *, int, const double *, const double *, const double *,    \
                         const int *, const int *, const double *))                      \
    X(double *, rowLower, (void *))                                                      \
    X(double *, rowUpper, (void *))                                                      \
    X(double *, columnUpper, (void *))                                                   \
    X(int, primal, (void *, int))                                                        \
    X(int, dual, (void *, int))                                                          \
    X(int, status, (void *))                                                             \
    X(double *, primalColumnSolution, (void *))                                          \
    X(double *, dualRowSolution, (void *))
/* clang-format on */

static struct {
    pthread_once_t once;
    bool loaded;
#define CLP_MEMBER(result, name, arguments) result(*name) arguments;
    CLP_FUNCTIONS(CLP_MEMBER)
#undef CLP_MEMBER
} clp = {.once = PTHREAD_ONCE_INIT};

/* OpenBLAS's thread count. */
static struct {
    int (*get)(void);       /* NULL if LAPACK is not OpenBLAS */
    void (*set)(int count); /* NULL if LAPACK is not OpenBLAS */
    pthread_mutex_t lock;
    uint32_t solving; /* solves that are running */
    int before;       /* the thread count to restore after the last solve */
} blas_threads = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct lp {
    void *model;
    uint32_t rows, groups, columns; /* columns: number that Clp has, without T */
    struct {
        uint32_t count, values_count;
        size_t room, values_room;
        int *start, *index;
        double *value;
    } fresh; /* columns that Clp does not have yet, packed by column */
    /* Lower bounds, upper bounds and costs of the fresh columns: 3 × room. */
    double *bound;
    uint32_t pivots; /* of the last solve */
};

static bool clp_symbols(void *library)
{
    bool complete = true;
#define CLP_FIND(result, name, arguments)               \
    *(void **)&clp.name = dlsym(library, "Clp_" #name); \
    complete &= clp.name != NULL;
    CLP_FUNCTIONS(CLP_FIND)
#undef CLP_FIND
    return complete;
}

static void clp_load(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    clp.loaded = library && clp_symbols(library);
    if (clp.loaded) {
        *(void **)&blas_threads.get = dlsym(library, "openblas_get_num_threads");
        *(void **)&blas_threads.set = dlsym(library, "openblas_set_num_threads");
    }
    if (!clp.loaded)
        LOG_INFO(NULL,
                 "cannot load %s: trees are planned by multiplicative weights, to a gap "
                 "instead of the optimum; for the optimum install coinor-libclp1",
                 LIBRARY);
}

void lp_close(struct lp *lp)
{
    if (!lp)
        return;
    if (lp->model)
        clp.deleteModel(lp->model);
    mem_free(lp->fresh.start);
    mem_free(lp->fresh.index);
    mem_free(lp->fresh.value);
    mem_free(lp->bound);
    mem_free(lp);
}

/* Create Clp's model: the rows, and the column T with -1 in each row of a link. */
static tryst_status model_make(struct lp *lp)
{
    uint32_t rows = lp->rows;
    int *index = mem_zalloc_array(rows + 1, sizeof *index);
    double *value = mem_zalloc_array(rows + 1, sizeof *value);
    lp->model = index && value ? clp.newModel() : NULL;
    if (lp->model) {
        double zero = 0, one = 1, most = DBL_MAX;
        const int starts[2] = {0, (int)rows};
        clp.setLogLevel(lp->model, 0);
        clp.resize(lp->model, (int)(rows + lp->groups), 0);
        for (uint32_t i = 0; i < rows + lp->groups; i++) {
            clp.rowLower(lp->model)[i] = i < rows ? -DBL_MAX : 1;
            clp.rowUpper(lp->model)[i] = i < rows ? 0 : 1;
        }
        for (uint32_t i = 0; i < rows; i++) {
            index[i] = (int)i;
            value[i] = -1;
        }
        clp.addColumns(lp->model, 1, &zero, &most, &one, starts, index, value);
        clp.scaling(lp->model, 0);
        clp.setPrimalTolerance(lp->model, TOLERANCE);
        clp.setDualTolerance(lp->model, TOLERANCE);
    }
    mem_free(index);
    mem_free(value);
    return lp->model ? TRYST_OK : TRYST_E_NOMEM;
}

tryst_status lp_open(uint32_t rows_count, uint32_t groups_count, struct lp **lp_p)
{
    pthread_once(&clp.once, clp_load);
    if (!clp.loaded)
        return TRYST_E_UNSUPPORTED;
    struct lp *lp = mem_zalloc(sizeof *lp);
    if (!lp)
        return TRYST_E_NOMEM;
    lp->rows = rows_count;
    lp->groups = groups_count;
    tryst_status status = model_make(lp);
    if (status) {
        lp_close(lp);
        return status;
    }
    *lp_p = lp;
    return TRYST_OK;
}

static bool fresh_room(struct lp *lp, uint32_t values)
{
    size_t room = lp->fresh.room, values_room = lp->fresh.values_room;
    size_t starts = (size_t)lp->fresh.count + 2;
    size_t entries = (size_t)lp->fresh.values_count + values;
    return mem_reserve(&lp->bound, &room, starts, 3 * sizeof *lp->bound) &&
           mem_reserve(&lp->fresh.start, &lp->fresh.room, starts,
                       sizeof *lp->fresh.start) &&
           mem_reserve(&lp->fresh.index, &values_room, entries,
                       sizeof *lp->fresh.index) &&
           mem_reserve(&lp->fresh.value, &lp->fresh.values_room, entries,
                       sizeof *lp->fresh.value);
}

tryst_status lp_column_add(struct lp *lp, uint32_t group, uint32_t values_count,
                           const uint32_t *rows, const double *values)
{
    if (!fresh_room(lp, values_count + 1))
        return TRYST_E_NOMEM;
    uint32_t at = lp->fresh.values_count;
    lp->fresh.start[lp->fresh.count] = (int)at;
    for (uint32_t i = 0; i < values_count; i++, at++) {
        lp->fresh.index[at] = (int)rows[i];
        lp->fresh.value[at] = values[i];
    }
    lp->fresh.index[at] = (int)(lp->rows + group);
    lp->fresh.value[at++] = 1;
    lp->fresh.values_count = at;
    lp->fresh.start[++lp->fresh.count] = (int)at;
    return TRYST_OK;
}

static void fresh_flush(struct lp *lp)
{
    uint32_t count = lp->fresh.count;
    if (!count)
        return;
    double *lower = lp->bound, *upper = lower + count, *cost = upper + count;
    for (uint32_t i = 0; i < count; i++) {
        lower[i] = cost[i] = 0;
        upper[i] = DBL_MAX;
    }
    clp.addColumns(lp->model, (int)count, lower, upper, cost, lp->fresh.start,
                   lp->fresh.index, lp->fresh.value);
    lp->columns += count;
    lp->fresh.count = lp->fresh.values_count = 0;
}

void lp_column_shut(struct lp *lp, uint32_t column, bool shut)
{
    fresh_flush(lp);
    clp.columnUpper(lp->model)[column + 1] = shut ? 0 : DBL_MAX;
}

/* Hold OpenBLAS to one thread when the first solve begins; restore its count when the
 * last one ends. */
static void blas_threads_hold(bool hold)
{
    if (!blas_threads.get || !blas_threads.set)
        return;
    pthread_mutex_lock(&blas_threads.lock);
    if (hold && blas_threads.solving++ == 0) {
        blas_threads.before = blas_threads.get();
        blas_threads.set(1);
    } else if (!hold && --blas_threads.solving == 0) {
        blas_threads.set(blas_threads.before);
    }
    pthread_mutex_unlock(&blas_threads.lock);
}

bool lp_solve(struct lp *lp, uint32_t pivots_max)
{
    fresh_flush(lp);
    int limit = pivots_max ? (int)pivots_max : INT32_MAX;
    clp.setNumberIterations(lp->model, 0);
    clp.setMaximumIterations(lp->model, limit);
    blas_threads_hold(true);
    clp.primal(lp->model, 0);
    blas_threads_hold(false);
    lp->pivots = (uint32_t)clp.numberIterations(lp->model);
    return clp.status(lp->model) == 0;
}

double lp_time(const struct lp *lp)
{
    return clp.primalColumnSolution(lp->model)[0];
}

double lp_share(const struct lp *lp, uint32_t column)
{
    double share = clp.primalColumnSolution(lp->model)[column + 1];
    return share > 0 ? share : 0;
}

void lp_prices(const struct lp *lp, double *price_p)
{
    const double *dual = clp.dualRowSolution(lp->model);
    double sum = 0;
    for (uint32_t i = 0; i < lp->rows; i++) {
        price_p[i] = dual[i] < 0 ? -dual[i] : 0;
        sum += price_p[i];
    }
    for (uint32_t i = 0; i < lp->rows; i++)
        price_p[i] = sum > 0 ? price_p[i] / sum : 1.0 / lp->rows;
}

uint32_t lp_pivots(const struct lp *lp)
{
    return lp->pivots;
}
