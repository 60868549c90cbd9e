// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/backend/detail/lt_library.hpp>
#include <shardwise/backend/detail/product_aid.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An object of a vendor's library, destroyed with this.
template <class Value, void (*destroy)(Value)>
class LtHeld {
public:
    LtHeld() = default;
    explicit LtHeld(Value value) : value_(value) {}
    LtHeld(LtHeld&& other) noexcept : value_(std::exchange(other.value_, std::nullopt)) {}
    LtHeld& operator=(LtHeld&& other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~LtHeld() {
        if (value_) destroy(*value_);
    }
    [[nodiscard]] Value get() const { return *value_; }

    /// Takes what a call of the library made.
    [[nodiscard]] Result<> take(Result<Value> const& made) {
        if (!made) return made.error();
        *this = LtHeld(*made);
        return {};
    }

private:
    std::optional<Value> value_;
};

/// What the library's choice of an algorithm depends on. The number of rows is not rounded to one of a few: which algorithm a product has,
/// and with it its bits, would then depend on the products before it.
struct LtKey {
    RowElement factor;
    RowElement out;
    bool is_a_transposed;
    bool is_b_transposed;
    bool has_bias;
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
    std::int64_t a_row;
    std::int64_t b_row;
    std::int64_t out_row;
    LtAlignment alignment;
    std::int64_t workspace;

    friend auto operator<=>(LtKey const&, LtKey const&) = default;
};

/// Products by a vendor's library, whose heuristic is asked once for each kind of product: descriptors and algorithms of the last
/// `most_kept` kinds are kept. What the library has no algorithm for is computed by our own kernel. Several threads may call.
template <class Lt>
class LtProducts {
    static_assert(LtLibrary<Lt>);

public:
    using Stream = typename Lt::Api::Stream;

    /// What a stream's products may be lent.
    static constexpr std::int64_t workspace_bytes = Lt::workspace_bytes;
    static constexpr bool is_vendors = true;
    static constexpr std::size_t most_kept = 512;

    LtProducts() = default;
    LtProducts(LtProducts const&) = delete;
    LtProducts& operator=(LtProducts const&) = delete;

    /// Errors  backend_failure
    [[nodiscard]] Result<> open() { return handle_.take(Lt::create()); }

    /// Whether the bias was added: where the library cannot do so, all else is done.
    ///
    /// Order   on `stream`, the workspace too
    /// Errors  backend_failure with the call that failed
    template <class T>
    [[nodiscard]] Result<bool> multiply(GemmCall const& call, ProductAid const& aid, Stream stream) {
        std::lock_guard const lock(mutex_);
        if (aid.bias != nullptr && Lt::may_add_bias(call.out_element)) {
            auto const found = find(key_of<T>(call, aid, true), aid.bias);
            if (!found) return found.error();
            if ((*found)->algorithm) return run(**found, call, aid, stream, true);
        }
        auto const found = find(key_of<T>(call, aid, false), nullptr);
        if (!found) return found.error();
        if ((*found)->algorithm) return run(**found, call, aid, stream, false);
        auto const launched = launch_gemm<typename Lt::Api, T>(call, stream);
        if (!launched) return launched.error();
        return false;
    }

    [[nodiscard]] std::size_t kept() const {
        std::lock_guard const lock(mutex_);
        return kinds_.size();
    }

private:
    using Operation = LtHeld<typename Lt::Operation, &Lt::destroy_operation>;
    using Layout = LtHeld<typename Lt::Layout, &Lt::destroy_layout>;
    using Preference = LtHeld<typename Lt::Preference, &Lt::destroy_preference>;

    /// A kind of product. The library counts columns first, so that row-major out = a * b is its out^T = b^T * a^T: its first factor is b.
    struct Kind {
        Operation operation;
        Layout first;
        Layout second;
        Layout sum;
        /// None: the library has no algorithm for it.
        std::optional<typename Lt::Algorithm> algorithm;
        std::uint64_t last_call = 0;
    };

