/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as one array: initial values by the documented formula, the digest against a
 * known value, and the safetensors file, parsed by core/source. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tryst/tryst.h>
#include <unistd.h>

#include <cmocka.h>

#include <tryst/weights.h>

#include "support/json_text.h"

static const tryst_model model = {.struct_size = sizeof(model),
                                  .kind = TRYST_MODEL_GPT,
                                  .layers = 3,
                                  .hidden = 10,
                                  .heads = 2,
                                  .seq = 9,
                                  .microbatch_size = 1,
                                  .seed = 77};

static char folder[512], path[600];

static int setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/tryst_weights_XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    return 0;
}

static int teardown(void **state)
{
    unlink(path);
    return rmdir(folder); /* fails if a partial file is left */
}

/* Return the initial weights of the model, from `stages` stages. */
static float *initial_weights(int stages, uint64_t *count_p)
{
    *count_p = tryst_model_weights_count(&model);
    float *weights = calloc(*count_p, sizeof(float)), *next = weights;
    assert_non_null(weights);
    for (int s = 0; s < stages; s++) {
        tryst_layers layers;
        tryst_stage *stage = NULL;
        assert_int_equal(tryst_model_split(&model, stages, s, &layers), TRYST_OK);
        assert_int_equal(tryst_stage_open(&model, layers, NULL, &stage), TRYST_OK);
        assert_int_equal(tryst_stage_weights_copy(stage, next), TRYST_OK);
        next += stage->info.weights_count;
        tryst_stage_close(stage);
    }
    assert_int_equal((uint64_t)(next - weights), *count_p);
    return weights;
}

static void test_count(void **state)
{
    /* Embeddings, three blocks of 12·H² + 13·H, final norm and head. */
    uint64_t h = 10, blocks = 3 * (12 * h * h + 13 * h);
    assert_int_equal(tryst_model_weights_count(&model),
                     256 * h + 9 * h + blocks + 2 * h + 256 * h);
    tryst_model bad = model;
    bad.heads = 3;
    assert_int_equal(tryst_model_weights_count(&bad), 0);
}

/* ---- initial values ---------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The formula of pipeline/model/README.md. */
static float uniform(uint64_t layer, uint64_t tensor, uint64_t i, float bound)
{
    uint64_t golden = 0x9e3779b97f4a7c15u;
    uint64_t stream =
        mix(mix(mix(model.seed + golden) + layer + golden) + tensor + golden);
    uint64_t bits = mix(stream + (i + 1) * golden) >> 40;
    return bound * (((float)bits - 0x1p23f) / 0x1p23f);
}

struct expected {
    const float *at;
    int layer, tensor; /* counted from 0 here: the embedding is layer 0 */
};

static int check_initial(void *arg, const tryst_parameter *p)
{
    struct expected *e = arg;
    if (p->layer + 1 != e->layer) {
        e->layer = p->layer + 1;
        e->tensor = 0;
    }
    for (uint64_t i = 0; i < p->count; i++) {
        float value = strstr(p->name, "norm") && strstr(p->name, "weight") ? 1.0f : 0.0f;
        if (p->rank == 2) {
            double bound = p->layer < 0 ? 0.0866 : 1 / sqrt((double)p->shape[1]);
            if (strstr(p->name, "project") || strstr(p->name, "down")) {
                bound = 1 / sqrt(2.0 * model.layers) / sqrt((double)p->shape[1]);
            }
            value = uniform((uint64_t)e->layer, (uint64_t)e->tensor, i, (float)bound);
        }
        if (e->at[i] != value) {
            fail_msg("%s[%llu] is %.9g, not %.9g", p->name, (unsigned long long)i,
                     e->at[i], value);
        }
    }
    e->at += p->count;
    e->tensor++;
    return 0;
}

static void test_initial(void **state)
{
    uint64_t count;
    float *weights = initial_weights(1, &count), *cut = initial_weights(3, &count);
    assert_memory_equal(weights, cut, count * sizeof(float));
    struct expected e = {.at = weights};
    assert_int_equal(tryst_model_parameter_visit(&model, check_initial, &e), 0);
    assert_ptr_equal(e.at, weights + count);
    free(cut);
    free(weights);
}

/* ---- digest ------------------------------------------------------------------------ */

