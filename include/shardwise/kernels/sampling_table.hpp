// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/kernels/sample.hpp>
#include <shardwise/kernels/sampling_bounds.hpp>
#include <shardwise/kernels/sampling_row.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// On the host it shows what it was told.
template <>
class SamplingTable<Host> {
public:
    /// Errors  invalid_argument for bounds that are none
    [[nodiscard]] static Result<SamplingTable> create(HostContext&, SamplingBounds const& bounds) {
        if (auto const checked = detail::check_sampling_bounds(bounds); !checked) return checked.error();
        return SamplingTable(bounds);
    }

    /// Says how the next rows are sampled.
    ///
    /// Memory  histories stay alive until tokens are chosen by them
    /// Errors  invalid_argument for options outside of their range; capacity_exceeded
    [[nodiscard]] Result<> write(std::span<SamplingRow const> rows, HostStream&) {
        if (auto const checked = detail::check_sampling_rows(rows, bounds_); !checked) return checked;
        rows_.assign(rows.begin(), rows.end());
        return {};
    }

    [[nodiscard]] std::span<SamplingRow const> rows() const { return rows_; }
    [[nodiscard]] Bytes bytes() const { return Bytes{0}; }
    [[nodiscard]] static Result<Bytes> bytes_for(SamplingBounds const& bounds) {
        if (auto const checked = detail::check_sampling_bounds(bounds); !checked) return checked.error();
        return Bytes{0};
    }

private:
    explicit SamplingTable(SamplingBounds const& bounds) : bounds_(bounds) {}

    SamplingBounds bounds_;
    std::vector<SamplingRow> rows_;
};

/// Chooses a token for each row of logits, as the table's last write says.
///
/// Memory  the table stays alive, and is not written, until it is done
/// Order   on `stream`
/// Errors  as those of `sample` by rows
[[nodiscard]] inline Result<> sample(TensorView<float const, 2, Host> logits, SamplingTable<Host> const& table,
                                     TensorView<std::int32_t, 1, Host> out, HostStream& stream) {
    return sample(logits, table.rows(), out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
