#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and passes all tests but the long ones (ctest -L long). Further arguments go to ctest.
# SHARDWISE_BUILD names another build folder than build/dev.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
build=${SHARDWISE_BUILD:-build/dev}
jobs=$(nproc)
cmake --preset dev -B "$build"

# A file that does not build is a failure, but the rest is tested all the same.
build_status=0
cmake --build "$build" --parallel "$jobs" --target all source_checks -- -k 0 || build_status=$?

test_status=0
ctest --test-dir "$build" -LE long --parallel "$jobs" --output-on-failure "$@" || test_status=$?

if [ "$test_status" -eq 0 ] && [ "$build_status" -ne 0 ]; then
    echo "test: the tests passed, but not everything builds (see above)" >&2
    exit 1
fi
exit "$test_status"
