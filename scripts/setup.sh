#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh [program|model|fresh]: installs what building and testing need and this machine lacks (Debian, as root or with sudo;
# Conan and what checks manifests from PyPI into folders of their own). Elsewhere it says what to install and fails. Nothing
# missing: it does nothing, at once. With `program` only what building the program needs, with `model` what
# scripts/fetch_model.sh needs, with `fresh` what scripts/test_fresh.sh needs.
set -euo pipefail

purpose=${1:-all}
case $purpose in
    all | program | model | fresh) ;;
    *)
        echo "usage: setup.sh [program|model|fresh]" >&2
        exit 2
        ;;
esac

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
has_library() { compgen -G "/usr/lib/*/$1.so" || compgen -G "/usr/lib/$1.so"; }
has_libcxx() { compgen -G '/usr/lib/llvm-19/include/c++/v1/version'; }
has_device_libraries() { compgen -G '/usr/lib/*/amdgcn/bitcode/ockl.bc'; }
has_libfuzzer() { compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*.a'; }

if [ "$purpose" = all ] || [ "$purpose" = program ]; then
    need build-essential has g++
    need cmake has cmake
    need ninja-build has ninja
    need nlohmann-json3-dev has_header nlohmann/json.hpp
    need libcli11-dev has_header CLI/CLI.hpp
fi
if [ "$purpose" = all ] || [ "$purpose" = model ]; then
    need python3 has python3
    need python3-pip python3 -m pip --version
fi
if [ "$purpose" = fresh ]; then
    need debootstrap has debootstrap
fi
if [ "$purpose" = all ]; then
    need clang has clang++
    need libclang-rt-14-dev has_libfuzzer
    need clang-16 has clang++-16
    need clang-19 has clang++-19
    need lld-19 has ld.lld-19
    need clang-tools-19 has clang-offload-bundler-19
    need libc++-19-dev has_libcxx
    need doctest-dev has_header doctest/doctest.h
    need doxygen has doxygen
    need pkg-config has pkg-config
    need python3-venv python3 -c 'import ensurepip, venv'
    need zsh has zsh
    need fish has fish
    need groff-base has groff
    need mandoc has mandoc
    need prometheus has promtool
    need tmux has tmux
    need libeigen3-dev has_header eigen3/Eigen/Core
    need libdlpack-dev has_header dlpack/dlpack.h
    need libopenmpi-dev has_library libmpi
    need openmpi-bin has mpirun
    need libgloo-dev has_header gloo/config.h
    need libdnnl-dev has_header oneapi/dnnl/dnnl.hpp
    need iproute2 has ip
    need slurm-wlm has slurmctld
    need docker.io has dockerd
    need busybox-static has busybox
    need hipcc has hipcc
    need libamdhip64-dev has_header hip/hip_runtime.h
    need rocm-device-libs has_device_libraries
    need g++-aarch64-linux-gnu has aarch64-linux-gnu-g++
    need qemu-user has qemu-aarch64
fi

install_missing() {
    [ ${#missing[@]} -eq 0 ] && return
    if ! command -v apt-get >/dev/null 2>&1; then
        {
            echo "setup: this is not Debian; please install, under the names your system has for them:"
            printf '  %s\n' "${missing[@]}"
            echo "(g++ 12 or clang 14 and newer, CMake 3.24, Ninja, nlohmann_json 3.11, CLI11 2.1, Python 3 with pip; for the"
            echo "tests also both compilers, clang 16 and 19, libc++, doctest 2.4, Doxygen 1.9, pkg-config, zsh, fish, groff,"
            echo "mandoc, promtool, tmux, Eigen 3.4, DLPack, Open MPI 4.1, Gloo, oneDNN 2.6, iproute2, SLURM 22.05, docker with its daemon,"
            echo "busybox, hipcc with ROCm's device libraries, and g++ for AArch64 with qemu's emulator of user programs)"
        } >&2
        exit 1
    fi

    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "setup: run as root: apt-get install ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "setup: installing ${missing[*]}" >&2
    "${as_root[@]}" apt-get update -q >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
}

# Debian has no Conan. Only the test of the Conan package needs it, so that a machine without PyPI can do the rest.
install_conan() {
    local folder=${XDG_CACHE_HOME:-$HOME/.cache}/shardwise/conan
    has conan >/dev/null && return
    [ -x "$folder/bin/conan" ] && return
    echo "setup: installing Conan into $folder" >&2
    rm -rf "$folder"
    if ! { python3 -m venv "$folder" && "$folder/bin/python" -m pip install --quiet --disable-pip-version-check conan==2.34.0; } >&2; then
        rm -rf "$folder"
        echo "setup: Conan could not be installed from PyPI; the test package.conan will be skipped" >&2
    fi
}

# Only the tests of manifests need these.
install_schemas() {
    local folder=${XDG_CACHE_HOME:-$HOME/.cache}/shardwise/schemas
    [ -x "$folder/bin/kubernetes-validate" ] && return
    echo "setup: installing kubernetes-validate and jsonschema into $folder" >&2
    rm -rf "$folder"
    if ! {
        python3 -m venv "$folder" &&
            "$folder/bin/python" -m pip install --quiet --disable-pip-version-check kubernetes-validate jsonschema
    } >&2; then
        rm -rf "$folder"
        echo "setup: they could not be installed from PyPI; manifests will not be held to schemas" >&2
    fi
}

# Only the check of what nvcc makes of the kernels needs these, and toolkits may lack them.
install_cuda_readers() {
    local folder=${XDG_CACHE_HOME:-$HOME/.cache}/shardwise/cuda-readers
    local nvcc
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || return 0
    [ -x "$(dirname "$nvcc")/cuobjdump" ] && [ -x "$(dirname "$nvcc")/nvdisasm" ] && return
    compgen -G "$folder/lib/python3*/site-packages/nvidia/*/bin/nvdisasm" >/dev/null && return
    echo "setup: installing cuobjdump and nvdisasm into $folder" >&2
    rm -rf "$folder"
    if ! {
        python3 -m venv "$folder" &&
            "$folder/bin/python" -m pip install --quiet --disable-pip-version-check nvidia-cuda-cuobjdump==13.5.37 \
                nvidia-cuda-nvdisasm==13.5.37
    } >&2; then
        rm -rf "$folder"
        echo "setup: they could not be installed from PyPI; nvcc's code will not be held to its limits" >&2
    fi
}

install_missing
if [ "$purpose" = all ]; then
    install_conan
    install_schemas
    install_cuda_readers
fi
