#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a user meets on a fresh Debian 12: README's commands, the examples, the commands of docs/your-network.md, the Debian
# packages, the Python package, by an ordinary user with sudo. Prints each step with its seconds, and ends at the first one that fails.
set -eu
# shellcheck source=tests/build/chroot.sh disable=SC1091
. "$SOURCE/tests/build/chroot.sh"
chroot_need "$0"
dir=$(mktemp -d)
trap 'exit 1' HUP INT TERM
trap 'chroot_remove "$dir/root"; rm -rf "$dir"' EXIT

# step <name> <command…>
step() {
    name=$1 begin=$(date +%s)
    shift
    if ! "$@" </dev/null >"$dir/log" 2>&1; then
        tail -n 60 "$dir/log"
        echo "fresh: $name: failed after $(($(date +%s) - begin)) s: $*"
        exit 1
    fi
    echo "fresh: $name: $(($(date +%s) - begin)) s"
}

root() { chroot_run "$dir/root" "$@"; }
# As the user, in the copy of the sources.
user() { chroot_run "$dir/root" su - user -c "cd tryst && $1"; }
says() { # <pattern> <command>: it succeeds, and prints a line with the pattern
    user "$2" >"$dir/said" 2>&1 || { cat "$dir/said"; return 1; }
    cat "$dir/said"
    grep -qE -e "$1" "$dir/said"
}
nothing_left() {
    left=$(tryst_left "$dir/root")
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}
user_make() { # each command behind &&: a step's functions run without set -e
    root apt-get -q update &&
        root apt-get -q install -y --no-install-recommends sudo &&
        root useradd -m -s /bin/bash user &&
        echo 'user ALL=(ALL) NOPASSWD: ALL' >"$dir/root/etc/sudoers.d/user" &&
        sources_copy "$dir/root/home/user/tryst" &&
        root chown -R user:user /home/user
}
# pip reaches packages as it does here: by the same file, and the certificates that the file names (in the place of those
# that python3-venv brings).
pip_configure() {
    [ -f /etc/pip.conf ] || return 0
    certificates=$(sed -n 's/^cert *= *//p' /etc/pip.conf)
    cp -L /etc/pip.conf "$dir/root/etc/pip.conf" || return 1
    [ -n "$certificates" ] || return 0
    mkdir -p "$dir/root$(dirname "$certificates")" && cp -L "$certificates" "$dir/root$certificates"
}

# README's example: the block behind its mark
example="awk '/^<!-- test: embed -->/ { armed = 1; next } armed && /^\`\`\`/ { if (inside) exit; inside = 1; next } inside' README.md >ring.c"

step "debootstrap" chroot_make "$dir/root"
step "a user with sudo, the sources" user_make
step "./run bench" user './run bench'
step "the timeline" user 'test -s build/release/timeline.svg'
step "./run install" user './run install'
step "the example" user "$example"
# shellcheck disable=SC2016 # for the user's shell
step "cc" user 'cc ring.c -o ring $(pkg-config --cflags --libs tryst)'
step "tryst-run -n 4 ./ring" says 'rank 3: success' 'tryst-run -n 4 ./ring'
step "tryst-topo --version" says '^tryst-topo [0-9]' 'tryst-topo --version'
step "tryst-info --check" says '^ok' 'tryst-info --check || [ $? -eq 3 ]'
step "man-db" root apt-get -q install -y --no-install-recommends man-db
step "man tryst-run" says '^SYNOPSIS' 'man tryst-run'
step "completion" says '--ranks' "bash -c '. /usr/local/share/bash-completion/completions/tryst-run
    COMP_WORDS=(tryst-run --r) COMP_CWORD=1; _tryst_run; echo \"\${COMPREPLY[@]}\"'"
step "docs/your-network.md" user 'INSTALL=/usr/local SOURCE=/home/user/tryst sh tests/build/guides.sh'
step "examples/README.md" user 'INSTALL=/usr/local SOURCE=/home/user/tryst LIBDIR=lib CC=cc PIPELINE=ON sh tests/build/examples.sh'
step "a virtual environment" user 'sudo apt-get -q install -y --no-install-recommends python3-venv && python3 -m venv venv'
step "pip's settings" pip_configure
step "pip install ./bindings/python" user '. venv/bin/activate && pip install ./bindings/python'
step "ring.py" user '. venv/bin/activate && tryst-run -n 4 python3 bindings/python/examples/ring.py'
step "./run uninstall" user './run uninstall'
step "nothing left" nothing_left
step "what dpkg-buildpackage needs" user 'sudo apt-get -q install -y --no-install-recommends dpkg-dev debhelper fakeroot && sudo apt-get -q build-dep -y --no-install-recommends .'
step "dpkg-buildpackage" user 'dpkg-buildpackage -b -uc -us'
step "apt install" user 'sudo apt-get -q install -y --no-install-recommends ../*tryst*.deb'
step "tryst-run, tryst-perf" says 'pingpong' 'tryst-run -n 2 tryst-perf pingpong -s 8,1M -i 100'
step "ring.py" user 'tryst-run -n 4 python3 bindings/python/examples/ring.py'
step "apt purge" user 'sudo apt-get -q purge -y libtryst0.1 libtryst-dev tryst-tools python3-tryst'
step "nothing left" nothing_left
