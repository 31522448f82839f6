/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on devices, as a table: machines from files or made up, and the expected choice;
 * then random machines against all arrangements. TRYST_TEST_SEED replays a run. */
#include "support/unit.h"

#include <string.h>

#include "core/memory/alloc.h"
#include "topology/draw/graph_write.h"
#include "topology/formats/graph_read.h"
#include "topology/place/place.h"
#include "tryst/topo.h"

#define DEVICES_MAX 16

/* ---- machines ---------------------------------------------------------------------- */

static uint32_t node_add(struct graph *graph, enum graph_node_kind kind, const char *name,
                         int number, const char *pci)
{
    char words[32];
    struct err err = ERR_INIT;
    uint32_t node = GRAPH_NONE;
    snprintf(words, sizeof words, "%s%d", name, number);
    const struct graph_node model = {.name = words,
                                     .kind = kind,
                                     .parent = GRAPH_NONE,
                                     .os_index = GRAPH_NONE,
                                     .pci = pci};
    if (graph_node_add(graph, &model, &err, &node) != TRYST_OK)
        fail_msg("%s", err.text);
    return node;
}

static void wire_add(struct graph *graph, uint32_t a, uint32_t b,
                     enum graph_link_kind kind, double bytes_per_s, uint16_t width)
{
    struct err err = ERR_INIT;
    const struct graph_link wire = {.from = a,
                                    .to = b,
                                    .kind = kind,
                                    .width = width,
                                    .bytes_per_s = {bytes_per_s, ORIGIN_IMPORTED},
                                    .latency_ns = {GRAPH_UNKNOWN, ORIGIN_NONE}};
    if (graph_wire_add(graph, &wire, &err) != TRYST_OK)
        fail_msg("%s", err.text);
}

static const char *const addresses[DEVICES_MAX] = {
    "0000:06:00.0", "0000:07:00.0", "0000:0a:00.0", "0000:0b:00.0",
    "0000:85:00.0", "0000:86:00.0", "0000:89:00.0", "0000:8a:00.0"};

/* Eight GPUs in pairs behind PCIe switches, two switches at each package. */
static struct graph *box_open(uint32_t gpus[8])
{
    struct graph *graph;
    uint32_t packages[2];
    assert_int_equal(graph_open(&graph), TRYST_OK);
    for (int i = 0; i < 2; i++)
        packages[i] = node_add(graph, NODE_PACKAGE, "package", i, NULL);
    wire_add(graph, packages[0], packages[1], WIRE_UPI, 20e9, 0);
    for (int i = 0; i < 4; i++) {
        uint32_t bridge = node_add(graph, NODE_HOST_BRIDGE, "bridge", i, NULL);
        uint32_t pci = node_add(graph, NODE_PCI_SWITCH, "pci", i, NULL);
        wire_add(graph, packages[i / 2], bridge, WIRE_PCI, 15.8e9, 16);
        wire_add(graph, bridge, pci, WIRE_PCI, 15.8e9, 16);
        for (int j = 2 * i; j < 2 * i + 2; j++) {
            gpus[j] = node_add(graph, NODE_GPU, "gpu", j, addresses[j]);
            wire_add(graph, pci, gpus[j], WIRE_PCI, 15.8e9, 16);
        }
    }
    return graph;
}

static void box_seal(struct graph *graph)
{
    struct err err = ERR_INIT;
    assert_int_equal(graph_seal(graph, &err), TRYST_OK);
}

