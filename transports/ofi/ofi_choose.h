/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_choose.h
 *  The one place that knows providers; asks nobody. */
#ifndef OFI_CHOOSE_H
#define OFI_CHOOSE_H

#include "ofi_private.h"

/** How good its provider is, 0: only where the user names it. */
int ofi_info_rank(const struct fi_info *info);
/** Whether closing an endpoint of this provider while the rail goes on is to be avoided. */
bool ofi_info_parks(const struct fi_info *info);
/** Messages of rxm over another provider's connections. */
bool ofi_info_is_rxm(const struct fi_info *info);
/** The largest slice and the least window for struct rail, 0: any. */
uint32_t ofi_info_slice_bytes(const struct fi_info *info);
uint64_t ofi_info_window_bytes(const struct fi_info *info);
bool ofi_info_has_ip(const struct fi_info *info);
/** What we need and no hint can ask for. */
bool ofi_info_is_usable(const struct fi_info *info);
/** How well `info` serves this rail, 0: not at all. `named`: the user named providers. */
int ofi_info_score(const struct fi_info *info, const struct rail_params *params,
                   bool named);
/** The best of those with IP addresses, or of those without; NULL: none serves. */
const struct fi_info *ofi_info_best(const struct fi_info *list,
                                    const struct rail_params *params, bool named,
                                    bool ip);
/** Its provider says that it moves device memory: perhaps not CUDA's. */
bool ofi_info_claims_device(const struct fi_info *info);
/** It wants device memory registered, and its handle beside the bytes. */
bool ofi_info_registers_device(const struct fi_info *info);
/** The fabric of `plain` among those that were asked for with FI_HMEM, or NULL. */
const struct fi_info *ofi_info_device(const struct fi_info *plain,
                                      const struct fi_info *claims);

#endif
