/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs drawn from a seed; see workload.h. */
#include "workload.h"

#include "cluster.h"

enum { PACKET_BYTES = 64 << 10 };

void star_make(struct net *net, int ranks, uint64_t bytes_per_s, uint64_t latency_ns)
{
    net_init(net, ranks + 1, ranks, PACKET_BYTES);
    for (int i = 0; i < ranks; i++)
        net_link_pair(net, i, ranks, bytes_per_s, latency_ns);
    net_routes(net);
}

static bool one_in(struct random *random, uint64_t n)
{
    return random_range(random, n) == 0;
}

/* Draw slices of 64 KiB to 1 MiB, and a window that keeps the link busy: less than a
 * slice of the window may be unused where last slices are short. */
static struct sim_params params_draw(struct random *random, int ranks, uint64_t round_ns,
                                     uint64_t bytes_per_s, enum sim_fault fault)
{
    uint64_t slice = (uint64_t)PACKET_BYTES << random_range(random, 5);
    uint64_t path = (uint64_t)((double)bytes_per_s * (double)round_ns / 1e9);
    uint64_t slices = 3 + (path + path / 4) / slice + random_range(random, 3);
    return (struct sim_params){.ranks = ranks,
                               .slice_bytes = slice,
                               .window_bytes = slices * slice,
                               .rail_window_bytes = 4 * slices * slice,
                               .posted_slices = (uint32_t)slices + 2,
                               .fault = fault};
}

/* Draw a rate of 400 Mbit/s to 100 Gbit/s. Latencies are 2 µs to 1 ms, smaller for faster
 * links. */
static uint64_t rate_draw(struct random *random)
{
    static const uint64_t rates[] = {50000000, 125000000, 1250000000, 12500000000};
    return rates[random_range(random, COUNT_OF(rates))];
}

static uint64_t latency_draw(struct random *random, uint64_t bytes_per_s)
{
    uint64_t most_ns = bytes_per_s > 1000000000 ? 20000 : 500000;
    return 2000 + random_range(random, most_ns);
}

/* Draw narrow quotas, which run out. */
static void narrow_draw(struct random *random, struct sim_params *params)
{
    if (one_in(random, 2))
        params->wants_max = 1 + (uint32_t)random_range(random, 8);
    if (one_in(random, 2))
        params->frame_credits = 2 + (uint32_t)random_range(random, 8);
    if (one_in(random, 2))
        params->posted_slices = 1 + (uint32_t)random_range(random, 3);
}

static void begin(struct sim *sim, struct random *random, int ranks, uint64_t seed,
                  enum sim_fault fault, bool narrow)
{
    struct net net;
    random_seed(random, seed);
    uint64_t bytes_per_s = rate_draw(random);
    uint64_t latency_ns = latency_draw(random, bytes_per_s);
    star_make(&net, ranks, bytes_per_s, latency_ns);
    struct sim_params params =
        params_draw(random, ranks, 4 * latency_ns, bytes_per_s, fault);
    if (narrow)
        narrow_draw(random, &params);
    sim_open(sim, &params, &net);
}

static uint64_t time_ns(const struct sim *sim, uint64_t bytes)
{
    return (uint64_t)((double)bytes / (double)sim->net.links[0].bytes_per_s * 1e9);
}

/* Draw a size: most transfers are small, and most bytes are in the few large ones. */
static uint64_t size_draw(struct random *random)
{
    uint64_t kind = random_range(random, 20);
    unsigned least = kind < 12 ? 12 : kind < 18 ? 17 : 21; /* powers of two */
    unsigned more = kind < 12 ? 6 : kind < 18 ? 4 : 5;
    uint64_t low = (uint64_t)1 << (least + random_range(random, more));
    return low + random_range(random, low + 1);
}

static void end_draw(struct random *random, struct sim_end *end)
{
    if (one_in(random, 2))
        end->flags |= TRYST_OP_PRIORITY;
    if (one_in(random, 8))
        end->flags |= TRYST_OP_BACKGROUND;
    int32_t priority = (int32_t)random_range(random, 9) - 4;
    end->priority = end->flags & TRYST_OP_PRIORITY ? priority : 0;
}

