// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Values that one thread computes with while a kernel runs: up to `few` on its stack, so that a step allocates nothing. They are not
/// initialised.
template <class T, std::int64_t few>
class ThreadArray {
public:
    explicit ThreadArray(std::int64_t count) : many_(count > few ? static_cast<std::size_t>(count) : 0) {}
    ThreadArray(ThreadArray const&) = delete;
    ThreadArray& operator=(ThreadArray const&) = delete;

    [[nodiscard]] T* data() { return many_.empty() ? few_ : many_.data(); }

private:
    alignas(64) T few_[static_cast<std::size_t>(few)];
    List<T> many_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
