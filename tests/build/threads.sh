#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No object of topology/ starts a thread; therefore its tests are left out under TSan
# (tests/CMakeLists.txt). A layer that does start threads proves that the search finds
# them.
set -eu
starts() { # <layer>
    find "$BUILD/$1" -name '*.o' -exec "$NM" -Au {} + |
        grep -E ' (pthread_create|thrd_create|timer_create)$'
}

if ! starts rendezvous/bootstrap >/dev/null; then
    echo "threads: the search does not find the thread of rendezvous/bootstrap"
    exit 1
fi
if starts topology; then
    echo "threads: topology starts threads now, so its tests belong under TSan"
    exit 1
fi