/* Draw the calls of users on a transfer besides its submission. */
static void change_draw(struct sim *sim, struct random *random, int which, uint64_t ns)
{
    uint64_t at_ns = random_range(random, ns);
    bool is_send = one_in(random, 2);
    if (one_in(random, 6))
        sim_act(sim, at_ns, is_send ? SIM_DO_RAISE_SEND : SIM_DO_RAISE_RECV, which,
                (int64_t)random_range(random, 9) - 6);
    if (one_in(random, 16))
        sim_act(sim, at_ns, is_send ? SIM_DO_CANCEL_SEND : SIM_DO_CANCEL_RECV, which, 0);
}

static void transfers_draw(struct sim *sim, struct random *random, int count, int shift)
{
    uint64_t bytes = 0;
    int ranks = sim->params.ranks;
    for (int i = 0; i < count; i++) {
        int from = (int)random_range(random, (uint64_t)ranks);
        int by = shift ? shift : 1 + (int)random_range(random, (uint64_t)ranks - 1);
        uint64_t size = size_draw(random);
        int which = sim_transfer_add(sim, from, (from + by) % ranks,
                                     (int)random_range(random, SIM_STEPS), size);
        bytes += size;
        end_draw(random, &sim->transfers[which].send);
        end_draw(random, &sim->transfers[which].recv);
    }
    uint64_t ns = 1 + time_ns(sim, bytes) / (uint64_t)ranks;
    for (int i = 0; i < count; i++) {
        sim_act(sim, random_range(random, ns), SIM_DO_SEND, i, 0);
        sim_act(sim, random_range(random, ns), SIM_DO_RECV, i, 0);
        change_draw(sim, random, i, ns);
    }
}

/* Return a time by which every transfer that moves at all has ended. */
static uint64_t deadline_ns(const struct sim *sim)
{
    uint64_t bytes = 0;
    for (int i = 0; i < sim->transfers_count; i++)
        bytes += sim->transfers[i].bytes;
    return 2 * NS_PER_S + 8 * time_ns(sim, bytes);
}

static void stops_draw(struct sim *sim, struct random *random)
{
    for (int i = (int)random_range(random, 3); i; i--) {
        int rank = (int)random_range(random, (uint64_t)sim->params.ranks);
        uint64_t at_ns = random_range(random, deadline_ns(sim) / 32);
        sim_act(sim, at_ns, SIM_DO_RANK_STOP, rank, 0);
        sim_act(sim, at_ns + 1 + random_range(random, NS_PER_S / 4), SIM_DO_RANK_GO, rank,
                0);
    }
}

uint64_t workload_mixed(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault)
{
    struct random random;
    begin(sim, &random, ranks, seed, fault, seed % 4 == 0);
    int shift =
        one_in(&random, 2) ? 1 + (int)random_range(&random, (uint64_t)ranks - 1) : 0;
    transfers_draw(sim, &random, 8 * ranks, shift);
    if (one_in(&random, 3))
        stops_draw(sim, &random);
    return deadline_ns(sim);
}

uint64_t workload_cluster(struct sim *sim, const char *path, uint64_t seed,
                          enum sim_fault fault)
{
    struct random random;
    struct net net;
    uint64_t bytes_per_s = 0;
    uint64_t latency_ns = 0;
    random_seed(&random, seed);
    int ranks = cluster_load(&net, path, PACKET_BYTES);
    for (int i = 0; i < net.links_count; i++) {
        const struct net_link *link = &net.links[i];
        bytes_per_s = link->bytes_per_s > bytes_per_s ? link->bytes_per_s : bytes_per_s;
        latency_ns = link->latency_ns > latency_ns ? link->latency_ns : latency_ns;
    }
    struct sim_params params =
        params_draw(&random, ranks, 6 * latency_ns, bytes_per_s, fault);
    sim_open(sim, &params, &net);
    transfers_draw(sim, &random, 8 * ranks, 0);
    return 8 * deadline_ns(sim);
}

static void links_draw(struct sim *sim, struct random *random)
{
    for (int i = 0; i < 4; i++) {
        int link = (int)random_range(random, (uint64_t)sim->net.links_count);
        uint64_t rate = sim->net.links[link].bytes_per_s;
        uint64_t at_ns = random_range(random, deadline_ns(sim) / 32);
        uint64_t end_ns = at_ns + 1 + random_range(random, NS_PER_S / 4);
        bool cut = one_in(random, 2);
        sim_act(sim, at_ns, cut ? SIM_DO_LINK_CUT : SIM_DO_LINK_RATE, link,
                (int64_t)(rate / 10));
        sim_act(sim, end_ns, cut ? SIM_DO_LINK_MEND : SIM_DO_LINK_RATE, link,
                (int64_t)rate);
    }
}

