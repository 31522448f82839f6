/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that an event may point to: names that a program makes while it runs, keys.
 *
 * One idea: there are few different ones, used often; each is kept once, until the trace
 * closes, in a table under the trace's lock. */
#include <string.h>

#include "core/alloc.h"
#include "core/hash.h"
#include "trace_ring.h"
#include "trace_text.h"

struct trace_text {
    struct trace_text *next; /* in its bucket */
    char text[];
};

static struct trace_text *text_keep(struct trace *trace, const char *text, size_t bytes,
                                    struct trace_text **bucket)
{
    struct trace_text *kept = mem_alloc(sizeof *kept + bytes + 1);
    if (!kept)
        return NULL;
    memcpy(kept->text, text, bytes + 1);
    kept->next = *bucket;
    *bucket = kept;
    trace->texts_count++;
    return kept;
}

static const char *text_find(struct trace *trace, const char *text)
{
    size_t bytes = strlen(text);
    struct trace_text **bucket =
        &trace->texts[hash_bytes(text, bytes) % TRACE_TEXT_BUCKETS];
    struct trace_text *kept = *bucket;
    while (kept && strcmp(kept->text, text) != 0)
        kept = kept->next;
    if (!kept && trace->texts_count == TRACE_TEXTS_MAX)
        return "(too many names)";
    if (!kept)
        kept = text_keep(trace, text, bytes, bucket);
    return kept ? kept->text : "(no memory for this name)";
}

const char *trace_text(struct trace *trace, const char *text)
{
    if (!trace)
        return text;
    pthread_mutex_lock(&trace->lock);
    const char *found = text_find(trace, text);
    pthread_mutex_unlock(&trace->lock);
    return found;
}

void trace_texts_close(struct trace *trace)
{
    for (size_t i = 0; i < TRACE_TEXT_BUCKETS; i++)
        for (struct trace_text *text = trace->texts[i], *next; text; text = next) {
            next = text->next;
            mem_free(text);
        }
}
