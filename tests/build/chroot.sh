# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For debian.sh and fresh.sh: a Debian 12 that was just installed, as a folder.
#
# These tests run as root in a mount namespace of their own, so that nothing stays mounted. From the environment:
# TRYST_TEST_BASE, a folder that debootstrap has filled before (debootstrap --variant=minbase bookworm FOLDER): it is copied.

# chroot_need <script> <programs…>: go on in a mount namespace; skip where something is missing.
chroot_need() {
    script=$1
    shift
    [ "$(id -u)" -eq 0 ] || { echo "skipped: debootstrap and chroot need root"; exit 77; }
    for program in debootstrap "$@"; do
        command -v "$program" >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
    done
    [ -z "${CHROOT_INSIDE:-}" ] || return 0
    export CHROOT_INSIDE=1
    exec "$SOURCE/tests/support/own_mounts.sh" -- sh "$script"
}

# Print the mirror that apt uses here.
chroot_mirror() {
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ ! -f "$file" ] || awk '$1 == "deb" { for (i = 2; $i !~ /:/; i++); print $i } $1 == "URIs:" { print $2 }' "$file"
    done | grep '/debian/*$' | head -n 1
}

# chroot_make <folder>
chroot_make() {
    if [ -n "${TRYST_TEST_BASE:-}" ]; then
        cp -a "$TRYST_TEST_BASE" "$1" || return 1
    else
        mirror=$(chroot_mirror)
        [ -n "$mirror" ] || { echo "skipped: apt has no mirror of Debian here"; exit 77; }
        debootstrap --variant=minbase bookworm "$1" "$mirror" >"$1.log" 2>&1 || { tail -n 20 "$1.log"; return 1; }
    fi
    cp -L /etc/resolv.conf "$1/etc/resolv.conf" &&
        mount -t proc proc "$1/proc" &&
        mount --rbind /sys "$1/sys" &&
        mount -t tmpfs tmpfs "$1/dev/shm"
}

# chroot_remove <folder>: of a chroot that is half made, too.
chroot_remove() {
    umount "$1/dev/shm" "$1/proc" 2>/dev/null || :
    umount -l "$1/sys" 2>/dev/null || :
    rm -rf --one-file-system "$1"
}

# chroot_run <folder> <command…>: as root there, without the variables of here
chroot_run() {
    folder=$1
    shift
    env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive chroot "$folder" "$@"
}

# Copy the sources, new ones that git would take included.
sources_copy() { # <folder>
    mkdir -p "$1"
    git -C "$SOURCE" ls-files -z --cached --others --exclude-standard | (cd "$SOURCE" && tar --null -c -T -) | tar -x -C "$1"
}

# Print what is left of Tryst below a chroot, but for logs.
tryst_left() { # <folder>
    find "$1" -xdev \( -path "$1/root" -o -path "$1/home" -o -path "$1/var/log" -o -path "$1/var/cache" \) -prune -o \
        -iname '*tryst*' -print
}
