/* SPDX-License-Identifier: Apache-2.0 */
/* Plans repeat bit for bit: this program prints the plans of 54 networks, and is run
 * again with another memory layout and another fill of memory. */
#include "support/unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>

#include "core/memory/alloc.h"
#include "plan_nets.h"
#include "support/child.h"
#include "topology/report/plan_json.h"
#include "topology/report/plan_report.h"

#define NETWORKS (6 * NET_FAMILIES)
/* The seed of the last network: a torus of 64. */
#define LARGE 310

/* Return the operation of a network; half of them are all-reduce. */
static enum plan_op op_of(uint32_t seed)
{
    return seed % 2 == 0 ? PLAN_ALLREDUCE : (enum plan_op)(seed / 2 % PLAN_OPS);
}

/* Print the digest and the whole document of each plan. */
static int plans_print(void)
{
    for (uint32_t i = 0; i < NETWORKS; i++) {
        struct random random;
        uint32_t seed = i + 1 < NETWORKS ? i : LARGE;
        random_seed(&random, seed);
        enum net_family family = (enum net_family)(seed % NET_FAMILIES);
        uint32_t n = seed == LARGE ? 64 : 2 + (uint32_t)random_range(&random, 13);
        struct graph *graph = net_open(family, n, &random);
        struct plan_params params = {.op = op_of(seed)};
        struct overlay *overlay;
        struct plan *plan;
        struct text text = {0};
        char *json;
        if (overlay_open(graph, NULL, 0, NULL, &overlay) ||
            plan_open(overlay, &params, NULL, &plan))
            return 1;
        struct plan_report report = {.graph = graph, .overlay = overlay, .plan = plan};
        plan_json_write(&report, &text);
        if (text_release(&text, NULL, &json))
            return 1;
        printf("network %u: %s of %u, digest %016llx\n%s\n", seed, net_names[family], n,
               (unsigned long long)plan->digest, json);
        mem_free(json);
        plan_close(plan);
        overlay_close(overlay);
        graph_close(graph);
    }
    return fflush(stdout) ? 1 : 0;
}

struct variant {
    const char *fill; /* MALLOC_PERTURB_ */
    bool fixed_layout;
};

static void variant_run(const struct variant *variant)
{
    char self[] = "/proc/self/exe", print[] = "print";
    char *const argv[] = {self, print, NULL};
    setenv("MALLOC_PERTURB_", variant->fill, 1);
    /* Where personality() is forbidden, every run has a random layout anyway. */
    if (variant->fixed_layout)
        personality(ADDR_NO_RANDOMIZE);
    execv(self, argv);
    _exit(4);
}

/* Return the output of the program; the caller frees it. */
static char *variant_output(const struct variant *variant, size_t *bytes_p)
{
    size_t room = 1 << 16, bytes = 0;
    char *output = malloc(room);
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = child_fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        variant_run(variant);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
        if (bytes == room)
            output = realloc(output, room *= 2);
        assert_non_null(output);
        got = read(ends[0], output + bytes, room - bytes);
        bytes += got > 0 ? (size_t)got : 0;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    *bytes_p = bytes;
    return output;
}

/* Find the line before `at` that names a network. */
static void network_name(const char *output, size_t at, char *name_p, size_t room)
{
    while (at > 0 && (strncmp(output + at, "network ", 8) != 0))
        at--;
    snprintf(name_p, room, "%.*s", (int)strcspn(output + at, "\n"), output + at);
}

static void plans_repeat(void **state)
{
    static const struct variant variants[] = {{"0", true}, {"90", false}, {"165", false}};
    size_t bytes, other_bytes;
    char name[128];
    char *output = variant_output(&variants[0], &bytes);
    assert_true(bytes > (size_t)NETWORKS * 100);
    for (size_t v = 1; v < COUNT_OF(variants); v++) {
        char *other = variant_output(&variants[v], &other_bytes);
        for (size_t i = 0; i < bytes && i < other_bytes; i++)
            if (output[i] != other[i]) {
                network_name(output, i, name, sizeof name);
                fail_msg("%s: otherwise with memory filled by %s", name,
                         variants[v].fill);
            }
        assert_int_equal(bytes, other_bytes);
        free(other);
    }
    free(output);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_repeat)};
    if (argc == 2 && !strcmp(argv[1], "print"))
        return plans_print();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
