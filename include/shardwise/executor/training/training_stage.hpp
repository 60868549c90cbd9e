// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One rank of a pipeline: the stage that it is, and how many chunks of the model it has.
struct TrainingStage {
    std::int64_t stages = 1;
    std::int64_t stage = 0;
    std::int64_t chunks = 1;
    ChunkOrder order = ChunkOrder::round;

    /// How many runs of layers the model is cut into.
    [[nodiscard]] std::int64_t virtual_stages() const { return stages * chunks; }
    [[nodiscard]] std::int64_t virtual_stage(std::int64_t chunk) const { return table().virtual_stage(stage, chunk); }
    /// The stage that has a virtual stage.
    [[nodiscard]] std::int64_t owner(std::int64_t virtual_stage) const {
        return rank_of_virtual_stage(table(), virtual_stage);
    }
    [[nodiscard]] std::int64_t chunk(std::int64_t virtual_stage) const { return virtual_stage / stages; }

    friend bool operator==(TrainingStage const&, TrainingStage const&) = default;

private:
    [[nodiscard]] PipelineSchedule table() const {
        return {.stages = stages, .micro_batches = 1, .chunks = chunks, .order = order};
    }
};

/// What a rank has of a model that is trained: a part of each layer, and of all layers those of its stage.
struct TrainingPlace : TensorPlace {
    TrainingPlace() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): a tensor-parallel rank has all layers.
    TrainingPlace(TensorPlace const& tensor, TrainingStage const& of = {}) : TensorPlace(tensor), pipeline(of) {}
    TrainingPlace(std::int64_t of_ranks, std::int64_t own) : TensorPlace{of_ranks, own} {}

    /// The place of a rank of all, of which those of a replica are neighbours, stage by stage: among the ranks of its stage, and among those
    /// that have the same part of the model.
    [[nodiscard]] TensorPlace in_stage(TensorPlace const& world) const {
        return {world.ranks / pipeline.stages, world.rank / (ranks * pipeline.stages) * ranks + world.rank % ranks};
    }
    [[nodiscard]] TensorPlace in_data(TensorPlace const& world) const {
        auto const replica = ranks * pipeline.stages;
        return {world.ranks / replica, world.rank / replica};
    }

    TrainingStage pipeline{};
};

/// A tied parameter whose names are read by two stages: each has a copy of it, with the optimizer's state.
struct StageTie {
    std::string first;
    std::string other;
    /// The number among the model's ties.
    std::size_t number = 0;
    /// The stages that read the first name, and the other.
    std::int64_t first_stage = 0;
    std::int64_t other_stage = 0;
};

/// Which blocks and parameters of a model a pipeline's rank has. Layers are cut into runs of equal length, those before longer by at most
/// one; what stands before the first layer is with it, what stands after the last one with that. A parameter belongs to the stage that
/// reads it.
class StageParts {
public:
    StageParts() = default;

    /// Errors  invalid_argument for a stage that there is not, or more of them than layers; unsupported for a parameter that several
    ///         stages read under one name, or that is tied to two others
    [[nodiscard]] static Result<StageParts> create(Model const& model, TrainingStage const& stage) {
        StageParts out;
        out.stage_ = stage;
        std::vector<std::int64_t> layers;
        std::int64_t blocks = 0;
        for (auto const& block : model.program.blocks()) {
            for (std::int32_t i = 0; i < block.count; ++i, ++blocks) {
                if (is_layer(model.program.body(block))) layers.push_back(blocks);
            }
        }
        if (auto const checked = check(stage, static_cast<std::int64_t>(layers.size())); !checked)
            return checked.error();
        auto const all = stage.virtual_stages();
        auto const begin = [&](std::int64_t number) {
            if (number == 0) return std::int64_t{0};
            if (number == all) return blocks;
            auto const first = split_units(static_cast<std::int64_t>(layers.size()), all, number).begin;
            return layers[static_cast<std::size_t>(first)];
        };
        std::vector<UnitRange> ranges;
        for (std::int64_t number = 0; number < all; ++number) ranges.push_back({begin(number), begin(number + 1)});
        for (std::int64_t chunk = 0; chunk < stage.chunks; ++chunk)
            out.blocks_.push_back(ranges[static_cast<std::size_t>(stage.virtual_stage(chunk))]);
        if (all == 1) return out;
        if (auto const found = out.find_readers(model, ranges); !found) return found.error();
        if (auto const found = out.find_ties(model); !found) return found.error();
        return out;
    }

