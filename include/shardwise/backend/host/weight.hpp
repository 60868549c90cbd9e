// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/mapped_pages.hpp>
#include <shardwise/backend/host/packed_weight.hpp>
#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/pack.hpp>
#include <shardwise/backend/host/product/product_kernel.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/backend/host/weight_memory.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A weight in the order in which the host multiplies by it: panels of 16 outputs, for one row as for many.
///
/// Memory  packed_weight_bytes(...) of the context that made it, which outlives it
class HostWeight {
public:
    [[nodiscard]] WeightFormat format() const { return view_.format; }
    [[nodiscard]] std::int64_t outputs() const { return view_.outputs; }
    [[nodiscard]] std::int64_t inputs() const { return view_.inputs; }
    [[nodiscard]] Bytes bytes() const { return memory_.bytes(); }

    /// What product kernels read.
    [[nodiscard]] detail::PackedView const& packed() const { return view_; }
    /// What multiplies by it: chosen when it was made for streams of its context, else now.
    [[nodiscard]] detail::ProductKernel kernel(IsaLevel level, ProductActivations activations) const {
        bool const is_own = level == level_ && activations == activations_;
        return is_own ? kernel_ : detail::product_kernel(view_.format, level, activations);
    }
    [[nodiscard]] HostContext& context() const { return *context_; }

    /// Gives its memory away, for instance to be written out; products need `rest_on` before the next one.
    [[nodiscard]] detail::WeightMemory take_memory() {
        view_.data = nullptr;
        return std::move(memory_);
    }
    /// Its packed bytes lie elsewhere, where they stay until what reads them is done.
    void rest_on(std::byte const* packed) { view_.data = packed; }

private:
    friend struct Host;

    HostWeight(HostContext& context, detail::PackedView const& view, detail::WeightMemory&& memory)
        : context_(&context),
          view_(view),
          memory_(std::move(memory)),
          level_(context.isa() ? *context.isa() : IsaLevel::portable),
          activations_(context.product_activations()),
          kernel_(detail::product_kernel(view.format, level_, activations_)) {
        view_.data = memory_.data();
    }

    HostContext* context_;
    detail::PackedView view_;
    detail::WeightMemory memory_;
    IsaLevel level_;
    ProductActivations activations_;
    detail::ProductKernel kernel_;
};

namespace detail {

/// Errors  unsupported for a format that the host has no product for
[[nodiscard]] inline Result<> check_runs(HostFormat const& row) {
    if (row.product != HostProduct::refused) return {};
    return Error{ErrorCode::unsupported}
        .in("host")
        .at(name_of(row.format))
        .because("is no format that this back end multiplies by")
        .fix("decode the weight into bf16 or fp32 first");
}

}  // namespace detail

inline Result<HostWeight> Host::hold_weight(Context& context, WeightSource const& source) {
    if (auto const run = detail::check_runs(detail::host_format(source.format)); !run) return run.error();
    if (auto const checked = detail::check_source(source); !checked) return checked.error();
    auto const bytes = packed_weight_bytes(source.format, source.outputs, source.inputs, source.group);
    if (!bytes) {
        return Error{ErrorCode::size_overflow}
            .in("weight")
            .because("has more bytes than 63 bits count")
            .got(source.outputs);
    }
    auto memory = detail::WeightMemory::allocate(context, *bytes);
    if (!memory) return memory.error();
    auto* const packed = memory->data();
    // Without inputs there is nothing to pack, however many outputs there are.
    auto const panels = bytes->count() == 0 ? 0 : ceil_divide(source.outputs, detail::panel_outputs);
    auto const row = source.data.size() / static_cast<std::size_t>(std::max<std::int64_t>(source.outputs, 1));
    // Of a mapped file so much at a time as need not be held twice.
    constexpr std::int64_t mapped_at_a_time = std::int64_t{8} << 20U;
    auto const panel_data = static_cast<std::int64_t>(row) * detail::panel_outputs;
    auto const step = source.is_mapped
                          ? mapped_at_a_time / context.pool().size() / std::max<std::int64_t>(panel_data, 1)
                          : std::int64_t{16};
    detail::read_in_order(
        context.pool(), source.data, source.is_mapped, panels, panel_data, std::max<std::int64_t>(step, 1),
        [&](std::int64_t first, std::int64_t last) { detail::pack_panels(source, packed, first, last); });
    if (source.is_mapped) detail::drop_pages(source.scales);
    auto const stride = *detail::panel_bytes(source.format, source.inputs, source.group);
    return HostWeight(context, {source.format, source.outputs, source.inputs, source.group, nullptr, stride},
                      std::move(*memory));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
