/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading XML, by libxml2, which is opened when it is first needed.
 *
 * One idea: what is not well formed is refused here with line and column; what comes out is a small tree of
 * elements that knows its lines. Documents with entities of their own are refused: no topology has any.
 * Callers: importers of hwloc's and NCCL's XML.
 */
#ifndef TRYST_TOPOLOGY_XML_H
#define TRYST_TOPOLOGY_XML_H

#include "source.h"

struct xml;
struct xml_node; /* an element; lives as long as its document */

/** TRYST_E_INVALID (not well formed), TRYST_E_NOMEM, TRYST_E_UNSUPPORTED (no libxml2). */
tryst_status xml_open(const struct source *source, struct xml **xml_p);
void xml_close(struct xml *xml);

const struct xml_node *xml_root(const struct xml *xml);
/* The first element in it, the next one beside it; NULL. */
const struct xml_node *xml_child(const struct xml_node *node);
const struct xml_node *xml_next(const struct xml_node *node);
const char *xml_name(const struct xml_node *node);
/* NULL: it has none of that name. */
const char *xml_attribute(const struct xml_node *node, const char *name);
/* The text in it before its first element; "". */
const char *xml_text(const struct xml_node *node);
/* Its line, without a column (libxml2 keeps none). */
struct text_place xml_place(const struct xml_node *node);

#endif
