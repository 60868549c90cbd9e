// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/deterministic_sum.hpp>
#include <shardwise/comm/reduce_scatter.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace shardwise;

namespace {

/// Values that begin at any byte: the undefined-behaviour sanitizer reports whoever reads one as if it were aligned.
template <class T>
class Unaligned {
public:
    Unaligned(std::vector<T> const& values, std::size_t offset)
        : bytes_(values.size() * sizeof(T) + sizeof(std::max_align_t) + offset), count_(values.size()) {
        auto const past = reinterpret_cast<std::uintptr_t>(bytes_.data()) % alignof(std::max_align_t);
        begin_ = bytes_.data() + (alignof(std::max_align_t) - past) + offset;
        if (!values.empty()) std::memcpy(begin_, values.data(), values.size() * sizeof(T));
    }

    [[nodiscard]] TensorView<T, 1, Host> view() {
        return {reinterpret_cast<T*>(begin_), {static_cast<std::int64_t>(count_)}};
    }
    [[nodiscard]] std::vector<T> values() const {
        std::vector<T> copy(count_);
        if (count_ > 0) std::memcpy(copy.data(), begin_, count_ * sizeof(T));
        return copy;
    }

private:
    std::vector<std::byte> bytes_;
    std::byte* begin_ = nullptr;
    std::size_t count_;
};

template <class T>
std::vector<T> values_of(std::int32_t rank, std::int64_t count) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(static_cast<float>((i + rank * 3) % 11)));
    return values;
}

template <class T>
bool has_same_bytes(std::vector<T> const& a, std::vector<T> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Every collective once, of data that begin `offset` bytes after an aligned place: what this rank got.
template <class T>
Result<std::vector<std::vector<T>>> run_all(Threads& comm, std::int64_t count, std::size_t offset) {
    auto const ranks = comm.size();
    std::vector<std::int64_t> const counts(static_cast<std::size_t>(ranks), count);
    std::vector<std::vector<T>> got;
    for (auto const op : {ReduceOp::sum, ReduceOp::max}) {
        Unaligned<T> data(values_of<T>(comm.rank(), count), offset);
        if (auto const done = all_reduce(comm, data.view(), op); !done) return done.error();
        got.push_back(data.values());
    }
    Unaligned<T> own(values_of<T>(comm.rank(), count), offset);
    Unaligned<T> all(values_of<T>(comm.rank(), count * ranks), offset);
    if (auto const done = reduce_scatter<T>(comm, all.view(), own.view(), counts); !done) return done.error();
    got.push_back(own.values());
    if (auto const done = all_gather<T>(comm, own.view(), all.view(), counts); !done) return done.error();
    got.push_back(all.values());
    Unaligned<T> other(values_of<T>(0, count * ranks), offset);
    if (auto const done = all_to_all<T>(comm, all.view(), counts, other.view(), counts); !done) return done.error();
    got.push_back(other.values());
    if (auto const done = broadcast(comm, other.view(), 0); !done) return done.error();
    got.push_back(other.values());
    if (comm.rank() == 0 && ranks > 1) {
        if (auto const done = send<T>(comm, own.view(), 1); !done) return done.error();
    } else if (comm.rank() == 1) {
        if (auto const done = receive(comm, own.view(), 0); !done) return done.error();
    }
    got.push_back(own.values());
    std::vector<UnitRange> owners;
    for (std::int32_t rank = 0; rank < ranks; ++rank) owners.push_back({rank, rank + 1});
    Unaligned<T> sum(values_of<T>(0, count), offset);
    if (auto const done = deterministic_sum<T>(comm, owners, own.view(), sum.view()); !done) return done.error();
    got.push_back(sum.values());
    return got;
}

}  // namespace

TEST_CASE_TEMPLATE("collectives: data may begin at any byte, and give what aligned data give", T, float, double,
                   Bfloat16, std::int32_t) {
    for (std::int32_t const ranks : {1, 2, 3, 5}) {
        for (std::int64_t const count : {1, 7, 100, 30'000}) {
            CAPTURE(ranks);
            CAPTURE(count);
            auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
                auto const expected = run_all<T>(comm, count, 0);
                if (!expected) return expected.error();
                auto const got = run_all<T>(comm, count, 1);
                if (!got) return got.error();
                for (std::size_t i = 0; i < got->size(); ++i) {
                    if (!has_same_bytes((*got)[i], (*expected)[i]))
                        return Error{ErrorCode::shape_mismatch}.in("case").got(static_cast<std::int64_t>(i));
                }
                return {};
            });
            if (!done) CAPTURE(done.error().message());
            CHECK(done);
        }
    }
}
