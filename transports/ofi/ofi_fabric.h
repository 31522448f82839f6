/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_fabric.h
 *  What this module requests of libfabric, and where libfabric logs. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_FABRIC_H
#define TRYST_TRANSPORTS_OFI_OFI_FABRIC_H

#include "ofi_private.h"

/** Choose the description for the rail of `params`. *device_p receives the description of
 *  the same fabric that claims device memory, or NULL. The caller frees both with
 *  fi_freeinfo. TRYST_OK, TRYST_E_UNSUPPORTED (`text` receives the reason),
 *  TRYST_E_NOMEM. */
tryst_status ofi_info_choose(const struct rail_params *params, struct fi_info **info_p,
                             struct fi_info **device_p, char *text);
/** Describe the available providers in one line. TRYST_OK, TRYST_E_UNSUPPORTED (no usable
 *  one). */
tryst_status ofi_info_describe(char *text);
void ofi_log_setup(void);

#endif
