/* SPDX-License-Identifier: Apache-2.0 */
/* Families of networks to plan for, as graphs. */
#ifndef TRYST_TESTS_TOPOLOGY_PLAN_NETS_H
#define TRYST_TESTS_TOPOLOGY_PLAN_NETS_H

#include "core/os/random.h"
#include "topology/base/graph.h"

enum net_family {
    NET_STAR,     /**< hosts at one switch */
    NET_RACKS,    /**< two racks and a trunk */
    NET_RING,     /**< ranks in a ring */
    NET_LINE,     /**< ranks in a line */
    NET_TORUS,    /**< ranks in two rings */
    NET_MESH,     /**< a link for each pair */
    NET_FAT_TREE, /**< leaves with hosts, spines; 2:1 */
    /** Groups of switches, each fully connected, with one link for each pair of
     *  groups. */
    NET_DRAGONFLY,
    /** A tree of switches and a few more wires; each rank at one or two switches. */
    NET_RANDOM,
    NET_FAMILIES
};

extern const char *const net_names[NET_FAMILIES];

/** Make a network of about n ranks (a torus rounds down to a × b). With `random` NULL,
 *  all links of a kind are alike; else their rates vary, and in every other network also
 *  by direction. */
struct graph *net_open(enum net_family family, uint32_t n, struct random *random);

#endif
