#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check stream.pml with spin: the unchanged model, with credit for two and for one, has no
# error, and each broken variant has one. Usage: stream.sh <folder of the model> <C
# compiler>
set -eu
# shellcheck source=tests/model/spin.sh
. "$1/spin.sh"
model_begin "$1/stream.pml" "$2"

optimise=-O1 bits=24
whole "credit for one" -DCREDIT=1
whole_large "credit for two" -DCREDIT=2
whole_large "announced at any time" -DCREDIT=1 -DANNOUNCE_ANY
broken BREAK_MASK -DCREDIT=2
broken BREAK_ACK_ALONE -DCREDIT=2
broken BREAK_KEPT -DCREDIT=2
broken BREAK_DONE -DCREDIT=2
broken BREAK_ORDER -DCREDIT=2
broken BREAK_RECORDS_LAST -DCREDIT=2
broken BREAK_RING -DCREDIT=2
broken BREAK_BLOCKED -DCREDIT=1
broken BREAK_BLOCKED_ALONE -DCREDIT=1
broken BREAK_VOID -DCREDIT=1
model_end
