// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included by fake_vendor.hpp: FakeMachine, FakeStream and FakeApi are there.

#include <shardwise/backend/detail/lt_products.hpp>
#include <shardwise/quant/half_types.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

namespace shardwise::testing {

/// A matrix as a library of products has it: columns first.
struct FakeLayout {
    detail::RowElement element;
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t column;

    friend bool operator==(FakeLayout const&, FakeLayout const&) = default;

    [[nodiscard]] std::int64_t row_bytes() const { return column * (element == detail::RowElement::f32 ? 4 : 2); }
};

struct FakeOperation {
    bool is_first_transposed = false;
    bool is_second_transposed = false;
    float const* bias = nullptr;
};

struct FakePreference {
    std::int64_t workspace;
    detail::LtAlignment alignment;
};

/// What an algorithm was found for: it takes nothing else.
struct FakeAlgorithm {
    FakeLayout first;
    FakeLayout second;
    FakeLayout sum;
    bool is_first_transposed;
    bool is_second_transposed;
    bool has_bias;
    detail::LtAlignment alignment;
    std::int64_t workspace;
};

/// A library of products of a FakeMachine, which computes in stream order and refuses what vendors' do: halves that do not lie on 16 bytes,
/// a bias beside halves in fp16, an algorithm for another product than the one that it was found for.
struct FakeLt {
    using Api = FakeApi;
    using Handle = int*;
    using Operation = FakeOperation*;
    using Layout = FakeLayout*;
    using Preference = FakePreference*;
    using Algorithm = FakeAlgorithm;

    /// Enough for what an algorithm takes, and not a page of a test's memory.
    static constexpr std::int64_t workspace_bytes = 4096;
    static constexpr std::int64_t used_workspace = 512;

    static constexpr bool may_add_bias(detail::RowElement) { return true; }

    static Result<Handle> create() { return make<int>("lt_create", 0); }
    static void destroy(Handle handle) { discard(handle); }

    static Result<Operation> make_operation() { return make<FakeOperation>("lt_operation", {}); }
    static Result<> transpose(Operation operation, bool is_first, bool is_second) {
        if (auto const result = FakeMachine::get().enter("lt_transpose"); !result) return result;
        operation->is_first_transposed = is_first;
        operation->is_second_transposed = is_second;
        return {};
    }
    static Result<> add_bias(Operation operation, float const* bias) {
        if (auto const result = FakeMachine::get().enter("lt_bias"); !result) return result;
        operation->bias = bias;
        return {};
    }
    static void destroy_operation(Operation operation) { discard(operation); }

    static Result<Layout> make_layout(detail::RowElement element, std::int64_t rows, std::int64_t columns,
                                      std::int64_t column) {
        if (column < rows) return Error{ErrorCode::backend_failure}.in("lt_layout").because("columns overlap");
        return make<FakeLayout>("lt_layout", {element, rows, columns, column});
    }
    static void destroy_layout(Layout layout) { discard(layout); }

    static Result<Preference> make_preference(std::int64_t workspace, detail::LtAlignment const& alignment) {
        return make<FakePreference>("lt_preference", {workspace, alignment});
    }
    static void destroy_preference(Preference preference) { discard(preference); }

