/* SPDX-License-Identifier: Apache-2.0 */
/** @file bench_schedules.h
 *  pp_bench schedules: lists schedules, and shows which weights one reads. */
#ifndef TRYST_TOOLS_BENCH_BENCH_SCHEDULES_H
#define TRYST_TOOLS_BENCH_BENCH_SCHEDULES_H

/** Run the command with the arguments behind "pp_bench"; argv[0] is "schedules". Returns
 *  the exit status. */
int bench_schedules(int argc, char **argv);

#endif
