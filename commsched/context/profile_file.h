/* SPDX-License-Identifier: Apache-2.0 */
/** @file profile_file.h
 *  The file of the recorded step (TRYST_PROFILE).
 */
#ifndef TRYST_COMMSCHED_CONTEXT_PROFILE_FILE_H
#define TRYST_COMMSCHED_CONTEXT_PROFILE_FILE_H

#include <stdint.h>

#include "tryst/types.h"

/** Write the profile that ctx->recorder holds to TRYST_PROFILE, and reset the recorder:
 *  the group of this rank has ended. A failure is logged. */
void profile_file_write(tryst_ctx *ctx, int32_t rank);

#endif
