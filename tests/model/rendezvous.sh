#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check rendezvous.pml with spin: the unchanged model, small and large, has no error, and
# each broken variant has one.
# Usage: rendezvous.sh <folder of the model> <C compiler> [long]
# long: the one search that takes 2 GB and most of a minute.
set -eu
# shellcheck source=tests/model/spin.sh
. "$1/spin.sh"
model_begin "$1/rendezvous.pml" "$2"

if [ "${3:-}" = long ]; then
    whole_large "large tensors, a death" -DLARGE -DDEATH
    model_end
fi
whole "small tensors" -DSMALL
whole "small tensors, two ahead" -DNAMES
whole "large tensors" -DLARGE
whole_large "small tensors, a death" -DSMALL -DDEATH
broken BREAK_CANCEL_PARKED -DSMALL
broken BREAK_OFFER -DLARGE
broken BREAK_OFFER_CANCEL -DLARGE
broken BREAK_VOID -DSMALL
broken BREAK_CLOSED_DATA -DSMALL
broken BREAK_CLOSED_DEFERRED -DSMALL
broken BREAK_CLOSED_DEFERRAL -DSMALL
broken BREAK_CREDIT -DSMALL
broken BREAK_QUOTA -DSMALL
broken BREAK_EARLY_REPORT -DLARGE
broken BREAK_LAZY -DSMALL
broken BREAK_ASK -DLARGE
broken BREAK_ASK_NOTE -DLARGE
broken BREAK_ASK_EARLY -DLARGE
broken BREAK_TAKE_BACK -DSMALL
broken BREAK_TAKE_BACK_BYTES -DSMALL
broken BREAK_TAKE_BACK_CREDIT -DSMALL
broken BREAK_NAME -DNAMES
broken BREAK_DEATH -DSMALL -DDEATH
broken BREAK_DEATH_WANT -DSMALL -DDEATH
broken BREAK_DEATH_READ -DSMALL -DDEATH
model_end
