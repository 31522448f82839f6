/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures are correct: no wire passes behind a box at which it does not end, no two
 * wires coincide, and each wire of the graph is drawn. The test reads the SVG text back
 * (boxes and paths with their titles) and measures, for the families of networks of
 * plan_nets.h, networks of connected switches, and machines. */
#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/alloc.h"
#include "graph_new.h"
#include "plan_nets.h"
#include "tools/draw/topo_svg.h"
#include "tools/svg.h"
#include "topology/draw/graph_write.h"
#include "topology/formats/graph_read.h"

#define NAME_MAX_BYTES 64
#define STEPS          48   /* points of one segment of a wire */
#define POINTS_MAX     400  /* points of one wire */
#define APART          0.75 /* points closer than this count as one */

struct drawn_box {
    char name[NAME_MAX_BYTES], kind[NAME_MAX_BYTES];
    double x, y, w, h;
    const char *at; /* position in the text: what comes later is drawn over it */
};

struct drawn_wire {
    char ends[2 * NAME_MAX_BYTES]; /* "a - b" or "a to b" */
    char a[NAME_MAX_BYTES], b[NAME_MAX_BYTES];
    double x[POINTS_MAX], y[POINTS_MAX];
    int count;
    const char *at;
};

struct drawn {
    const char *what;
    char *text;
    struct drawn_box *boxes;
    struct drawn_wire *wires;
    uint32_t boxes_count, wires_count;
};

/* ---- reading a picture ------------------------------------------------------------- */

static void boxes_read(struct drawn *drawn)
{
    const char *at = drawn->text;
    for (; (at = strstr(at, "<rect x=")); at++) {
        struct drawn_box box = {.at = at};
        const char *title = strchr(at, '>') + 1;
        if (sscanf(at, "<rect x='%lf' y='%lf' width='%lf' height='%lf'", &box.x, &box.y,
                   &box.w, &box.h) != 4 ||
            sscanf(title, "<title>%63[^,<], %63[^,<]", box.name, box.kind) != 2)
            continue; /* the background of a number, or a rank's badge */
        drawn->boxes[drawn->boxes_count++] = box;
    }
}

static double mix(double a, double b, double t)
{
    return a + (b - a) * t;
}

/* Add one segment: a line, or a curve with one control point. */
static void segment_add(struct drawn_wire *wire, double cx, double cy, double x, double y)
{
    double ax = wire->x[wire->count - 1], ay = wire->y[wire->count - 1];
    for (int k = 1; k <= STEPS && wire->count < POINTS_MAX; k++) {
        double t = (double)k / STEPS;
        wire->x[wire->count] = mix(mix(ax, cx, t), mix(cx, x, t), t);
        wire->y[wire->count] = mix(mix(ay, cy, t), mix(cy, y, t), t);
        wire->count++;
    }
}

static void shape_read(struct drawn_wire *wire, const char *d)
{
    double x, y, cx, cy;
    int used = 0;
    if (sscanf(d, "M%lf %lf%n", &wire->x[0], &wire->y[0], &used) != 2)
        fail_msg("a wire begins elsewhere: %.60s", d);
    wire->count = 1;
    for (d += used; *d != '\''; d += used) {
        if (sscanf(d, "L%lf %lf%n", &x, &y, &used) == 2) {
            cx = mix(wire->x[wire->count - 1], x, 0.5);
            cy = mix(wire->y[wire->count - 1], y, 0.5);
        } else if (sscanf(d, "Q%lf %lf %lf %lf%n", &cx, &cy, &x, &y, &used) != 4) {
            fail_msg("a wire of another form: %.60s", d);
        }
        segment_add(wire, cx, cy, x, y);
    }
}

static void wires_read(struct drawn *drawn)
{
    const char *at = drawn->text;
    for (; (at = strstr(at, "<path ")); at++) {
        struct drawn_wire *wire = &drawn->wires[drawn->wires_count];
        const char *title = strchr(at, '>') + 1;
        wire->at = at;
        if (sscanf(title, "<title>%127[^<]", wire->ends) != 1 ||
            (sscanf(wire->ends, "%63s - %63[^ ]", wire->a, wire->b) != 2 &&
             sscanf(wire->ends, "%63s to %63[^ ]", wire->a, wire->b) != 2))
            continue;
        wire->b[strcspn(wire->b, "\n") - 1] = '\0'; /* the colon */
        shape_read(wire, strstr(at, " d='") + 4);
        drawn->wires_count++;
    }
}

