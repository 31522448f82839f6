/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_fabric.h
 *  What libfabric is asked for, and what it logs. */
#ifndef OFI_FABRIC_H
#define OFI_FABRIC_H

#include "ofi_private.h"

/** The description to open `params`' rail with, and the same fabric's that claims device memory,
 *  or NULL; free both with fi_freeinfo. `text` says why not. */
tryst_status ofi_info_choose(const struct rail_params *params, struct fi_info **info_p,
                             struct fi_info **device_p, char *text);
/** What is there, in one line. */
tryst_status ofi_info_describe(char *text);
void ofi_log_setup(void);

#endif
