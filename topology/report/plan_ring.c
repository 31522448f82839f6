/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best ring; see plan_ring.h.
 *
 * The search beyond eight ranks starts from two orders: the file's, and one that always
 * continues with the nearest rank (with rotations at dead ends: Pósa 1976). Both are
 * improved by moves of up to three ranks (Or 1976) and reversals of segments (2-opt), as
 * long as the busiest link's time falls or, if that is equal, the sum of squares over all
 * links. Effort is counted in links examined, not in time, so results repeat.
 */
#include "plan_ring.h"

#include <math.h>
#include <string.h>

#include "topology/routes/overlay_price.h"

#define ALL_ORDERS_MAX   8u
#define SEGMENT_MAX      3u  /* most ranks that move together */
#define REVERSAL_MAX     24u /* most ranks of a segment that is reversed */
#define ROTATIONS_FACTOR 64u /* most rotations, for each rank */
/* Links examined by all moves from one order: about 0.1 s. */
#define LINKS_CHECKED_MAX 4000000.0
/* A value is better than another if it is below this part of the other. */
#define BETTER (1 - 1e-12)

struct ring {
    struct arrays arrays;
    struct overlay *overlay;
    uint32_t n;
    bool closed, backwards;
    double factor;
    uint32_t *order, *scratch;
    uint32_t *best;   /* the caller's, for the best order so far; or NULL */
    double *distance; /* n × n: sum of 1 ÷ capacity over the route; INFINITY: no edge */
    double *load;     /* by overlay link: bytes for one byte on each edge of the order */
    double *trial;    /* by overlay link: `load` after the move being tried */
};

/* Quality of an order: the busiest link's time for one byte on each edge, then the sum of
 * squares of all links' times (evenness). */
struct merit {
    double s_per_byte, squares;
};

/* ---- edges ------------------------------------------------------------------------- */

static bool edge_exists(const struct ring *ring, uint32_t a, uint32_t b)
{
    size_t n = ring->n;
    return ring->backwards ? isfinite(ring->distance[b * n + a])
                           : isfinite(ring->distance[a * n + b]);
}

static void edge_load(const struct ring *ring, uint32_t a, uint32_t b, double amount,
                      double *load)
{
    if (ring->backwards)
        overlay_load(ring->overlay, b, a, amount, load);
    else
        overlay_load(ring->overlay, a, b, amount, load);
}

/* Return the rank that position k sends to; GRAPH_NONE at the end of a chain. */
static uint32_t after(const struct ring *ring, const uint32_t *order, uint32_t k)
{
    if (k + 1 < ring->n)
        return order[k + 1];
    return ring->closed ? order[0] : GRAPH_NONE;
}

static bool order_holds(const struct ring *ring, const uint32_t *order)
{
    for (uint32_t k = 0; k < ring->n; k++) {
        uint32_t to = after(ring, order, k);
        if (to != GRAPH_NONE && !edge_exists(ring, order[k], to))
            return false;
    }
    return true;
}

static struct merit merit_of(const struct ring *ring, const double *load)
{
    struct merit merit = {0, 0};
    for (uint32_t l = 0; l < ring->overlay->links_count; l++) {
        double s_per_byte = load[l] / ring->overlay->capacity[l];
        merit.s_per_byte = fmax(merit.s_per_byte, s_per_byte);
        merit.squares += s_per_byte * s_per_byte;
    }
    return merit;
}

static bool merit_better(const struct merit *a, const struct merit *b)
{
    if (a->s_per_byte < b->s_per_byte * BETTER)
        return true;
    return a->s_per_byte <= b->s_per_byte && a->squares < b->squares * BETTER;
}

static struct merit order_load(const struct ring *ring, const uint32_t *order,
                               double *load)
{
    memset(load, 0, ring->overlay->links_count * sizeof *load);
    for (uint32_t k = 0; k < ring->n; k++) {
        uint32_t to = after(ring, order, k);
        if (to != GRAPH_NONE)
            edge_load(ring, order[k], to, 1, load);
    }
    return merit_of(ring, load);
}

