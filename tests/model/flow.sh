#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Check flow.pml with spin: the unchanged model has no error, and each broken variant has
# one.
# Usage: flow.sh <folder of the model> <C compiler> [long|borrow]
# long: all three shapes, each rank cancels or dies; takes minutes, and up to 2 GB.
# borrow: the same with borrowed slices, and opposite orders of addition.
set -eu
# shellcheck source=tests/model/spin.sh
. "$1/spin.sh"
model_begin "$1/flow.pml" "$2"

store= # one process: compression saves no memory and takes half of the time

# Two slices: the order of grants, and slots.
slices="-DSTARS -DOPPOSITE -DINSTANT -DSLOTS=1"
# Each frame is read at any time.
frames="-DSTARS -DOPPOSITE -DSLOTS=1 -DSLICES=1"
# One slice of each tree: the small searches.
stars="-DSTARS -DOPPOSITE -DINSTANT -DSLICES=1"
chains="-DCHAINS -DOPPOSITE -DINSTANT -DSLICES=1"
# Two all-reduces with opposite orders of addition.
crossed="-DCROSSED -DOPPOSITE -DSLICES=1"
# The own terms of A are fetched behind the end of B, at any ranks.
fetch="-DINSTANT -DFETCH_AFTER"
# A result comes from a rank that has not read the upward slice.
relay="-DSTARS -DRELAY -DIN_PLACE -DOPPOSITE -DINSTANT -DSLICES=1"

# shellcheck disable=SC2086 # each of these is a list of options
if [ "${3:-}" = long ]; then
    for shape in STARS CHAINS MIXED; do
        whole_huge "$shape, two slices, one slot" -D$shape -DOPPOSITE -DINSTANT -DSLOTS=1
        whole_huge "$shape, a lead of one" -D$shape -DOPPOSITE -DINSTANT -DSLOTS=1 -DLEAD=1
        whole_huge "$shape, frames are read late" -D$shape -DOPPOSITE -DSLICES=1
        for rank in 0 1 2; do
            small="-D$shape -DOPPOSITE -DINSTANT -DSLICES=1"
            whole_large "$shape, rank $rank cancels" $small -DCANCEL=$rank
            whole_large "$shape, rank $rank dies" $small -DDEATH=$rank
            whole_large "$shape, fetched late, rank $rank cancels" $small $fetch -DCANCEL=$rank
            whole_large "$shape, fetched late, rank $rank dies" $small $fetch -DDEATH=$rank
        done
        whole_large "$shape, fetched late, in any order of submission" -D$shape $fetch -DSLOTS=1
        whole_large "$shape, fetched late or at any time" -D$shape $fetch -DFETCH_ALL -DSLICES=1
    done
    whole_large "fetched late, frames are read late" $frames -DFETCH_AFTER
    whole_large "fetched late, a lead of one" $slices $fetch -DLEAD=1
    whole_huge "any order of submission" -DCHAINS -DINSTANT -DSLICES=1
    whole_huge "in place" -DCHAINS -DOPPOSITE -DSLICES=1 -DIN_PLACE
    whole_huge "a rank waits" $slices -DWAITS=2
    whole_huge "granted ahead" $slices -DSCRATCH=2 -DLAX
    whole_huge "granted in any order but the last" $slices -DSCRATCH=2 -DANY_BUT_LAST
elif [ "${3:-}" = borrow ]; then
    for shape in STARS CHAINS MIXED CROSSED; do
        borrowed="-D$shape -DOPPOSITE -DINSTANT -DBORROW=3"
        whole_huge "$shape, borrowed, two slices, one slot" $borrowed -DSLOTS=1
        whole_large "$shape, borrowed, fetched late" $borrowed $fetch -DSLOTS=1
        whole_large "$shape, borrowed early, fetched late" $borrowed $fetch -DBORROW_EARLY -DSLICES=1
    done
    for shape in STARS CHAINS; do
        borrowed="-D$shape -DOPPOSITE -DINSTANT -DBORROW=3 -DSLICES=1"
        for rank in 0 1 2; do
            whole_large "$shape, borrowed, rank $rank cancels" $borrowed -DCANCEL=$rank
            whole_huge "$shape, borrowed, rank $rank dies" $borrowed -DDEATH=$rank
            late="$shape, borrowed, fetched late"
            whole_large "$late, rank $rank cancels" $borrowed $fetch -DCANCEL=$rank
            whole_large "$late, rank $rank dies" $borrowed $fetch -DDEATH=$rank
        done
    done
    whole_huge "crossed, borrowed, frames are read late" $crossed -DBORROW=3
    for edge in 1 2; do
        whole_huge "crossed, edge $edge borrowed" $crossed -DBORROW=$edge -DSLOTS=1
    done
    whole_large "stars, two slices, borrowed early, fetched late" -DSTARS -DOPPOSITE $fetch -DBORROW=3 -DBORROW_EARLY
    whole_large "the result comes from another rank" $relay -DBORROW=3
else
    whole_large "stars, two slices, one slot" $slices
    whole_large "stars, a lead of one" $slices -DLEAD=1
    whole_large "stars, a lead of one, a rank waits" $slices -DLEAD=1 -DWAITS=2
    whole_large "stars, frames are read late" $frames
    whole "stars" $stars
    whole "chains" $chains
    whole "stars, cancelled" $stars -DCANCEL=1
    whole "chains, cancelled" $chains -DCANCEL=1
    whole "chains, a death" $chains -DDEATH=1
    whole "crossed, borrowed" $crossed -DINSTANT -DBORROW=3
    whole "stars, two slices, fetched late" $slices $fetch
    whole "crossed, borrowed, fetched late" $crossed $fetch -DBORROW=3
    whole "chains, borrowed, cancelled" $chains -DBORROW=3 -DCANCEL=1
    broken BREAK_HANDLER_WAITS $frames
    broken BREAK_FRAME_CREDIT $frames
    broken BREAK_WINDOW_PARKED $stars
    broken BREAK_WINDOW_TWICE $chains -DCANCEL=1
    broken BREAK_EARLY $stars -DCANCEL=1
    broken BREAK_UNANSWERED $chains -DCANCEL=1
    broken BREAK_DEAD_SCRATCH $chains -DDEATH=1
    broken BREAK_DEAD_WINDOW $chains -DDEATH=1
    broken BREAK_DEAD_BULK $chains -DDEATH=1
    broken BREAK_CAUSE $chains -DCANCEL=1
    broken BREAK_RESERVE $slices
    broken BREAK_REVOKE $slices
    broken BREAK_ORDER $slices
    broken BREAK_POOL $chains
    broken LEAD=0 $chains
    broken BREAK_LEAD $slices -DLEAD=1 -DWAITS=2
    broken BREAK_READY_PER_RUN $slices
    broken BREAK_AHEAD $slices
    broken BREAK_PLACE $chains
    broken BREAK_AHEAD $crossed $fetch -DBORROW=3 -DBORROW_EARLY
    broken BREAK_FETCH $chains $fetch
    broken BREAK_FETCH $crossed $fetch -DBORROW=3
    broken BREAK_BORROW_AHEAD $stars -DBORROW=3 -DWAITS=1
    optimise=-O1 # a million states
    broken BREAK_BORROW_GRANTED $crossed -DBORROW=3
    optimise=-O0
    broken BREAK_BORROW_DONE $stars -DBORROW=3
    broken BREAK_BORROW_FORWARD $stars -DBORROW=3 -DDEATH=2
    broken BREAK_BORROW_RESULT $relay -DBORROW=1
fi
model_end