    static Result<std::optional<Algorithm>> find(Handle, Operation operation, Layout first, Layout second, Layout sum,
                                                 Preference preference) {
        if (auto const result = FakeMachine::get().enter("lt_find"); !result) return result.error();
        // About as long as a vendor's takes.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        auto const& alignment = preference->alignment;
        auto const is_refused = [](FakeLayout const& layout, std::int64_t bytes) {
            return layout.element != detail::RowElement::f32 && (bytes < 16 || layout.row_bytes() % 16 != 0);
        };
        if (is_refused(*first, alignment.first) || is_refused(*second, alignment.second) ||
            is_refused(*sum, alignment.sum))
            return std::optional<Algorithm>{};
        if (operation->bias != nullptr && sum->element == detail::RowElement::f16) return std::optional<Algorithm>{};
        if (sum->columns == FakeMachine::get().rows_without_algorithm) return std::optional<Algorithm>{};
        return std::optional<Algorithm>(
            FakeAlgorithm{.first = *first,
                          .second = *second,
                          .sum = *sum,
                          .is_first_transposed = operation->is_first_transposed,
                          .is_second_transposed = operation->is_second_transposed,
                          .has_bias = operation->bias != nullptr,
                          .alignment = alignment,
                          .workspace = preference->workspace >= used_workspace ? used_workspace : 0});
    }
    static Result<> matmul(Handle, detail::LtMatmul<FakeLt> const& call, FakeStream* stream) {
        if (auto const result = FakeApi::enter("lt_matmul", stream); !result) return result;
        auto const& operation = *call.operation;
        auto const& algorithm = call.algorithm;
        bool const is_same = algorithm.first == *call.first_layout && algorithm.second == *call.second_layout &&
                             algorithm.sum == *call.sum_layout &&
                             algorithm.is_first_transposed == operation.is_first_transposed &&
                             algorithm.is_second_transposed == operation.is_second_transposed &&
                             algorithm.has_bias == (operation.bias != nullptr);
        Error refused{ErrorCode::backend_failure};
        refused.in("lt_matmul");
        if (!is_same) return refused.because("the algorithm was found for another product");
        if (!is_on(call.first, algorithm.alignment.first) || !is_on(call.second, algorithm.alignment.second) ||
            !is_on(call.sum, algorithm.alignment.sum))
            return refused.because("a matrix is not aligned as the heuristic was told");
        if (call.workspace_bytes < algorithm.workspace) return refused.because("the workspace is too small");
        stream->put([algorithm, first = call.first, second = call.second, sum = call.sum, bias = operation.bias,
                     workspace = call.workspace, accumulates = call.accumulates] {
            // Whoever else has it meanwhile finds this.
            if (algorithm.workspace > 0) std::memset(workspace, 0x5A, static_cast<std::size_t>(algorithm.workspace));
            compute(algorithm, first, second, sum, bias, accumulates);
        });
        if (call.workspace_bytes > 0) ++FakeMachine::get().products_with_workspace;
        return {};
    }

private:
    template <class Value>
    static Result<Value*> make(std::string_view call, Value value) {
        if (auto const result = FakeMachine::get().enter(call); !result) return result.error();
        ++FakeMachine::get().lt_objects;
        return new Value(value);
    }
    template <class Value>
    static void discard(Value* value) {
        delete value;
        --FakeMachine::get().lt_objects;
    }
    static bool is_on(void const* data, std::int64_t bytes) {
        return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
    }
    static void compute(FakeAlgorithm const& of, void const* first, void const* second, void* sum, float const* bias,
                        bool accumulates) {
        auto const place = [](FakeLayout const& layout, bool is_transposed, std::int64_t row, std::int64_t column) {
            return is_transposed ? row * layout.column + column : column * layout.column + row;
        };
        auto const inner = of.is_first_transposed ? of.first.rows : of.first.columns;
        for (std::int64_t column = 0; column < of.sum.columns; ++column) {
            for (std::int64_t row = 0; row < of.sum.rows; ++row) {
                auto const at = place(of.sum, false, row, column);
                float value = 0.0F;
                for (std::int64_t k = 0; k < inner; ++k) {
                    value +=
                        detail::load_element(first, place(of.first, of.is_first_transposed, row, k), of.first.element) *
                        detail::load_element(second, place(of.second, of.is_second_transposed, k, column),
                                             of.second.element);
                }
                if (accumulates) value += detail::load_element(sum, at, of.sum.element);
                if (bias != nullptr) value += bias[row];
                detail::store_element(sum, at, value, of.sum.element);
            }
        }
    }
};

static_assert(detail::LtLibrary<FakeLt>);

}  // namespace shardwise::testing
