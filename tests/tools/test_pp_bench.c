/* SPDX-License-Identifier: Apache-2.0 */
/* pp_bench as a user runs it: its refusals and output files; every schedule trains to the
 * same bits on any number of ranks; --check finds faults; sleeping stages show the bubble
 * of the closed form. (test_bench_kill.c has ranks that are killed.)
 *
 *   test_pp_bench GROUP [TRANSPORT…]
 *
 * GROUP: usage, matrix, matrix-all, bubble */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench_run.h"
#include "support/patience.h"

static char **transports;
static int transports_count;

/* ---- usage and output files -------------------------------------------------------- */

static void test_refuses(void **state)
{
    static const struct {
        const char *words;
        const char *says;
    } rows[] = {
        {"--bogus", "see pp_bench --help"},
        {"extra", "extra: not an option"},
        {"-n 0", "-n 0: must be a whole number from 1"},
        {"-n 9 --layers 8", "9 stages need at least 9 layers"},
        {"--model foo", "mlp, gpt, or sleep:"},
        {"--model sleep:x,y", "--model sleep:x,y"},
        {"--schedule 2f2b", "naive, gpipe, torchgpipe, 1f1b"},
        {"--schedule pipemare:sync=0", "sync must be a whole number from 1"},
        {"--schedule pipemare:sync=4 --steps 4", "--steps must be at least 5"},
        {"-n 2 --schedule interleaved:sync=1", "one stage on each rank"},
        {"--schedule interleaved:group=3", "a group must have"},
        {"--sleep-activation 4K", "other models have activations"},
        {"--schedule nowhere.csv", "nowhere.csv: No such file"},
        {"--data /nonexistent/file", "/nonexistent/file"},
        {"--optimizer lamb", "must be adam or sgd"},
        {"--lr -1", "--lr -1: must be a number above 0"},
        {"--heads 3", "does not divide into 3 heads"},
        {"--transport pigeon", "pigeon"},
        {"--sleep-gradient 4K", "other models have gradients"},
        {"--dp 0", "--dp 0: must be a whole number from 1"},
        {"-n 4 --dp 3", "--dp 3: must divide the 4 ranks (-n) and the 8 micro-batches"},
        {"-n 4 --dp 4 --microbatches 6", "--dp 4: must divide the 4 ranks"},
        {"-n 4 --dp 2 --device cuda", "gradients are summed in host memory"},
        {"--device cuba", "must be host, cuda, cuda:N or reference"},
        {"--device cuda:x", "cuda x: must be a whole number from 0"},
        {"--precision bf16", "the host's stages compute in fp32"},
        {"--device reference --precision fp8", "must be bf16, fp32 or tf32"},
        {"--recompute", "the host's stages keep their activations"},
        {"--device-memory 40X", "must be bytes, as 40G"},
        {"--device-memory 1G", "--device-memory: is a limit of a device"},
        {"--device cuda --model sleep:1,1", "stages that sleep need none"},
        {"--json /nonexistent/x.json", "/nonexistent/x.json: cannot write"},
        {"--timeline /nonexistent/x.svg", "/nonexistent/x.svg: cannot write"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct run *self = bench(rows[i].words);
        expect_exit(self, rows[i].words, 2);
        expect_text(self->err, rows[i].words, rows[i].says);
        assert_string_equal(self->out, "");
    }
}

/* A short file, and schedules that do not fit: refused before any rank starts. */
static void test_refuses_files(void **state)
{
    static const struct {
        const char *schedule;
        const char *says;
    } rows[] = {
        {"0F0,0SENT0,0B0\n1F0,1B0\n", "row 1 (rank 0), column 2: \"0SENT0\""},
        {"0B0,0F0\n1F0,1B0\n", "<-- ERROR HERE"},
        {"0F0,0B0\n1F0,1B0\n2F0,2B0\n", "its 3 rows are ranks, but there are 2"},
    };
    char words[600];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file("bad.csv", rows[i].schedule);
        snprintf(words, sizeof words, "-n 2 --schedule %s", in_folder("bad.csv"));
        const struct run *self = bench(words);
        expect_exit(self, words, 2);
        expect_text(self->err, words, rows[i].says);
    }
    write_file("short.txt", "too short");
    snprintf(words, sizeof words, "-n 2 --data %s", in_folder("short.txt"));
    const struct run *self = bench(words);
    expect_exit(self, words, 2);
    expect_text(self->err, words, "short.txt");
}

