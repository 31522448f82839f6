/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read XML by libxml2, which is opened on first use.
 *
 * One idea: text that is not well-formed is rejected here with line and column; the
 * result is a small tree of elements with their lines. Documents that declare entities
 * are rejected: no topology needs any.
 */
#ifndef TRYST_TOPOLOGY_FORMATS_XML_H
#define TRYST_TOPOLOGY_FORMATS_XML_H

#include "core/source/source.h"

struct xml;
struct xml_node; /* an element; valid until its document is closed */

/** Parse `source`. TRYST_E_INVALID: not well-formed, too long or with entities;
 *  TRYST_E_NOMEM; TRYST_E_UNSUPPORTED: no libxml2. */
tryst_status xml_open(const struct source *source, struct xml **xml_p);
void xml_close(struct xml *xml);

const struct xml_node *xml_root(const struct xml *xml);
/** Return the first element in `node`, or the next element beside `node`; NULL where
 *  there is none. */
const struct xml_node *xml_child(const struct xml_node *node);
const struct xml_node *xml_next(const struct xml_node *node);
const char *xml_name(const struct xml_node *node);
/** Return the value of the attribute `name`; NULL where `node` has none. */
const char *xml_attribute(const struct xml_node *node, const char *name);
/** Return the line of `node`; the column is 0 (libxml2 stores none). */
struct text_place xml_place(const struct xml_node *node);

#endif
