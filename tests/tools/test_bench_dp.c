/* SPDX-License-Identifier: Apache-2.0 */
/* pp_bench with replicated stages: every run has the bits of its replay, which adds in
 * the plan's order, and --check finds faults in a sum.
 *
 *   test_bench_dp few|all [TRANSPORT…] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench_run.h"

static char **transports;
static int transports_count;

/* Run dp replicas of pp stages in every schedule over every transport: each run equals
 * its replay, and all have one digest. */
static void check_replicas(const char *model, int dp, int pp, int each)
{
    char first[40] = "";
    char words[512];
    for (size_t s = 0; s < sizeof bench_schedules / sizeof *bench_schedules; s++) {
        for (int t = 0; t < transports_count; t++) {
            snprintf(words, sizeof words,
                     "-n %d --dp %d --model %s --schedule %s --microbatches %d "
                     "--transport %s " TINY " %s",
                     dp * pp, dp, model, bench_schedules[s], dp * each, transports[t],
                     more_words());
            expect_one_digest(words, first);
        }
    }
}

static void test_replicas(void **state)
{
    check_replicas("mlp", 2, 1, 2);
    check_replicas("gpt", 2, 2, 2);
    check_replicas("mlp", 4, 1, 1);
}

/* All numbers of replicas and stages with up to 8 ranks. */
static void test_replicas_all(void **state)
{
    static const char *const models[] = {"mlp", "gpt"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        for (int dp = 1; dp <= 4; dp *= 2) {
            for (int pp = 1; dp * pp <= 8 && pp <= 4; pp *= 2) {
                for (int each = 1; each <= 4; each += 2) {
                    check_replicas(models[i], dp, pp, each);
                }
            }
        }
    }
}

/* Two stages on a rank, a split backward, and REDUCE_GRADs in a file, in two copies; and
 * device stages over plain C kernels. */
static void test_replicas_csv(void **state)
{
    static const char *const devices[] = {
        "", "--device reference --precision bf16 --recompute"};
    char words[600];
    char digest[40];
    write_file("vee.csv", "0F0,0F1,3F0,3I0,3F1,3I1,3W0,0I0,3W1,3REDUCE_GRAD,0W0,0B1\r\n"
                          "1F0,2F0,1F1,2F1,2I0,1I0,2I1,2W0,1I1,1W0,1W1,2W1\r\n");
    for (size_t i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "--model gpt --dp 2 " TINY " --schedule %s %s",
                 in_folder("vee.csv"), devices[i]);
        digest_of(words, digest);
    }
}

/* Sums that start only behind the last backward have the same bits. */
static void test_no_overlap(void **state)
{
    char first[40] = "";
    const char *words = "-n 4 --dp 2 --model gpt " TINY;
    char late[256];
    snprintf(late, sizeof late, "%s --no-overlap", words);
    expect_one_digest(words, first);
    expect_one_digest(late, first);
}

/* ---- overlap ----------------------------------------------------------------------- */

enum { TRACED_STEPS = 8 };

/* The spans of rank 0 in one step of a trace, in microseconds. */
struct traced {
    double backward_end;  /* end of the last backward */
    double forward_begin; /* begin of the first forward */
    double sum_begin;     /* begin of the first sum of a layer */
    double sum_end;       /* end of the last sum */
    int sums;
};

static void traced_add(struct traced *self, const struct json *event)
{
    const char *name = json_string_of(json_member(event, "name"));
    double begin = json_number_of(json_member(event, "ts"));
    double end = begin + json_number_of(json_member(event, "dur"));
    if (strncmp(name, "backward ", 9) == 0 && end > self->backward_end) {
        self->backward_end = end;
    }
    if (strncmp(name, "forward ", 8) == 0 &&
        (self->forward_begin == 0 || begin < self->forward_begin)) {
        self->forward_begin = begin;
    }
    if (strncmp(name, "sum of layer ", 13) == 0) {
        self->sum_begin =
            self->sums++ == 0 || begin < self->sum_begin ? begin : self->sum_begin;
        self->sum_end = end > self->sum_end ? end : self->sum_end;
    }
}

/* Run two replicas and read rank 0's trace, by step from 1. */
static void trace_read(const char *more, struct traced steps[TRACED_STEPS + 1])
{
    char words[512];
    snprintf(words, sizeof words,
             "-n 2 --dp 2 --model gpt " TINY " --steps %d --trace %s %s", TRACED_STEPS,
             in_folder("dp.trace"), more);
    expect_exit(bench(words), words, 0);
    struct json *document = load_json("dp.trace");
    memset(steps, 0, (TRACED_STEPS + 1) * sizeof *steps);
    json_for_each (json_member(document, "traceEvents"), event) {
        int64_t step = json_integer_of(json_member(json_member(event, "args"), "arg"));
        const char *name = json_string_of(json_member(event, "name"));
        if (name && json_integer_of(json_member(event, "pid")) == 0 && step > 0 &&
            step <= TRACED_STEPS) {
            traced_add(&steps[step], event);
        }
    }
    mem_free(document);
}

