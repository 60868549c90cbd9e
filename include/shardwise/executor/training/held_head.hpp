// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/gemm.hpp>
#include <shardwise/executor/training/decoded_rows.hpp>
#include <shardwise/kernels/backward/linear.hpp>

#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a loss multiplies by a frozen head that is held in a format of its own, some rows of which are decoded at a time; with the bits of
/// DenseHead's products.
///
/// Shapes  as DenseHead; decoded [HeldPart::decoded_elements()]
/// Order   on the stream; the product and the memory outlive what is in it
struct HeldHead {
    HeldProduct const& product;
    float* decoded = nullptr;

    [[nodiscard]] Result<> logits(TensorView<float const, 2, Host> in, TensorView<float, 2, Host> to,
                                  HostStream& stream) const {
        return for_each(stream, [&](TensorView<float const, 2, Host> weight, UnitRange rows) {
            return Host::gemm<float>(in, weight, to.columns(rows.begin, rows.size()), {.is_b_transposed = true},
                                     stream);
        });
    }
    [[nodiscard]] Result<> input_gradient(TensorView<float const, 2, Host> gradient, TensorView<float, 2, Host> to,
                                          bool is_added, HostStream& stream) const {
        return for_each(stream, [&](TensorView<float const, 2, Host> weight, UnitRange rows) {
            return linear_input_gradient(gradient.columns(rows.begin, rows.size()), weight, to,
                                         {.is_added = std::exchange(is_added, true)}, stream);
        });
    }
    /// As DenseHead's; a frozen head has no gradient.
    [[nodiscard]] static TensorView<float const, 2, Host> own(TensorView<float const, 2, Host> logits) {
        return logits;
    }

private:
    template <class Visit>
    [[nodiscard]] Result<> for_each(HostStream& stream, Visit const& visit) const {
        auto const decode = [&](UnitRange rows) -> float const* {
            decode_rows(product.source, rows, decoded, stream);
            return decoded;
        };
        return for_each_decoded(product, decode, visit);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
