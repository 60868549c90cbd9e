// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An expert's weight and what is added to its products: none where it has no elements.
template <class Backend>
struct ExpertFactor {
    typename Backend::Weight const* weight;
    TensorView<float const, 1, Backend> bias;
};

/// What a back end needs to multiply rows by the weights of their experts without being told how many rows each has. The host knows,
/// and needs nothing; a device's is in kernels/device/expert_table.hpp.
template <class Backend>
class ExpertTable;

template <>
class ExpertTable<Host> {
public:
    [[nodiscard]] static Result<ExpertTable> create(HostContext&, std::vector<ExpertFactor<Host>> const&) {
        return ExpertTable{};
    }
    [[nodiscard]] static constexpr Bytes bytes_for(std::int64_t) { return Bytes{0}; }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
