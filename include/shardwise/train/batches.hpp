// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/kernels/backward/ignored_target.hpp>
#include <shardwise/train/detail/epoch_order.hpp>
#include <shardwise/train/distributed_sampler.hpp>
#include <shardwise/train/token_dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a global batch is made of.
struct BatchOptions {
    /// Tokens of a sequence that are read; as many are predicted.
    std::int64_t context = 1024;
    /// Sequences of a global batch, on all ranks together.
    std::int64_t batch = 8;
    bool shuffles = true;
    std::uint64_t seed = 0;

    /// The context of a model with so many positions, where none is asked for: all of them, at most 1,024. Positions without a bound are 0.
    [[nodiscard]] static constexpr std::int64_t default_context(std::int64_t positions) {
        auto const most = BatchOptions{}.context;
        return positions > 0 && positions < most ? positions : most;
    }
};

/// The global batches of a run over a dataset. Samples are windows of context + 1 tokens, `context` apart, so that each token is predicted
/// once; what is left at the end is dropped, as is the last batch of an epoch where it is not full. An epoch's order is that of
/// DistributedSampler: batch b has the samples [b * batch, (b + 1) * batch) of it, on any number of ranks.
///
/// Where a run is in its data is the number of samples that it has taken: nothing has to be replayed to go on. Of shuffled samples the
/// order of an epoch is kept, 8 bytes each, once for all copies of this, which may be read by threads of their own.
class Batches {
public:
    /// A target that has no loss.
    static constexpr std::int32_t ignored = ignored_target;

    /// `dataset` outlives this object; `tokens` are those of it that count.
    ///
    /// Errors  invalid_argument where the tokens do not fill a batch, or for sizes that are none
    [[nodiscard]] static Result<Batches> create(TokenDataset const& dataset, UnitRange tokens,
                                                BatchOptions const& options) {
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject);
        if (options.context < 1) return bad.at("context").because("has no token").got(options.context).at_least(1);
        if (options.batch < 1) return bad.at("batch").because("has no sequence").got(options.batch).at_least(1);
        if (tokens.begin < 0 || tokens.end > dataset.tokens() || tokens.begin > tokens.end)
            return bad.at("tokens")
                .because("are not of the dataset")
                .got(tokens.end)
                .between(tokens.begin, dataset.tokens());
        auto const samples = tokens.size() > 0 ? (tokens.size() - 1) / options.context : 0;
        if (samples < options.batch) {
            return bad.at("batch")
                .because("has more sequences than the data have samples")
                .got(options.batch)
                .at_most(samples)
                .fix("give more data, a smaller batch or a smaller context");
        }
        auto const sampler = DistributedSampler::create(
            samples, {.shuffles = options.shuffles, .drops_last = true, .seed = options.seed});
        if (!sampler) return sampler.error();
        Batches batches(dataset, tokens, options, *sampler);
        // A permutation that cannot be made is refused here, not in the middle of a run.
        if (auto const first = batches.samples_at(0); !first) return first.error();
        return Result<Batches>(std::move(batches));
    }

    [[nodiscard]] BatchOptions const& options() const { return options_; }
    /// Ids are below it.
    [[nodiscard]] std::int64_t vocabulary() const { return dataset_->vocabulary(); }
    [[nodiscard]] std::int64_t samples() const { return order_->size(); }
    [[nodiscard]] std::int64_t batches_per_epoch() const { return samples() / options_.batch; }

    /// The samples of the batch at a position, in its order.
    ///
    /// Units   position: samples taken before, a multiple of the batch
    /// Errors  invalid_argument for another position
    [[nodiscard]] Result<List<std::int64_t>> samples_at(std::int64_t position) {
        auto const batch = options_.batch;
        if (position < 0 || position % batch != 0) {
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("position")
                .because("is not where a batch begins")
                .got(position)
                .multiple_of(batch);
        }
        auto const number = position / batch;
        auto const epoch = number / batches_per_epoch();
        return order_->samples(epoch, number % batches_per_epoch() * batch, batch);
    }

    /// The sequences [begin, end) of the batch at a position: what they read, and what they should predict; a target that does not
    /// count is `ignored`.
    ///
    /// Shapes  tokens, targets [sequences.size(), context]
    /// Errors  shape_mismatch; as samples_at and TokenFile::read
    [[nodiscard]] Result<> read(std::int64_t position, UnitRange sequences, TensorView<std::int32_t, 2, Host> tokens,
                                TensorView<std::int32_t, 2, Host> targets) {
        if (auto const known = check_views(subject, tokens, targets); !known) return known;
        auto const context = options_.context;
        if (sequences.begin < 0 || sequences.begin > sequences.end || sequences.end > options_.batch)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("sequences")
                .because("are not of the batch")
                .got(sequences.end)
                .between(0, options_.batch);
        if (tokens.extent(0) != sequences.size() || tokens.extent(1) != context ||
            targets.extents() != tokens.extents())
            return Error{ErrorCode::shape_mismatch}
                .in(subject)
                .because("tokens and targets are not those of the sequences")
                .got(tokens.elements())
                .expected(sequences.size() * context);
        auto const samples = samples_at(position);
        if (!samples) return samples.error();
        std::vector<std::int32_t> ids(static_cast<std::size_t>(context + 1));
        std::vector<std::uint8_t> counts(has_loss_ ? ids.size() : 0);
        for (std::int64_t i = 0; i < sequences.size(); ++i) {
            auto const sample = (*samples)[static_cast<std::size_t>(sequences.begin + i)];
            if (auto const done = dataset_->read(tokens_.begin + sample * context, ids, counts); !done) return done;
            for (std::int64_t t = 0; t < context; ++t) {
                auto const next = static_cast<std::size_t>(t + 1);
                tokens.row(i)[t] = ids[next - 1];
                targets.row(i)[t] = has_loss_ && counts[next] == 0 ? ignored : ids[next];
            }
        }
        return {};
    }

    /// Asks the system to begin to bring sequences of a later batch into memory, where it is of the epoch that was read from last: they
    /// are read from the disk while something else is computed, into memory that the system may take back.
    void expect(std::int64_t position, UnitRange sequences) {
        auto const batch = options_.batch;
        bool const is_known =
            position >= 0 && position % batch == 0 && order_->has(position / batch / batches_per_epoch());
        if (!is_known || sequences.begin < 0 || sequences.end > batch) return;
        auto const samples = samples_at(position);
        if (!samples) return;
        for (auto i = sequences.begin; i < sequences.end; ++i)
            dataset_->expect(tokens_.begin + (*samples)[static_cast<std::size_t>(i)] * options_.context,
                             options_.context + 1);
    }

private:
    static constexpr std::string_view subject = "batches";

    Batches(TokenDataset const& dataset, UnitRange tokens, BatchOptions const& options,
            DistributedSampler const& sampler)
        : dataset_(&dataset),
          tokens_(tokens),
          options_(options),
          has_loss_(dataset.has_loss()),
          order_(std::make_shared<detail::EpochOrder>(sampler)) {}

    TokenDataset const* dataset_;
    UnitRange tokens_;
    BatchOptions options_;
    bool has_loss_;
    /// Copies share it.
    std::shared_ptr<detail::EpochOrder> order_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