static void order_keep(struct ring *ring, double s_per_byte, double *best)
{
    if (s_per_byte >= *best)
        return;
    *best = s_per_byte;
    if (ring->best)
        memcpy(ring->best, ring->order, ring->n * sizeof *ring->best);
}

/* ---- all orders -------------------------------------------------------------------- */

/* Try all orders with the present first k + 1 ranks. loads[k × links] has the loads of
 * the first k edges; a beginning that is already no better than the best order is
 * skipped. */
static void orders_try(struct ring *ring, uint32_t k, double *loads, double *best)
{
    uint32_t links = ring->overlay->links_count, at = ring->order[k];
    double *load = loads + (size_t)k * links;
    if (merit_of(ring, load).s_per_byte >= *best)
        return;
    if (k + 1 == ring->n) {
        if (ring->closed && !edge_exists(ring, at, ring->order[0]))
            return;
        memcpy(ring->trial, load, links * sizeof *load);
        if (ring->closed)
            edge_load(ring, at, ring->order[0], 1, ring->trial);
        order_keep(ring, merit_of(ring, ring->trial).s_per_byte, best);
        return;
    }
    for (uint32_t i = k + 1; i < ring->n; i++) {
        uint32_t to = ring->order[i];
        if (!edge_exists(ring, at, to))
            continue;
        ring->order[i] = ring->order[k + 1];
        ring->order[k + 1] = to;
        memcpy(load + links, load, links * sizeof *load);
        edge_load(ring, at, to, 1, load + links);
        orders_try(ring, k + 1, loads, best);
        ring->order[k + 1] = ring->order[i];
        ring->order[i] = to;
    }
}

static tryst_status orders_all(struct ring *ring, double *best_p)
{
    size_t count = (size_t)ring->n * ring->overlay->links_count;
    double *loads = arrays_alloc(&ring->arrays, count, sizeof *loads);
    *best_p = INFINITY;
    if (loads)
        orders_try(ring, 0, loads, best_p);
    return ring->arrays.status;
}

/* ---- a first order ----------------------------------------------------------------- */

static void order_reverse(uint32_t *order, uint32_t first, uint32_t last)
{
    for (; first < last; first++, last--) {
        uint32_t kept = order[first];
        order[first] = order[last];
        order[last] = kept;
    }
}

/* Return the position of the nearest rank in order[from…] to which `at` has an edge; n if
 * there is none. */
static uint32_t nearest(const struct ring *ring, const uint32_t *order, uint32_t at,
                        uint32_t from)
{
    uint32_t found = ring->n;
    double least = INFINITY;
    size_t n = ring->n;
    for (uint32_t k = from; k < ring->n; k++) {
        uint32_t a = ring->backwards ? order[k] : at, b = ring->backwards ? at : order[k];
        double distance = ring->distance[a * n + b];
        if (distance < least ||
            (distance == least && isfinite(distance) && order[k] < order[found])) {
            least = distance;
            found = k;
        }
    }
    return found;
}

/* True if the segment first…last has all edges in the reverse direction. */
static bool turns(const struct ring *ring, const uint32_t *order, uint32_t first,
                  uint32_t last)
{
    for (uint32_t k = first; k < last; k++)
        if (!edge_exists(ring, order[k + 1], order[k]))
            return false;
    return true;
}

/* Give a path that cannot be extended another end: after a rank with an edge to the
 * present end, reverse the rest of the path. `turn` selects among several such ranks.
 * Returns false if no rank has such an edge. */
static bool rotate(const struct ring *ring, uint32_t *order, uint32_t last, uint32_t turn)
{
    for (uint32_t step = 0; step + 1 < last; step++) {
        uint32_t k = (turn + step) % (last - 1); /* k + 1 becomes the end */
        if (!edge_exists(ring, order[k], order[last]) || !turns(ring, order, k + 1, last))
            continue;
        order_reverse(order, k + 1, last);
        return true;
    }
    return false;
}

/* Build an order from order[0] by continuing with the nearest rank. Returns false if no
 * ring was found. */