/* The first sums begin within the last backward, and forwards of the next step begin
 * before the last sum ends; with --no-overlap neither. */
static void test_overlap_in_trace(void **state)
{
    struct traced steps[TRACED_STEPS + 1];
    int crossing = 0;
    trace_read("", steps);
    for (int i = 1; i <= TRACED_STEPS; i++) {
        assert_int_equal(steps[i].sums, 6); /* four layers and two ends */
        assert_true(steps[i].sum_begin < steps[i].backward_end);
        crossing += i > 1 && steps[i].forward_begin < steps[i - 1].sum_end;
    }
    assert_true(crossing > 0);
    trace_read("--no-overlap", steps);
    for (int i = 1; i <= TRACED_STEPS; i++) {
        assert_int_equal(steps[i].sums, 6);
        assert_true(steps[i].sum_begin >= steps[i].backward_end);
        assert_true(i == 1 || steps[i].forward_begin >= steps[i - 1].sum_end);
    }
}

/* The profile of a step: sums are its operations, and computation has the names of the
 * program. */
static void test_profile(void **state)
{
    static const char words[] = "-n 2 --dp 2 --model gpt " TINY " --steps 4 --profile ";
    char line[512];
    int sums = 0, backwards = 0, forwards = 0;
    snprintf(line, sizeof line, "%s%s", words, in_folder("dp.%r.profile"));
    expect_exit(bench(line), line, 0);
    for (int rank = 0; rank < 2; rank++) {
        struct json *document = load_json(rank ? "dp.1.profile" : "dp.0.profile");
        json_for_each (json_member(document, "nodes"), node) {
            const char *name = json_string_of(json_member(node, "name"));
            sums += strncmp(name, "sum0.", 5) == 0 && json_member(node, "bytes");
            backwards += strncmp(name, "thread 0;0B", 11) == 0;
            forwards += strncmp(name, "thread 0;0F", 11) == 0;
        }
        mem_free(document);
    }
    assert_int_equal(sums, 2 * 6);   /* four layers and two ends */
    assert_true(backwards >= 2 * 4); /* of four micro-batches; one is cut by reports */
    assert_true(forwards >= 2 * 4);
    expect_exit(bench("-n 2 --profile x"), "--profile without --dp", 2);
    expect_exit(bench("-n 2 --dp 2 --steps 2 --profile x"), "two steps", 2);
}

/* A replica's gradient that is left out of a sum, or added twice, makes --check fail; the
 * message names the step behind it. */
static void test_replica_faults(void **state)
{
    static const char *const faults[] = {"lose", "twice", "drop"};
    char words[512], fault[32];
    for (size_t i = 0; i < 2 * sizeof faults / sizeof *faults; i++) {
        int ranks = i % 2 ? 4 : 2;
        /* the last replica of stage 0; of a dropped gradient the first one */
        snprintf(fault, sizeof fault, "%s:3:%d", faults[i / 2],
                 i / 2 < 2 ? ranks / 2 : 0);
        snprintf(words, sizeof words,
                 "-n %d --dp 2 --model gpt " TINY " --steps 5 --check", ranks);
        const struct run *self = bench_faulty(fault, words);
        expect_exit(self, words, 1);
        expect_text(self->err, words, "check failed: step 4");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest few[] = {
        cmocka_unit_test(test_replicas),   cmocka_unit_test(test_replicas_csv),
        cmocka_unit_test(test_no_overlap), cmocka_unit_test(test_overlap_in_trace),
        cmocka_unit_test(test_profile),    cmocka_unit_test(test_replica_faults)};
    const struct CMUnitTest all[] = {cmocka_unit_test(test_replicas_all)};
    if (argc < 2) {
        fprintf(stderr, "usage: test_bench_dp few|all [TRANSPORT…]\n");
        return 1;
    }
    transports = argv + 2;
    transports_count = argc - 2;
    if (!folder_open()) {
        return 1;
    }
    int failed = strcmp(argv[1], "all") == 0 ? cmocka_run_group_tests(all, NULL, NULL)
                                             : cmocka_run_group_tests(few, NULL, NULL);
    folder_close();
    return failed;
}