static void test_help(void **state)
{
    const struct run *self = bench("--help");
    expect_exit(self, "--help", 0);
    expect_text(self->out, "--help", "--save-weights FILE");
    assert_string_equal(self->err, "");
}

static void expect_number(const struct json *document, const char *name)
{
    if (!json_is_number(json_member(document, name))) {
        fail_msg("the JSON has no number \"%s\"", name);
    }
}

/* Check the waiting time of each rank, and the part of it that the schedule does not
 * explain. */
static void check_waiting(const struct json *document)
{
    json_for_each (json_member(document, "per_rank"), rank) {
        static const char *const names[] = {"waiting_s", "waiting_predicted_s",
                                            "exposed_communication_s"};
        double values[3];
        for (size_t i = 0; i < 3; i++) {
            expect_number(rank, names[i]);
            values[i] = json_number_of(json_member(rank, names[i]));
            assert_true(values[i] >= 0);
        }
        double beyond = values[0] - values[1];
        assert_true(fabs(values[2] - (beyond > 0 ? beyond : 0)) < 1e-9);
    }
}

static void check_json(const struct json *document, int steps, int ranks)
{
    const struct json *list = json_member(document, "steps");
    static const char *const numbers[] = {"tokens_per_s", "bubble_measured",
                                          "bubble_predicted"};
    assert_int_equal(json_count(list), (size_t)steps);
    for (int i = 0; i < steps; i++) {
        expect_number(json_item(list, (size_t)i), "loss");
        expect_number(json_item(list, (size_t)i), "seconds");
    }
    double first = json_number_of(json_member(json_item(list, 0), "loss"));
    double last = json_number_of(json_member(json_item(list, (size_t)steps - 1), "loss"));
    assert_true(last < first - 0.5); /* the loss falls */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        expect_number(document, numbers[i]);
    }
    assert_int_equal(json_count(json_member(document, "peak_activation_bytes")),
                     (size_t)ranks);
    assert_int_equal(strlen(json_string_of(json_member(document, "weights_digest"))), 32);
    assert_string_equal(json_string_of(json_member(document, "check")), "passed");
    check_waiting(document);
}

/* safetensors: eight bytes of length, then a JSON header with the names of tensors. */
static void check_safetensors(const char *name)
{
    uint64_t bytes = 0;
    FILE *stream = fopen(in_folder(name), "r");
    assert_non_null(stream);
    assert_int_equal(fread(&bytes, sizeof bytes, 1, stream), 1);
    assert_true(bytes > 2 && bytes < 1 << 20);
    char *header = malloc(bytes);
    assert_int_equal(fread(header, 1, bytes, stream), bytes);
    struct json *document = json_of_text(header, bytes);
    assert_non_null(json_member(document, "embedding.token.weight"));
    assert_non_null(json_member(document, "head.weight"));
    mem_free(document);
    free(header);
    fclose(stream);
}

