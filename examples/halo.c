/* SPDX-License-Identifier: Apache-2.0 */
/* A stencil on a two-dimensional grid that is spread over a grid of ranks: before each
 * step every rank exchanges the edge of its block with its eight neighbours. The grid is
 * a torus, so a rank may be its own neighbour, which needs no special case.
 *
 * A row of the block is contiguous, and so is a corner: a tensor describes them in place.
 * A column is not (a tensor of Tryst has no strides), so it is packed and unpacked.
 *
 * Each rank also computes the whole grid alone, and compares its block. The numbers are
 * multiples of a power of two with few digits, so the comparison is exact.
 *
 * Run:     tryst-run -n 6 ./halo
 * Prints:  halo: 3 x 2 ranks, 10 steps, every cell as in the serial grid */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/coll.h>

enum { NX = 12, NY = 8, STEPS = 10, SELF = 4, DIRECTIONS = 9 };

/* The exchange with one neighbour: the cells sent, and those of the halo that receive. */
struct side {
    double *edge, *halo; /* first cell of each, in the block */
    int count;           /* cells */
    int is_column;       /* cells are a row of the array apart */
    double packed_out[NY], packed_in[NY];
    tryst_key *send_key, *recv_key;
};

/* This rank's cells are rows 1 to NY and columns 1 to NX; around them is the halo. */
static double block[NY + 2][NX + 2];
static struct side sides[DIRECTIONS];

/* End the program unless `status` is TRYST_OK. */
static void must(tryst_status status)
{
    if (status == TRYST_OK)
        return;
    fprintf(stderr, "halo: %s\n", tryst_last_error());
    exit(1);
}

/* Prepare the side towards (dx, dy), each -1, 0 or 1. What a rank sends in direction d
 * its neighbour receives from direction 8 - d; the key's index is the sender's d. */
static void side_open(tryst_group *group, int columns, int rows, int dx, int dy)
{
    int me = tryst_group_rank(group), d = 3 * (dy + 1) + dx + 1;
    int x = (me % columns + dx + columns) % columns;
    int y = (me / columns + dy + rows) % rows, neighbour = y * columns + x;
    uint64_t index = (uint64_t)d, opposite = (uint64_t)(8 - d);
    struct side *side = &sides[d];
    side->edge = &block[dy > 0 ? NY : 1][dx > 0 ? NX : 1];
    side->halo = side->edge + dy * (NX + 2) + dx;
    side->count = (dx ? 1 : NX) * (dy ? 1 : NY);
    side->is_column = dx && !dy;
    must(tryst_key_make(group, me, neighbour, "halo", index, &side->send_key));
    must(tryst_key_make(group, neighbour, me, "halo", opposite, &side->recv_key));
}

/* Start the exchange of one side; `ops` receives the send and the receive. */
static void side_start(tryst_step *step, struct side *side, tryst_op **ops)
{
    tryst_tensor out = {.struct_size = sizeof out,
                        .data = side->edge,
                        .count = (uint64_t)side->count,
                        .dtype = TRYST_DTYPE_F64};
    tryst_tensor in = out;
    in.data = side->halo;
    if (side->is_column) {
        for (int i = 0; i < side->count; i++)
            side->packed_out[i] = side->edge[i * (NX + 2)];
        out.data = side->packed_out;
        in.data = side->packed_in;
    }
    must(tryst_send_key(step, side->send_key, &out, NULL, &ops[0]));
    must(tryst_recv_key(step, side->recv_key, &in, NULL, &ops[1]));
}

/* Fill in the whole halo. */
static void exchange(tryst_group *group, uint64_t id)
{
    tryst_step *step;
    tryst_op *ops[2 * DIRECTIONS] = {NULL}; /* a wait skips the NULLs of SELF */
    must(tryst_step_open(group, id, &step));
    for (int d = 0; d < DIRECTIONS; d++)
        if (d != SELF)
            side_start(step, &sides[d], &ops[2 * d]);
    must(tryst_wait_all(ops, 2 * DIRECTIONS, TRYST_FOREVER));
    for (int d = 0; d < DIRECTIONS; d++)
        for (int i = 0; sides[d].is_column && i < sides[d].count; i++)
            sides[d].halo[i * (NX + 2)] = sides[d].packed_in[i];
    for (int i = 0; i < 2 * DIRECTIONS; i++)
        tryst_op_release(ops[i]);
    must(tryst_step_close(step, NULL));
}

