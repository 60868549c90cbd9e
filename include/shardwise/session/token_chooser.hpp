// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/kernels/sample.hpp>
#include <shardwise/session/stage_relay.hpp>

#include <cstdint>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a step is to choose.
struct TokenChoice {
    /// By sequence of the step.
    std::span<SamplingRow const> rows;
    /// True where this rank has the logits.
    bool has_logits = true;
    /// True where somebody looks at the logits afterwards.
    bool shows_logits = false;
    /// True where what is chosen counts, so that all stages are told.
    bool is_told = true;
};

/// Where a session's logits lie, and what chooses tokens from them and brings them to the host. A device's is in
/// session/device_token_chooser.hpp.
template <class Backend>
class TokenChooser;

template <>
class TokenChooser<Host> {
public:
    /// Errors  out_of_memory
    [[nodiscard]] static Result<TokenChooser> create(RankHome<Host> const& rank, ExecutorLimits const& limits,
                                                     std::int64_t vocabulary) {
        TokenChooser chooser;
        chooser.vocabulary_ = vocabulary;
        auto const sequences = limits.sequences;
        auto logits = Buffer<float, Host>::allocate(rank.context, sequences * vocabulary);
        if (!logits) return logits.error();
        chooser.logits_ = std::move(*logits);
        auto chosen = Buffer<std::int32_t, Host>::allocate(rank.context, sequences);
        if (!chosen) return chosen.error();
        chooser.chosen_ = std::move(*chosen);
        return Result<TokenChooser>(std::move(chooser));
    }

    /// What it holds of the rank's memory: the logits and the chosen token of each sequence.
    [[nodiscard]] static Result<Bytes> bytes_for(ExecutorLimits const& limits, std::int64_t vocabulary) {
        return Bytes{4 * limits.sequences * (vocabulary + 1)};
    }

    /// Where a step puts the logits of so many sequences.
    [[nodiscard]] TensorView<float, 2, Host> logits(std::int64_t rows) { return logits_.matrix(rows, vocabulary_); }

    /// Chooses a token for each row and tells the other stages; all is on the host when this returns.
    ///
    /// Errors  those of the stream and of `sample`; deadline_exceeded
    template <Communicator C>
    [[nodiscard]] Result<> choose(TokenChoice const& choice, StageRelay<C> const& relay, HostStream& stream,
                                  Deadline deadline) {
        auto const count = static_cast<std::int64_t>(choice.rows.size());
        auto const logits = this->logits(count);
        TensorView<std::int32_t, 1, Host> const chosen(chosen_.data(), {count});
        if (choice.has_logits) {
            if (auto const done = sample(logits, choice.rows, chosen, stream); !done) return done;
        }
        if (relay.teller >= 0 && choice.is_told) {
            stream.submit([relay = &relay, chosen, logits] { return relay->tell(chosen, logits); });
        }
        return stream.synchronize(deadline);
    }

    /// Of the rows that were chosen last.
    [[nodiscard]] std::int32_t token(std::size_t row) const { return chosen_.data()[row]; }
    [[nodiscard]] std::span<float const> row(std::size_t row) const {
        auto const width = static_cast<std::size_t>(vocabulary_);
        return {logits_.data() + row * width, width};
    }

private:
    TokenChooser() = default;

    std::int64_t vocabulary_ = 0;
    Buffer<float, Host> logits_;
    Buffer<std::int32_t, Host> chosen_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