/* The trace has one process per rank, with spans of the engine in each. */
static void check_trace(const char *name, int ranks)
{
    struct json *document = load_json(name);
    int seen[8] = {0};
    json_for_each (json_member(document, "traceEvents"), event) {
        const char *what = json_string_of(json_member(event, "name"));
        int64_t rank = json_integer_of(json_member(event, "pid"));
        if (what && strncmp(what, "forward ", 8) == 0 && rank >= 0 && rank < 8) {
            seen[rank]++;
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        assert_true(seen[rank] > 0);
    }
    mem_free(document);
}

static void test_leaves_behind(void **state)
{
    static char svg[1 << 20];
    char words[2048];
    snprintf(
        words, sizeof words,
        "-n 3 --model gpt --layers 3 --hidden 32 --seq 16 --steps 12 --lr 0.01 "
        "--microbatches 4 --check --json %s --timeline %s --save-weights %s --trace %s",
        in_folder("run.json"), in_folder("run.svg"), in_folder("run.safetensors"),
        in_folder("run.trace"));
    const struct run *self = bench(words);
    expect_exit(self, words, 0);
    expect_text(self->out, words, "step  12/12");
    expect_text(self->out, words, "bitwise equal");
    expect_text(self->out, words, "all  exposed  measured predicted");
    struct json *document = load_json("run.json");
    check_json(document, 12, 3);
    mem_free(document);
    read_into(in_folder("run.svg"), svg, sizeof svg);
    expect_text(svg, words, "1f1b, 3 ranks, 4 micro-batches: step 12 of 12");
    expect_text(svg, words, ">rank 2<");
    expect_text(svg, words, "receive gradient of stage 1");
    check_safetensors("run.safetensors");
    check_trace("run.trace", 3);
}

/* Steps of a loop overlap: the picture is of one in the middle, with the actions of its
 * neighbours. */
static void test_draws_a_loop(void **state)
{
    static char svg[1 << 20];
    char words[512];
    snprintf(words, sizeof words,
             "-n 3 --model sleep:4,8 --schedule pipedream-2bw --layers 3 --steps 6 "
             "--microbatches 4 --timeline %s",
             in_folder("loop.svg"));
    const struct run *self = bench(words);
    expect_exit(self, words, 0);
    expect_text(self->out, words, "timeline of a step in the middle: ");
    read_into(in_folder("loop.svg"), svg, sizeof svg);
    expect_text(svg, words, "pipedream-2bw, 3 ranks, 4 micro-batches: step 4 of 6");
    expect_text(svg, words, ">steps before and after");
    expect_text(svg, words, "fill-opacity='.35' stroke");
    assert_null(strstr(svg, "micro-batch 4"));
}

/* One layer a rank: a first, a middle and a last stage of each kind, device stages over
 * plain C kernels; backward whole and split. Complete runs, each equal to its replay. */
static void test_layer_a_rank(void **state)
{
    static const char *const stages[] = {
        "--model gpt --heads 2",
        "--model mlp",
        "--model gpt --heads 2 --device reference --precision bf16",
        "--model gpt --heads 2 --device reference --precision fp32",
        "--model gpt --heads 2 --device reference --precision bf16 --recompute",
        "--model mlp --device reference --precision bf16",
        "--model mlp --device reference --precision bf16 --recompute"};
    write_file("split.csv", "0F0,0F1,0I0,0I1,0W0,0W1\r\n1F0,1F1,1I0,1I1,1W0,1W1\r\n"
                            "2F0,2I0,2F1,2I1,2W0,2W1\r\n");
    for (size_t i = 0; i < 2 * sizeof stages / sizeof *stages; i++) {
        char words[640];
        snprintf(words, sizeof words,
                 "-n 3 %s --schedule %s --layers 3 --hidden 16 --seq 8 --microbatches 2 "
                 "--microbatch-size 2 --steps 3 --check",
                 stages[i / 2], i % 2 ? in_folder("split.csv") : "1f1b");
        const struct run *self = bench(words);
        expect_exit(self, words, 0);
        expect_text(self->out, words, "bitwise equal");
    }
}

static double forward_of(const struct json *document, size_t stage)
{
    const struct json *costs = json_item(json_member(document, "stage_costs"), stage);
    return json_number_of(json_member(costs, "forward_s"));
}

/* Two stages of a rank have costs of their own: of five layers over four stages the first
 * one has two. Other load of the machine may hide that in a run. */
static void test_costs_of_stages(void **state)
{
    char words[320];
    double two_layers_s = 0, one_layer_s = 0;
    (void)state;
    snprintf(words, sizeof words,
             "-n 2 --model mlp --layers 5 --hidden 128 --schedule interleaved:v=2 "
             "--microbatches 4 --steps 4 --json %s",
             in_folder("costs.json"));
    for (int i = 0; i < 5 && two_layers_s < 1.3 * one_layer_s + 1e-9; i++) {
        expect_exit(bench(words), words, 0);
        struct json *document = load_json("costs.json");
        assert_int_equal(json_count(json_member(document, "stage_costs")), 4);
        expect_number(document, "first_step_predicted_s");
        expect_number(document, "step_predicted_s");
        two_layers_s = forward_of(document, 0);
        one_layer_s = forward_of(document, 2);
        mem_free(document);
    }
    assert_true(one_layer_s > 0);
    assert_true(two_layers_s >= 1.3 * one_layer_s);
}

/* With --json - stdout is only JSON. */
static void test_json_on_stdout(void **state)
{
    const char *words =
        "-n 2 --model mlp --layers 2 --hidden 16 --seq 8 --steps 2 --json -";
    const struct run *self = bench(words);
    expect_exit(self, words, 0);
    mem_free(json_of_text(self->out, strlen(self->out)));
    expect_text(self->err, words, "loss");
}

/* ---- equal bits -------------------------------------------------------------------- */

/* All ranks × schedules × transports of one model and M give the same digest. */
static void check_matrix(const char *model, int microbatches, int ranks_least,
                         int ranks_most)
{
    char first[40] = "";
    char words[512];
    for (int ranks = ranks_least; ranks <= ranks_most; ranks++) {
        for (size_t s = 0; s < sizeof bench_schedules / sizeof *bench_schedules; s++) {
            for (int t = 0; t < transports_count; t++) {
                snprintf(words, sizeof words,
                         "-n %d --model %s --schedule %s --microbatches %d --transport "
                         "%s " TINY " %s",
                         ranks, model, bench_schedules[s], microbatches, transports[t],
                         more_words());
                expect_one_digest(words, first);
            }
        }
    }
}

/* M = 3: more than, equal to and fewer than 1 … 4 ranks. */
static void test_matrix(void **state)
{
    check_matrix("mlp", 3, 1, 4);
}

static void test_matrix_gpt(void **state)
{
    check_matrix("gpt", 4, 4, 4);
}

/* Fewer runs, for slow stages. */
static void test_matrix_few(void **state)
{
    check_matrix("gpt", 3, 2, 2);
}

static void test_matrix_all(void **state)
{
    static const char *const models[] = {"mlp", "gpt"};
    static const int microbatches[] = {1, 2, 3, 4, 7};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        for (size_t m = 0; m < sizeof microbatches / sizeof *microbatches; m++) {
            check_matrix(models[i], microbatches[m], 1, 4);
        }
    }
}

