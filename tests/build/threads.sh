#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No object of topology/ starts a thread: that is why its tests are left out under TSan
# (tests/CMakeLists.txt). A layer that does start some shows that the search finds them.
set -eu
starts() { # <layer>
    find "$BUILD/$1" -name '*.o' -exec "$NM" -Au {} + |
        grep -E ' (pthread_create|thrd_create|timer_create)$'
}

if ! starts rendezvous/bootstrap >/dev/null; then
    echo "threads: rendezvous/bootstrap starts one, and that is not seen"
    exit 1
fi
if starts topology; then
    echo "threads: topology starts threads now, so its tests belong under TSan"
    exit 1
fi
