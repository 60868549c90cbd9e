// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/pinned_array.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/pinned_memory.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/kernels/device/arg_max.hpp>
#include <shardwise/kernels/device/sample.hpp>
#include <shardwise/session/token_chooser.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Tokens are chosen on the device and four bytes of each travel; logits do where somebody looks at them.
template <class Api>
class TokenChooser<DeviceBackend<Api>> {
public:
    using Backend = DeviceBackend<Api>;

    /// Errors  out_of_memory; those of the device's calls
    [[nodiscard]] static Result<TokenChooser> create(RankHome<Backend> const& rank, ExecutorLimits const& limits,
                                                     std::int64_t vocabulary) {
        TokenChooser chooser(rank.context);
        auto const sequences = limits.sequences;
        chooser.sequences_ = sequences;
        chooser.vocabulary_ = vocabulary;
        auto logits = Buffer<float, Backend>::allocate(rank.context, sequences * vocabulary);
        if (!logits) return logits.error();
        chooser.logits_ = std::move(*logits);
        auto chosen = Buffer<std::int32_t, Backend>::allocate(rank.context, sequences);
        if (!chosen) return chosen.error();
        chooser.chosen_ = std::move(*chosen);
        auto& host = rank.host.memory();
        auto tokens = PinnedMemory<Api>::allocate(rank.context, host, 4 * sequences);
        if (!tokens) return tokens.error();
        chooser.tokens_ = std::move(*tokens);
        detail::DeviceScope<Api> const scope(rank.context.device());
        if (!scope.result()) return scope.result().error();
        auto table = SamplingTable<Backend>::create(rank.context, host, bounds_of(limits, vocabulary));
        if (!table) return table.error();
        chooser.table_.emplace(std::move(*table));
        return Result<TokenChooser>(std::move(chooser));
    }

    /// What it holds on the device: the logits and the chosen token of each sequence, and how each is sampled.
    ///
    /// Errors  invalid_argument for what is no size of a table
    [[nodiscard]] static Result<Bytes> bytes_for(ExecutorLimits const& limits, std::int64_t vocabulary) {
        auto const table = SamplingTable<Backend>::bytes_for(bounds_of(limits, vocabulary));
        if (!table) return table.error();
        return allocated_bytes<Backend>(Bytes{4 * limits.sequences * vocabulary}) +
               allocated_bytes<Backend>(Bytes{4 * limits.sequences}) + *table;
    }

    /// What it pins in the host's memory but for logits, which somebody has to look at: the chosen tokens, and twice how each is
    /// sampled.
    ///
    /// Errors  as bytes_for
    [[nodiscard]] static Result<Bytes> pinned_for(ExecutorLimits const& limits, std::int64_t vocabulary) {
        auto const table = SamplingTable<Backend>::pinned_for(bounds_of(limits, vocabulary));
        if (!table) return table.error();
        return Bytes{4 * limits.sequences} + *table;
    }

    [[nodiscard]] TensorView<float, 2, Backend> logits(std::int64_t rows) { return logits_.matrix(rows, vocabulary_); }

    /// As the host's.
    ///
    /// Errors  those of the streams and of `sample`; deadline_exceeded
    template <Communicator C>
    [[nodiscard]] Result<> choose(TokenChoice const& choice, StageRelay<C> const& relay, DeviceStream<Api>& stream,
                                  Deadline deadline) {
        auto const count = static_cast<std::int64_t>(choice.rows.size());
        bool const is_relayed = relay.teller >= 0 && choice.is_told;
        bool const shows = choice.shows_logits || (is_relayed && relay.shares_logits);
        if (shows) {
            if (auto const done = pin_logits(); !done) return done;
        }
        auto const done =
            choice.has_logits ? choose_here(choice.rows, shows, stream, deadline) : stream.synchronize(deadline);
        if (!done || !is_relayed) return done;
        TensorView<float, 2, Host> const seen(host_logits_.data(), {shows ? count : 0, vocabulary_});
        return relay.tell(TensorView<std::int32_t, 1, Host>(tokens(), {count}), seen);
    }

    [[nodiscard]] std::int32_t token(std::size_t row) { return tokens()[row]; }
    /// Only where somebody looks.
    [[nodiscard]] std::span<float const> row(std::size_t row) {
        auto const width = static_cast<std::size_t>(vocabulary_);
        return {host_logits_.data() + row * width, width};
    }

private:
    explicit TokenChooser(DeviceContext<Api>& context) : context_(&context) {}

    /// Any row may be sampled, and a penalty may count all tokens of a sequence.
    [[nodiscard]] static SamplingBounds bounds_of(ExecutorLimits const& limits, std::int64_t vocabulary) {
        constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
        auto const history = checked_multiply(limits.sequences, limits.context);
        return {
            .rows = limits.sequences, .vocabulary = vocabulary, .history = std::min(history ? *history : most, most)};
    }

    [[nodiscard]] std::int32_t* tokens() { return reinterpret_cast<std::int32_t*>(tokens_.data()); }
    [[nodiscard]] Result<> pin_logits() {
        if (host_logits_.data() != nullptr) return {};
        detail::DeviceScope<Api> const scope(context_->device());
        if (!scope.result()) return scope.result().error();
        auto made = detail::PinnedArray<Api, float>::make(sequences_ * vocabulary_);
        if (!made) return made.error();
        host_logits_ = std::move(*made);
        return {};
    }
    [[nodiscard]] static bool is_greedy(std::span<SamplingRow const> rows) {
        return std::all_of(rows.begin(), rows.end(), [](SamplingRow const& row) {
            return row.options.temperature == 0.0F && row.options.repetition_penalty == 1.0F;
        });
    }

    [[nodiscard]] Result<> choose_here(std::span<SamplingRow const> rows, bool shows, DeviceStream<Api>& stream,
                                       Deadline deadline) {
        auto const count = static_cast<std::int64_t>(rows.size());
        TensorView<std::int32_t, 1, Host> const told(tokens(), {count});
        TensorView<float const, 2, Backend> const own = logits(count);
        if (shows) {
            TensorView<float const, 1, Backend> const from(own.data(), {own.elements()});
            TensorView<float, 1, Host> const to(host_logits_.data(), {own.elements()});
            if (auto const copied = Backend::template copy<float>(from, to, stream); !copied) return copied;
        }
        auto const chosen = chosen_.view().part(0, count);
        if (is_greedy(rows)) {
            if (auto const found = arg_max(own, chosen, stream); !found) return found;
        } else {
            if (auto const written = table_->write(rows, stream); !written) return written;
            if (auto const drawn = sample(own, *table_, chosen, stream); !drawn) return drawn;
        }
        TensorView<std::int32_t const, 1, Backend> const ids = chosen;
        if (auto const copied = Backend::template copy<std::int32_t>(ids, told, stream); !copied) return copied;
        if (auto const done = stream.synchronize(deadline); !done) return done;
        for (std::int64_t i = 0; i < count; ++i) {
            if (tokens()[i] >= 0) continue;
            // As the host's `sample` says it.
            return Error{ErrorCode::invalid_argument}
                .in("sample")
                .at("logits")
                .because("a row has a NaN or infinity, or nothing that can be drawn")
                .got(i);
        }
        return {};
    }

    DeviceContext<Api>* context_;
    std::int64_t sequences_ = 0;
    std::int64_t vocabulary_ = 0;
    Buffer<float, Backend> logits_;
    Buffer<std::int32_t, Backend> chosen_;
    std::optional<SamplingTable<Backend>> table_;
    PinnedMemory<Api> tokens_;
    /// Made when somebody first looks.
    detail::PinnedArray<Api, float> host_logits_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