    /// The largest power of two that an address is a multiple of, of those that algorithms ask for.
    [[nodiscard]] static std::int64_t alignment_of(void const* data) {
        auto const address = reinterpret_cast<std::uintptr_t>(data) | 256U;
        return static_cast<std::int64_t>(address & (~address + 1U));
    }
    template <class T>
    [[nodiscard]] static LtKey key_of(GemmCall const& call, ProductAid const& aid, bool has_bias) {
        auto const row = [](GemmCall::Factor const& factor) {
            return factor.is_transposed ? factor.column : factor.row;
        };
        return {.factor = row_element<T>,
                .out = call.out_element,
                .is_a_transposed = call.a.is_transposed,
                .is_b_transposed = call.b.is_transposed,
                .has_bias = has_bias,
                .m = call.m,
                .n = call.n,
                .k = call.k,
                .a_row = row(call.a),
                .b_row = row(call.b),
                .out_row = call.out_row,
                .alignment = {alignment_of(call.b.data), alignment_of(call.a.data), alignment_of(call.out)},
                .workspace = static_cast<std::int64_t>(aid.workspace.size())};
    }

    /// A kind that is kept, or made now; its bias is the one of this call.
    [[nodiscard]] Result<Kind*> find(LtKey const& key, float const* bias) {
        auto known = kinds_.find(key);
        if (known == kinds_.end()) {
            auto made = make(key, bias);
            if (!made) return made.error();
            if (kinds_.size() >= most_kept) drop_oldest();
            known = kinds_.emplace(key, std::move(*made)).first;
        } else if (key.has_bias && known->second.algorithm) {
            if (auto const set = Lt::add_bias(known->second.operation.get(), bias); !set) return set.error();
        }
        known->second.last_call = ++calls_;
        return &known->second;
    }
    [[nodiscard]] Result<Kind> make(LtKey const& key, float const* bias) {
        // `rows` x `columns` as the product reads it, row-major.
        auto const layout = [](RowElement element, std::int64_t rows, std::int64_t columns, std::int64_t row,
                               bool is_transposed) {
            return Lt::make_layout(element, is_transposed ? rows : columns, is_transposed ? columns : rows, row);
        };
        Kind kind;
        Preference preference;
        auto made = kind.operation.take(Lt::make_operation());
        if (made) made = Lt::transpose(kind.operation.get(), key.is_b_transposed, key.is_a_transposed);
        if (made && key.has_bias) made = Lt::add_bias(kind.operation.get(), bias);
        if (made) made = kind.first.take(layout(key.factor, key.k, key.n, key.b_row, key.is_b_transposed));
        if (made) made = kind.second.take(layout(key.factor, key.m, key.k, key.a_row, key.is_a_transposed));
        if (made) made = kind.sum.take(layout(key.out, key.m, key.n, key.out_row, false));
        if (made) made = preference.take(Lt::make_preference(key.workspace, key.alignment));
        if (!made) return made.error();
        auto const found = Lt::find(handle_.get(), kind.operation.get(), kind.first.get(), kind.second.get(),
                                    kind.sum.get(), preference.get());
        if (!found) return found.error();
        kind.algorithm = *found;
        return Result<Kind>(std::move(kind));
    }
    void drop_oldest() {
        kinds_.erase(std::min_element(kinds_.begin(), kinds_.end(), [](auto const& one, auto const& other) {
            return one.second.last_call < other.second.last_call;
        }));
    }

    [[nodiscard]] Result<bool> run(Kind const& kind, GemmCall const& call, ProductAid const& aid, Stream stream,
                                   bool has_bias) {
        LtMatmul<Lt> const matmul{.operation = kind.operation.get(),
                                  .first = call.b.data,
                                  .first_layout = kind.first.get(),
                                  .second = call.a.data,
                                  .second_layout = kind.second.get(),
                                  .sum = call.out,
                                  .sum_layout = kind.sum.get(),
                                  .algorithm = *kind.algorithm,
                                  .workspace = aid.workspace.data(),
                                  .workspace_bytes = static_cast<std::int64_t>(aid.workspace.size()),
                                  .accumulates = call.accumulates};
        auto const done = Lt::matmul(handle_.get(), matmul, stream);
        if (!done) return done.error();
        return has_bias;
    }

    mutable std::mutex mutex_;
    LtHeld<typename Lt::Handle, &Lt::destroy> handle_;
    std::map<LtKey, Kind> kinds_;
    std::uint64_t calls_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
