/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_merge.h
 *  The traces of several ranks as one document.
 */
#ifndef TOOLS_TRACE_MERGE_H
#define TOOLS_TRACE_MERGE_H

#include <stdio.h>

/** Merge the files `paths` (NULL ends them, at least one) into `out`. Returns the exit status; what
 *  is wrong was said. */
int trace_merge(char **paths, FILE *out);

#endif
