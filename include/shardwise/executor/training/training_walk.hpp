// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/executor/training/body_memory.hpp>
#include <shardwise/executor/training/decoded_rows.hpp>
#include <shardwise/executor/training/frozen_products.hpp>
#include <shardwise/executor/training/gathered_columns.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/kernels/half_values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One block in one pass over some sequences: what its operations read and write. Operations that run again in the backward pass find
/// values where that pass has them.
struct TrainingWalk {
    using Matrix = TensorView<float, 2, Host>;
    using ConstMatrix = TensorView<float const, 2, Host>;
    using Vector = TensorView<float, 1, Host>;
    using ConstVector = TensorView<float const, 1, Host>;

    Model const& model;
    TrainedBlock const& block;
    BackwardBody const& body;
    /// Of the forward or the backward pass.
    BodyMemory::Pass const& memory;
    HostStream& stream;
    float const* weights = nullptr;
    /// Of one leaf; null in the forward pass.
    float* parameter_gradients = nullptr;
    /// By parameter of the layout and, after them, by tie: 1 where the leaf's gradient was written.
    char* is_written = nullptr;

    TensorView<std::int32_t const, 1, Host> ids{};
    TensorView<std::int32_t const, 1, Host> positions{};
    ConstVector frequencies{};
    float rope_scale = 1.0F;
    /// ALiBi's, or none.
    ConstVector slopes{};
    /// By operation, and how; null without dropout.
    List<DroppedInput> const* dropped = nullptr;
    TrainingDropout const* dropout = nullptr;
    /// Whether products are summed as a run under Deterministic sums them: TrainedOperation::run_sums.
    bool sums_as_run = false;

    /// The first token of those that the block's memory holds, and how many there are, in sequences of so many.
    std::int64_t first = 0;
    std::int64_t tokens = 0;
    std::int64_t sequence = 0;

    float* kept = nullptr;
    /// Of gradients, between the parts of a backward pass.
    float* waiting = nullptr;
    float* working = nullptr;
    float* block_input = nullptr;
    float* block_output = nullptr;
    float* input_gradient = nullptr;
    float* output_gradient = nullptr;
    Vector scratch{};
    /// The dtype that values are rounded to, by value whether it is, null where none is; and memory for the weight that a product reads.
    Dtype precision = Dtype::f32;
    List<char> const* rounded = nullptr;
    float* product_weight_memory = nullptr;
    /// Frozen products in formats of their own.
    FrozenProducts::Product const* held = nullptr;
    /// Null for one rank; by value of a block how ranks hold it, null where they do not share its values.
    TensorRank const* tensor = nullptr;
    std::vector<SharedValue> const* shared = nullptr;

    /// How ranks hold a value or a gradient, which they share.
    [[nodiscard]] SharedValue const& shared_value(ValueId id) const { return (*shared)[static_cast<std::size_t>(id)]; }
    [[nodiscard]] bool is_shared(ValueId id) const { return shared != nullptr && !shared_value(id).is_whole(); }
    /// All columns of a shared value, of which `own` are this rank's rows; in memory of `tensor`, until that is used again.
    [[nodiscard]] Matrix gather(ValueId id, Matrix own, float* to) const {
        Matrix const all(to, {own.extent(0), shared_value(id).width});
        gather_columns(*tensor, own, shared_value(id), all, stream);
        return all;
    }

    [[nodiscard]] std::int64_t width(ValueId id) const { return body.values[static_cast<std::size_t>(id)].width; }
    /// A value of the forward pass.
    [[nodiscard]] Matrix value(ValueId id) const { return at(memory.values[static_cast<std::size_t>(id)], width(id)); }
    /// A gradient, which is of this pass's tokens alone.
    [[nodiscard]] Matrix gradient(ValueId id) const {
        auto const& spot = memory.values[static_cast<std::size_t>(id)];
        auto* from = working + spot.offset;
        if (spot.place == BodyMemory::Place::block_input) from = input_gradient;
        if (spot.place == BodyMemory::Place::block_output) from = output_gradient;
        if (spot.place == BodyMemory::Place::waiting) from = waiting + spot.offset + first * width(id);
        return {from, {tokens, width(id)}};
    }
    /// Keeps the gradient of the block's output for the part of its backward pass that comes later.
    [[nodiscard]] Result<> keep_output_gradient(BodyMemory::Spot const& to) const {
        auto const columns = width(body.out_gradient);
        auto const elements = tokens * columns;
        return Host::copy<float>({output_gradient, {elements}}, {waiting + to.offset + first * columns, {elements}},
                                 stream);
    }
    /// Rounds what an operation has made, and keeps it where the block keeps it in 16 bits.
    void round_value(ValueId id) const {
        if (rounded == nullptr || (*rounded)[static_cast<std::size_t>(id)] == 0) return;
        auto const made = value(id);
        if (auto* const to = packed(id))
            pack_half(made.data(), to, made.elements(), precision, stream);
        else
            round_to_half(made.data(), made.data(), made.elements(), precision, stream);
    }
    /// Brings back what is kept in 16 bits.
    void unpack_value(ValueId id) const {
        auto const to = value(id);
        unpack_half(packed(id), to.data(), to.elements(), precision, stream);
    }
    void round_gradient(ValueId id) const {
        if (rounded == nullptr || (*rounded)[static_cast<std::size_t>(id)] == 0) return;
        auto const made = gradient(id);
        round_to_half(made.data(), made.data(), made.elements(), precision, stream);
    }
    /// Whether an operation's products round their factors to bf16.
    [[nodiscard]] bool multiplies_bf16(Operation const& op) const {
        return precision == Dtype::bf16 && reads_half(*rounded, op);
    }
    /// What a product reads as its weight, until the next one does: rounded but where the product does that.
    [[nodiscard]] float const* product_weight(Operation const& op, float const* from, std::int64_t elements) const {
        if (rounded == nullptr || !reads_half(*rounded, op) || multiplies_bf16(op)) return from;
        round_to_half(from, product_weight_memory, elements, precision, stream);
        return product_weight_memory;
    }

