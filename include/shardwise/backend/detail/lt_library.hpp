// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/core/result.hpp>

#include <compare>
#include <concepts>
#include <cstdint>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The bytes that the two factors and the result of a product lie on multiples of.
struct LtAlignment {
    std::int64_t first = 1;
    std::int64_t second = 1;
    std::int64_t sum = 1;

    friend auto operator<=>(LtAlignment const&, LtAlignment const&) = default;
};

/// sum = first * second, or sum += first * second, with the layouts that say how each lies.
template <class Lt>
struct LtMatmul {
    typename Lt::Operation operation;
    void const* first;
    typename Lt::Layout first_layout;
    void const* second;
    typename Lt::Layout second_layout;
    void* sum;
    typename Lt::Layout sum_layout;
    typename Lt::Algorithm algorithm;
    void* workspace;
    std::int64_t workspace_bytes;
    bool accumulates;
};

/// The functions of a vendor's library of products, cuBLASLt or one like it, that LtProducts is written over, as static functions of a
/// struct. Each says the vendor's status as a Result whose error names the call. Matrices are counted columns first, sums are float.
template <class Lt>
concept LtLibrary = requires(typename Lt::Handle handle, typename Lt::Operation operation, typename Lt::Layout layout,
                             typename Lt::Preference preference, typename Lt::Api::Stream stream,
                             LtMatmul<Lt> const& call, LtAlignment const& alignment, RowElement element, bool is,
                             std::int64_t count, float const* bias) {
    requires DeviceApi<typename Lt::Api>;
    // What an algorithm may use beside the matrices, for products in one stream.
    { Lt::workspace_bytes } -> std::convertible_to<std::int64_t>;
    // Whether the vendor's documents allow a bias of floats beside such results: the heuristic is asked then.
    { Lt::may_add_bias(element) } -> std::convertible_to<bool>;
    { Lt::create() } -> std::same_as<Result<typename Lt::Handle>>;
    Lt::destroy(handle);
    { Lt::make_operation() } -> std::same_as<Result<typename Lt::Operation>>;
    { Lt::transpose(operation, is, is) } -> std::same_as<Result<>>;
    // Adds a number to each row of the result.
    { Lt::add_bias(operation, bias) } -> std::same_as<Result<>>;
    Lt::destroy_operation(operation);
    // As the memory has them: rows, columns, elements from one column to the next.
    { Lt::make_layout(element, count, count, count) } -> std::same_as<Result<typename Lt::Layout>>;
    Lt::destroy_layout(layout);
    { Lt::make_preference(count, alignment) } -> std::same_as<Result<typename Lt::Preference>>;
    Lt::destroy_preference(preference);
    // The algorithm that the heuristic puts first; none where the library has none.
    {
        Lt::find(handle, operation, layout, layout, layout, preference)
        } -> std::same_as<Result<std::optional<typename Lt::Algorithm>>>;
    { Lt::matmul(handle, call, stream) } -> std::same_as<Result<>>;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
