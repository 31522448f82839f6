/* SPDX-License-Identifier: Apache-2.0 */
/** @file profile_json.h
 *  Profiles as JSON: tryst/profile.h shows the format. */
#ifndef TRYST_COMMSCHED_PROFILE_PROFILE_JSON_H
#define TRYST_COMMSCHED_PROFILE_PROFILE_JSON_H

#include "core/source/source.h"
#include "core/text/growing_text.h"
#include "profile.h"

/** Read a profile. Returns TRYST_OK; TRYST_E_INVALID: malformed, or a cycle;
 *  TRYST_E_NOMEM. */
tryst_status profile_json_read(const struct source *source,
                               struct tryst_profile **profile_p);
void profile_json_write(const struct tryst_profile *profile, struct text *text);

#endif
