// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::detail::PeerMemory;
using shardwise::testing::Bench;
using shardwise::testing::numbers;
using shardwise::testing::open_bench;
using shardwise::testing::TestDevice;

namespace {

template <class T>
struct GroupOf;
template <class Api>
struct GroupOf<DeviceBackend<Api>> {
    using type = PeerGroup<Api>;
};
using Group = GroupOf<TestDevice>::type;

/// Ranks on one device, each with a stream of its own.
struct Ranks {
    std::unique_ptr<Bench<TestDevice>> bench = open_bench<TestDevice>();
    std::vector<TestDevice::Context*> contexts;
    std::vector<TestDevice::Stream> streams;
    std::unique_ptr<Group> group;

    Ranks(int count, PeerOptions const& options) {
        if (!bench) return;
        for (int rank = 0; rank < count; ++rank) {
            contexts.push_back(&bench->context());
            streams.push_back(bench->context().make_stream());
        }
        reopen(options);
    }
    void reopen(PeerOptions const& options) {
        auto made = Group::open(contexts, options);
        REQUIRE(made);
        group = std::move(*made);
    }
    /// Overwrites a word that only kernels write otherwise.
    template <class T>
    void poke(T* at, T value) {
        TensorView<T const, 1, Host> const from(&value, {1});
        REQUIRE(TestDevice::copy<T>(from, TensorView<T, 1, TestDevice>(at, {1}), bench->stream()));
        bench->wait();
    }
    [[nodiscard]] std::size_t size() const { return streams.size(); }
};

/// The sum over ranks in the order that the kernel promises.
template <class T>
std::vector<T> sum_of(std::vector<std::vector<T>> const& values) {
    std::vector<T> sums;
    for (std::size_t i = 0; i < values[0].size(); ++i) {
        float sum = static_cast<float>(values[0][i]);
        for (std::size_t rank = 1; rank < values.size(); ++rank) sum += static_cast<float>(values[rank][i]);
        sums.push_back(T(sum));
    }
    return sums;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// One all-reduce of every rank; `shift` elements off the 16 bytes that the fast path wants.
template <class T>
void check_all_reduce(Ranks& ranks, std::int64_t count, std::int64_t shift, unsigned seed) {
    CAPTURE(count);
    CAPTURE(shift);
    std::vector<std::vector<T>> values;
    std::vector<Buffer<T, TestDevice>> in;
    std::vector<Buffer<T, TestDevice>> out;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        auto padded = numbers<T>(count + shift, seed + static_cast<unsigned>(rank));
        in.push_back(ranks.bench->send(padded));
        out.push_back(ranks.bench->send(std::vector<T>(padded.size())));
        padded.erase(padded.begin(), padded.begin() + shift);
        values.push_back(padded);
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        TensorView<T const, 1, TestDevice> const from(in[rank].data() + shift, {count});
        TensorView<T, 1, TestDevice> const to(out[rank].data() + shift, {count});
        REQUIRE(all_reduce<T>(*ranks.group, Rank{static_cast<std::int32_t>(rank)}, from, to, ranks.streams[rank]));
    }
    auto const sums = sum_of(values);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        auto const done = ranks.streams[rank].synchronize(Deadline::after(60s));
        INFO(std::string(done ? "" : done.error().message()));
        REQUIRE(done);
        auto result = ranks.bench->fetch(out[rank]);
        result.erase(result.begin(), result.begin() + shift);
        REQUIRE(same_bits(result, sums));
    }
}

}  // namespace
