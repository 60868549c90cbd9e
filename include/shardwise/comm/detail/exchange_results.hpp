// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Gives every rank what each has come to: all values, or the error of the first rank that has one, the same on all. The group goes on.
///
/// Errors  those of the ranks; those of the collective
template <class T>
[[nodiscard]] Result<std::vector<T>> exchange_results(HostCommunicator& comm, Result<T> const& own) {
    struct Word {
        bool has_value = false;
        Error error{ErrorCode::backend_failure};
        T value{};
    };
    static_assert(std::is_trivially_copyable_v<Word>, "ranks exchange its bytes");
    Word word;
    word.has_value = own.has_value();
    if (own)
        word.value = *own;
    else
        word.error = own.error();
    std::vector<Word> words(static_cast<std::size_t>(comm.size()));
    auto const size = static_cast<std::int64_t>(sizeof(Word));
    std::vector<std::int64_t> const counts(words.size(), size);
    TensorView<std::int8_t const, 1, Host> const in(reinterpret_cast<std::int8_t const*>(&word), {size});
    TensorView<std::int8_t, 1, Host> const out(reinterpret_cast<std::int8_t*>(words.data()), {size * comm.size()});
    if (auto const told = all_gather(comm, in, out, std::span<std::int64_t const>(counts)); !told) return told.error();
    std::vector<T> values;
    for (auto const& one : words) {
        if (!one.has_value) return one.error;
        values.push_back(one.value);
    }
    return values;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
