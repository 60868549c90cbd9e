#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/backend/host/product/pack.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/op/packed_weight.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline v0_2_0 {

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
    [[nodiscard]] HostContext& context() const { return *context_; }

private:
    friend struct Host;

    HostWeight(HostContext& context, detail::PackedView const& view, Buffer<std::byte, Host>&& memory)
        : context_(&context), view_(view), memory_(std::move(memory)) {
        view_.data = memory_.data();
    }

    HostContext* context_;
    detail::PackedView view_;
    Buffer<std::byte, Host> memory_;
};

inline Result<HostWeight> Host::hold_weight(Context& context, WeightSource const& source) {
    if (auto const checked = detail::check_source(source); !checked) return checked.error();
    auto const bytes = packed_weight_bytes(source.format, source.outputs, source.inputs, source.group);
    if (!bytes) {
        return Error{ErrorCode::size_overflow}
            .in("weight")
            .because("has more bytes than 63 bits count")
            .got(source.outputs);
    }
    auto memory = Buffer<std::byte, Host>::allocate(context, bytes->count());
    if (!memory) return memory.error();
    auto* const packed = memory->data();
    detail::prefer_huge_pages(packed, bytes->count());
    context.pool().run_ranges(
        ceil_divide(source.outputs, detail::panel_outputs), 1,
        [&](std::int64_t first, std::int64_t last) { detail::pack_panels(source, packed, first, last); });
    return HostWeight(context, {source.format, source.outputs, source.inputs, source.group, nullptr},
                      std::move(*memory));
}

}  // namespace shardwise::inline v0_2_0
