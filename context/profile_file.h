/* SPDX-License-Identifier: Apache-2.0 */
/** @file profile_file.h
 *  The file of the recorded step (TRYST_PROFILE).
 */
#ifndef TRYST_CONTEXT_PROFILE_FILE_H
#define TRYST_CONTEXT_PROFILE_FILE_H

#include "core/text/origin.h"
#include "tryst/types.h"

/** Write the profiles that ctx->recorder gets to TRYST_PROFILE from now on: the group of
 *  `origin` has opened. Without the setting nothing happens. A failure is logged. */
void profile_file_open(tryst_ctx *ctx, const struct origin *origin);
/** Write the last profile, and reset the recorder: the group has ended. Also where no
 *  file is open. Blocks: for the file. */
void profile_file_close(tryst_ctx *ctx);

#endif
