/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of each format; see graph_write.h. */
#include "graph_write.h"

#include "graph_dot.h"
#include "graph_text.h"
#include "topology/formats/json_write.h"

tryst_status graph_write(const struct graph *graph, enum graph_format format,
                         const struct graph_overlaid *overlaid, struct err *err,
                         char **text_p)
{
    struct text text = {0};
    switch (format) {
    case GRAPH_JSON: graph_json_write(graph, &text); break;
    case GRAPH_TEXT: graph_text_write(graph, overlaid, &text); break;
    case GRAPH_DOT: graph_dot_write(graph, overlaid, &text); break;
    default:
        return err_set(
            err, TRYST_E_UNSUPPORTED, "cannot write a graph as %s: use json, text or dot",
            format < GRAPH_FORMATS ? graph_format_name(format) : "an unknown format");
    }
    return text_release(&text, err, text_p);
}
