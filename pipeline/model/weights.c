/* SPDX-License-Identifier: Apache-2.0 */
/* Holds all weights of a model as one array: gathered from stages, named, digested,
 * saved.
 *
 * One idea: names, shapes and places follow from the model alone, so any owner of the
 * array (such as rank 0, which received it in pieces) can write it without a stage. */
#include <tryst/weights.h>

#define XXH_INLINE_ALL
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tryst/tryst.h>
#include <unistd.h>
#include <xxhash.h>

#include "pipeline/base/file.h"
#include "pipeline/base/refuse.h"
#include "pipeline/device/device_layer.h"

/* ---- gathering and visiting -------------------------------------------------------- */

/* Result of a visit that weights_copy_one stopped. If the stage fails, the result is its
 * status, which is positive. */
#define COPY_REFUSED (-1)

struct weights_copy {
    float *next;
};

static int weights_copy_one(void *arg, const tryst_parameter *parameter)
{
    struct weights_copy *copy = arg;
    if (parameter->dtype != TRYST_DTYPE_F32) {
        (void)refuse(TRYST_E_UNSUPPORTED, "cannot copy the weights: %s is %s, not f32",
                     parameter->name, tryst_dtype_name(parameter->dtype));
        return COPY_REFUSED;
    }
    memcpy(copy->next, parameter->value, parameter->count * sizeof(float));
    copy->next += parameter->count;
    return 0;
}

tryst_status tryst_stage_weights_copy(tryst_stage *stage, float *weights)
{
    if (!stage || !weights) {
        return refuse_null("copy the weights", stage ? "weights" : "stage");
    }
    struct weights_copy copy = {.next = weights};
    int stopped = stage->ops->parameter_visit(stage, weights_copy_one, &copy);
    if (stopped == 0) {
        return TRYST_OK;
    }
    if (stopped == COPY_REFUSED) {
        return TRYST_E_UNSUPPORTED;
    }
    const char *text = stage->ops->error ? stage->ops->error(stage) : NULL;
    tryst_status status = (tryst_status)stopped;
    return refuse(status, "cannot copy the weights: %s",
                  text && *text ? text : tryst_status_str(status));
}

int tryst_model_parameter_visit(const tryst_model *model, tryst_parameter_fn fn,
                                void *arg)
{
    tryst_model resolved = {.struct_size = sizeof(resolved)};
    if (tryst_model_resolve(model, &resolved) != TRYST_OK) {
        return -1;
    }
    if (resolved.kind == TRYST_MODEL_SLEEP) {
        return 0;
    }
    for (int32_t index = -1; index <= resolved.layers; index++) {
        const struct layer_ops *ops = layer_at(&resolved, index);
        struct layer_tensor tensors[LAYER_TENSORS_MAX] = {0};
        int32_t tensors_count = ops->tensors(&resolved, tensors);
        for (int32_t t = 0; t < tensors_count; t++) {
            char name[LAYER_NAME_MAX];
            tryst_parameter parameter = layer_parameter(ops, index, &tensors[t], name);
            int stopped = fn(arg, &parameter);
            if (stopped) {
                return stopped;
            }
        }
    }
    return 0;
}

static int weights_count_one(void *arg, const tryst_parameter *parameter)
{
    *(uint64_t *)arg += parameter->count;
    return 0;
}

uint64_t tryst_model_weights_count(const tryst_model *model)
{
    uint64_t count = 0;
    int stopped = tryst_model_parameter_visit(model, weights_count_one, &count);
    return stopped ? 0 : count;
}

/* ---- digest ------------------------------------------------------------------------ */

