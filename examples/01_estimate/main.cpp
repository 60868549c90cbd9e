// SPDX-License-Identifier: Apache-2.0
// How much memory does a model take, and what for?
#include <shardwise/shardwise.hpp>

#include <cstdio>

int main() {
    using namespace shardwise;

    // A preset is a value; a config.json gives the same one (see <shardwise/readers.hpp>).
    auto const model = describe(presets::llama_3_8b);
    if (!model) return std::puts(model.error().message().c_str()), 1;

    // 16 sequences of 8192 tokens, weights as published (bf16), split over two GPUs.
    auto const estimate = estimate_memory(*model, {.batch = 16, .context = 8192, .parallel = {.tp = 2}});
    if (!estimate) return std::puts(estimate.error().message().c_str()), 1;

    std::printf("%s: %lld parameters\n", std::string(model->config.name.view()).c_str(),
                static_cast<long long>(estimate->parameters));
    std::printf("key-value cache: %lld bytes per token\n", static_cast<long long>(estimate->kv_bytes_per_token.count()));
    for (auto const& device : estimate->devices) {
        std::printf("rank %lld: weights %s, cache %s, activations %s, total %s\n", static_cast<long long>(device.place.tp),
                    to_text(device.terms.weights).c_str(), to_text(device.terms.kv_cache).c_str(),
                    to_text(device.terms.activations).c_str(), to_text(device.total()).c_str());
    }
    // What the numbers rest on is part of the answer.
    for (auto const assumption : estimate->assumptions) std::printf("- %s\n", std::string(text_of(assumption)).c_str());
}