/* Draw a graph as tryst-topo does, from its dump. */
static char *picture_draw(const struct graph *graph)
{
    tryst_topo *topo;
    char *dump, *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    assert_int_equal(graph_write(graph, GRAPH_JSON, NULL, NULL, &dump), TRYST_OK);
    assert_int_equal(tryst_topo_parse(dump, strlen(dump), "dump", &topo), TRYST_OK);
    assert_true(topo_svg_draw(file, topo, NULL));
    assert_int_equal(fclose(file), 0);
    tryst_topo_close(topo);
    mem_free(dump);
    return text;
}

static void picture_read(const struct graph *graph, const char *what, struct drawn *drawn)
{
    *drawn = (struct drawn){.what = what, .text = picture_draw(graph)};
    drawn->boxes = test_calloc(graph->nodes_count + 1, sizeof *drawn->boxes);
    drawn->wires = test_calloc(graph->links_count + 1, sizeof *drawn->wires);
    boxes_read(drawn);
    wires_read(drawn);
}

static void drawn_drop(struct drawn *drawn)
{
    free(drawn->text);
    test_free(drawn->boxes);
    test_free(drawn->wires);
}

/* ---- rules for every picture ------------------------------------------------------- */

/* True if the wire may cross the box: a machine or an NVLink switch, drawn before the
 * wire, so that the wire does not appear to end there. */
static bool lies_below(const struct drawn_box *box, const struct drawn_wire *wire)
{
    return box->at < wire->at &&
           (strcmp(box->kind, "machine") == 0 || strcmp(box->kind, "NVLink switch") == 0);
}

static void boxes_stay_free(const struct drawn *drawn)
{
    for (uint32_t i = 0; i < drawn->wires_count; i++) {
        const struct drawn_wire *wire = &drawn->wires[i];
        for (uint32_t k = 0; k < drawn->boxes_count; k++) {
            const struct drawn_box *box = &drawn->boxes[k];
            if (strcmp(box->name, wire->a) == 0 || strcmp(box->name, wire->b) == 0 ||
                lies_below(box, wire))
                continue;
            for (int p = 0; p < wire->count; p++)
                if (wire->x[p] > box->x + 0.5 && wire->x[p] < box->x + box->w - 0.5 &&
                    wire->y[p] > box->y + 0.5 && wire->y[p] < box->y + box->h - 0.5)
                    fail_msg("%s: the wire %s passes %s at %.0f %.0f", drawn->what,
                             wire->ends, box->name, wire->x[p], wire->y[p]);
        }
    }
}

static bool boxes_meet(const struct drawn_box *a, const struct drawn_box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h &&
           b->y < a->y + a->h;
}

static void boxes_are_apart(const struct drawn *drawn)
{
    for (uint32_t i = 0; i < drawn->boxes_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(drawn->boxes[i].kind, "machine") != 0 &&
                strcmp(drawn->boxes[k].kind, "machine") != 0 &&
                boxes_meet(&drawn->boxes[i], &drawn->boxes[k]))
                fail_msg("%s: %s is over %s", drawn->what, drawn->boxes[i].name,
                         drawn->boxes[k].name);
}

static bool point_on(const struct drawn_wire *wire, double x, double y)
{
    for (int p = 1; p < wire->count; p++) {
        double dx = wire->x[p] - wire->x[p - 1], dy = wire->y[p] - wire->y[p - 1];
        double length = dx * dx + dy * dy;
        double t = length > 0
                       ? ((x - wire->x[p - 1]) * dx + (y - wire->y[p - 1]) * dy) / length
                       : 0;
        t = t < 0 ? 0 : t > 1 ? 1 : t;
        if (hypot(wire->x[p - 1] + t * dx - x, wire->y[p - 1] + t * dy - y) < APART)
            return true;
    }
    return false;
}

/* Return the part of wire i that lies on wire k; with k == i, the part that lies on any
 * other wire, since wires of a machine share a bus. */
static double shared_part(const struct drawn *drawn, uint32_t i, uint32_t k)
{
    const struct drawn_wire *wire = &drawn->wires[i];
    int on = 0, all = 0;
    for (int p = wire->count / 8; p < wire->count * 7 / 8; p += wire->count / 16 + 1) {
        bool shared = false;
        for (uint32_t w = k == i ? 0 : k; w < (k == i ? drawn->wires_count : k + 1); w++)
            shared =
                shared || (w != i && point_on(&drawn->wires[w], wire->x[p], wire->y[p]));
        on += shared;
        all++;
    }
    return (double)on / all;
}

