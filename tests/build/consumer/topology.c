/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses topologies only; its last error is libtryst's. */
#include <stdio.h>
#include <string.h>
#include <tryst/topo.h>
#include <tryst/tryst.h>

int main(void)
{
    tryst_topo *topo;
    if (tryst_topo_load("node:2 gpu:2 nic:1x50GB", &topo) || tryst_topo_ranks(topo) != 4)
        return 1;
    tryst_topo_close(topo);
    if (tryst_topo_load("/nowhere", &topo) == TRYST_OK ||
        !strstr(tryst_last_error(), "/nowhere"))
        return 1;
    return printf("%s\n", tryst_version_string()) < 0;
}