/* Return the weight of a neighbour at (dx, dy) in the mean: of 16, the cell itself has 4,
 * each of its four neighbours 2, each of the four diagonal ones 1. */
static int weight(int dx, int dy)
{
    return (2 - !!dx) * (2 - !!dy);
}

/* Make each cell of the block the mean of itself and its neighbours. */
static void smooth(void)
{
    static double next[NY + 2][NX + 2]; /* its halo is never read: it is received anew */
    for (int y = 1; y <= NY; y++) {
        for (int x = 1; x <= NX; x++) {
            double sum = 0;
            for (int d = 0; d < DIRECTIONS; d++)
                sum += block[y + d / 3 - 1][x + d % 3 - 1] * weight(d % 3 - 1, d / 3 - 1);
            next[y][x] = sum / 16;
        }
    }
    memcpy(block, next, sizeof block);
}

/* Return the initial value of the cell at (x, y) of the whole grid. */
static double initial(int x, int y)
{
    return (x * 37 + y * 101) % 256;
}

/* Compute the whole grid, `width` by `height`, without ranks, and return the number of
 * cells of this rank's block, which begins at (x0, y0), that differ from it. */
static int differences(int width, int height, int x0, int y0)
{
    int cells = width * height, wrong = 0;
    double *now = calloc(2 * (size_t)cells, sizeof *now), *next = now + cells;
    if (!now) {
        perror("halo");
        exit(1);
    }
    for (int i = 0; i < cells; i++)
        now[i] = initial(i % width, i / width);
    for (int step = 0; step < STEPS; step++) {
        memset(next, 0, (size_t)cells * sizeof *next);
        for (int i = 0; i < cells * DIRECTIONS; i++) {
            int cell = i / DIRECTIONS, dx = i % 3 - 1, dy = i % DIRECTIONS / 3 - 1;
            int x = (cell % width + dx + width) % width;
            int y = (cell / width + dy + height) % height;
            next[cell] += now[y * width + x] * weight(dx, dy) / 16;
        }
        memcpy(now, next, (size_t)cells * sizeof *now);
    }
    for (int i = 0; i < NX * NY; i++)
        wrong +=
            block[i / NX + 1][i % NX + 1] != now[(y0 + i / NX) * width + x0 + i % NX];
    free(now);
    return wrong;
}

int main(void)
{
    tryst_ctx *ctx;
    tryst_group *group;
    must(tryst_open(NULL, &ctx));
    must(tryst_group_open(ctx, NULL, &group));
    int me = tryst_group_rank(group), size = tryst_group_size(group);
    int rows = size % 2 ? 1 : 2, columns = size / rows;
    int x0 = me % columns * NX, y0 = me / columns * NY;
    for (int d = 0; d < DIRECTIONS; d++)
        if (d != SELF)
            side_open(group, columns, rows, d % 3 - 1, d / 3 - 1);
    for (int i = 0; i < NX * NY; i++)
        block[i / NX + 1][i % NX + 1] = initial(x0 + i % NX, y0 + i / NX);
    for (uint64_t id = 1; id <= STEPS; id++) {
        exchange(group, id);
        smooth();
    }
    int wrong = differences(columns * NX, rows * NY, x0, y0);
    if (wrong)
        fprintf(stderr, "halo: rank %d: %d cells are wrong\n", me, wrong);
    else if (me == 0)
        printf("halo: %d x %d ranks, %d steps, every cell as in the serial grid\n",
               columns, rows, STEPS);
    for (int d = 0; d < DIRECTIONS; d++) {
        tryst_key_release(sides[d].send_key); /* NULL is allowed */
        tryst_key_release(sides[d].recv_key);
    }
    tryst_group_close(group);
    tryst_close(ctx);
    return wrong != 0;
}