void tryst_weights_digest(const float *weights, uint64_t weights_count,
                          char digest[TRYST_DIGEST_TEXT_BYTES])
{
    bool missing = !weights && weights_count;
    if (digest) {
        digest[0] = '\0';
    }
    if (!digest || missing) {
        (void)refuse_null("digest weights", digest ? "weights" : "digest");
        return;
    }
    XXH128_hash_t hash = XXH3_128bits(weights, weights_count * sizeof(float));
    snprintf(digest, TRYST_DIGEST_TEXT_BYTES, "%016llx%016llx",
             (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* ---- safetensors -------------------------------------------------------------------
 *
 *  8 bytes    n, little-endian: size of the header in bytes
 *  n bytes    JSON, padded with spaces so that the data are aligned to 8 bytes:
 *             {"__metadata__":{…},"name":{"dtype":"F32","shape":[…],
 *              "data_offsets":[begin,end]},…}
 *  the rest   the tensors, without gaps, at these offsets */

struct safetensors_header {
    FILE *out;
    uint64_t used_bytes; /* bytes of the tensors described so far */
};

static int safetensors_describe(void *arg, const tryst_parameter *parameter)
{
    struct safetensors_header *header = arg;
    uint64_t end = header->used_bytes + parameter->count * sizeof(float);
    fprintf(header->out, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%llu", parameter->name,
            (unsigned long long)parameter->shape[0]);
    if (parameter->rank == 2) {
        fprintf(header->out, ",%llu", (unsigned long long)parameter->shape[1]);
    }
    fprintf(header->out, "],\"data_offsets\":[%llu,%llu]}",
            (unsigned long long)header->used_bytes, (unsigned long long)end);
    header->used_bytes = end;
    return 0;
}

static void safetensors_metadata(const tryst_model *model, FILE *out)
{
    fprintf(out,
            "{\"__metadata__\":{\"format\":\"tryst\",\"model\":\"%s\",\"layers\":\"%d\","
            "\"hidden\":\"%d\",\"heads\":\"%d\",\"seq\":\"%d\",\"vocabulary\":\"%d\","
            "\"seed\":\"%llu\"}",
            tryst_model_kind_name(model->kind), (int)model->layers, (int)model->hidden,
            (int)model->heads, (int)model->seq, (int)model->vocabulary,
            (unsigned long long)model->seed);
}

/* Build the padded header. The caller frees it. */
static tryst_status safetensors_header_make(const tryst_model *model, char **text_p,
                                            size_t *bytes_p)
{
    char *text = NULL;
    size_t bytes = 0;
    struct safetensors_header header = {.out = open_memstream(&text, &bytes)};
    if (!header.out) {
        return TRYST_E_NOMEM;
    }
    safetensors_metadata(model, header.out);
    tryst_model_parameter_visit(model, safetensors_describe, &header);
    fputc('}', header.out);
    for (long at = ftell(header.out); at % 8 != 0; at++) {
        fputc(' ', header.out);
    }
    int failed = ferror(header.out);
    failed |= fclose(header.out);
    if (failed) {
        free(text);
        return TRYST_E_NOMEM;
    }
    *text_p = text;
    *bytes_p = bytes;
    return TRYST_OK;
}

/* Write all parts to `out` and close it. Returns 0, or an errno. */
static int safetensors_write(FILE *out, const char *header, size_t header_bytes,
                             const float *weights, uint64_t weights_count)
{
    uint64_t length = header_bytes;
    int whole = fwrite(&length, sizeof(length), 1, out) == 1 &&
                fwrite(header, 1, header_bytes, out) == header_bytes &&
                fwrite(weights, sizeof(float), weights_count, out) == weights_count &&
                fflush(out) == 0 && fsync(fileno(out)) == 0;
    int error = whole ? 0 : errno;
    if (fclose(out) != 0 && error == 0) {
        error = errno;
    }
    return error;
}

/* Write a file of another name in the same folder, then rename it to `path`, so that a
 * reader never sees half a file. */
static tryst_status weights_write_file(const char *path, const char *header,
                                       size_t header_bytes, const float *weights,
                                       uint64_t weights_count)
{
    char *partial = NULL;
    if (asprintf(&partial, "%s.partial.%ld", path, (long)getpid()) < 0) {
        return refuse(TRYST_E_NOMEM, "cannot write the weights: out of memory");
    }
    FILE *out = file_open(partial, "wbxe");
    int failed =
        out ? safetensors_write(out, header, header_bytes, weights, weights_count)
            : errno;
    if (!failed && rename(partial, path) != 0) {
        failed = errno;
    }
    if (failed && out) {
        unlink(partial);
    }
    free(partial);
    return failed ? refuse(TRYST_E_IO, "cannot write the weights to \"%s\": %s", path,
                           strerror(failed))
                  : TRYST_OK;
}

tryst_status tryst_weights_save(const tryst_model *model, const float *weights,
                                uint64_t weights_count, const char *path)
{
    tryst_model resolved = {.struct_size = sizeof(resolved)};
    tryst_status status = tryst_model_resolve(model, &resolved);
    if (status != TRYST_OK) {
        return status;
    }
    uint64_t expected = tryst_model_weights_count(&resolved);
    if (weights_count != expected) {
        return refuse(TRYST_E_INVALID,
                      "cannot write the weights: the model has %llu, not %llu",
                      (unsigned long long)expected, (unsigned long long)weights_count);
    }
    /* The rename would replace a device or a pipe instead of writing to it. */
    struct stat stat_of;
    if (stat(path, &stat_of) == 0 && !S_ISREG(stat_of.st_mode)) {
        return refuse(
            TRYST_E_IO,
            "cannot write the weights to \"%s\": it exists and is not a regular file",
            path);
    }
    char *header = NULL;
    size_t header_bytes = 0;
    status = safetensors_header_make(&resolved, &header, &header_bytes);
    if (status != TRYST_OK) {
        return refuse(status,
                      "cannot write the weights: out of memory for a safetensors header");
    }
    status = weights_write_file(path, header, header_bytes, weights, weights_count);
    free(header);
    return status;
}
