// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/train/optimizer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

/// A parameter in training, for tests of optimizers.
namespace shardwise::testing {

template <OptimizerRule Rule>
class ParameterCase {
public:
    ParameterCase(Rule const& rule, std::vector<float> weights) : rule_(rule), weights_(std::move(weights)) {
        auto const elements = static_cast<std::int64_t>(weights_.size());
        for (auto const& array : rule.state(elements, {0, elements}))
            state_.emplace_back(static_cast<std::size_t>(array.elements * (bits(array.dtype) / 8)));
    }

    /// One step, cut into shares that begin at these elements.
    Result<> step(OptimizerStep const& step, std::vector<float> const& gradients, HostContext& context,
                  std::vector<std::int64_t> cuts = {0}, bool decays = true) {
        auto stream = context.make_stream();
        auto const elements = static_cast<std::int64_t>(weights_.size());
        cuts.push_back(elements);
        for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
            UnitRange const range{cuts[i], cuts[i + 1]};
            ParameterRange part{.name = "w",
                                .elements = elements,
                                .range = range,
                                .weights = {weights_.data() + range.begin, {range.size()}},
                                .gradients = {gradients.data() + range.begin, {range.size()}},
                                .state = {},
                                .decays = decays};
            std::size_t which = 0;
            for (auto const& array : rule_.state(elements, {0, elements})) {
                // Arrays of a number for each block begin at the share's first block.
                auto const first = array.elements == elements ? range.begin : range.begin / optimizer_share_multiple;
                part.state[which] = state_[which].data() + first * (bits(array.dtype) / 8);
                ++which;
            }
            if (auto const done = rule_.update(step, part, stream); !done) return done;
        }
        return stream.synchronize(Deadline::after(std::chrono::seconds(20)));
    }

    [[nodiscard]] std::vector<float> const& weights() const { return weights_; }
    [[nodiscard]] std::vector<std::vector<std::byte>> const& state() const { return state_; }
    [[nodiscard]] std::vector<float> floats(std::size_t array) const {
        std::vector<float> out(state_[array].size() / sizeof(float));
        std::memcpy(out.data(), state_[array].data(), state_[array].size());
        return out;
    }

private:
    Rule rule_;
    std::vector<float> weights_;
    std::vector<std::vector<std::byte>> state_;
};

}  // namespace shardwise::testing
