/* SPDX-License-Identifier: Apache-2.0 */
/* Check a record of any type in a group of `size` ranks, as protocol.c does: return the
 * error, or NULL. */
#ifndef TRYST_TESTS_SUPPORT_WIRE_CHECK_H
#define TRYST_TESTS_SUPPORT_WIRE_CHECK_H

#include "rendezvous/protocol/wire/wire_decode.h"
#include "tryst/status.h"

static inline const char *wire_check(const struct record_header *record, int size)
{
    const void *whole = record;
    const char *wrong =
        record->status == TRYST_OK ? NULL : wire_failure_check(record, size);
    if (wrong)
        return wrong;
    if (record->type == 0 || record->type > RECORD_KEPT)
        return "unknown record";
    return record->type == RECORD_WANT    ? wire_want_check(whole)
           : record->type == RECORD_DATA  ? wire_data_check(whole)
           : record->type == RECORD_OFFER ? wire_offer_check(whole)
                                          : wire_answer_check(whole, size);
}

#endif
