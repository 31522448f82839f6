/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that an event may point to: keys, and names that a program builds while it runs.
 *
 * One idea: there are few different texts, each used often, so each is kept once, until
 * the trace closes, in a table under the trace's lock. */
#include <string.h>

#include "core/memory/alloc.h"
#include "core/memory/list.h"
#include "core/text/hash.h"
#include "trace_ring.h"
#include "trace_text.h"

struct trace_text {
    struct hash_node node;
    char text[];
};

static struct trace_text *text_of(struct hash_node *node)
{
    return container_of(node, struct trace_text, node);
}

static const char *text_find(struct trace *trace, const char *text)
{
    size_t bytes = strlen(text);
    uint64_t hash = hash_bytes(text, bytes);
    hash_table_for_each (&trace->texts, hash, node)
        if (strcmp(text_of(node)->text, text) == 0)
            return text_of(node)->text;
    if (trace->texts.count == TRACE_TEXTS_MAX)
        return "(too many names)";
    struct trace_text *kept = mem_alloc(sizeof *kept + bytes + 1);
    if (!kept)
        return "(no memory for this name)";
    hash_table_add(&trace->texts, &kept->node, hash);
    return memcpy(kept->text, text, bytes + 1);
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
    struct hash_node *node = hash_table_next(&trace->texts, NULL), *next;
    for (; node; node = next) {
        next = hash_table_next(&trace->texts, node);
        mem_free(text_of(node));
    }
    hash_table_close(&trace->texts);
}
