/* SPDX-License-Identifier: Apache-2.0 */
/** @file peer_check.h
 *  tryst-info --check HOST: the network between two hosts, without a launcher. */
#ifndef TRYST_TOOLS_INFO_PEER_CHECK_H
#define TRYST_TOOLS_INFO_PEER_CHECK_H

/** Check the paths between this host and `word`, "HOST" or "HOST:PORT", where the same
 *  check runs with "listen" or "listen:PORT". Returns the exit status: 0 all is well, 1
 *  the other host was not reached, 2 not such a word, 3 warnings, 4 a job between the two
 *  hosts would fail. */
int peer_check(const char *word);

#endif
