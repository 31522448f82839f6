/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline: all spans are drawn, and the output is XML. (Only a person can judge its
 * looks.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/bench/bench_timeline.h"

/* Draw into a text; NULL: refused. */
static const char *draw(const struct bench_timeline *timeline)
{
    static char content[65536];
    FILE *out = fmemopen(content, sizeof content, "w");
    assert_non_null(out);
    bool drawn = bench_timeline_draw(out, timeline);
    fclose(out);
    return drawn ? content : NULL;
}

static int count_of(const char *content, const char *word)
{
    int count = 0;
    for (const char *at = strstr(content, word); at; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

static void test_draws_all(void **state)
{
    static const tryst_span spans[] = {
        {1000000, 3000000, TRYST_SPAN_FORWARD, 0, 7, -1, 0, 0},
        {3000000, 4000000, TRYST_SPAN_WAIT, 1, 0, 1, 1, 0},
        {4000000, 8000000, TRYST_SPAN_BACKWARD, 0, 7, -1, 0, 0},
        {3000000, 3500000, TRYST_SPAN_SEND, 0, 7, 1, 0, 0},
        {3600000, 3900000, TRYST_SPAN_RECEIVE, 1, 7, 1, 1, 0},
    };
    const struct bench_timeline_rank ranks[] = {{spans, 5}, {spans, 1}};
    const struct bench_timeline params = {.title = "a <title> & more",
                                          .subtitle = "subtitle",
                                          .ranks = ranks,
                                          .ranks_count = 2};
    const char *content = draw(&params);
    assert_int_equal(strncmp(content, "<svg ", 5), 0);
    assert_non_null(strstr(content, "</svg>"));
    assert_non_null(strstr(content, "a &lt;title&gt; &amp; more"));
    assert_non_null(strstr(content, "time in the step, ms"));
    assert_int_equal(
        count_of(content, "<title>forward, stage 0, micro-batch 7: 2.000 ms"), 2);
    assert_int_equal(
        count_of(content, "send activation of stage 0, micro-batch 7, rank 1"), 1);
    assert_int_equal(count_of(content, "receive gradient of stage 1"), 1);
    assert_non_null(strstr(content, "computes 86 %, idle 14 %"));
    /* the legend lists the kinds that occur, and no others */
    assert_int_equal(count_of(content, "class='legend'>"), 5);
    assert_null(strstr(content, ">weight gradient<"));
}

/* R and PREDICT are actions of their own kinds, with bars and places in the legend. */
static void test_draws_recomputation(void **state)
{
    tryst_span spans[] = {
        {1000000, 3000000, TRYST_SPAN_RECOMPUTE, 2, 7, -1, 0, 0},
        {3000000, 3500000, TRYST_SPAN_PREDICT, 2, -1, -1, 0, 0},
        {4000000, 5000000, TRYST_SPAN_BACKWARD, 2, 7, -1, 0, 0},
    };
    const struct bench_timeline_rank rank = {spans, 3};
    const struct bench_timeline params = {
        .title = "title", .subtitle = "subtitle", .ranks = &rank, .ranks_count = 1};
    const char *content = draw(&params);
    assert_non_null(
        strstr(content, "<title>recompute, stage 2, micro-batch 7: 2.000 ms"));
    assert_non_null(strstr(content, "<title>predict, stage 2"));
    assert_non_null(strstr(content, "class='legend'>recompute<"));
    assert_non_null(strstr(content, "class='legend'>predict<"));
    assert_non_null(strstr(content, "computes 88 %, idle 12 %"));
    spans[1].kind = TRYST_SPAN_PREDICT + 1;
    assert_null(draw(&params));
}

/* Return the x of the last element before `words`, for example in "x='84.00'". */
static double x_before(const char *content, const char *words)
{
    const char *end = strstr(content, words);
    assert_non_null(end);
    while (end > content && strncmp(end, " x='", 4) != 0) {
        end--;
    }
    return strtod(end + 4, NULL);
}

/* Ranks wait for the first forward since their previous step; this wait does not belong
 * to the step. Time begins at the first forward, and the rows' shares add up to the share
 * in the heading. */
static void test_one_window(void **state)
{
    static const tryst_span first[] = {
        {10000000, 14000000, TRYST_SPAN_FORWARD, 0, 0, -1, 0, 0},
        {16000000, 20000000, TRYST_SPAN_BACKWARD, 0, 0, -1, 0, 0},
    };
    static const tryst_span second[] = {
        {1000000, 14000000, TRYST_SPAN_WAIT, 1, 0, 0, 0, 0},
        {14000000, 15500000, TRYST_SPAN_FORWARD, 1, 0, -1, 0, 0},
        {15500000, 18000000, TRYST_SPAN_BACKWARD, 1, 0, -1, 0, 0},
        {18000000, 20500000, TRYST_SPAN_SEND, 0, 7, 1, 0, 0},
    };
    const struct bench_timeline_rank ranks[] = {{first, 2}, {second, 4}};
    const struct bench_timeline params = {
        .title = "title", .subtitle = "subtitle", .ranks = ranks, .ranks_count = 2};
    const char *content = draw(&params);
    assert_non_null(strstr(content, "subtitle; this step: 40.0 % idle"));
    assert_non_null(strstr(content, "computes 80 %, idle 20 %"));
    assert_non_null(strstr(content, "computes 40 %, idle 60 %"));
    double zero = x_before(content, " class='tick'>0<");
    double forward = x_before(content, "<title>forward, stage 0, micro-batch 0");
    assert_true(forward - zero < .1 && zero - forward < .1);
    assert_int_equal(count_of(content, "class='outside'"),
                     2); /* the wait before the step, and the send after it */
}

/* Actions of the steps before and after are pale, and count as computing in the window of
 * the drawn step; what lies far outside is not drawn. */
static void test_steps_overlap(void **state)
{
    static const tryst_span first[] = {
        {1000000, 2000000, TRYST_SPAN_FORWARD, 0, 5, -1, 0, -1},
        {10000000, 12000000, TRYST_SPAN_FORWARD, 0, 0, -1, 0, 0},
        {12000000, 20000000, TRYST_SPAN_BACKWARD, 0, 7, -1, 0, -1},
        {20000000, 30000000, TRYST_SPAN_BACKWARD, 0, 0, -1, 0, 0},
        {40000000, 41000000, TRYST_SPAN_FORWARD, 0, 6, -1, 0, 1},
    };
    static const tryst_span second[] = {
        {5000000, 15000000, TRYST_SPAN_BACKWARD, 1, 7, -1, 0, -1},
        {20000000, 25000000, TRYST_SPAN_BACKWARD, 1, 0, -1, 0, 0},
        {25000000, 35000000, TRYST_SPAN_FORWARD, 1, 1, -1, 0, 1},
    };
    const struct bench_timeline_rank ranks[] = {{first, 5}, {second, 3}};
    const struct bench_timeline params = {
        .title = "title", .subtitle = "subtitle", .ranks = ranks, .ranks_count = 2};
    const char *content = draw(&params);
    assert_non_null(strstr(content, "subtitle; this step: 12.5 % idle"));
    assert_non_null(strstr(content, "computes 100 %, idle 0 %"));
    assert_non_null(strstr(content, "computes 75 %, idle 25 %"));
    assert_non_null(strstr(content, ">steps before and after"));
    assert_int_equal(count_of(content, "fill-opacity='.35' stroke"), 3);
    assert_int_equal(count_of(content, "class='number other'"), 3);
    assert_int_equal(count_of(content, "micro-batch 5"), 0);
    assert_int_equal(count_of(content, "micro-batch 6"), 0);
}

/* A rank's later chunks are darker, and the legend has them. */
static void test_chunks(void **state)
{
    static const tryst_span first[] = {
        {1000000, 2000000, TRYST_SPAN_FORWARD, 2, 0, -1, 0, 0},
        {2000000, 3000000, TRYST_SPAN_FORWARD, 0, 0, -1, 0, 0},
    };
    static const tryst_span second[] = {
        {3000000, 4000000, TRYST_SPAN_FORWARD, 3, 0, -1, 0, 0},
    };
    const struct bench_timeline_rank ranks[] = {{first, 2}, {second, 1}};
    const struct bench_timeline params = {
        .title = "title", .subtitle = "subtitle", .ranks = ranks, .ranks_count = 2};
    const char *content = draw(&params);
    assert_non_null(strstr(content, "fill='#254c79' stroke='#fff' stroke-width='.6'>"
                                    "<title>forward, stage 2"));
    assert_non_null(strstr(content, "fill='#3f7fca' stroke='#fff' stroke-width='.6'>"
                                    "<title>forward, stage 0"));
    assert_non_null(strstr(content, "fill='#3f7fca' stroke='#fff' stroke-width='.6'>"
                                    "<title>forward, stage 3"));
    assert_non_null(strstr(content, ">chunk 2<"));
    assert_null(strstr(content, ">chunk 3<"));
}

static void test_refuses(void **state)
{
    static const tryst_span bad[] = {{5, 4, TRYST_SPAN_FORWARD, 0, 0, -1, 0, 0}};
    const struct bench_timeline_rank empty = {NULL, 0}, backwards = {bad, 1};
    assert_null(draw(&(struct bench_timeline){.ranks = &empty, .ranks_count = 1}));
    assert_null(draw(&(struct bench_timeline){.ranks = &backwards, .ranks_count = 1}));
    assert_null(draw(&(struct bench_timeline){.ranks = &backwards, .ranks_count = 0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_all),  cmocka_unit_test(test_draws_recomputation),
        cmocka_unit_test(test_one_window), cmocka_unit_test(test_steps_overlap),
        cmocka_unit_test(test_chunks),     cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
