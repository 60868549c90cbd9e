// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <memory>
#include <new>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A value in host memory that devices can write, zero at first.
template <class Api, class T>
class Pinned {
    static_assert(std::is_trivially_destructible_v<T>, "a device writes it: there is nothing to destroy");

public:
    /// Errors  backend_failure; out_of_memory
    [[nodiscard]] static Result<std::shared_ptr<Pinned>> make() {
        auto memory = Api::allocate_pinned(sizeof(T));
        if (!memory) return memory.error();
        return std::shared_ptr<Pinned>(new Pinned(new (*memory) T{}));
    }
    Pinned(Pinned const&) = delete;
    Pinned& operator=(Pinned const&) = delete;
    ~Pinned() { Api::release_pinned(value_); }

    [[nodiscard]] T& value() { return *value_; }

private:
    explicit Pinned(T* value) : value_(value) {}

    T* value_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