/* A program from a file runs too, including split backwards and two stages on a rank. */
static void test_csv(void **state)
{
    char words[600];
    char digest[40];
    write_file("vee.csv", "0F0,0F1,3F0,3I0,3F1,3I1,3W0,0I0,3W1,0W0,0B1\r\n"
                          "1F0,2F0,1F1,2F1,2I0,1I0,2I1,2W0,1I1,1W0,1W1,2W1\r\n");
    snprintf(words, sizeof words, "--model mlp " TINY " --schedule %s",
             in_folder("vee.csv"));
    digest_of(words, digest);
}

/* Each fault of a rank makes --check fail, and the message names the step. */
static void test_faults(void **state)
{
    static const struct {
        const char *fault, *says; /* a dropped gradient shows in the next step */
    } rows[] = {{"swap:2:1", "step 2"}, {"stale:2:2", "step 2"}, {"drop:2:0", "step 3"}};
    char words[512];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int s = 1; s < 3; s++) {
            snprintf(words, sizeof words,
                     "-n 3 --model gpt " TINY
                     " --steps 5 --microbatches 4 --schedule %s --check",
                     bench_schedules[s]);
            const struct run *self = bench_faulty(rows[i].fault, words);
            expect_exit(self, words, 1);
            expect_text(self->err, words, "check failed");
            expect_text(self->err, words, rows[i].says);
        }
    }
}

/* ---- bubble ------------------------------------------------------------------------ */

#define BUBBLE_TOLERANCE 0.03
#define BUBBLE_ATTEMPTS  8 /* other load on the machine can only add to a bubble */

/* Return how long a forward of the attempt sleeps, in ms: 5 to 80. A late wake-up matters
 * less in a longer sleep, so a busy machine gets longer ones, and a quiet one passes at
 * once. */
static int sleep_ms(int attempt)
{
    return 5 << (attempt / 2 + attempt % 2);
}

static void run_bubble(const char *words, double *measured_p, double *predicted_p)
{
    char all[600];
    snprintf(all, sizeof all, "%s --json %s", words, in_folder("b.json"));
    expect_exit(bench(all), all, 0);
    struct json *document = load_json("b.json");
    *measured_p = json_number_of(json_member(document, "bubble_measured"));
    *predicted_p = json_number_of(json_member(document, "bubble_predicted"));
    mem_free(document);
}

/* Stages that only sleep, so that ranks need no core: the measured bubble is within 0.03
 * of (p−1)/(m+p−1), and so is the bubble predicted from the measured costs. Wake-ups are
 * late where other programs use the processors: the bound grows with their share, up to
 * three times. */
