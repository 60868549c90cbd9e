// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/train/detail/rounded.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a batch norm normalises and remembers.
struct BatchNormOptions {
    double epsilon = 1e-5;
    /// The share of a step's statistics in the running ones.
    double momentum = 0.1;
};

/// Normalises each channel over the rows of all ranks together: the statistics are those of the joined batch, whatever the ranks'
/// shares are; ranks may have no rows, and join nevertheless. Keeps what the backward pass reads.
///
/// Sums are made in double over the rows of a rank, and over the ranks in their order, weighted by their rows: all ranks get the
/// same bits, as do all numbers of threads; another cut of the rows may round differently.
///
/// Source  Ioffe and Szegedy, Batch Normalization, 2015; torch.nn.SyncBatchNorm
class SyncBatchNorm {
public:
    using Matrix = TensorView<float, 2, Host>;
    using ConstMatrix = TensorView<float const, 2, Host>;
    using Vector = TensorView<float, 1, Host>;
    using ConstVector = TensorView<float const, 1, Host>;

    /// Errors  invalid_argument
    [[nodiscard]] static Result<SyncBatchNorm> create(std::int64_t channels, BatchNormOptions const& options = {}) {
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject);
        if (channels < 1) return bad.at("channels").because("are none").got(channels).at_least(1);
        if (!(options.epsilon > 0.0 && options.epsilon < 1e30))
            return bad.at("epsilon").because("is no positive number");
        if (!(options.momentum >= 0.0 && options.momentum <= 1.0))
            return bad.at("momentum").because("is no share from 0 to 1");
        return SyncBatchNorm(channels, options);
    }

    /// out = (in - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and variance of all ranks' rows. The running
    /// statistics move towards the mean and the unbiased variance. Without weight and bias give empty views.
    ///
    /// Shapes  in, out [rows of this rank, channels], out may be in only where no backward pass follows; weight, bias,
    ///         running_mean, running_variance [channels], the running ones may be empty
    /// Order   on `stream`; this object, `comm` and the views outlive what is in it
    /// Errors  shape_mismatch; invalid_argument on all ranks where they have fewer than two rows together; as a collective
    template <Communicator C>
    [[nodiscard]] Result<> forward(C& comm, ConstMatrix in, ConstVector weight, ConstVector bias, Vector running_mean,
                                   Vector running_variance, Matrix out, HostStream& stream) {
        if (auto const checked = check(in, weight, bias, running_mean, running_variance, out); !checked) return checked;
        stream.submit([=, this, &comm, pool = stream.pool()]() -> Result<> {
            if (auto const gathered = gather_statistics(comm, in, pool); !gathered) return gathered;
            update_running(running_mean, running_variance);
            normalise(in, weight, bias, out, pool);
            return {};
        });
        return {};
    }

    /// The same with given statistics, for evaluation: no rank waits for another.
    ///
    /// Shapes  as forward; running_mean, running_variance [channels]
    /// Order   on `stream`; the views outlive what is in it
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> evaluate(ConstMatrix in, ConstVector weight, ConstVector bias, ConstVector running_mean,
                                    ConstVector running_variance, Matrix out, HostStream& stream) {
        if (auto const checked = check(in, weight, bias, running_mean, running_variance, out); !checked) return checked;
        if (running_mean.empty() || running_variance.empty())
            return Error{ErrorCode::shape_mismatch}.in(subject).because("evaluation needs running statistics");
        stream.submit([=, this, pool = stream.pool()] {
            for (std::int64_t c = 0; c < channels_; ++c) {
                mean_[at(c)] = static_cast<double>(running_mean.data()[c]);
                scale_[at(c)] = scale_of(static_cast<double>(running_variance.data()[c]));
            }
            normalise(in, weight, bias, out, pool);
            return Result<>{};
        });
        return {};
    }

    /// The gradients of the last `forward`. Those of weight and bias are sums over this rank's rows alone, as of any other
    /// parameter: whoever sums gradients over ranks adds them up.
    ///
    /// Shapes  in, out_gradient, in_gradient [rows of this rank, channels], in_gradient may be out_gradient;
    ///         weight_gradient, bias_gradient [channels] or empty
    /// Order   on `stream`, after forward; this object, `comm` and the views outlive what is in it
    /// Errors  shape_mismatch; invalid_argument without a forward pass of these rows; as a collective
    template <Communicator C>
    [[nodiscard]] Result<> backward(C& comm, ConstMatrix in, ConstMatrix out_gradient, ConstVector weight,
                                    Matrix in_gradient, Vector weight_gradient, Vector bias_gradient,
                                    HostStream& stream) {
        if (auto const checked = check(in, weight, weight_gradient, bias_gradient, ConstVector{}, in_gradient);
            !checked)
            return checked;
        if (auto const known = check_views(subject, out_gradient); !known) return known;
        if (out_gradient.extents() != in.extents())
            return Error{ErrorCode::shape_mismatch}
                .in(subject)
                .because("the output's gradient is not of the input's rows and channels")
                .got(out_gradient.elements())
                .expected(in.elements());
        stream.submit([=, this, &comm, pool = stream.pool()]() -> Result<> {
            if (rows_ < 2 || own_rows_ != in.extent(0))
                return Error{ErrorCode::invalid_argument}
                    .in(subject)
                    .because("no forward pass of these rows came before")
                    .got(in.extent(0))
                    .expected(own_rows_);
            sum_gradients(in, out_gradient, pool);
            for (std::int64_t c = 0; c < channels_; ++c) {
                auto const scaled = detail::rounded(sums_[at(channels_ + c)] * scale_[at(c)]);
                if (!weight_gradient.empty()) weight_gradient.data()[c] = static_cast<float>(scaled);
                if (!bias_gradient.empty()) bias_gradient.data()[c] = static_cast<float>(sums_[at(c)]);
            }
            TensorView<double, 1, Host> const sums{sums_.data(), {2 * channels_}};
            if (auto const done = all_reduce(comm, sums); !done) return done;
            spread_gradients(in, out_gradient, weight, in_gradient, pool);
            return {};
        });
        return {};
    }

    /// The rows of all ranks in the last forward pass.
    [[nodiscard]] std::int64_t rows() const { return rows_; }