static void wires_are_apart(const struct drawn *drawn, bool machines)
{
    for (uint32_t i = 0; i < drawn->wires_count; i++)
        for (uint32_t k = machines ? i : 0; k < (machines ? i + 1 : i); k++)
            if (shared_part(drawn, i, k) > (machines ? 0.9 : 0.25))
                fail_msg("%s: the wires %s and %s coincide", drawn->what,
                         drawn->wires[i].ends,
                         machines ? "others" : drawn->wires[k].ends);
}

static void picture_check(const struct graph *graph, const char *what)
{
    struct drawn drawn;
    bool machines = false;
    for (uint32_t i = 0; i < graph->nodes_count; i++)
        machines = machines || graph->nodes[i].kind == NODE_MACHINE;
    picture_read(graph, what, &drawn);
    if (!machines) {
        assert_int_equal(drawn.boxes_count, graph->nodes_count);
        /* a wire is a link in each direction */
        assert_int_equal(drawn.wires_count, graph->links_count / 2);
    }
    boxes_are_apart(&drawn);
    boxes_stay_free(&drawn);
    wires_are_apart(&drawn, machines);
    drawn_drop(&drawn);
}

static void picture_close(struct graph *graph, const char *what)
{
    if (!graph->sealed)
        assert_int_equal(graph_seal(graph, NULL), TRYST_OK);
    picture_check(graph, what);
    graph_close(graph);
}

/* ---- networks ---------------------------------------------------------------------- */

static void families(void **state)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 8, 9, 12, 13, 16, 20, 24, 36, 64};
    for (int family = 0; family < NET_FAMILIES; family++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            char what[64];
            if (family == NET_MESH && sizes[k] > 20)
                continue;
            snprintf(what, sizeof what, "%s of %u", net_names[family], sizes[k]);
            picture_close(net_open((enum net_family)family, sizes[k], NULL), what);
        }
}

/* Make switches in a torus of x by y by z, with `hosts` ranks at each. */
static struct graph *torus_new(uint32_t x, uint32_t y, uint32_t z, uint32_t hosts)
{
    uint32_t switches = x * y * z, ranks = switches * hosts;
    struct graph *graph = graph_new(ranks, switches);
    for (uint32_t i = 0; i < ranks; i++)
        wire_new(graph, i, ranks + i / hosts, 1e9);
    for (uint32_t s = 0; s < switches; s++) {
        uint32_t at[3] = {s / (y * z), s / z % y, s % z};
        const uint32_t size[3] = {x, y, z};
        for (int d = 0; d < 3; d++) {
            uint32_t kept = at[d];
            at[d] = (kept + 1) % size[d];
            uint32_t to = (at[0] * y + at[1]) * z + at[2];
            if (size[d] > 2 || (size[d] == 2 && kept == 0))
                wire_new(graph, ranks + s, ranks + to, 1e9);
            at[d] = kept;
        }
    }
    return graph;
}

static void toruses_of_switches(void **state)
{
    static const uint32_t sizes[][4] = {{4, 4, 1, 1}, {4, 4, 1, 4}, {2, 2, 2, 1},
                                        {3, 3, 3, 1}, {8, 8, 1, 1}, {3, 5, 1, 2},
                                        {8, 1, 1, 1}, {8, 1, 1, 4}, {3, 1, 1, 16},
                                        {5, 1, 1, 2}, {30, 1, 1, 1}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char what[64];
        const uint32_t *size = sizes[k];
        snprintf(what, sizeof what, "torus of %ux%ux%u switches, %u ranks at each",
                 size[0], size[1], size[2], size[3]);
        picture_close(torus_new(size[0], size[1], size[2], size[3]), what);
    }
}

/* Every switch is connected to every other, `wires` times. */
static void meshes_of_switches(void **state)
{
    for (uint32_t n = 2; n <= 10; n++)
        for (uint32_t wires = 1; wires <= 3; wires++) {
            char what[64];
            struct graph *graph = graph_new(n, n);
            for (uint32_t i = 0; i < n; i++)
                wire_new(graph, i, n + i, 1e9);
            for (uint32_t w = 0; w < wires; w++)
                for (uint32_t i = 0; i < n; i++)
                    for (uint32_t k = 0; k < i; k++)
                        wire_new(graph, n + i, n + k, 1e9);
            snprintf(what, sizeof what, "%u switches, %u wires a pair", n, wires);
            picture_close(graph, what);
        }
}

