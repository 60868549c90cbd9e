// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/executor/training/training_dropout.hpp>
#include <shardwise/model/backward_program.hpp>

#include <cstdint>
#include <functional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A micro-batch in a chunk of a pipeline's rank: without any, in the whole model.
///
/// Shapes  rows of a micro-batch in its order, at least as many as it has tokens [rows, hidden]
struct ChunkPass {
    std::int64_t chunk = 0;
    /// Where its values are kept, among those in flight.
    std::int64_t place = 0;
    /// Of a backward pass in two parts, where its gradients lie between them.
    std::int64_t waiting = 0;
    /// What the stage before made, which stays until the backward pass is done; empty in the first.
    TensorView<float, 2, Host> in{};
    /// Of a backward pass, the gradients of what this stage made; empty in the last.
    TensorView<float const, 2, Host> gradients{};
    /// What the pass makes for a neighbour: the hidden state, or the gradients of `in`; empty where nobody takes it.
    TensorView<float, 2, Host> out{};
    /// Of a forward pass that no backward pass follows: whether products are summed as `run` sums them under Deterministic, so that the logits
    /// are its own in every bit.
    bool sums_as_run = false;
    /// Of a backward pass, whether the parameters' gradients are added to what is there.
    bool adds_gradients = false;
    /// Of a backward pass, whether that of another sequence of the same micro-batch follows: where layers are gathered, its first one is meanwhile.
    bool is_followed = false;
    /// Of a backward pass, called once what a block adds to gradients is in the stream, from the last to the first; before them, with their
    /// number, for the head. An error ends the pass.
    using Done = std::function<Result<>(std::int64_t block)>;
    Done done{};

    [[nodiscard]] Result<> tell(std::int64_t block) const { return done ? done(block) : Result<>{}; }
};

namespace detail {

/// What the last forward pass took at a place.
struct TakenRows {
    std::int64_t sequences = 0;
    std::int64_t length = 0;
    TensorView<std::int32_t const, 1, Host> ids{};
    TrainingDropout dropout{};
    ChunkPass at{};
};

/// A sequence on its way back.
struct LeafBack {
    std::int64_t sequence = 0;
    TensorView<std::int32_t const, 1, Host> targets{};
    float scale = 1.0F;
    TensorView<float, 1, Host> losses{};
    /// Of parameters; empty where this part makes none.
    TensorView<float, 1, Host> gradients{};
    BackwardPart part = BackwardPart::whole;
};

/// `waiting` is how many sequences' gradients may lie between the parts of a backward pass; 0: it is in one.
///
/// Errors  invalid_argument for a part that the memory is not planned for
[[nodiscard]] inline Result<> check_part(BackwardPart part, ChunkPass const& at, std::int64_t waiting) {
    Error bad{ErrorCode::invalid_argument};
    bad.in("training");
    bool const is_whole = part == BackwardPart::whole;
    if (is_whole != (waiting == 0)) return bad.at("backward").because("is in as many parts as the limits do not say");
    if (is_whole || (at.waiting >= 0 && at.waiting < waiting)) return {};
    return bad.at("waiting").got(at.waiting).between(0, waiting - 1);
}

/// The gradients of what a chunk made, of one sequence.
[[nodiscard]] inline Result<> take_rows(TensorView<float const, 2, Host> from, TakenRows const& taken,
                                        std::int64_t sequence, float* to, HostStream& stream) {
    if (from.extent(0) < taken.sequences * taken.length || !from.is_dense())
        return Error{ErrorCode::shape_mismatch}
            .in("training")
            .at("gradients")
            .because("have not the rows of the stage behind")
            .got(from.extent(0))
            .at_least(taken.sequences * taken.length);
    auto const elements = taken.length * from.extent(1);
    return Host::copy<float>({from.data() + sequence * elements, {elements}}, {to, {elements}}, stream);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
