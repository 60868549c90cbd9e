// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/train_model.hpp>

#include <cstdio>

int main(int count, char** words) {
    if (count != 4) return std::puts("usage: example_12_train FOLDER TEXT OUT"), 2;
    // Two threads train one copy of the weights. OUT/step-000004 is a model for every command, and for transformers.
    auto const steps = shardwise::train_model(words[1], {words[2]}, words[3], {.steps = 4, .context = 64, .ranks = 2});
    if (!steps) return std::puts(steps.error().message().c_str()), 1;
    for (auto const& step : *steps) std::printf("step %d: loss %.2f\n", static_cast<int>(step.number), step.loss);
}
