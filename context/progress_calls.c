/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of a program that drives the engine in its own loop. */
#include "context.h"
#include "core/text/refuse.h"
#include "rendezvous/op/op.h"
#include "rendezvous/progress/progress.h"

int tryst_progress(tryst_ctx *ctx)
{
    return ctx && !is_forked(ctx) && !op_callback_runs() ? progress_turn(ctx->rdv) : 0;
}

int tryst_event_fd(tryst_ctx *ctx)
{
    return ctx && !is_forked(ctx) ? ctx->poller.epoll_fd : -1;
}

tryst_status tryst_arm(tryst_ctx *ctx)
{
    if (!ctx)
        return refuse_null("arm", "ctx");
    if (is_forked(ctx))
        return refuse_unusable("arm", TRYST_E_FORKED);
    return progress_arm(ctx->rdv);
}

void tryst_wake(tryst_ctx *ctx)
{
    if (ctx && !is_forked(ctx))
        poller_wake(&ctx->poller);
}