static void test_digest(void **state)
{
    char digest[TRYST_DIGEST_TEXT_BYTES];
    const float weights[3] = {1.0f, -2.5f, 0.0f};
    /* printf '\0\0\200?\0\0 \300\0\0\0\0' | xxhsum -H2 */
    tryst_weights_digest(weights, 3, digest);
    assert_string_equal(digest, "bbb1d753e541d01267761070173446a6");
    tryst_weights_digest(weights, 0, digest); /* of no bytes, as documented by xxHash */
    assert_string_equal(digest, "99aa06d3014798d86001c324468d497f");
}

/* ---- safetensors ------------------------------------------------------------------- */

struct reader {
    struct json *header;
    const uint8_t *data;
    const float *weights; /* the expected weights that follow */
    uint64_t at_bytes;
    size_t tensors_count;
};

static int check_tensor(void *arg, const tryst_parameter *p)
{
    struct reader *r = arg;
    const struct json *tensor = json_member(r->header, p->name);
    const struct json *shape = json_member(tensor, "shape");
    const struct json *offsets = json_member(tensor, "data_offsets");
    assert_non_null(tensor);
    assert_string_equal(json_string_of(json_member(tensor, "dtype")), "F32");
    assert_int_equal(json_count(shape), p->rank);
    for (int d = 0; d < p->rank; d++) {
        assert_int_equal(json_integer_of(json_item(shape, (size_t)d)), p->shape[d]);
    }
    assert_int_equal(json_integer_of(json_item(offsets, 0)), r->at_bytes);
    assert_int_equal(json_integer_of(json_item(offsets, 1)), r->at_bytes + p->count * 4);
    assert_memory_equal(r->data + r->at_bytes, r->weights, p->count * 4);
    r->weights += p->count;
    r->at_bytes += p->count * 4;
    r->tensors_count++;
    return 0;
}

static uint8_t *read_file(size_t *bytes_p)
{
    FILE *in = fopen(path, "r");
    struct stat stat_of;
    assert_non_null(in);
    assert_int_equal(fstat(fileno(in), &stat_of), 0);
    uint8_t *bytes = malloc((size_t)stat_of.st_size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)stat_of.st_size, in), stat_of.st_size);
    fclose(in);
    *bytes_p = (size_t)stat_of.st_size;
    return bytes;
}

static void test_save(void **state)
{
    uint64_t count, length;
    size_t bytes;
    float *weights = initial_weights(2, &count);
    for (int again = 0; again < 2; again++) { /* the second time over an existing file */
        assert_int_equal(tryst_weights_save(&model, weights, count, path), TRYST_OK);
    }
    uint8_t *file = read_file(&bytes);
    memcpy(&length, file, 8);
    assert_int_equal(length % 8, 0);
    assert_int_equal(bytes, 8 + length + count * 4);
    struct reader r = {.header = json_of_text((const char *)file + 8, length),
                       .data = file + 8 + length,
                       .weights = weights};
    assert_int_equal(tryst_model_parameter_visit(&model, check_tensor, &r), 0);
    assert_int_equal(r.at_bytes, count * 4);
    assert_int_equal(r.header->count, r.tensors_count + 1);
    const struct json *metadata = json_member(r.header, "__metadata__");
    assert_string_equal(json_string_of(json_member(metadata, "model")), "gpt");
    assert_string_equal(json_string_of(json_member(metadata, "seed")), "77");
    mem_free(r.header);
    free(file);
    free(weights);
}

static void test_save_refuses(void **state)
{
    uint64_t count;
    float *weights = initial_weights(1, &count);
    assert_int_equal(tryst_weights_save(&model, weights, count - 1, path),
                     TRYST_E_INVALID);
    assert_int_equal(tryst_weights_save(&model, weights, count, folder), TRYST_E_IO);
    assert_non_null(strstr(tryst_last_error(), "not a regular file"));
    assert_int_equal(tryst_weights_save(&model, weights, count, "/dev/null"), TRYST_E_IO);
    char nowhere[620];
    snprintf(nowhere, sizeof(nowhere), "%s/no/such", folder);
    assert_int_equal(tryst_weights_save(&model, weights, count, nowhere), TRYST_E_IO);
    assert_non_null(strstr(tryst_last_error(), "No such file"));
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(tryst_weights_save(&model, weights, count, "/dev/full"),
                         TRYST_E_IO);
    }
    free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),        cmocka_unit_test(test_initial),
        cmocka_unit_test(test_digest),       cmocka_unit_test(test_save),
        cmocka_unit_test(test_save_refuses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
