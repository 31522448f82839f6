/* SPDX-License-Identifier: Apache-2.0 */
/* See bind.h. */
#include "bind.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "bind_decide.h"
#include "core/memory/alloc.h"
#include "topology/machine/detect.h"

#define SET_BYTES CPU_ALLOC_SIZE(INDEX_SET_MAX)

/* Read the processors that this thread may use. */
static tryst_status given_read(struct err *err, struct index_set *given_p)
{
    struct index_set given = {{0}};
    cpu_set_t *cpus = CPU_ALLOC(INDEX_SET_MAX);
    if (!cpus)
        return err_set(err, TRYST_E_NOMEM,
                       "cannot bind the progress thread: out of memory");
    int result = sched_getaffinity(0, SET_BYTES, cpus);
    int error = errno;
    for (uint32_t i = 0; result == 0 && i < INDEX_SET_MAX; i++)
        if (CPU_ISSET_S(i, SET_BYTES, cpus))
            index_set_add(&given, i);
    CPU_FREE(cpus);
    if (result != 0)
        return err_set(err, TRYST_E_SYSTEM,
                       "cannot read the affinity of the progress thread: %s",
                       strerror(error));
    *given_p = given;
    return TRYST_OK;
}

/* Bind this thread, if the choice is not empty. */
static tryst_status choice_apply(const struct bind_choice *choice, struct err *err)
{
    if (!index_set_count(&choice->cpus))
        return TRYST_OK;
    cpu_set_t *cpus = CPU_ALLOC(INDEX_SET_MAX);
    if (!cpus)
        return err_set(err, TRYST_E_NOMEM,
                       "cannot bind the progress thread: out of memory");
    CPU_ZERO_S(SET_BYTES, cpus);
    for (uint32_t i = 0; i < INDEX_SET_MAX; i++)
        if (index_set_has(&choice->cpus, i))
            CPU_SET_S(i, SET_BYTES, cpus);
    int result = sched_setaffinity(0, SET_BYTES, cpus);
    int error = errno;
    CPU_FREE(cpus);
    if (result != 0)
        return err_set(err, TRYST_E_SYSTEM, "cannot bind the progress thread: %s",
                       strerror(error));
    return TRYST_OK;
}

#define LIST_MAX "%.90s"

static tryst_status choice_describe(const struct graph *graph,
                                    const struct bind_choice *choice, struct err *err,
                                    char *told, size_t capacity)
{
    struct text text = {0};
    char *list;
    index_set_write(&choice->cpus, &text);
    tryst_status status = text_release(&text, err, &list);
    if (status != TRYST_OK)
        return status;
    if (!*list)
        snprintf(told, capacity, "left where it is: %s",
                 choice->why ? choice->why : "no processors near the rank are known");
    else if (choice->why || choice->nic == GRAPH_NONE)
        snprintf(told, capacity, "on processors " LIST_MAX ": %s", list,
                 choice->why ? choice->why : "near the rank");
    else
        snprintf(told, capacity, "on processors " LIST_MAX ", near %s", list,
                 graph->nodes[choice->nic].name);
    mem_free(list);
    return TRYST_OK;
}

tryst_status bind_thread(uint32_t place, struct err *err, char *told,
                         size_t text_capacity)
{
    struct index_set given;
    struct bind_choice choice = {.nic = GRAPH_NONE};
    struct graph *graph = NULL;
    tryst_status status = given_read(err, &given);
    if (status == TRYST_OK)
        status = graph_detect(err, &graph);
    if (status != TRYST_OK)
        return status;
    if (graph->ranks_count)
        status = bind_decide(graph, place % graph->ranks_count, &given, &choice);
    else
        status = err_set(
            err, TRYST_E_UNSUPPORTED,
            "cannot bind the progress thread: the graph of this machine has no rank");
    if (status == TRYST_OK)
        status = choice_describe(graph, &choice, err, told, text_capacity);
    if (status == TRYST_OK)
        status = choice_apply(&choice, err);
    graph_close(graph);
    return status;
}