    /// The same of some rows of a frozen product that is held in a format of its own.
    [[nodiscard]] float const* decoded_rows(Operation const& op, WeightSource const& source, UnitRange rows) const {
        decode_rows(source, rows, product_weight_memory, stream);
        return product_weight(op, product_weight_memory, rows.size() * source.inputs);
    }

    /// Empty where nothing reads them.
    [[nodiscard]] Matrix log_sums(std::size_t operation) const {
        auto const& spot = memory.log_sums[operation];
        if (spot.place == BodyMemory::Place::none) return {};
        return at(spot, body.forward.operations()[operation].attention().heads);
    }

    /// What dropout is on, of an addition or of what an adapter reads.
    [[nodiscard]] DroppedInput dropped_input(std::size_t operation) const {
        if (dropout == nullptr) return {};
        auto const made = (*dropped)[operation];
        return dropout->rate_of(made.purpose) > 0.0F ? made : DroppedInput{};
    }
    [[nodiscard]] bool drops_block_output() const { return dropout != nullptr && dropout->rate > 0.0F; }
    /// out = the elements that are kept, a sequence at a time, scaled; or += them. Purpose 0 is that of the first block's output.
    [[nodiscard]] Result<> drop(Matrix in, Matrix out, std::uint32_t purpose, bool is_added = false,
                                std::int64_t first_feature = 0) const {
        DropoutOptions options{
            .rate = dropout->rate_of(purpose), .seed = dropout->seed, .step = dropout->step, .purpose = purpose};
        options.first_feature = static_cast<std::uint32_t>(first_feature);
        options.layer = static_cast<std::uint32_t>(block.number);
        for (std::int64_t row = 0; row < tokens; row += sequence) {
            options.sequence = dropout->sequences[static_cast<std::size_t>((first + row) / sequence)];
            auto const done = shardwise::dropout(TensorView<float const, 2, Host>(in.rows(row, sequence)),
                                                 out.rows(row, sequence), options, stream, is_added);
            if (!done) return done;
        }
        return {};
    }

    /// The same of a value, or a gradient of one, that ranks may share: elements count by their columns in the whole.
    [[nodiscard]] Result<> drop_shared(ValueId like, Matrix in, Matrix out, std::uint32_t purpose,
                                       bool is_added = false) const {
        if (!is_shared(like)) return drop(in, out, purpose, is_added);
        std::int64_t at = 0;
        for (auto const& own : shared_value(like).columns[static_cast<std::size_t>(tensor->place.rank)]) {
            auto const done =
                drop(in.columns(at, own.size()), out.columns(at, own.size()), purpose, is_added, own.begin);
            if (!done) return done;
            at += own.size();
        }
        return {};
    }

    [[nodiscard]] TrainedParameter const& parameter(std::size_t operation, std::size_t slot) const {
        return block.operations[operation].parameters[slot];
    }
    [[nodiscard]] ConstVector weight(std::size_t operation, std::size_t slot) const {
        auto const& of = parameter(operation, slot);
        return of.elements == 0 ? ConstVector{} : ConstVector{weights + of.weight, {of.elements}};
    }
    /// Where the leaf's gradient of a parameter goes.
    [[nodiscard]] Vector parameter_gradient(std::size_t operation, std::size_t slot) const {
        auto const& of = parameter(operation, slot);
        return of.elements == 0 ? Vector{} : Vector{parameter_gradients + of.gradient, {of.elements}};
    }
    /// Whether it is added to: another operation of this leaf had the parameter, too. Asked once for each write.
    [[nodiscard]] bool adds(std::size_t operation, std::size_t slot) const {
        auto const& of = parameter(operation, slot);
        if (of.elements == 0) return false;
        bool const was_written = is_written[of.number] != 0;
        is_written[of.number] = 1;
        return was_written;
    }

private:
    /// Null where the block does not keep a value in 16 bits.
    [[nodiscard]] std::uint16_t* packed(ValueId id) const {
        auto const place = memory.values[static_cast<std::size_t>(id)].packed;
        return place < 0 ? nullptr : reinterpret_cast<std::uint16_t*>(kept + place) + first * width(id);
    }
    [[nodiscard]] Matrix at(BodyMemory::Spot const& spot, std::int64_t columns) const {
        if (spot.place == BodyMemory::Place::working) return {working + spot.offset, {tokens, columns}};
        auto* from = kept + spot.offset;
        if (spot.place == BodyMemory::Place::block_input) from = block_input;
        if (spot.place == BodyMemory::Place::block_output) from = block_output;
        return Matrix(from, {first + tokens, columns}).rows(first, tokens);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
