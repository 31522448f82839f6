/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs drawn from a seed: a network, settings, and the actions of users, links and
 * ranks. */
#ifndef TRYST_TESTS_SIM_WORKLOAD_H
#define TRYST_TESTS_SIM_WORKLOAD_H

#include "sim.h"

/** Make a network of ranks around a switch, with equal links. */
void star_make(struct net *net, int ranks, uint64_t bytes_per_s, uint64_t latency_ns);

/** Draw transfers of 4 KiB to 64 MiB between all ranks, or from each rank to one other
 *  (half of the seeds), with priorities at one end or both, background, raises, cancels,
 *  and ranks that stop for a while. Return the time by which all must have ended. */
uint64_t workload_mixed(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault);
/** Draw training transfers from rank 0 to 1, with one link each way. */
uint64_t workload_one_link(struct sim *sim, uint64_t seed, enum sim_fault fault);
/** Let each rank send both classes to one other rank, more than its link moves for a long
 *  time. */
uint64_t workload_loaded(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault);
/** Draw as workload_mixed, over the network of a file. */
uint64_t workload_cluster(struct sim *sim, const char *path, uint64_t seed,
                          enum sim_fault fault);
/** Draw as workload_mixed, and also slow, cut and mend links; in half of the jobs a rank
 *  is killed. */
uint64_t workload_rough(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault);

/** Draw two to eight ranks with several transports, of which the first ones are refused.
 *  Most ranks leave within 40 ms of their first contact. No rank is killed, and none may
 *  be declared dead. */
uint64_t workload_contact(struct sim *sim, uint64_t seed, enum sim_fault fault);

#endif