static bool order_nearest(const struct ring *ring, uint32_t *order)
{
    uint32_t last = 0;
    uint64_t state = 1;
    for (uint64_t left = (uint64_t)ROTATIONS_FACTOR * ring->n; left > 0;) {
        if (last + 1 == ring->n &&
            (!ring->closed || edge_exists(ring, order[last], order[0])))
            return true;
        uint32_t next = nearest(ring, order, order[last], last + 1);
        if (next < ring->n) {
            uint32_t kept = order[++last];
            order[last] = order[next];
            order[next] = kept;
            continue;
        }
        state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's */
        if (!rotate(ring, order, last, (uint32_t)(state >> 33)))
            return false;
        left--;
    }
    return false;
}

/* ---- better orders ----------------------------------------------------------------- */

/* Add `amount` over the edge a → b to the trial; a or b GRAPH_NONE: no change. Returns
 * false if the network has no such edge. */
static bool trial_edge(struct ring *ring, uint32_t a, uint32_t b, double amount)
{
    if (b == GRAPH_NONE || a == GRAPH_NONE)
        return true;
    if (!edge_exists(ring, a, b))
        return false;
    edge_load(ring, a, b, amount, ring->trial);
    return true;
}

/* Add to ring->trial the change of the loads if the ranks first…last move behind position
 * `to`, which lies outside first…last. Returns false if the network lacks an edge. */
static bool move_load(struct ring *ring, uint32_t first, uint32_t last, uint32_t to)
{
    const uint32_t *order = ring->order;
    uint32_t before = order[first - 1], behind = after(ring, order, last);
    uint32_t left = order[to], right = after(ring, order, to);
    return trial_edge(ring, left, order[first], 1) &&
           trial_edge(ring, order[last], right, 1) &&
           trial_edge(ring, before, behind, 1) &&
           trial_edge(ring, before, order[first], -1) &&
           trial_edge(ring, order[last], behind, -1) && trial_edge(ring, left, right, -1);
}

static void move_do(struct ring *ring, uint32_t first, uint32_t last, uint32_t to)
{
    uint32_t moved[SEGMENT_MAX], count = last - first + 1, *order = ring->order;
    memcpy(moved, order + first, count * sizeof *moved);
    if (to < first) {
        memmove(order + to + 1 + count, order + to + 1, (first - to - 1) * sizeof *order);
        memcpy(order + to + 1, moved, count * sizeof *moved);
    } else {
        memmove(order + first, order + last + 1, (to - last) * sizeof *order);
        memcpy(order + to + 1 - count, moved, count * sizeof *moved);
    }
}

static bool reversal_load(struct ring *ring, uint32_t first, uint32_t last)
{
    const uint32_t *order = ring->order;
    uint32_t before = order[first - 1], behind = after(ring, order, last);
    for (uint32_t k = first; k < last; k++)
        if (!trial_edge(ring, order[k + 1], order[k], 1) ||
            !trial_edge(ring, order[k], order[k + 1], -1))
            return false;
    return trial_edge(ring, before, order[last], 1) &&
           trial_edge(ring, order[first], behind, 1) &&
           trial_edge(ring, before, order[first], -1) &&
           trial_edge(ring, order[last], behind, -1);
}

/* Try a move: first…last go behind `to`, or are reversed if `to` is inside. Returns true
 * if the order got better and was changed. */
static bool move_try(struct ring *ring, uint32_t first, uint32_t last, uint32_t to,
                     struct merit *merit)
{
    size_t bytes = ring->overlay->links_count * sizeof *ring->load;
    bool moves = to < first || to > last;
    memcpy(ring->trial, ring->load, bytes);
    if (!(moves ? move_load(ring, first, last, to) : reversal_load(ring, first, last)))
        return false;
    struct merit now = merit_of(ring, ring->trial);
    if (!merit_better(&now, merit))
        return false;
    if (moves)
        move_do(ring, first, last, to);
    else
        order_reverse(ring->order, first, last);
    *merit = order_load(ring, ring->order, ring->load); /* removes rounding errors */
    return true;
}

/* Try all moves and reversals of segments that begin at position `first`, until one
 * improves the order. Returns true if one did. */
