// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/write_step.hpp>
#include <shardwise/kernels/step_bounds.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The block of a step table: `begin` gives memory that the host may write, `send` brings its first numbers to where kernels read.
/// A device's is in kernels/device/step_table.hpp.
template <class Backend>
class StepMemory;

template <>
class StepMemory<Host> {
public:
    [[nodiscard]] static Result<StepMemory> create(HostContext& context, std::int64_t size) {
        auto block = Buffer<std::int32_t, Host>::allocate(context, size);
        if (!block) return block.error();
        StepMemory memory;
        memory.block_ = std::move(*block);
        return Result<StepMemory>(std::move(memory));
    }
    [[nodiscard]] Result<std::int32_t*> begin() { return block_.data(); }
    [[nodiscard]] Result<> send(std::int64_t, HostStream&) { return {}; }
    [[nodiscard]] std::int32_t const* data() const { return block_.data(); }
    [[nodiscard]] Bytes bytes() const { return block_.bytes(); }

private:
    Buffer<std::int32_t, Host> block_;
};

}  // namespace detail

/// What changes from step to step, in one block that is laid out once: kernels read it where they run, and so one call serves all
/// sequences of a step, and a graph that was captured once serves every step within the bounds. Rows beyond a step's are inert: their
/// id and wanted row are -1, and they have no sequence.
///
/// Memory  step_table_bytes(bounds); on a device two pinned copies beside, written in turn
template <class Backend>
class StepTable {
public:
    using Numbers = TensorView<std::int32_t const, 1, Backend>;

    /// Errors  invalid_argument for bounds below 1, or page rows that are no power of two; size_overflow; out_of_memory
    [[nodiscard]] static Result<StepTable> create(typename Backend::Context& context, StepBounds const& bounds) {
        auto const layout = detail::make_step_layout(bounds);
        if (!layout) return layout.error();
        auto memory = detail::StepMemory<Backend>::create(context, layout->size());
        if (!memory) return memory.error();
        return Result<StepTable>(StepTable(*layout, std::move(*memory)));
    }

    /// Replaces the step. What was put into the stream before reads the step before on a device; on the host it has to be done.
    /// `rows`: a step of one wanted token of each sequence shows so many of all, those beyond its own inert; 0: its own.
    ///
    /// Order   on `stream`: what is put in afterwards reads this step
    /// Errors  invalid_argument for what leaves the bounds, and for lists without the pages that a sequence's tokens lie in;
    ///         deadline_exceeded on a device where the copy of the last but one step does not end
    [[nodiscard]] Result<> write(StepInput const& step, typename Backend::Stream& stream, std::int64_t rows = 0) {
        if (auto const checked = detail::check_written_step(layout_, step, rows); !checked) return checked;
        auto const to = memory_.begin();
        if (!to) return to.error();
        counts_ = detail::write_step(layout_, step, *to, greatest_pages_);
        has_sources_ = std::all_of(step.sequences.begin(), step.sequences.end(),
                                   [](StepSequence const& sequence) { return sequence.source > 0; });
        auto const written = layout_.size(counts_.sequences);
        if (rows > 0) counts_ = {rows, rows, rows};
        return memory_.send(written, stream);
    }

    // Those of the step that was written last, with its inert rows.
    [[nodiscard]] std::int64_t tokens() const { return counts_.tokens; }
    [[nodiscard]] std::int64_t sequences() const { return counts_.sequences; }
    [[nodiscard]] Numbers ids() const { return {memory_.data() + layout_.ids, {counts_.tokens}}; }
    [[nodiscard]] Numbers positions() const { return {memory_.data() + layout_.positions, {counts_.tokens}}; }
    [[nodiscard]] Numbers wanted() const { return {memory_.data() + layout_.wanted, {counts_.wanted}}; }
    /// Whether each of its sequences has a source.
    [[nodiscard]] bool has_sources() const { return has_sources_; }
    /// Pages that the memory of a group's layers has at least.
    [[nodiscard]] std::int64_t least_pages(std::int64_t group) const {
        return greatest_pages_[static_cast<std::size_t>(group)] + 1;
    }

    [[nodiscard]] detail::StepLayout const& layout() const { return layout_; }
    [[nodiscard]] std::int32_t const* data() const { return memory_.data(); }
    [[nodiscard]] Bytes bytes() const { return memory_.bytes(); }

private:
    StepTable(detail::StepLayout const& layout, detail::StepMemory<Backend> memory)
        : layout_(layout),
          memory_(std::move(memory)),
          greatest_pages_(static_cast<std::size_t>(layout.groups), std::int64_t{-1}) {}

    detail::StepLayout layout_;
    detail::StepMemory<Backend> memory_;
    detail::StepCounts counts_;
    bool has_sources_ = true;
    std::vector<std::int64_t> greatest_pages_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