    [[nodiscard]] TrainingStage const& stage() const { return stage_; }
    /// By chunk of this rank, the blocks of the program in the order in which they run, each of a run of them counted.
    [[nodiscard]] std::vector<UnitRange> const& blocks() const { return blocks_; }
    /// Whether a chunk of this rank has a parameter: by its own name, where that is tied to another's the name that is read.
    [[nodiscard]] bool has(std::string_view name, std::int64_t chunk) const {
        if (stage_.virtual_stages() == 1) return true;
        auto const found = readers_.find(name);
        // What no operation reads is with the first layer.
        auto const reader = found == readers_.end() ? std::int64_t{0} : found->second;
        return stage_.owner(reader) == stage_.stage && stage_.chunk(reader) == chunk;
    }
    /// Of the whole model, in its order: the same on all ranks.
    [[nodiscard]] std::vector<StageTie> const& ties() const { return ties_; }
    /// That of a parameter by its first name; null where it is in one stage.
    [[nodiscard]] StageTie const* tie_of(std::string_view first) const {
        for (auto const& tie : ties_) {
            if (tie.first == first) return &tie;
        }
        return nullptr;
    }

private:
    [[nodiscard]] static bool is_layer(BlockBody const& body) {
        for (auto const& op : body.operations()) {
            if (op.kind == OpKind::attention) return true;
        }
        return false;
    }
    [[nodiscard]] static Result<> check(TrainingStage const& stage, std::int64_t layers) {
        Error bad{ErrorCode::invalid_argument};
        bad.in("training");
        if (stage.stages < 1) return bad.at("pp").because("has no stage").got(stage.stages).at_least(1);
        if (stage.chunks < 1) return bad.at("chunks").because("are none").got(stage.chunks).at_least(1);
        if (stage.stage < 0 || stage.stage >= stage.stages)
            return bad.at("stage").because("is none of the pipeline").got(stage.stage).between(0, stage.stages - 1);
        if (stage.stages == 1 || stage.virtual_stages() <= layers) return {};
        return bad.at("pp")
            .because((stage.chunks == 1 ? std::string("is")
                                        : "times " + std::to_string(stage.chunks) + " chunks of a stage is") +
                     " more than the model's " + std::to_string(layers) + " layers")
            .got(stage.stages)
            .at_most(layers / stage.chunks)
            .fix("use fewer stages");
    }
    [[nodiscard]] Result<> find_readers(Model const& model, std::vector<UnitRange> const& ranges) {
        std::int64_t number = 0;
        std::size_t range = 0;
        for (auto const& block : model.program.blocks()) {
            for (std::int32_t i = 0; i < block.count; ++i, ++number) {
                while (number >= ranges[range].end) ++range;
                auto const prefix = block_path(block, i);
                for (auto const& op : model.program.body(block).operations()) {
                    for (auto const& parameter : op.parameters) {
                        if (parameter.empty()) continue;
                        auto const virtual_stage = static_cast<std::int64_t>(range);
                        auto const [reader, is_new] =
                            readers_.emplace(detail::parameter_name(prefix, parameter, 0), virtual_stage);
                        if (!is_new && reader->second != virtual_stage)
                            return Error{ErrorCode::unsupported}
                                .in(reader->first)
                                .because("is read by two stages of the pipeline, which are not trained yet")
                                .fix("use fewer stages, or tensor-parallel or data-parallel ranks");
                    }
                }
            }
        }
        return {};
    }
    [[nodiscard]] Result<> find_ties(Model const& model) {
        std::map<std::string, int, std::less<>> counts;
        std::vector<std::pair<std::string, std::string>> pairs;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter()) return;
            for (auto const& tie : model.tree.ties()) {
                if (tie.other != name) continue;
                pairs.emplace_back(std::string(tie.first), std::string(tie.other));
                ++counts[std::string(tie.first)];
                break;
            }
        });
        for (std::size_t i = 0; i < pairs.size(); ++i) {
            auto const& [first, other] = pairs[i];
            auto const first_reader = readers_.find(first);
            auto const other_reader = readers_.find(other);
            if (other_reader == readers_.end()) continue;
            auto const first_stage = first_reader == readers_.end() ? 0 : stage_.owner(first_reader->second);
            auto const other_stage = stage_.owner(other_reader->second);
            bool const is_last = stage_.chunk(other_reader->second) + 1 == stage_.chunks;
            if (first_stage == other_stage && is_last) continue;
            if (first_stage == other_stage)
                return Error{ErrorCode::unsupported}
                    .in(other)
                    .because("is tied, and is not in the last chunk of its stage, which is not trained yet")
                    .fix("use another table of the pipeline");
            if (counts[first] > 1)
                return Error{ErrorCode::unsupported}
                    .in(first)
                    .because("is tied to more than one other name, in stages of a pipeline, which is not trained yet")
                    .fix("use tensor-parallel or data-parallel ranks");
            ties_.push_back({first, other, i, first_stage, other_stage});
        }
        return {};
    }

    TrainingStage stage_;
    std::vector<UnitRange> blocks_;
    /// The virtual stage that reads a name.
    std::map<std::string, std::int64_t, std::less<>> readers_;
    std::vector<StageTie> ties_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