/* Ranks at two switches each, which are connected or not; and at two of many in a
 * ring. */
static void ranks_at_two_switches(void **state)
{
    for (uint32_t switches = 2; switches <= 8; switches++)
        for (uint32_t joined = 0; joined < 2; joined++) {
            uint32_t n = 2 * switches;
            struct graph *graph = graph_new(n, switches);
            for (uint32_t i = 0; i < n; i++) {
                wire_new(graph, i, n + i % switches, 1e9);
                wire_new(graph, i, n + (i + 1) % switches, 1e9);
            }
            for (uint32_t s = 0; joined && s < switches - (switches == 2); s++)
                wire_new(graph, n + s, n + (s + 1) % switches, 1e9);
            picture_close(graph,
                          joined ? "two switches a rank, joined" : "two switches a rank");
        }
}

/* Trunks of several wires, on rows and between them. */
static void parallel_wires(void **state)
{
    struct graph *graph = graph_new(4, 3);
    for (uint32_t w = 0; w < 3; w++) {
        for (uint32_t i = 0; i < 4; i++)
            wire_new(graph, i, 4 + i / 2, 1e9);
        wire_new(graph, 4, 5, 1e9);
        wire_new(graph, 4, 6, 1e9);
        wire_new(graph, 5, 6, 1e9);
    }
    picture_close(graph, "three wires for each");
    graph = graph_new(2, 0);
    for (uint32_t w = 0; w < 3; w++)
        wire_new(graph, 0, 1, 1e9);
    picture_close(graph, "three wires between two ranks");
}

/* ---- machines ---------------------------------------------------------------------- */

static void words_check(const char *text, size_t bytes, const char *what)
{
    struct err err = ERR_INIT;
    struct graph *graph;
    tryst_status status = graph_read(text, bytes, what, GRAPH_AUTO, &err, &graph);
    if (status == TRYST_E_UNSUPPORTED)
        return; /* built without hwloc or libxml2 */
    if (status != TRYST_OK)
        fail_msg("%s", err.text);
    picture_close(graph, what);
}

static void machines(void **state)
{
    static const char *const words[] = {
        "node:1", "node:2 gpu:8 nvlink:450GB nic:8x400Gb", "node:4 gpu:8 nic:2x50GB",
        "node:2 numa:2 gpu:4 nvlink:450GB nic:2x400Gb latency:2us upi:20GB"};
    static const char *const files[] = {"dgx-h100", "two-sockets", "pcie-switches",
                                        "grace-hopper", "laptop"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        words_check(words[k], strlen(words[k]), words[k]);
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        static char text[1 << 18];
        char path[512];
        snprintf(path, sizeof path, TEST_MACHINES "/%s.xml", files[k]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        size_t bytes = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        words_check(text, bytes, files[k]);
    }
}

/* Machines at several connected switches. */
static void machines_and_trunks(void **state)
{
    enum { SWITCHES = 5 };
    struct graph *graph = graph_new(0, SWITCHES);
    for (uint32_t m = 0; m < SWITCHES; m++) {
        char name[16];
        snprintf(name, sizeof name, "m%u", m);
        uint32_t machine = node_new(graph, name, NODE_MACHINE), nic;
        snprintf(name, sizeof name, "m%u:nic", m);
        struct graph_node node = {
            .name = name, .kind = NODE_NIC, .parent = machine, .os_index = GRAPH_NONE};
        assert_int_equal(graph_node_add(graph, &node, NULL, &nic), TRYST_OK);
        wire_new(graph, nic, m, 1e9);
    }
    for (uint32_t i = 0; i < SWITCHES; i++)
        for (uint32_t k = 0; k < i; k++)
            wire_new(graph, i, k, 1e9);
    picture_close(graph, "five switches of machines");
}

/* ---- texts ------------------------------------------------------------------------- */

static void text_is_escaped(void **state)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    tool_svg_text(file, 1, 2, "", "%s", "<a&b>\x01\xff\xc3\xa9\xe2\x82");
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, "<text x='1' y='2' >&lt;a&amp;b&gt;\xef\xbf\xbd"
                              "\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd</text>\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(toruses_of_switches),
        cmocka_unit_test(meshes_of_switches),
        cmocka_unit_test(ranks_at_two_switches),
        cmocka_unit_test(parallel_wires),
        cmocka_unit_test(machines),
        cmocka_unit_test(machines_and_trunks),
        cmocka_unit_test(text_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
