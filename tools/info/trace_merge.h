/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_merge.h
 *  Joins the traces of several ranks into one document. */
#ifndef TRYST_TOOLS_INFO_TRACE_MERGE_H
#define TRYST_TOOLS_INFO_TRACE_MERGE_H

#include <stdio.h>

/** Merge the files `paths` (at least one, NULL at the end) into `out`. Returns the exit
 *  status, after a message on stderr if that is not 0. */
int trace_merge(char **paths, FILE *out);

#endif
