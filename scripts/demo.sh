#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh [MODEL]: the main job on real input. Sets up, builds the program, plans models for real hardware, and runs one sharded:
# SmolLM2-135M-Instruct, which it fetches, or MODEL (a folder or a .gguf file). Where nothing can be fetched it runs the model that
# comes with the program.
set -euo pipefail
given=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."

scripts/setup.sh program
cmake --preset release -DSHARDWISE_BENCH=OFF >/dev/null
cmake --build --preset release --target shardwise_program
model=$given
context=512
if [ -z "$model" ] && ! model=$(scripts/fetch_model.sh build/models); then
    printf '\nSmolLM2-135M-Instruct could not be fetched (see above): the demo model runs in its place.\n'
    model=demo
    context=128
fi

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

# This machine, measured.
machine=build/machine.json
show calibrate --out "$machine"

show estimate "$model" --context $context
show map "$model" --devices 1xRTX4090+cpu:64GiB --strategy auto

# The model, planned for two ranks on this machine and run over them.
show plan "$model" --devices "$machine" --context $context
if [ -z "$given" ] && [ "$model" != demo ]; then
    show run "$model" --chat --prompt "Tell me about Paris in three sentences." --tp 2 --max-new-tokens 96
else
    show run "$model" --prompt "Once upon a time" --tp 2 --max-new-tokens 96
fi

# The same again, deterministically: two ranks must give what one gives, to the last bit of every logit.
for ranks in 1 2; do
    show run "$model" --prompt "Once upon a time" --tp $ranks --max-new-tokens 32 --deterministic --logits build/logits.$ranks
done
cmp build/logits.1 build/logits.2 || { echo "demo: two ranks gave other bits than one" >&2; exit 1; }
printf '\nTwo ranks gave the same bits as one: all %d logits of every step, and so the same text.\n' \
    $(($(wc -c <build/logits.1) / 4))
