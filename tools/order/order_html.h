/* SPDX-License-Identifier: Apache-2.0 */
/** @file order_html.h
 *  Writes the report of tryst-perf sched as an HTML file. */
#ifndef TRYST_TOOLS_ORDER_ORDER_HTML_H
#define TRYST_TOOLS_ORDER_ORDER_HTML_H

#include <tryst/tryst.h>

#include "order_draw.h"

struct order_report {
    const struct order_job *job;
    const struct order_rows *rows; /**< of the timeline; `figures.seconds`: the bars */
    tryst_group *group;            /**< NULL: in virtual time */
    /** Print the figures, as on stdout. */
    void (*print)(FILE *out, const void *what);
    const void *what;
};

/** Write the page to the report file of the job. Returns the exit status, after a message
 *  on stderr if it is not 0. */
int order_html_write(const struct order_report *report);

#endif
