/* SPDX-License-Identifier: Apache-2.0 */
/** @file perf_help.h
 *  The text of --help. */
#ifndef TRYST_TOOLS_PERF_OPTIONS_PERF_HELP_H
#define TRYST_TOOLS_PERF_OPTIONS_PERF_HELP_H

/** Return the page of the first kind among the words of the command line, or the page
 *  that lists the kinds. */
const char *perf_help(int argc, char **argv);

#endif
