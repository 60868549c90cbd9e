// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/executor/no_kernel.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/op/work.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Calls visit(element) with a value of the type in which activations lie between kernels, which check_activations has taken.
template <ComputeBackend Backend, class Visit>
decltype(auto) visit_activations(Dtype dtype, Visit const& visit) {
    if constexpr (!HasHostMemory<Backend>) {
        if (dtype == Dtype::bf16) return visit(Bfloat16{});
        if (dtype == Dtype::f16) return visit(Float16{});
    }
    return visit(float{});
}

/// Whether a value of a block lies in float whatever activations are: what a model scores, a router's scores and choice.
[[nodiscard]] constexpr bool is_in_float(BlockBody const& body, ValueId id) {
    if (id == no_value) return false;
    if (body.values()[static_cast<std::size_t>(id)].is_fp32) return true;
    for (auto const& op : body.operations()) {
        if (op.kind == OpKind::route && op.inputs[0] == id) return true;
    }
    return false;
}

/// A matrix whose elements are taken for what they are: another type, of which extents and strides are.
template <class To, class From, class Backend>
[[nodiscard]] TensorView<To, 2, Backend> view_as(TensorView<From, 2, Backend> const& view) {
    return {reinterpret_cast<To*>(view.data()), view.extents(), view.strides()};
}

/// Floats that have the memory of so many activations.
[[nodiscard]] constexpr std::int64_t floats_of(std::int64_t activations, Dtype dtype) {
    return dtype == Dtype::f32 ? activations : ceil_divide(activations, 2);
}

namespace detail {

/// Whether an operation takes and gives floats only where its kernels do among activations of another type.
[[nodiscard]] constexpr bool has_element_kernel(BlockBody const& body, Operation const& op) {
    bool const is_scaled = op.kind == OpKind::scale && op.inputs[0] == op.output;
    for (std::size_t slot = 0; slot < op.inputs.size(); ++slot) {
        if (!is_in_float(body, op.inputs[slot]) || is_scaled) continue;
        bool const is_choice = slot == 1 && (op.kind == OpKind::experts || op.kind == OpKind::combine);
        if (!is_choice && !(slot == 0 && op.kind == OpKind::route)) return false;
    }
    if (!is_in_float(body, op.output) || is_scaled || op.kind == OpKind::route) return true;
    auto const spread = body.values()[static_cast<std::size_t>(op.output)].spread;
    return op.kind == OpKind::linear && spread != Spread::partial;
}

}  // namespace detail

/// Whether a back end computes a model with activations of this type between its kernels.
///
/// Errors  unsupported: on the host for all but f32; on a device for types that are not floats of 16 or 32 bits, and
///         for operations without kernels for them
template <ComputeBackend Backend>
[[nodiscard]] Result<> check_activations(Model const& model, Dtype dtype) {
    if (dtype == Dtype::f32) return {};
    auto const name = std::string(traits(dtype).short_name);
    if (HasHostMemory<Backend> || (dtype != Dtype::bf16 && dtype != Dtype::f16)) {
        return Error{ErrorCode::unsupported}
            .in(Backend::name)
            .at("activations")
            .because("are not " + name + " there")
            .fix(HasHostMemory<Backend> ? "take fp32, or compute on a device" : "take bf16, fp16 or fp32");
    }
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (detail::has_element_kernel(body, op)) continue;
            return detail::no_kernel<Backend>(std::string(name_of(op.kind)) + " of floats among activations in " +
                                              name);
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
