#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/element.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// Which elements of a head turn together.
enum class RopeLayout : std::uint8_t {
    half,         // element i with i + rotary/2 (llama, neox, most)
    interleaved,  // elements 2i and 2i + 1 (deepseek, gpt-j)
};

/// Turns the first elements of every head by its token's position, in place: the pair i of position p by the angle
/// p * frequencies[i]. `scale` multiplies cosine and sine (yarn's and longrope's attention factor).
///
/// Shapes  values [tokens, heads * head_dim]; positions [tokens]; frequencies [rotary / 2], rotary at most head_dim
/// Units   frequencies in radians per token
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  Su et al., RoFormer, 2021
template <ActivationElement T>
[[nodiscard]] Result<> rope(TensorView<T, 2, Host> values, TensorView<std::int32_t const, 1, Host> positions,
                            TensorView<float const, 1, Host> frequencies, std::int64_t head_dim, RopeLayout layout,
                            HostStream& stream, float scale = 1.0F) {
    Error error{ErrorCode::shape_mismatch};
    error.in("rope");
    auto const pairs = frequencies.elements();
    if (head_dim < 1 || values.extent(1) % head_dim != 0) {
        return error.because("a row is not made of whole heads").got(values.extent(1)).expected(head_dim);
    }
    if (2 * pairs > head_dim)
        return error.because("more elements turn than a head has").got(2 * pairs).expected(head_dim);
    if (positions.elements() != values.extent(0)) {
        return error.because("each token needs a position").got(positions.elements()).expected(values.extent(0));
    }
    auto const heads = values.extent(1) / head_dim;
    auto const turn = [=](std::int64_t begin, std::int64_t end) {
        for (auto token = begin; token < end; ++token) {
            auto const position = static_cast<double>(positions.data()[token]);
            for (std::int64_t pair = 0; pair < pairs; ++pair) {
                // In double: a float angle of a million radians has no digit behind the point left.
                auto const angle = position * static_cast<double>(frequencies.data()[pair]);
                auto const cosine = static_cast<float>(std::cos(angle)) * scale;
                auto const sine = static_cast<float>(std::sin(angle)) * scale;
                auto const first = layout == RopeLayout::half ? pair : 2 * pair;
                auto const second = layout == RopeLayout::half ? pair + pairs : 2 * pair + 1;
                for (std::int64_t head = 0; head < heads; ++head) {
                    auto* const row = values.row(token) + head * head_dim;
                    auto const a = static_cast<float>(row[first]);
                    auto const b = static_cast<float>(row[second]);
                    row[first] = T(a * cosine - b * sine);
                    row[second] = T(b * cosine + a * sine);
                }
            }
        }
    };
    Host::launch(values.extent(0), turn, stream, detail::row_grain(values.extent(1)));
    return {};
}

}  // namespace shardwise::inline v0_2_0
