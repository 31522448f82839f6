/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a plan that is valid for a small cluster, or is refused with an error
 * text. */
#include "fuzz.h"

#include "topology/formats/graph_read.h"
#include "topology/report/plan_verify.h"

static const char cluster[] =
    "{\"ranks\":[\"h0\",\"h1\",\"h2\",\"h3\"],\"nodes\":[\"sw0\"],\"links\":["
    "{\"a\":\"h0\",\"b\":\"sw0\",\"gbit_per_s\":0.8},{\"a\":\"h1\",\"b\":\"sw0\",\"gbit_"
    "per_s\":0.8},"
    "{\"a\":\"h2\",\"b\":\"sw0\",\"gbit_per_s\":0.4},{\"a\":\"h3\",\"b\":\"sw0\",\"gbit_"
    "per_s\":0.2}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct graph *graph; /* kept for the life of the program */
    struct err err = ERR_INIT;
    if (!graph)
        FUZZ_CHECK(graph_read(cluster, sizeof cluster - 1, "cluster", GRAPH_CLUSTER, &err,
                              &graph) == TRYST_OK);
    tryst_status status = plan_verify(graph, (const char *)data, bytes, "x", &err);
    FUZZ_CHECK(status == TRYST_OK || (status == TRYST_E_INVALID && err.text[0]));
    return 0;
}
