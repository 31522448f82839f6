/* SPDX-License-Identifier: Apache-2.0 */
/** @file ofi_choose.h
 *  The choice of a provider: this file alone depends on providers, and it calls no
 *  function of libfabric. */
#ifndef TRYST_TRANSPORTS_OFI_OFI_CHOOSE_H
#define TRYST_TRANSPORTS_OFI_OFI_CHOOSE_H

#include "ofi_private.h"

/** Get the rank of the provider; higher is better. 0: used only if the user names it. */
int ofi_info_rank(const struct fi_info *info);
/** True if an endpoint of this provider should not be closed while the rail is open. */
bool ofi_info_parks(const struct fi_info *info);
/** True if the provider is rxm, which sends messages over another provider's
 *  connections. */
bool ofi_info_is_rxm(const struct fi_info *info);
/** Get the largest slice and the least window for struct rail; 0: any. */
uint32_t ofi_info_slice_bytes(const struct fi_info *info);
uint64_t ofi_info_window_bytes(const struct fi_info *info);
bool ofi_info_has_ip(const struct fi_info *info);
/** True if `info` meets the requirements that hints cannot express. */
bool ofi_info_is_usable(const struct fi_info *info);
/** Get the score of `info` for this rail; higher is better, 0: not usable. `named`: the
 *  user named providers. */
int ofi_info_score(const struct fi_info *info, const struct rail_params *params,
                   bool named);
/** Get the best description among those with IP addresses (`ip`), or among those without.
 *  NULL: none is usable. */
const struct fi_info *ofi_info_best(const struct fi_info *list,
                                    const struct rail_params *params, bool named,
                                    bool ip);
/** True if the provider claims to move device memory, of any vendor. */
bool ofi_info_claims_device(const struct fi_info *info);
/** True if the provider needs device memory to be registered, and the descriptor of the
 *  registration with each operation. */
bool ofi_info_registers_device(const struct fi_info *info);
/** Find the fabric of `plain` among `claims`, which were requested with FI_HMEM. NULL: it
 *  does not claim device memory. */
const struct fi_info *ofi_info_device(const struct fi_info *plain,
                                      const struct fi_info *claims);

#endif
