// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/chunk_pass.hpp>
#include <shardwise/executor/training/frozen_products.hpp>
#include <shardwise/executor/training/held_head.hpp>
#include <shardwise/executor/training/shared_head.hpp>
#include <shardwise/executor/training/training_program.hpp>

#include <algorithm>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The head and the loss of one sequence: what they read.
struct HeadPass {
    using Matrix = TensorView<float, 2, Host>;
    using ConstMatrix = TensorView<float const, 2, Host>;
    using Vector = TensorView<float, 1, Host>;

    TensorRank const& tensor;
    TrainedHead const& head;
    float const* weights = nullptr;
    /// The copies of weights that are cut along the other axis.
    float const* turned = nullptr;
    /// Frozen products in formats of their own, and memory for the rows of one that are decoded together.
    FrozenProducts::Product const* held = nullptr;
    float* decoded = nullptr;
    Matrix hidden{};
    float soft_cap = 0.0F;
    /// A weight for each token, and memory.
    Vector factors{};
    Vector scratch{};

    /// Whether more is asked for than losses.
    [[nodiscard]] static bool goes_back(float const* gradients, float const* above) {
        return gradients != nullptr || above != nullptr;
    }
    /// The losses; with `gradients` those of the head, with `above` those of its input.
    [[nodiscard]] Result<> run(LeafBack const& leaf, float* gradients, float* above, std::vector<char>& is_written,
                               HostStream& stream) const {
        // Nothing but parameters' gradients is asked for, and there are none.
        if (goes_back(gradients, above) && above == nullptr && head.weight.is_frozen) return {};
        // Of one rank all rows of the vocabulary.
        auto const rows = head.rows.size();
        bool const is_held = head.weight.held >= 0;
        HeadLoss in{.in = hidden,
                    .head = is_held ? ConstMatrix{} : ConstMatrix(weights + head.weight.weight, {rows, head.hidden}),
                    .targets = leaf.targets};
        if (head.bias.elements > 0) in.bias = {weights + head.bias.weight, {head.bias.elements}};
        HeadLossGradients to{.loss = leaf.losses};
        if (goes_back(gradients, above)) {
            stream.submit([to_all = factors, scale = leaf.scale] {
                std::fill_n(to_all.data(), to_all.elements(), scale);
                return Result<>{};
            });
            in.weights = factors;
        }
        if (above != nullptr) to.in = Matrix(above, {hidden.extent(0), head.hidden});
        if (gradients != nullptr && !head.weight.is_frozen) {
            to.head = Matrix(gradients + head.weight.gradient, {rows, head.hidden});
            to.is_head_added = is_written[head.weight.number] != 0;
            if (head.bias.elements > 0) to.bias = {gradients + head.bias.gradient, {head.bias.elements}};
            to.is_head_added = is_written[head.weight.number] != 0;
            is_written[head.weight.number] = 1;
            if (head.bias.elements > 0) is_written[head.bias.number] = 1;
        }
        HeadLossOptions const options{.soft_cap = soft_cap};
        if (is_held) {
            auto const& product = held[head.weight.held];
            HeldHead const own{product.own, decoded};
            return run(own, HeldHead{product.turned, decoded}, in, to, options, stream);
        }
        auto const columns = split_units(head.hidden, tensor.place.ranks, tensor.place.rank).size();
        DenseHead const own{in.head};
        if (tensor.place.ranks == 1) return head_cross_entropy(in, to, options, scratch, stream);
        return run(own, DenseHead{ConstMatrix(turned + head.turned, {head.vocabulary, columns})}, in, to, options,
                   stream);
    }

private:
    /// By this rank's rows of the head, and by its columns of all rows.
    template <class Head>
    [[nodiscard]] Result<> run(Head const& own, Head const& other, HeadLoss const& in, HeadLossGradients const& to,
                               HeadLossOptions const& options, HostStream& stream) const {
        if (tensor.place.ranks == 1) return cross_entropy_of(own, head.vocabulary, in, to, options, scratch, stream);
        SharedHead<Head> const shared{tensor, own, other};
        return cross_entropy_of(shared, head.vocabulary, in, to, options, scratch, stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
