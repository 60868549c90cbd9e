#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks (Debian, as root or with sudo). Elsewhere it says what
# to install and fails. Nothing missing: it does nothing, at once.
set -euo pipefail

missing=()
need() { # need PACKAGE TEST...: notes the package where the test fails
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
has() { command -v "$1"; }
has_header() { # in the compilers' default folders
    local folder
    for folder in /usr/include /usr/local/include; do
        [ -e "$folder/$1" ] && return 0
    done
    return 1
}
has_libfuzzer() { compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*.a'; }

need build-essential has g++
need clang has clang++
need libclang-rt-14-dev has_libfuzzer
need cmake has cmake
need ninja-build has ninja
need nlohmann-json3-dev has_header nlohmann/json.hpp
need libcli11-dev has_header CLI/CLI.hpp
need doctest-dev has_header doctest/doctest.h
need python3 has python3
need python3-pip python3 -m pip --version

[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    {
        echo "setup: this is not Debian; please install, under the names your system has for them:"
        printf '  %s\n' "${missing[@]}"
        echo "(g++ 12 or clang 14 and newer, CMake 3.24, Ninja, nlohmann_json 3.11, CLI11 2.1, doctest 2.4, Python 3 with pip)"
    } >&2
    exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup: run as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -q >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
