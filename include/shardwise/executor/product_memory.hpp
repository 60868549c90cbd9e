// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/executor/operation_loader.hpp>
#include <shardwise/executor/ops/executed_ops.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Memory in which the products of a rank bring activations into a kernel's form, one after another, or on devices the workspace of the
/// vendor's products: allocated once, and lent to the stream of each step.
template <ComputeBackend Backend>
class ProductMemory {
public:
    using Context = typename Backend::Context;
    using Stream = typename Backend::Stream;

    /// Counts what the products of a block need at most, by the rules that predict_memory counts by.
    ///
    /// Errors  as the operations' `count`
    template <ReductionPolicy Policy>
    [[nodiscard]] Result<> add(detail::OperationLoader<Backend> const& loader, BlockBody const& body,
                               BlockCut const& cut, ExecutorLimits const& limits) {
        // Where there is none, products say so; devices have another.
        auto level = IsaLevel::portable;
        if constexpr (HasHostMemory<Backend>) {
            if (auto const& isa = loader.context().isa()) level = *isa;
        }
        detail::CountedBlock const block{loader.model(), body, cut, loader.place(), loader.experts(), limits, level};
        detail::MemoryTally tally;
        for (auto const& op : body.operations()) {
            if (weights_of(op.kind) == OpWeights::none || op.parameters[0].empty()) continue;
            auto const held = loader.format_of(op);
            if (!held) return held.error();
            auto const done = detail::visit_executed<Backend, Policy>(
                op.kind, [&](auto of) { return of.count(tally, block, op, *held); });
            if (!done) return done;
        }
        needed_ = std::max(needed_, tally.prepared);
        return {};
    }
    /// Errors  out_of_memory
    [[nodiscard]] Result<> allocate(Context& context) {
        auto made = Buffer<std::byte, Backend>::allocate(context, needed_);
        if (!made) return made.error();
        memory_ = std::move(*made);
        return {};
    }
    [[nodiscard]] Bytes bytes() const { return memory_.bytes(); }

    /// Lends it to a stream's products for as long as this lives.
    class Loan {
    public:
        Loan(ProductMemory& memory, Stream& stream) : stream_(stream) {
            stream.lend_to_products({memory.memory_.data(), static_cast<std::size_t>(memory.memory_.size())});
        }
        ~Loan() { stream_.lend_to_products({}); }
        Loan(Loan const&) = delete;
        Loan& operator=(Loan const&) = delete;

    private:
        Stream& stream_;
    };

private:
    std::int64_t needed_ = 0;
    Buffer<std::byte, Backend> memory_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