private:
    static constexpr std::string_view subject = "sync_batch_norm";

    SyncBatchNorm(std::int64_t channels, BatchNormOptions const& options)
        : channels_(channels),
          options_(options),
          mean_(static_cast<std::size_t>(channels)),
          squares_(static_cast<std::size_t>(channels)),
          scale_(static_cast<std::size_t>(channels)),
          sums_(static_cast<std::size_t>(2 * channels)) {}

    [[nodiscard]] static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] double scale_of(double variance) const { return 1.0 / std::sqrt(variance + options_.epsilon); }

    [[nodiscard]] Result<> check(ConstMatrix in, ConstVector a, ConstVector b, ConstVector c, ConstVector d,
                                 ConstMatrix out) const {
        if (auto const known = check_views(subject, in, a, b, c, d, out); !known) return known;
        Error error{ErrorCode::shape_mismatch};
        error.in(subject);
        if (in.extent(1) != channels_)
            return error.because("the input has another number of channels").got(in.extent(1)).expected(channels_);
        if (out.extents() != in.extents())
            return error.because("input and output differ in shape").got(out.elements()).expected(in.elements());
        for (auto const& vector : {a, b, c, d}) {
            if (!vector.empty() && vector.elements() != channels_)
                return error.because("a vector is not of the channels").got(vector.elements()).expected(channels_);
        }
        return {};
    }

    /// Calls body(begin, end) for pieces of the channels: threads cut columns, never sums.
    template <class Body>
    void over_channels(ThreadPool* pool, Body const& body) const {
        if (pool != nullptr) {
            pool->run_ranges(channels_, channels_at_once, body);
        } else {
            body(std::int64_t{0}, channels_);
        }
    }

    template <Communicator C>
    [[nodiscard]] Result<> gather_statistics(C& comm, ConstMatrix in, ThreadPool* pool) {
        own_rows_ = in.extent(0);
        auto const rows = static_cast<double>(own_rows_);
        // Mean and sum of squared differences of each channel, and the rows.
        auto const width = 2 * channels_ + 1;
        List<double> own(at(width));
        own[at(width - 1)] = rows;
        over_channels(pool, [&](std::int64_t begin, std::int64_t end) {
            if (own_rows_ == 0) return;
            auto* const means = own.data();
            auto* const squares = means + channels_;
            for (std::int64_t row = 0; row < own_rows_; ++row) {
                for (auto c = begin; c < end; ++c) means[c] += static_cast<double>(in.row(row)[c]);
            }
            for (auto c = begin; c < end; ++c) means[c] /= rows;
            for (std::int64_t row = 0; row < own_rows_; ++row) {
                for (auto c = begin; c < end; ++c) {
                    auto const difference = static_cast<double>(in.row(row)[c]) - means[c];
                    squares[c] += detail::rounded(difference * difference);
                }
            }
        });
        List<double> all(at(width * comm.size()));
        List<std::int64_t> const counts(at(comm.size()), width);
        auto const gathered = all_gather(comm, TensorView<double const, 1, Host>{own.data(), {width}},
                                         TensorView<double, 1, Host>{all.data(), {width * comm.size()}},
                                         std::span<std::int64_t const>{counts.data(), counts.size()});
        if (!gathered) return gathered;
        double total = 0.0;
        for (auto& value : mean_) value = 0.0;
        for (auto& value : squares_) value = 0.0;
        for (std::int64_t rank = 0; rank < comm.size(); ++rank) {
            auto const* const theirs = all.data() + rank * width;
            auto const count = theirs[width - 1];
            if (count == 0.0) continue;
            auto const share = count / (total + count);
            for (std::int64_t c = 0; c < channels_; ++c) {
                auto const difference = theirs[c] - mean_[at(c)];
                auto const moved = detail::rounded(difference * share);
                mean_[at(c)] += moved;
                auto const between = detail::rounded(detail::rounded(difference * moved) * total);
                squares_[at(c)] += detail::rounded(theirs[channels_ + c] + between);
            }
            total += count;
        }
        rows_ = static_cast<std::int64_t>(total);
        if (rows_ < 2) {
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("the ranks have fewer than two rows together, which have no variance")
                .got(rows_)
                .at_least(2);
        }
        for (std::int64_t c = 0; c < channels_; ++c) scale_[at(c)] = scale_of(squares_[at(c)] / total);
        return {};
    }

    void update_running(Vector running_mean, Vector running_variance) const {
        auto const move = [this](Vector running, std::int64_t c, double value) {
            if (running.empty()) return;
            auto const kept = detail::rounded((1.0 - options_.momentum) * static_cast<double>(running.data()[c]));
            running.data()[c] = static_cast<float>(kept + detail::rounded(options_.momentum * value));
        };
        for (std::int64_t c = 0; c < channels_; ++c) {
            move(running_mean, c, mean_[at(c)]);
            move(running_variance, c, squares_[at(c)] / static_cast<double>(rows_ - 1));
        }
    }

    void normalise(ConstMatrix in, ConstVector weight, ConstVector bias, Matrix out, ThreadPool* pool) const {
        over_channels(pool, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = 0; row < in.extent(0); ++row) {
                for (auto c = begin; c < end; ++c) {
                    auto value = detail::rounded((static_cast<double>(in.row(row)[c]) - mean_[at(c)]) * scale_[at(c)]);
                    if (!weight.empty()) value = detail::rounded(value * static_cast<double>(weight.data()[c]));
                    if (!bias.empty()) value += static_cast<double>(bias.data()[c]);
                    out.row(row)[c] = static_cast<float>(value);
                }
            }
        });
    }

    /// Of each channel the sums over this rank's rows of dy, and of dy * (x - mean).
    void sum_gradients(ConstMatrix in, ConstMatrix out_gradient, ThreadPool* pool) {
        for (auto& value : sums_) value = 0.0;
        over_channels(pool, [&](std::int64_t begin, std::int64_t end) {
            auto* const plain = sums_.data();
            auto* const weighted = plain + channels_;
            for (std::int64_t row = 0; row < in.extent(0); ++row) {
                for (auto c = begin; c < end; ++c) {
                    auto const gradient = static_cast<double>(out_gradient.row(row)[c]);
                    plain[c] += gradient;
                    weighted[c] += detail::rounded(gradient * (static_cast<double>(in.row(row)[c]) - mean_[at(c)]));
                }
            }
        });
    }

    void spread_gradients(ConstMatrix in, ConstMatrix out_gradient, ConstVector weight, Matrix in_gradient,
                          ThreadPool* pool) const {
        auto const rows = static_cast<double>(rows_);
        over_channels(pool, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = 0; row < in.extent(0); ++row) {
                for (auto c = begin; c < end; ++c) {
                    auto const scale = scale_[at(c)];
                    auto const slope = sums_[at(channels_ + c)] / rows * scale * scale;
                    auto const difference = static_cast<double>(in.row(row)[c]) - mean_[at(c)];
                    auto const centred = static_cast<double>(out_gradient.row(row)[c]) - sums_[at(c)] / rows;
                    auto value = (centred - detail::rounded(difference * slope)) * scale;
                    if (!weight.empty()) value *= static_cast<double>(weight.data()[c]);
                    in_gradient.row(row)[c] = static_cast<float>(value);
                }
            }
        });
    }

    /// Two cache lines of floats, so that threads do not write to one line.
    static constexpr std::int64_t channels_at_once = 32;

    std::int64_t channels_;
    BatchNormOptions options_;
    std::int64_t rows_ = 0;
    std::int64_t own_rows_ = 0;
    List<double> mean_;
    /// The sum of squared differences from the mean.
    List<double> squares_;
    /// 1 / sqrt(variance + epsilon).
    List<double> scale_;
    List<double> sums_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
