/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs drawn from a seed: a network, settings, and what users, links and ranks do. */
#ifndef TESTS_SIM_WORKLOAD_H
#define TESTS_SIM_WORKLOAD_H

#include "sim.h"

/* Ranks around a switch, all links alike. */
void star_make(struct net *net, int ranks, uint64_t bytes_per_s, uint64_t latency_ns);

/* Transfers of 4 KiB to 64 MiB between all ranks, or from each to one other (half of the
 * seeds), with priorities at one end or both, background, raises, cancels, and ranks that
 * stop for a while. Returns when all must have ended. */
uint64_t workload_mixed(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault);
/* Two ranks and one link each way: training alone, from 0 to 1. */
uint64_t workload_one_link(struct sim *sim, uint64_t seed, enum sim_fault fault);
/* Each rank sends one other both classes, more than it can for a long time. */
uint64_t workload_loaded(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault);
/* As mixed, over the network that the file describes. */
uint64_t workload_cluster(struct sim *sim, const char *path, uint64_t seed,
                          enum sim_fault fault);
/* As mixed, and links are slowed, cut and mended too; one rank in two jobs is killed. */
uint64_t workload_rough(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault);

/* Two to eight ranks with several transports to choose from, of which the first are
 * refused, submit, and leave within 40 ms of their first contact, most of them. Nobody is
 * killed, and nobody may be called dead. */
uint64_t workload_contact(struct sim *sim, uint64_t seed, enum sim_fault fault);

#endif
