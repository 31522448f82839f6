/* SPDX-License-Identifier: Apache-2.0 */
/* See recurrence_rules.h. */
#include "recurrence_rules.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <tryst/stage.h>

/* floor(a / b), at least 0 */
static int64_t count_of(int64_t a, int64_t b)
{
    return a < 0 ? 0 : a / b;
}

static int warmup_of(const struct recurrence_pipe *pipe, int stage)
{
    return pipe->stages_count - 1 - stage;
}

static struct recurrence_read version_read(int64_t version)
{
    return (struct recurrence_read){.version = version};
}

static double round_half_up(double x)
{
    return floor(x + 0.5);
}

/* ---- versions ---------------------------------------------------------------------- */

/* B of every system, and F of a synchronous one, finds the newest version as it is when
 * all earlier micro-batches are complete. */
static struct recurrence_read read_complete(const struct recurrence_pipe *pipe, int stage,
                                            int64_t n)
{
    (void)stage;
    return version_read(n / pipe->every);
}

static struct recurrence_read read_newest_forward(const struct recurrence_pipe *pipe,
                                                  int stage, int64_t n)
{
    return version_read(count_of(n - warmup_of(pipe, stage), pipe->every));
}

static struct recurrence_read read_vsync(const struct recurrence_pipe *pipe, int stage,
                                         int64_t n)
{
    (void)stage;
    return version_read(count_of(n - pipe->inflight + 1, pipe->every));
}

static struct recurrence_read read_2bw(const struct recurrence_pipe *pipe, int stage,
                                       int64_t n)
{
    (void)stage;
    int64_t version = n / pipe->every - 1;
    return version_read(version < 0 ? 0 : version);
}

/* ---- predictions ------------------------------------------------------------------- */

/* B reads the weights moved back by the delay: -w / u mean changes. Without a delay it
 * reads the newest. */
static struct recurrence_read read_pipemare(const struct recurrence_pipe *pipe, int stage,
                                            int64_t n)
{
    int warmup = warmup_of(pipe, stage);
    if (warmup == 0) {
        return version_read(n / pipe->every);
    }
    return (struct recurrence_read){.version = n / pipe->every,
                                    .slot = 1,
                                    .ahead = -(double)warmup / pipe->every,
                                    .direction = TRYST_DIRECTION_DELTA,
                                    .is_written = n % pipe->every == 0};
}

/* The newest weights that the first micro-batch of the same UPDATE finds, moved. Kept in
 * a slot even where the move is 0: a later micro-batch finds newer ones. */
static struct recurrence_read read_first(const struct recurrence_pipe *pipe, int behind,
                                         int64_t n, int slot, double ahead)
{
    int64_t first = n - n % pipe->every;
    return (struct recurrence_read){.version = count_of(first - behind, pipe->every),
                                    .slot = slot,
                                    .ahead = ahead,
                                    .direction = TRYST_DIRECTION_STEP,
                                    .is_written = n == first};
}

static struct recurrence_read read_xpipe_forward(const struct recurrence_pipe *pipe,
                                                 int stage, int64_t n)
{
    double p = pipe->stages_count, t = pipe->every, r = stage;
    return read_first(pipe, warmup_of(pipe, stage), n, 1,
                      round_half_up((p + t - r / 2 - 2) / t));
}

static struct recurrence_read read_xpipe_backward(const struct recurrence_pipe *pipe,
                                                  int stage, int64_t n)
{
    double t = pipe->every, half = stage / 2; /* an integer */
    return read_first(pipe, 0, n, 2, round_half_up((t + half - 1) / t));
}

static struct recurrence_read read_spectrain_forward(const struct recurrence_pipe *pipe,
                                                     int stage, int64_t n)
{
    int ahead = stage / 2 + pipe->stages_count - stage - 1;
    return read_first(pipe, warmup_of(pipe, stage), n, 1, ahead);
}

static struct recurrence_read read_spectrain_backward(const struct recurrence_pipe *pipe,
                                                      int stage, int64_t n)
{
    int ahead = stage / 2;
    return read_first(pipe, 0, n, 2, ahead);
}

/* ---- the table --------------------------------------------------------------------- */

static const struct recurrence_rule rules[] = {
    {"sync", read_complete, read_complete, false, false},
    {"sync-reversed", read_complete, read_complete, true, false},
    {"pipedream", read_newest_forward, read_newest_forward, false, false},
    {"pipedream-vsync", read_vsync, read_vsync, false, false},
    {"pipedream-2bw", read_2bw, read_2bw, false, false},
    {"pipemare", read_newest_forward, read_pipemare, false, true},
    {"xpipe", read_xpipe_forward, read_xpipe_backward, false, true},
    {"spectrain", read_spectrain_forward, read_spectrain_backward, false, true},
};

const struct recurrence_rule *recurrence_rule_find(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].name, name) == 0) {
            return &rules[i];
        }
    }
    fail_msg("no recurrence is called %s", name);
    return NULL;
}

double recurrence_delay(const struct recurrence_rule *rule,
                        const struct recurrence_pipe *pipe, int stage, int64_t n)
{
    double sum = 0;
    for (int64_t i = n - pipe->every; i < n; i++) {
        sum += (double)(i / pipe->every - rule->forward(pipe, stage, i).version);
    }
    return sum / pipe->every;
}

double recurrence_rate(double delay, int64_t t, int updates)
{
    if (updates == 0) {
        return 1;
    }
    double risen = (double)t / updates;
    return pow(delay > 1 ? delay : 1, -(1 - (risen < 1 ? risen : 1)));
}
