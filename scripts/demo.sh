#!/usr/bin/env bash
# The main job on real input: sets up, builds the program, fetches a real model and plans it for real hardware.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh program
cmake --preset release -DSHARDWISE_BENCH=OFF >/dev/null
cmake --build --preset release --target shardwise_program
model=$(scripts/fetch_model.sh build/models)

shardwise=build/release/bin/shardwise
show() { # prints the command, then what it answers; 3 (does not fit) is an answer too
    printf '\n$ shardwise %s\n' "$*"
    "$shardwise" "$@" || [ $? -eq 3 ]
}
show estimate llama-3-70b --dtype bf16 --context 8192
show map llama-3-70b --dtype bf16 --context 8192 --devices 4xA100-40GB --strategy auto
show map llama-3-70b --dtype bf16 --context 8192 --devices 4xRTX4090 --strategy auto
show plan llama-3.1-405b --dtype bf16 --context 8192 --batch 16 --devices "4x(8xH100-80GB)"
show detect
show estimate "$model" --context 2048
show map "$model" --devices 1xRTX4090+cpu:64GiB --strategy auto
