// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/cost/profile.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/block_program.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How long each block of a model takes while an executor computes it: what profiles are made of. A step in which some
/// sequence has more than one new token is part of the prompts' pass.
class BlockTimes {
public:
    explicit BlockTimes(BlockProgram const& program) {
        for (auto const& block : program.blocks()) {
            for (std::int32_t i = 0; i < block.count; ++i) {
                auto name = block_path(block, i);
                blocks_.push_back({std::move(name), 0.0, 0.0});
            }
        }
    }

    /// A step begins.
    void begin(std::int64_t tokens, std::int64_t sequences) {
        is_prefill_ = tokens > sequences;
        ++(is_prefill_ ? prefills_ : decodes_);
    }
    /// Seconds of a block in that step.
    void add(std::size_t block, double seconds) {
        (is_prefill_ ? blocks_[block].prefill : blocks_[block].decode) += seconds;
    }

    /// The times of one device: of all prompts together, and the mean of the steps of one token.
    [[nodiscard]] DeviceProfile profile(std::string device, std::int64_t batch, std::int64_t context) const {
        DeviceProfile profile;
        profile.device = std::move(device);
        profile.batch = batch;
        profile.context = context;
        profile.repeat = decodes_ > 0 ? decodes_ : 1;
        for (auto const& block : blocks_) {
            ModuleTime time;
            time.module = block.name;
            if (prefills_ > 0) time.prefill = block.prefill;
            if (decodes_ > 0) time.decode = block.decode / static_cast<double>(decodes_);
            profile.modules.push_back(std::move(time));
        }
        return profile;
    }
    /// Seconds of each block, of all prompts and of all steps of one token; for add_seconds elsewhere.
    [[nodiscard]] std::vector<double> seconds() const {
        std::vector<double> all;
        for (auto const& block : blocks_) all.insert(all.end(), {block.prefill, block.decode});
        return all;
    }
    /// Adds what other stages took in the same steps for blocks of theirs: their `seconds`.
    void add_seconds(std::span<double const> all) {
        for (std::size_t i = 0; i < blocks_.size() && 2 * i + 1 < all.size(); ++i) {
            blocks_[i].prefill += all[2 * i];
            blocks_[i].decode += all[2 * i + 1];
        }
    }
    /// True once a step was timed.
    [[nodiscard]] bool has_steps() const { return prefills_ + decodes_ > 0; }

private:
    struct Block {
        std::string name;
        double prefill;
        double decode;
    };

    std::vector<Block> blocks_;
    std::int64_t prefills_ = 0;
    std::int64_t decodes_ = 0;
    bool is_prefill_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