uint64_t workload_rough(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault)
{
    struct random random;
    begin(sim, &random, ranks, seed, fault, false);
    transfers_draw(sim, &random, 8 * ranks, 0);
    stops_draw(sim, &random);
    links_draw(sim, &random);
    if (one_in(&random, 2))
        sim_act(sim, random_range(&random, deadline_ns(sim) / 32), SIM_DO_RANK_KILL,
                (int)random_range(&random, (uint64_t)ranks), 0);
    return deadline_ns(sim) + 60 * NS_PER_S;
}

uint64_t workload_one_link(struct sim *sim, uint64_t seed, enum sim_fault fault)
{
    enum { TRANSFERS = 12 };
    struct random random;
    struct net net;
    uint64_t bytes = 0;
    random_seed(&random, seed);
    uint64_t bytes_per_s = rate_draw(&random);
    uint64_t latency_ns = latency_draw(&random, bytes_per_s);
    net_init(&net, 2, 2, PACKET_BYTES);
    net_link_pair(&net, 0, 1, bytes_per_s, latency_ns);
    net_routes(&net);
    struct sim_params params =
        params_draw(&random, 2, 2 * latency_ns, bytes_per_s, fault);
    params.posted_max = 1024; /* an urgent transfer never lacks a posted slice */
    sim_open(sim, &params, &net);
    for (int i = 0; i < TRANSFERS; i++) {
        uint64_t size = 4097 + random_range(&random, 12 * params.slice_bytes);
        int which =
            sim_transfer_add(sim, 0, 1, (int)random_range(&random, SIM_STEPS), size);
        struct sim_transfer *transfer = &sim->transfers[which];
        transfer->send.flags = transfer->recv.flags = TRYST_OP_PRIORITY;
        transfer->send.priority = transfer->recv.priority =
            (int32_t)random_range(&random, 9) - 4;
        bytes += size;
    }
    for (int i = 0; i < TRANSFERS; i++) {
        sim_act(sim, 0, SIM_DO_RECV, i, 0);
        sim_act(sim, random_range(&random, time_ns(sim, bytes)), SIM_DO_SEND, i, 0);
    }
    return deadline_ns(sim);
}

uint64_t workload_loaded(struct sim *sim, int ranks, uint64_t seed, enum sim_fault fault)
{
    struct random random;
    begin(sim, &random, ranks, seed, fault, false);
    int shift = 1 + (int)random_range(&random, (uint64_t)ranks - 1);
    for (int i = 0; i < ranks; i++) {
        int to = (i + shift) % ranks;
        uint64_t bytes = 60 * sim->params.slice_bytes;
        (void)sim_transfer_at(sim, i, to, bytes, 0, 0, TRYST_OP_BACKGROUND, 0);
        for (int j = 0; j < 10; j++)
            (void)sim_transfer_at(sim, i, to, bytes, 0, 0, TRYST_OP_PRIORITY, j);
        for (int j = 0; j < 8; j++)
            (void)sim_transfer_at(sim, i, to, 1 + random_range(&random, bytes / 24),
                                  random_range(&random, time_ns(sim, 8 * bytes)), 0,
                                  TRYST_OP_PRIORITY, -1 - j);
    }
    return deadline_ns(sim);
}

uint64_t workload_contact(struct sim *sim, uint64_t seed, enum sim_fault fault)
{
    struct random random;
    struct net net;
    random_seed(&random, seed);
    int ranks = 2 + (int)random_range(&random, 7);
    uint64_t bytes_per_s = rate_draw(&random);
    uint64_t latency_ns = latency_draw(&random, bytes_per_s);
    star_make(&net, ranks, bytes_per_s, latency_ns);
    struct sim_params params =
        params_draw(&random, ranks, 4 * latency_ns, bytes_per_s, fault);
    params.ways = 1 + (int)random_range(&random, 3);
    sim_open(sim, &params, &net);
    transfers_draw(sim, &random, 2 * ranks, 0);
    for (int i = 0; i < ranks; i++) {
        sim_act(sim, 0, SIM_DO_REFUSE, i,
                (int64_t)random_range(&random, (uint64_t)params.ways));
        if (!one_in(&random, 4))
            sim_act(sim, random_range(&random, 40 * NS_PER_MS), SIM_DO_RANK_LEAVE, i, 0);
    }
    return deadline_ns(sim) + 20 * NS_PER_S;
}