static void check_bubble(const char *schedule, int ranks, int microbatches)
{
    char words[256];
    double slower = patience_slower();
    double tolerance = BUBBLE_TOLERANCE * (slower < 3 ? slower : 3);
    double expected = (ranks - 1.0) / (microbatches + ranks - 1);
    for (int i = 0; i < BUBBLE_ATTEMPTS; i++) {
        double measured = 0;
        double predicted = 0;
        snprintf(words, sizeof words,
                 "-n %d --model sleep:%d,%d --layers %d --schedule %s --microbatches %d "
                 "--steps 4",
                 ranks, sleep_ms(i), 2 * sleep_ms(i), ranks, schedule, microbatches);
        run_bubble(words, &measured, &predicted);
        printf("%s, %d ranks, %d micro-batches: bubble %.4f measured, %.4f predicted, "
               "%.4f ideal\n",
               schedule, ranks, microbatches, measured, predicted, expected);
        if (fabs(measured - expected) <= tolerance &&
            fabs(predicted - expected) <= tolerance) {
            return;
        }
    }
    fail_msg("pp_bench %s: never within %.2f of %.4f", words, tolerance, expected);
}

/* Three of four ranks of the naive schedule wait at any time, and this is not counted as
 * exposed communication. */
static void test_naive_exposes_nothing(void **state)
{
    char line[2048];
    double waiting = 0, exposed = 0;
    for (int i = 0; i < BUBBLE_ATTEMPTS; i++) {
        snprintf(line, sizeof line,
                 "--model sleep:%d,%d --layers 4 -n 4 --microbatches 4 --steps 4 "
                 "--schedule naive --transport shm --json %s",
                 sleep_ms(i), 2 * sleep_ms(i), in_folder("naive.json"));
        const struct run *self = bench(line);
        expect_exit(self, line, 0);
        struct json *document = load_json("naive.json");
        const struct json *rank = json_item(json_member(document, "per_rank"), 1);
        waiting = json_number_of(json_member(rank, "waiting_s"));
        exposed = json_number_of(json_member(rank, "exposed_communication_s"));
        mem_free(document);
        assert_true(waiting > 0.3); /* 3 steps x 4 micro-batches x 3 x 15 ms and more */
        if (exposed < 0.1 * waiting) {
            return;
        }
    }
    fail_msg("naive: %.3f s of %.3f s are reported as exposed communication", exposed,
             waiting);
}

static void test_bubble(void **state)
{
    check_bubble("1f1b", 4, 8);
    check_bubble("gpipe", 4, 8);
    check_bubble("1f1b", 8, 16);
    check_bubble("gpipe", 8, 16);
}

/* ---- groups ------------------------------------------------------------------------ */

static int run_group(const char *group)
{
    const struct CMUnitTest usage[] = {
        cmocka_unit_test(test_refuses),        cmocka_unit_test(test_refuses_files),
        cmocka_unit_test(test_help),           cmocka_unit_test(test_leaves_behind),
        cmocka_unit_test(test_draws_a_loop),   cmocka_unit_test(test_costs_of_stages),
        cmocka_unit_test(test_json_on_stdout), cmocka_unit_test(test_csv),
        cmocka_unit_test(test_faults),         cmocka_unit_test(test_layer_a_rank),
    };
    const struct CMUnitTest matrix[] = {cmocka_unit_test(test_matrix),
                                        cmocka_unit_test(test_matrix_gpt)};
    const struct CMUnitTest matrix_few[] = {cmocka_unit_test(test_matrix_few)};
    const struct CMUnitTest matrix_all[] = {cmocka_unit_test(test_matrix_all)};
    const struct CMUnitTest bubble[] = {cmocka_unit_test(test_bubble),
                                        cmocka_unit_test(test_naive_exposes_nothing)};
    if (strcmp(group, "usage") == 0) {
        return cmocka_run_group_tests(usage, NULL, NULL);
    }
    if (strcmp(group, "matrix") == 0) {
        return cmocka_run_group_tests(matrix, NULL, NULL);
    }
    if (strcmp(group, "matrix-few") == 0) {
        return cmocka_run_group_tests(matrix_few, NULL, NULL);
    }
    if (strcmp(group, "matrix-all") == 0) {
        return cmocka_run_group_tests(matrix_all, NULL, NULL);
    }
    if (strcmp(group, "bubble") == 0) {
        return cmocka_run_group_tests(bubble, NULL, NULL);
    }
    fprintf(stderr, "no group of this name: %s\n", group);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: test_pp_bench GROUP [TRANSPORT…]\n");
        return 1;
    }
    transports = argv + 2;
    transports_count = argc - 2;
    if (!folder_open()) {
        return 1;
    }
    int failed = run_group(argv[1]);
    folder_close();
    return failed;
}
