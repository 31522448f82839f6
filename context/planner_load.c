/* SPDX-License-Identifier: Apache-2.0 */
/* See planner_load.h. */
#include "planner_load.h"

#include <string.h>

#include "core/source/source.h"
#include "transports/module_load.h"

/* Prefix a failure with the setting. */
static tryst_status topology_status(tryst_status status, struct err *err)
{
    return status == TRYST_OK
               ? status
               : err_set(err, status, "cannot read TRYST_TOPOLOGY: %.400s", err->text);
}

tryst_status topology_text_read(const char *path, struct err *err,
                                struct topology_text *text_p)
{
    if (strcmp(path, "-") == 0) /* a read of standard input has no deadline */
        return err_set(
            err, TRYST_E_CONFIG,
            "cannot read TRYST_TOPOLOGY: \"-\" is standard input; name a file");
    return topology_status(
        source_load_or_words(path, err, &text_p->name, &text_p->text, &text_p->bytes),
        err);
}

tryst_status topology_text_parse(const struct topology_text *text,
                                 const struct planner_ops *planner, struct err *err,
                                 struct graph **graph_p, uint32_t *ranks_count_p)
{
    return topology_status(planner->graph_parse(text->text, text->bytes, text->name, err,
                                                graph_p, ranks_count_p),
                           err);
}

tryst_status planner_load(const struct config *config, const struct log *log,
                          struct err *err, const struct planner_ops **planner_p)
{
    struct tryst_host host;
    char text[TRANSPORT_TEXT_MAX] = "";
    module_host_init(&host, config, log);
    tryst_status status = module_load_planner(&host, PLANNER_MODULE, planner_p, text);
    return status == TRYST_OK
               ? status
               : err_set(err, status,
                         "cannot load the planner (installed with libtryst_topology): %s",
                         text);
}