static bool moves_from(struct ring *ring, uint32_t first, struct merit *merit,
                       double *left)
{
    double looks = ring->overlay->links_count + 64.0;
    for (uint32_t count = 1; count <= SEGMENT_MAX && first + count <= ring->n; count++) {
        uint32_t last = first + count - 1;
        for (uint32_t to = 0; to<ring->n && * left> 0; to++) {
            if (to + 1 >= first && to <= last)
                continue;
            *left -= looks;
            if (move_try(ring, first, last, to, merit))
                return true;
        }
    }
    for (uint32_t last = first + 1;
         last < ring->n && last<first + REVERSAL_MAX && * left> 0; last++) {
        *left -= looks + 2.0 * (last - first);
        if (move_try(ring, first, last, first, merit))
            return true;
    }
    return false;
}

/* Improve ring->order until no move makes it better or `left` is used up. Returns its
 * time for one byte on each edge. */
static double order_improve(struct ring *ring, double left)
{
    struct merit merit = order_load(ring, ring->order, ring->load);
    bool better = true;
    while (better && left > 0) {
        better = false;
        for (uint32_t first = 1; first < ring->n && left > 0; first++)
            better |= moves_from(ring, first, &merit, &left);
    }
    return merit.s_per_byte;
}

static void orders_search(struct ring *ring, double *best_p)
{
    size_t bytes = ring->n * sizeof *ring->order;
    *best_p = INFINITY;
    memcpy(ring->scratch, ring->order, bytes);
    if (order_holds(ring, ring->order))
        order_keep(ring, order_improve(ring, LINKS_CHECKED_MAX), best_p);
    memcpy(ring->order, ring->scratch, bytes);
    if (order_nearest(ring, ring->order))
        order_keep(ring, order_improve(ring, LINKS_CHECKED_MAX), best_p);
}

/* ---- the whole --------------------------------------------------------------------- */

static bool ring_open(struct ring *ring, uint32_t root)
{
    size_t n = ring->n, links = ring->overlay->links_count;
    ring->order = arrays_alloc(&ring->arrays, n, sizeof *ring->order);
    ring->scratch = arrays_alloc(&ring->arrays, n, sizeof *ring->scratch);
    ring->distance = arrays_alloc(&ring->arrays, n * n, sizeof *ring->distance);
    ring->load = arrays_alloc(&ring->arrays, links, sizeof *ring->load);
    ring->trial = arrays_alloc(&ring->arrays, links, sizeof *ring->trial);
    if (ring->arrays.status)
        return false;
    for (uint32_t i = 0; i < n; i++)
        ring->order[i] = i;
    if (!ring->closed) {
        ring->order[0] = root;
        ring->order[root] = 0;
    }
    for (size_t l = 0; l < links; l++)
        ring->trial[l] = 1 / ring->overlay->capacity[l];
    overlay_costs(ring->overlay, ring->trial, ring->distance);
    return true;
}

tryst_status plan_ring(struct overlay *overlay, enum plan_op op, uint32_t root,
                       struct err *err, double *s_per_byte_p, uint32_t *order)
{
    double n = overlay->ranks_count, best = INFINITY;
    bool chain = op == PLAN_BROADCAST || op == PLAN_REDUCE;
    struct ring ring = {.overlay = overlay, .n = overlay->ranks_count, .best = order};
    tryst_status status = TRYST_OK;
    ring.closed = !chain;
    ring.backwards = op == PLAN_REDUCE;
    for (uint32_t i = 0; order && i < ring.n; i++)
        order[i] = i;
    ring.factor = chain ? 1 : (op == PLAN_ALLREDUCE ? 2 : 1) * (n - 1) / n;
    if (ring.n > 1) {
        if (!ring_open(&ring, root))
            status = TRYST_E_NOMEM;
        else if (ring.n <= ALL_ORDERS_MAX)
            status = orders_all(&ring, &best);
        else
            orders_search(&ring, &best);
        arrays_free(&ring.arrays);
    }
    if (status != TRYST_OK)
        return err_set(err, status, "cannot find a ring of %u ranks: out of memory",
                       ring.n);
    *s_per_byte_p = best * ring.factor;
    return TRYST_OK;
}
