// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>
#include <shardwise/kernels/philox.hpp>

#include <array>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a dropout is drawn by: where an element lies in the run and in the global batch, never who computes it.
struct DropoutOptions {
    /// The share of elements that become 0, at least 0 and below 1.
    float rate = 0.0F;
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    /// Which dropout of a layer, below 256.
    std::uint32_t purpose = 0;
    /// Below 2^24.
    std::uint32_t layer = 0;
    /// Of the rows: their sequence in the global batch, and the first one's token in it.
    std::uint32_t sequence = 0;
    std::uint32_t first_token = 0;
    /// The column of the whole that the first one is, where ranks share columns.
    std::uint32_t first_feature = 0;
};

namespace detail {

/// Draws for one row of elements: four neighbours share one call of Philox.
struct DropoutRow {
    std::array<std::uint32_t, 2> key{};
    std::uint32_t place = 0;
    std::uint32_t sequence = 0;
    std::uint32_t token = 0;
    std::uint32_t threshold = 0;

    [[nodiscard]] std::array<std::uint32_t, 4> words(std::uint32_t four) const {
        return philox({four, token, sequence, place}, key);
    }
};

[[nodiscard]] inline DropoutRow dropout_row(DropoutOptions const& options) {
    // The seed and the step make the key, so that the rest fits into the counter.
    auto const mixed = random_words(options.seed, 0, options.step);
    DropoutRow row;
    row.key = {mixed[0], mixed[1]};
    row.place = (options.purpose << 24U) | options.layer;
    row.sequence = options.sequence;
    row.token = options.first_token;
    row.threshold = static_cast<std::uint32_t>(static_cast<double>(options.rate) * 0x1p32);
    return row;
}

}  // namespace detail

/// out = in / (1 - rate) where an element is kept, else 0; or += it. The gradient is the same call on the output's gradient: who is kept
/// depends on the options and the element's place alone, so that there is no mask and no generator to keep.
///
/// Shapes  in, out [tokens, width] of one sequence, out may be in where nothing is added
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for a rate, a purpose or a layer out of its bounds
/// Source  Srivastava et al., Dropout, 2014; Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011
[[nodiscard]] inline Result<> dropout(TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                                      DropoutOptions const& options, HostStream& stream, bool is_added = false) {
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("dropout", in, width, out); !checked) return checked;
    bool const is_rate = options.rate >= 0.0F && options.rate < 1.0F;
    if (!is_rate || options.purpose >= 256 || options.layer >= (1U << 24U)) {
        return Error{ErrorCode::invalid_argument}
            .in("dropout")
            .at(!is_rate                 ? "rate"
                : options.purpose >= 256 ? "purpose"
                                         : "layer")
            .because(!is_rate                 ? "must be at least 0 and below 1"
                     : options.purpose >= 256 ? "must be below 256"
                                              : "must be below 2^24");
    }
    auto const first = detail::dropout_row(options);
    auto const scale = 1.0F / (1.0F - options.rate);
    auto const apply = [=](std::int64_t row, std::int64_t begin, std::int64_t end) {
        auto draws = first;
        draws.token += static_cast<std::uint32_t>(row);
        std::array<std::uint32_t, 4> words{};
        for (auto i = begin; i < end; ++i) {
            auto const feature = options.first_feature + static_cast<std::uint32_t>(i);
            if (i == begin || feature % 4 == 0) words = draws.words(feature / 4);
            bool const is_kept = words[feature % 4] >= draws.threshold;
            auto const value = is_kept ? in.row(row)[i] * scale : 0.0F;
            out.row(row)[i] = is_added ? out.row(row)[i] + value : value;
        }
    };
    detail::launch_pieces({in.extent(0), width}, apply, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
