/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_xml.h"

#include <limits.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "graph_fill.h"
#include "topology/machine/hwloc_machine.h"
#include "topology/machine/machine_build.h"

static tryst_status graph_fill(void *xml, struct graph *graph, struct err *why)
{
    static const struct machine_build build = {
        .prefix = "", .ranks = true, .network = GRAPH_NONE};
    struct machine machine = MACHINE_INIT;
    tryst_status status = hwloc_machine_read(xml, why, &machine);
    if (status == TRYST_OK)
        status = machine_build(graph, &machine, &build, why);
    machine_drop(&machine);
    return status;
}

tryst_status hwloc_xml_read(const struct source *source, struct graph **graph_p)
{
    struct text_place place = {1, 0};
    if (source->bytes > INT_MAX / 2)
        return source_refuse(source, place, "cannot read XML above 1 GiB");
    char *xml = mem_alloc(source->bytes + 1);
    if (!xml)
        return source_no_memory(source);
    memcpy(xml, source->text, source->bytes);
    xml[source->bytes] = '\0';
    tryst_status status = graph_fill_open(source, place, graph_fill, xml, graph_p);
    mem_free(xml);
    return status;
}
