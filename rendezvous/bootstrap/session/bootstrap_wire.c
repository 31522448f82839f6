/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders for the messages of the bootstrap's connections: see bootstrap_wire.h. */
#include "bootstrap_wire.h"

#include <string.h>

bool bootstrap_greeting_decode(const void *data,
                               struct bootstrap_wire_greeting *greeting_p)
{
    memcpy(greeting_p, data, sizeof *greeting_p);
    return greeting_p->magic == BOOTSTRAP_WIRE_MAGIC;
}

/* Decode PROOF. Host and job stay unescaped, since they are parts of the MAC; only their
 * terminators are checked here. */
bool bootstrap_proof_decode(const void *data, struct bootstrap_wire_proof *proof_p)
{
    memcpy(proof_p, data, sizeof *proof_p);
    return memchr(proof_p->host, '\0', sizeof proof_p->host) != NULL &&
           memchr(proof_p->job, '\0', sizeof proof_p->job) != NULL;
}

bool bootstrap_verdict_decode(const void *data, struct bootstrap_wire_verdict *verdict_p)
{
    memcpy(verdict_p, data, sizeof *verdict_p);
    return verdict_p->code >= BOOTSTRAP_VERDICT_OK &&
           verdict_p->code <= BOOTSTRAP_VERDICT_JOB &&
           memchr(verdict_p->job, '\0', sizeof verdict_p->job) != NULL;
}

static bool request_bytes_allowed(const struct bootstrap_wire_frame *frame, uint32_t size)
{
    switch (frame->type) {
    case BOOTSTRAP_FRAME_GATHER: return frame->bytes <= BOOTSTRAP_GATHER_MAX / size;
    case BOOTSTRAP_FRAME_BROADCAST: return frame->bytes <= BOOTSTRAP_GATHER_MAX;
    case BOOTSTRAP_FRAME_BYE: return frame->bytes == 0;
    case BOOTSTRAP_FRAME_ABORT: return frame->bytes <= BOOTSTRAP_WIRE_TEXT_MAX;
    default: return false;
    }
}

bool bootstrap_request_decode(const void *data, uint32_t size,
                              struct bootstrap_wire_frame *frame_p)
{
    memcpy(frame_p, data, sizeof *frame_p);
    return frame_p->timeout_ns <= BOOTSTRAP_WIRE_TIMEOUT_MAX_NS &&
           request_bytes_allowed(frame_p, size);
}

bool bootstrap_reply_decode(const void *data, size_t bytes,
                            struct bootstrap_wire_frame *frame_p)
{
    memcpy(frame_p, data, sizeof *frame_p);
    if (frame_p->type == BOOTSTRAP_FRAME_RESULT)
        return frame_p->bytes == bytes;
    return frame_p->type == BOOTSTRAP_FRAME_FAILED &&
           frame_p->bytes <= BOOTSTRAP_WIRE_TEXT_MAX;
}

tryst_status bootstrap_status_decode(int32_t status)
{
    static const tryst_status known[] = {
#define STATUS_VALUE(name, value, text) value,
        TRYST_STATUS_MAP(STATUS_VALUE)
#undef STATUS_VALUE
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i] == status && status >= 100)
            return status;
    return TRYST_E_PROTOCOL;
}