/* The hybrid cube mesh of eight V100: each has six NVLinks, to four others. */
static struct graph *cube_mesh_open(uint32_t gpus[8])
{
    static const uint8_t links[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2},
                                       {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                                       {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                                       {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    struct graph *graph = box_open(gpus);
    for (size_t i = 0; i < COUNT_OF(links); i++)
        wire_add(graph, gpus[links[i][0]], gpus[links[i][1]], WIRE_NVLINK,
                 25e9 * links[i][2], links[i][2]);
    box_seal(graph);
    return graph;
}

/* ---- the choice -------------------------------------------------------------------- */

/* Place the ranks and compare with `expected` (one digit for each rank). */
static void expect(const struct graph *graph, const uint32_t *nodes, uint32_t devices,
                   uint32_t ranks, const struct place_pair *pairs, uint32_t pairs_count,
                   const char *expected)
{
    const struct place_request ask = {.graph = graph,
                                      .nodes = nodes,
                                      .devices_count = devices,
                                      .ranks_count = ranks,
                                      .pairs = pairs,
                                      .pairs_count = pairs_count};
    struct place place;
    char got[64] = "";
    assert_int_equal(place_decide(&ask, &place), TRYST_OK);
    for (uint32_t i = 0; i < ranks; i++)
        got[i] = (char)('0' + place.devices[i]);
    assert_string_equal(got, expected);
    place_drop(&place);
}

/* Pairs on GPUs that the board numbers alternately over the sockets: the packages 0 0 0 0
 * 1 1 1 1 are 0 2 4 6 1 3 5 7. */
static void test_sockets(void **state)
{
    uint32_t gpus[8], shuffled[8];
    struct graph *graph = box_open(gpus);
    box_seal(graph);
    expect(graph, gpus, 8, 8, NULL, 0, "01234567");
    expect(graph, gpus, 8, 4, NULL, 0, "0123");
    expect(graph, gpus, 8, 2, NULL, 0, "01");
    expect(graph, gpus, 8, 1, NULL, 0, "0");
    for (uint32_t i = 0; i < 8; i++)
        shuffled[i] = gpus[(i % 2) * 4 + i / 2];
    expect(graph, shuffled, 8, 8, NULL, 0, "02461357");
    expect(graph, shuffled, 8, 2, NULL, 0, "02");
    expect(graph, shuffled, 8, 16, NULL, 0, "0022446611335577");
    expect(graph, shuffled + 1, 3, 3, NULL, 0, "021"); /* CUDA_VISIBLE_DEVICES=1,2,3 */
    graph_close(graph);
}

/* All neighbours are connected by two parallel NVLinks: the cube mesh has one such
 * ring. */
static void test_cube_mesh(void **state)
{
    uint32_t gpus[8];
    struct graph *graph = cube_mesh_open(gpus);
    expect(graph, gpus, 8, 8, NULL, 0, "03215674");
    expect(graph, gpus, 8, 4, NULL, 0, "0321");
    expect(graph, gpus, 8, 12, NULL, 0, "003221556774");
    graph_close(graph);
}

/* The pairs that communicate decide: a ring closes, and ranks without traffic between
 * them may be far apart. */
static void test_pairs(void **state)
{
    static const struct place_pair ring[] = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 0, 1}};
    static const struct place_pair folded[] = {{0, 3, 1}, {1, 2, 1}};
    static const struct place_pair uneven[] = {{0, 1, 1}, {1, 2, 5}, {1, 2, 4}};
    uint32_t gpus[8];
    struct graph *graph = cube_mesh_open(gpus);
    /* 0-1 has one link; in any four GPUs some pair has only one */
    expect(graph, gpus, 8, 4, ring, 4, "0123");
    graph_close(graph);
    graph = box_open(gpus);
    box_seal(graph);
    const uint32_t four[] = {gpus[0], gpus[1], gpus[2], gpus[3]};
    expect(graph, four, 4, 4, folded, 2, "0231");
    expect(graph, four, 4, 3, uneven, 3, "023");
    graph_close(graph);
}

/* An unknown topology keeps the driver's order, with neighbours on one device. */
static void test_unknown(void **state)
{
    static const uint32_t none[] = {GRAPH_NONE, GRAPH_NONE, GRAPH_NONE};
    uint32_t gpus[8];
    expect(NULL, none, 3, 3, NULL, 0, "012");
    expect(NULL, none, 3, 7, NULL, 0, "0001122");
    expect(NULL, none, 1, 3, NULL, 0, "000");
    struct graph *graph = box_open(gpus);
    box_seal(graph);
    const uint32_t partly[] = {gpus[0], GRAPH_NONE, gpus[1]};
    expect(graph, partly, 3, 2, NULL, 0, "02");
    expect(graph, partly, 3, 3, NULL, 0, "021");
    graph_close(graph);
}

static void test_addresses(void **state)
{
    uint32_t gpus[8];
    struct graph *graph = box_open(gpus);
    assert_int_equal(place_node(graph, "0000:06:00.0"), gpus[0]);
    assert_int_equal(place_node(graph, "00000000:8A:00.0"), gpus[7]);
    assert_int_equal(place_node(graph, "0000:06:00.1"), GRAPH_NONE);
    assert_int_equal(place_node(graph, "0001:06:00.0"), GRAPH_NONE);
    assert_int_equal(place_node(graph, "06:00.0"), GRAPH_NONE);
    assert_int_equal(place_node(graph, ""), GRAPH_NONE);
    assert_int_equal(place_node(graph, NULL), GRAPH_NONE);
    graph_close(graph);
}

/* ---- against all arrangements ------------------------------------------------------ */

#define RANDOM_DEVICES 6

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static struct graph *random_open(uint64_t *seed, uint32_t gpus[RANDOM_DEVICES])
{
    struct graph *graph;
    assert_int_equal(graph_open(&graph), TRYST_OK);
    for (int i = 0; i < RANDOM_DEVICES; i++)
        gpus[i] = node_add(graph, NODE_GPU, "gpu", i, NULL);
    for (int i = 0; i < RANDOM_DEVICES; i++)
        for (int j = i + 1; j < RANDOM_DEVICES; j++) {
            uint16_t width = (uint16_t)draw(seed, 4);
            if (width)
                wire_add(graph, gpus[i], gpus[j], WIRE_NVLINK, 25e9 * width, width);
        }
    box_seal(graph);
    return graph;
}

struct judged {
    const struct graph *graph;
    const uint32_t *gpus;
    uint32_t pairs[RANDOM_DEVICES][RANDOM_DEVICES];
    uint32_t ranks;
    uint32_t least[4];
};

/* Sum the traffic over 0, 1, 2 and 3 NVLinks, worst first. */
static void judge(const struct judged *self, const uint32_t *devices, uint32_t cost[4])
{
    memset(cost, 0, 4 * sizeof *cost);
    for (uint32_t a = 0; a < self->ranks; a++)
        for (uint32_t b = a + 1; b < self->ranks; b++) {
            uint32_t width = 0;
            for (uint32_t i = 0; i < self->graph->links_count; i++)
                if (self->graph->links[i].from == self->gpus[devices[a]] &&
                    self->graph->links[i].to == self->gpus[devices[b]])
                    width = self->graph->links[i].width;
            cost[width] += self->pairs[a][b];
        }
}

static bool is_less(const uint32_t a[4], const uint32_t b[4])
{
    for (int i = 0; i < 4; i++)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

static void try_all(struct judged *self, uint32_t *devices, uint32_t rank, uint32_t used)
{
    uint32_t cost[4];
    if (rank == self->ranks) {
        judge(self, devices, cost);
        if (is_less(cost, self->least))
            memcpy(self->least, cost, sizeof cost);
        return;
    }
    for (uint32_t device = 0; device < RANDOM_DEVICES; device++)
        if (!(used >> device & 1)) {
            devices[rank] = device;
            try_all(self, devices, rank + 1, used | 1u << device);
        }
}

static void test_is_best(void **state)
{
    uint64_t seed = unit_seed();
    for (int run = 0; run < 60; run++) {
        uint32_t gpus[RANDOM_DEVICES], devices[RANDOM_DEVICES], cost[4];
        struct place_pair pairs[8];
        struct graph *graph = random_open(&seed, gpus);
        struct judged self = {.graph = graph,
                              .gpus = gpus,
                              .ranks = 2 + draw(&seed, RANDOM_DEVICES - 1),
                              .least = {UINT32_MAX}};
        for (size_t i = 0; i < COUNT_OF(pairs); i++) {
            uint32_t a = draw(&seed, self.ranks);
            uint32_t b = (a + 1) % self.ranks;
            pairs[i] = (struct place_pair){a, b, 1 + draw(&seed, 3)};
            self.pairs[a < b ? a : b][a < b ? b : a] += pairs[i].weight;
        }
        const struct place_request ask = {.graph = graph,
                                          .nodes = gpus,
                                          .devices_count = RANDOM_DEVICES,
                                          .ranks_count = self.ranks,
                                          .pairs = pairs,
                                          .pairs_count = COUNT_OF(pairs)};
        struct place place;
        assert_int_equal(place_decide(&ask, &place), TRYST_OK);
        try_all(&self, devices, 0, 0);
        judge(&self, place.devices, cost);
        assert_memory_equal(cost, self.least, sizeof cost);
        place_drop(&place);
        graph_close(graph);
    }
}

/* ---- the public interface ---------------------------------------------------------- */

static tryst_topo *topo_of(const struct graph *graph)
{
    char *dump;
    tryst_topo *topo = NULL;
    assert_int_equal(graph_write(graph, GRAPH_JSON, NULL, NULL, &dump), TRYST_OK);
    if (tryst_topo_parse(dump, strlen(dump), "dump", &topo) != TRYST_OK)
        fail_msg("%s", tryst_last_error());
    mem_free(dump);
    return topo;
}

static void says(const tryst_topo *topo, int32_t devices_count, int32_t ranks_count,
                 const char *expected)
{
    const tryst_place_params params = {.struct_size = sizeof params,
                                       .bus_ids = addresses,
                                       .devices_count = devices_count,
                                       .ranks_count = ranks_count};
    int32_t devices[DEVICES_MAX];
    char *text = NULL;
    assert_int_equal(tryst_topo_place(topo, &params, devices, &text), TRYST_OK);
    assert_string_equal(text, expected);
    tryst_text_free(text);
}

static void test_words(void **state)
{
    uint32_t gpus[8];
    struct graph *graph = cube_mesh_open(gpus);
    tryst_topo *topo = topo_of(graph);
    says(topo, 8, 8,
         "8 ranks on devices 0 3 2 1 5 6 7 4; between neighbours 7 x NV2 400 Gbit/s; the "
         "devices' own order gives 4 x NV2 400 Gbit/s, 2 x NV1 200 Gbit/s, 1 x SYS 126 "
         "Gbit/s");
    says(topo, 2, 4,
         "4 ranks on devices 2 on 0, 2 on 1; between neighbours 1 x NV1 200 Gbit/s, and "
         "no better order was found");
    says(NULL, 2, 2,
         "2 ranks on devices 0 1, in their own order: no link between them is known");
    says(topo, 1, 1, "1 rank on device 0");
    tryst_topo_close(topo);
    graph_close(graph);
}

static void test_refuses(void **state)
{
    static const tryst_place_pair strange[] = {{0, 1, 1}, {1, 2, 1}};
    static const tryst_place_pair weightless[] = {{0, 1, 0}};
    static const struct {
        tryst_place_params params;
        const char *word;
    } rows[] = {
        {{.bus_ids = addresses, .devices_count = 0, .ranks_count = 1}, "on 0 devices"},
        {{.bus_ids = addresses, .devices_count = 1, .ranks_count = 0}, "0 ranks"},
        {{.devices_count = 1, .ranks_count = 1}, "bus_ids must be set"},
        {{.bus_ids = addresses,
          .devices_count = 1,
          .ranks_count = 2,
          .pairs = strange,
          .pairs_count = 2},
         "pair 1: ranks 1 and 2"},
        {{.bus_ids = addresses,
          .devices_count = 1,
          .ranks_count = 2,
          .pairs = weightless,
          .pairs_count = 1},
         "weight 0"},
        {{.bus_ids = addresses,
          .devices_count = 1,
          .ranks_count = 2,
          .pairs = weightless,
          .pairs_count = -1},
         "pairs_count is -1"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        tryst_place_params params = rows[i].params;
        params.struct_size = sizeof params;
        int32_t devices[2];
        assert_int_equal(tryst_topo_place(NULL, &params, devices, NULL), TRYST_E_INVALID);
        if (!strstr(tryst_last_error(), rows[i].word))
            fail_msg("\"%s\" does not say \"%s\"", tryst_last_error(), rows[i].word);
    }
    assert_int_equal(tryst_topo_place(NULL, NULL, NULL, NULL), TRYST_E_INVALID);
    const tryst_place_params unset = {
        .bus_ids = addresses, .devices_count = 1, .ranks_count = 1};
    int32_t device;
    assert_int_equal(tryst_topo_place(NULL, &unset, &device, NULL), TRYST_E_INVALID);
    assert_non_null(
        strstr(tryst_last_error(), "tryst_place_params: struct_size is not set"));
}

static tryst_status place_once(const tryst_topo *topo)
{
    const tryst_place_params params = {.struct_size = sizeof params,
                                       .bus_ids = addresses,
                                       .devices_count = 8,
                                       .ranks_count = 8};
    int32_t devices[8];
    char *text = NULL;
    tryst_status status = tryst_topo_place(topo, &params, devices, &text);
    tryst_text_free(text);
    return status;
}

static void test_memory_short(void **state)
{
    uint32_t gpus[8];
    struct graph *graph = cube_mesh_open(gpus);
    tryst_topo *topo = topo_of(graph);
    WALK_ALLOCATIONS(place_once(topo));
    tryst_topo_close(topo);
    graph_close(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sockets),      cmocka_unit_test(test_cube_mesh),
        cmocka_unit_test(test_pairs),        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_addresses),    cmocka_unit_test(test_is_best),
        cmocka_unit_test(test_words),        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_memory_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
