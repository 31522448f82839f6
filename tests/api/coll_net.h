/* SPDX-License-Identifier: Apache-2.0 */
/* Small networks for collectives, as files for TRYST_TOPOLOGY. */
#ifndef TRYST_TESTS_API_COLL_NET_H
#define TRYST_TESTS_API_COLL_NET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum coll_net { NET_NONE, NET_CHAIN, NET_EVEN, NET_MESH, NETS };

/** The network's links. NET_CHAIN links rank i with rank i + 1 only. In NET_MESH these
 *  links have four times the rate of the others, so a plan has several trees. */
static inline void coll_net_print(FILE *file, enum coll_net net, int size)
{
    int links = 0;
    fprintf(file, "{\"ranks\": [");
    for (int i = 0; i < size; i++)
        fprintf(file, "%s\"h%d\"", i ? "," : "", i);
    fprintf(file, "], \"links\": [");
    for (int i = 0; i < size; i++)
        for (int j = i + 1; j < size; j++) {
            double rate = net == NET_EVEN ? 10 : j == i + 1 ? 0.8 : 0.2;
            if (net != NET_CHAIN || j == i + 1)
                fprintf(file, "%s{\"a\":\"h%d\",\"b\":\"h%d\",\"gbit_per_s\":%g}",
                        links++ ? "," : "", i, j, rate);
        }
    fprintf(file, "]}\n");
}

/** Write the network to a new file and put the file's name into `path`. The caller
 *  unlinks the file. */
static inline void coll_net_write(enum coll_net net, int size, char path[64])
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, 64, "%.30s/tryst-coll-net-XXXXXX", dir ? dir : "/tmp");
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        abort();
    coll_net_print(file, net, size);
    fclose(file);
}

#endif
