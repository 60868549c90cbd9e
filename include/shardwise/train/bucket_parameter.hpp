// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A parameter whose gradient is averaged over ranks.
struct BucketParameter {
    std::string name;
    std::int64_t elements = 0;
    /// Where the caller keeps its gradient; not read where buckets are views.
    TensorView<float, 1, Host> gradient{};
};

namespace detail {

/// Compares what each rank brings with what rank 0 does.
///
/// Errors  collective_mismatch with the first parameter that differs, on all ranks; as a collective
template <Communicator C>
[[nodiscard]] Result<> compare_parameters(C& comm, Span<BucketParameter const> parameters,
                                          Span<TensorView<float, 1, Host> const> buffers) {
    List<std::int64_t> sizes{static_cast<std::int64_t>(parameters.size()), static_cast<std::int64_t>(buffers.size())};
    auto const own_sizes = sizes;
    TensorView<std::int64_t, 1, Host> const head{sizes.data(), {2}};
    if (auto const sent = broadcast(comm, head, 0); !sent) return sent;
    Error differs{ErrorCode::collective_mismatch};
    auto const names = names_of_ranks(comm);
    differs.in(names.name(comm.rank()) + " and " + names.name(0));
    Result<> mine;
    if (!(sizes == own_sizes))
        mine = differs.because("have another number of parameters or buffers").got(own_sizes[0]).expected(sizes[0]);
    if (auto const agreed = agree_on(comm, mine); !agreed) return agreed;
    sizes.clear();
    for (auto const& parameter : parameters) sizes.push_back(parameter.elements);
    for (auto const& buffer : buffers) sizes.push_back(buffer.elements());
    auto const own = sizes;
    TensorView<std::int64_t, 1, Host> const all{sizes.data(), {static_cast<std::int64_t>(sizes.size())}};
    if (auto const sent = broadcast(comm, all, 0); !sent) return sent;
    for (std::size_t i = 0; i < own.size() && mine; ++i) {
        if (own[i] == sizes[i]) continue;
        bool const is_parameter = i < parameters.size();
        mine = differs.at(is_parameter ? std::string_view(parameters[i].name) : std::string_view("a buffer"))
                   .because("differ in size")
                   .got(own[i])
                   .expected(sizes[i]);
    }
    return agree_on(comm, mine);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
