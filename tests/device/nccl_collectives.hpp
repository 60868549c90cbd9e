// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/nccl.hpp>
#include <shardwise/core/split.hpp>

#include "fake_vendor.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

/// Collectives of a library of NCCL's interface over the fake vendor, and what they should make.
namespace shardwise::testing {

/// What a rank's stream may still use after a failure.
struct Kept {
    std::deque<Buffer<float, Fake>> memory;
    std::deque<std::vector<float>> values;

    static Kept& get() {
        static thread_local Kept kept;
        return kept;
    }
};

[[nodiscard]] inline Buffer<float, Fake>& hold(Fake::Context& context, Fake::Stream& stream,
                                               std::vector<float> const& values) {
    auto memory = Buffer<float, Fake>::allocate(context, static_cast<std::int64_t>(values.size()));
    TensorView<float const, 1, Host> const from(values.data(), {memory->size()});
    (void)Fake::copy<float>(from, memory->view(), stream);
    (void)stream.synchronize(Deadline::after(std::chrono::seconds(10)));
    Kept::get().memory.push_back(std::move(*memory));
    return Kept::get().memory.back();
}
[[nodiscard]] inline Result<std::vector<float>> look(Buffer<float, Fake> const& memory, Fake::Stream& stream) {
    auto& values = Kept::get().values.emplace_back(static_cast<std::size_t>(memory.size()));
    TensorView<float, 1, Host> const to(values.data(), {memory.size()});
    if (auto const copied = Fake::copy<float>(memory.view(), to, stream); !copied) return copied.error();
    if (auto const done = stream.synchronize(Deadline::after(std::chrono::seconds(10))); !done) return done.error();
    return values;
}
[[nodiscard]] inline Result<> expect(Result<std::vector<float>> const& found, std::vector<float> const& expected,
                                     char const* what) {
    if (!found) return found.error();
    if (*found == expected) return {};
    return Error{ErrorCode::invalid_argument}.in(what).because("has other values");
}

/// Every collective once, with counts that are alike and that are not.
[[nodiscard]] inline Result<> collect_all(Nccl<FakeApi>& nccl, Fake::Context& context, Fake::Stream& stream) {
    using View = TensorView<float const, 1, Fake>;
    auto const ranks = nccl.size();
    auto const rank = nccl.rank();
    auto const own = static_cast<float>(rank + 1);
    auto const all = static_cast<float>(ranks * (ranks + 1)) / 2.0F;
    for (std::int64_t const size : {std::int64_t{6 * ranks}, std::int64_t{7}}) {
        std::vector<std::int64_t> counts;
        std::vector<float> gathered;
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
            counts.push_back(split_units(size, ranks, peer).size());
            gathered.insert(gathered.end(), static_cast<std::size_t>(counts.back()), static_cast<float>(peer + 1));
        }
        auto const length = static_cast<std::size_t>(size);
        auto const part = counts[static_cast<std::size_t>(rank)];
        auto const first = split_units(size, ranks, rank).begin;
        auto& sum = hold(context, stream, std::vector<float>(length, own));
        if (auto const put = nccl.all_reduce<float>(sum.view()); !put) return put;
        if (auto const ok = expect(look(sum, stream), std::vector<float>(length, all), "sum"); !ok) return ok;
        auto& whole = hold(context, stream, std::vector<float>(length, own));
        auto const mine = whole.view().part(first, part);
        if (auto const put = nccl.all_gather<float>(View(mine), whole.view(), counts); !put) return put;
        if (auto const ok = expect(look(whole, stream), gathered, "gather"); !ok) return ok;
        auto& scattered = hold(context, stream, std::vector<float>(static_cast<std::size_t>(part)));
        if (auto const put = nccl.reduce_scatter<float>(View(whole.view()), scattered.view(), counts); !put) return put;
        std::vector<float> expected;
        for (std::int64_t i = first; i < first + part; ++i)
            expected.push_back(gathered[static_cast<std::size_t>(i)] * static_cast<float>(ranks));
        if (auto const ok = expect(look(scattered, stream), expected, "scatter"); !ok) return ok;
        std::vector<std::int64_t> const received(static_cast<std::size_t>(ranks), part);
        auto& taken = hold(context, stream, std::vector<float>(static_cast<std::size_t>(part * ranks)));
        auto const& sent = hold(context, stream, std::vector<float>(length, own));
        if (auto const put = nccl.all_to_all<float>(sent.view(), counts, taken.view(), received); !put) return put;
        expected.clear();
        for (std::int32_t peer = 0; peer < ranks; ++peer)
            expected.insert(expected.end(), static_cast<std::size_t>(part), static_cast<float>(peer + 1));
        if (auto const ok = expect(look(taken, stream), expected, "exchange"); !ok) return ok;
    }
    auto& word = hold(context, stream, {own, own});
    if (auto const put = nccl.broadcast_from<float>(word.view(), 1); !put) return put;
    if (auto const ok = expect(look(word, stream), {2.0F, 2.0F}, "broadcast"); !ok) return ok;
    if (rank == 0) {
        if (auto const put = nccl.send<float>(View(word.view()), 1); !put) return put;
    } else if (rank == 1) {
        auto& other = hold(context, stream, {9.0F, 9.0F});
        if (auto const put = nccl.receive<float>(other.view(), 0); !put) return put;
        return expect(look(other, stream), {2.0F, 2.0F}, "message");
    }
    return expect(look(word, stream), {2.0F, 2.0F}, "message");
}

}  // namespace shardwise::testing
