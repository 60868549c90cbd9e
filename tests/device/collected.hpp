// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/device_communicator.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/parallel/device_collectives.hpp>

#include "backends.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// The bits that a rank's collectives leave: a sum, a gather, a sum's share and an exchange.
template <class B, class T>
[[nodiscard]] Result<std::vector<T>> collect(DeviceCommunicator<typename B::VendorApi>& comm,
                                             typename B::Context& context, typename B::Stream& stream) {
    constexpr std::int64_t size = 90;
    auto const own_numbers = numbers(size, 3U + static_cast<unsigned>(comm.rank()));
    std::vector<T> values;
    for (auto const value : own_numbers) values.push_back(T(value));
    auto memory = Buffer<T, B>::allocate(context, 5 * size);
    if (!memory) return memory.error();
    auto const part = [&](std::int64_t i) { return memory->view().part(i * size, size); };
    TensorView<T const, 1, Host> const from(values.data(), {size});
    for (int i = 0; i < 3; ++i) {
        if (auto const copied = B::template copy<T>(from, part(i), stream); !copied) return copied.error();
    }
    auto const share = [ranks = comm.size()](std::int32_t rank) { return split_units(size, ranks, rank).size(); };
    auto const own = split_units(size, comm.size(), comm.rank());
    TensorView<T const, 1, B> const whole = part(1);
    submit_all_reduce(comm, part(0), ReduceOp::sum, stream);
    submit_reduce_scatter(comm, whole, part(1).part(own.begin, own.size()), share, stream);
    submit_all_gather(comm, TensorView<T const, 1, B>(part(1).part(own.begin, own.size())), part(1), share, stream);
    auto const received = own.size() * comm.size();
    auto const exchanged = memory->view().part(3 * size, received);
    submit_all_to_all(
        comm, TensorView<T const, 1, B>(part(2)), share, exchanged, [&](std::int32_t) { return own.size(); }, stream);
    // What the stream still reads stays where it is.
    std::vector<T> results(5 * size);
    TensorView<T, 1, Host> const to(results.data(), {5 * size});
    if (auto const copied = B::template copy<T>(std::as_const(*memory).view(), to, stream); !copied)
        return copied.error();
    if (auto const done = stream.synchronize(Deadline::after(std::chrono::seconds(60))); !done) return done.error();
    results.resize(static_cast<std::size_t>(3 * size + received));
    return results;
}

/// Whether collectives over peers have the bits of staged ones, of one rank.
template <class B, class T>
[[nodiscard]] Result<> check_collected(DeviceCommunicator<typename B::VendorApi>& staged,
                                       DeviceCommunicator<typename B::VendorApi>& peers, typename B::Context& context,
                                       typename B::Stream& stream) {
    auto const expected = collect<B, T>(staged, context, stream);
    if (!expected) return expected.error();
    auto const found = collect<B, T>(peers, context, stream);
    if (!found) return found.error();
    if (std::memcmp(found->data(), expected->data(), expected->size() * sizeof(T)) != 0)
        return Error{ErrorCode::invalid_argument}.in("test").because("other bits");
    return {};
}

}  // namespace shardwise::testing
