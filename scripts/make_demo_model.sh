#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trains the demo model, share/shardwise/demo/model.safetensors: the same bytes on any number of ranks and threads, at the AVX2 level,
# which is forced. Under ten minutes on two cores.
#
#   scripts/make_demo_model.sh [--check] [FLAGS of train, such as --dp 2]
#
# $SHARDWISE: the program, build/release/bin/shardwise unless set. $DEMO_RUN: the folder of the run, a new one that is removed unless
# set; a run that was ended goes on from there. --check: compare with the model that is there, and leave it.
set -eu
cd "$(dirname "$0")/.."
demo=share/shardwise/demo
program=${SHARDWISE:-build/release/bin/shardwise}
is_check=no
if [ "${1:-}" = --check ]; then
    is_check=yes
    shift
fi
if [ -z "${DEMO_RUN:-}" ]; then
    DEMO_RUN=$(mktemp -d)
    trap 'rm -rf "$DEMO_RUN"' EXIT
fi
SHARDWISE_ISA=avx2 "$program" train "$demo/config.json" --data "$demo/shakespeare.txt" --valid-part 0.05 \
    --context 128 --batch 16 --steps 1000 --lr 3e-3 --warmup 50 --seed 1 --save-every 100 --out "$DEMO_RUN" "$@"
made="$DEMO_RUN/step-001000/model.safetensors"
if [ $is_check = yes ]; then
    cmp "$made" "$demo/model.safetensors"
    echo "the same bytes: $(sha256sum < "$made")"
else
    cp "$made" "$demo/model.safetensors"
    sha256sum "$demo/model.safetensors"
fi
