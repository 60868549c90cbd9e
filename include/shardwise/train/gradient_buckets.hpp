// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/train/bucket_parameter.hpp>
#include <shardwise/train/buckets.hpp>
#include <shardwise/train/detail/exchange_stream.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How gradients are averaged.
struct GradientBucketOptions {
    BucketOptions sizes{};
    /// Gradients lie in the buckets themselves: gradient(parameter) says where. Else they are copied in and out.
    bool is_view = false;
    /// Ranks may run out of data before others: those that go on say so in every pass, and the others call `shadow`.
    bool joins = false;
    /// Sums are divided by the ranks that go on, instead of by all.
    bool divides_by_active = false;
};

/// Averages gradients over ranks, bucket by bucket, while a backward pass goes on: torch's DistributedDataParallel for any
/// parameters and any way to compute their gradients.
///
/// A pass is begin, then `ready` for each parameter as its gradient is complete, then finish. Buckets are reduced in their order, the
/// same on all ranks, on the stream that is given: one of StreamMode::queued reduces beside the caller's thread. After the first
/// pass they are made again in the order in which gradients were ready on rank 0 (BucketOptions::rebuilds).
///
/// Memory  the elements of all parameters once, twice while buckets are made again
/// Source  Li et al., PyTorch Distributed, 2020; torch 2.9.1 reducer.cpp
template <Communicator C>
class GradientBuckets {
public:
    using Vector = TensorView<float, 1, Host>;
    /// Reduces a bucket in place of the sum and division: it gets the bucket's number and its gradients as they are.
    using Hook = std::function<Result<>(C&, std::int32_t, Vector)>;

    /// All ranks give the same parameters. `buffers` are what rank 0 gives to all ranks before a pass, running statistics as a rule.
    /// `comm`, `context` and the views outlive this object.
    ///
    /// Errors  collective_mismatch with the first parameter that differs; invalid_argument; out_of_memory; as a collective
    [[nodiscard]] static Result<GradientBuckets> create(C& comm, HostContext& context, List<BucketParameter> parameters,
                                                        List<Vector> buffers = {},
                                                        GradientBucketOptions const& options = {}) {
        GradientBuckets made(comm, context, std::move(parameters), std::move(buffers), options);
        if (auto const agreed = agree_on(comm, made.check_own()); !agreed) return agreed.error();
        if (auto const same = detail::compare_parameters(comm, made.parameters_, made.buffers_); !same)
            return same.error();
        auto const first = first_buckets(made.tensors_, options.sizes);
        auto const held = first ? made.hold(*first) : Result<>(first.error());
        if (auto const agreed = agree_on(comm, held); !agreed) return agreed.error();
        return Result<GradientBuckets>(std::move(made));
    }

    /// The parameters of each bucket, in the order in which buckets are reduced.
    [[nodiscard]] List<Bucket> buckets() const {
        List<Bucket> out;
        for (auto const& bucket : held_) out.push_back(bucket.parameters);
        return out;
    }
    [[nodiscard]] bool was_rebuilt() const { return was_rebuilt_; }
    /// Of the last finished pass: whether any rank had a gradient of a parameter.
    [[nodiscard]] bool was_used(std::int32_t parameter) const { return used_[static_cast<std::size_t>(parameter)] > 0; }
    /// Where a parameter's gradient lies in its bucket, until buckets are made again in `begin`, which moves it along.
    [[nodiscard]] Vector gradient(std::int32_t parameter) {
        auto const& place = places_[static_cast<std::size_t>(parameter)];
        return {held_[place.bucket].memory.data() + place.offset,
                {tensors_[static_cast<std::size_t>(parameter)].elements}};
    }
    void set_hook(Hook hook) { hook_ = std::move(hook); }

    /// Begins a pass. One that does not synchronise leaves gradients to the caller, who adds them up (torch's no_sync), and the
    /// pass after it does without rank 0's buffers.
    ///
    /// Errors  invalid_argument within a pass; as a collective
    [[nodiscard]] Result<> begin(bool synchronises = true) {
        if (is_open_) return refuse("a pass began before the last one was finished").fix("call finish");
        if (auto const prepared = prepare(true, synchronises); !prepared) return prepared.error();
        is_open_ = true;
        return {};
    }

    /// Says that a parameter's gradient is complete. Where it completes a bucket, and those before it are complete, that one is
    /// reduced on `stream`, which outlives the pass.
    ///
    /// Errors  invalid_argument for a parameter that was ready before in this pass, or that is_static said would not be
    [[nodiscard]] Result<> ready(std::int32_t parameter, HostStream& stream) {
        if (!is_open_) return refuse("a gradient is ready outside of a pass").fix("call begin");
        if (parameter < 0 || static_cast<std::size_t>(parameter) >= tensors_.size())
            return refuse("there is no such parameter").got(parameter);
        auto const i = static_cast<std::size_t>(parameter);
        if (is_ready_[i]) return end(refuse("was ready twice in one pass").at(parameters_[i].name), stream);
        if (knows_unused() && used_[i] == 0) {
            return end(refuse("has a gradient, and had none in the first pass")
                           .at(parameters_[i].name)
                           .fix("leave is_static out where passes differ"),
                       stream);
        }
        is_ready_[i] = true;
        if (!synchronises_) return {};
        order_.push_back(parameter);
        if (!options_.is_view) copy(parameters_[i].gradient.data(), gradient(parameter));
        --held_[places_[i].bucket].missing;
        send_complete(stream);
        return {};
    }

    /// Ends a pass: every gradient is the average over the ranks. A parameter that no rank had a gradient of keeps what it had; one
    /// that this rank alone had none of counts as 0.
    ///
    /// Order   waits for `stream`
    /// Errors  invalid_argument with the first parameter that got no gradient, on all ranks, unless finds_unused or, in the first
    ///         pass, is_static; deadline_exceeded; as a collective
    [[nodiscard]] Result<> finish(HostStream& stream, Deadline deadline) {
        if (!is_open_) return refuse("a pass is finished that did not begin");
        is_open_ = false;
        if (!synchronises_) return {};
        if (auto const complete = complete_missing(stream); !complete) {
            // What is in the stream refers to the buckets.
            (void)stream.synchronize(deadline);
            return complete;
        }
        if (auto const used = reduce_used(stream, deadline); !used) return used;
        if (options_.is_view) {
            put_back();
        } else {
            for (std::size_t i = 0; i < tensors_.size(); ++i) {
                auto const from = gradient(static_cast<std::int32_t>(i));
                if (used_[i] > 0) copy(from.data(), parameters_[i].gradient);
            }
        }
        ++passes_;
        return {};
    }

    /// Takes part in a pass of the ranks that go on, with zeros, on a rank that has no data left (`joins`). False where no rank goes on.
    ///
    /// Errors  unsupported without `joins`; as begin and finish
    [[nodiscard]] Result<bool> shadow(HostStream& stream, Deadline deadline) {
        if (!options_.joins)
            return Error{ErrorCode::unsupported}
                .in(subject)
                .because("were not made for ranks that join")
                .fix("set joins");
        if (is_open_) return refuse("a rank joins within a pass").fix("call finish");
        auto const goes_on = prepare(false, true);
        if (!goes_on || !*goes_on) return goes_on;
        if (!synchronises_) return true;
        for (auto& bucket : held_) std::fill_n(bucket.memory.data(), bucket.memory.size(), 0.0F);
        for (auto& bucket : held_) bucket.missing = 0;
        send_complete(stream);
        if (auto const used = reduce_used(stream, deadline); !used) return used.error();
        ++passes_;
        return true;
    }
    /// The lowest rank that was still going on in the last pass: whose weights are everybody's in the end.
    [[nodiscard]] std::int32_t last_active() const { return root_; }

private:
    static constexpr std::string_view subject = "gradient buckets";

    struct Place {
        std::size_t bucket = 0;
        std::int64_t offset = 0;
    };
    struct Held {
        Bucket parameters;
        Buffer<float, Host> memory;
        std::int64_t missing = 0;
    };

    GradientBuckets(C& comm, HostContext& context, List<BucketParameter> parameters, List<Vector> buffers,
                    GradientBucketOptions const& options)
        : comm_(&comm),
          context_(&context),
          parameters_(std::move(parameters)),
          buffers_(std::move(buffers)),
          options_(options),
          used_(parameters_.size(), 1) {
        for (auto const& parameter : parameters_) tensors_.push_back({.elements = parameter.elements});
        active_ = comm.size();
    }

    [[nodiscard]] static Error refuse(std::string_view reason) {
        return Error{ErrorCode::invalid_argument}.in(subject).because(reason);
    }
    /// Ends the group within a pass: where one thread at a time may use it, after the calls in `stream`, which have deadlines.
    [[nodiscard]] Error end(Error const& error, HostStream& stream) {
        if (!detail::takes_several_threads(*comm_)) (void)stream.synchronize(Deadline::after(std::chrono::hours(24)));
        return end_group(*comm_, error);
    }
    static void copy(float const* from, Vector to) { std::copy_n(from, to.elements(), to.data()); }
    /// Whether the first pass said which parameters get gradients.
    [[nodiscard]] bool knows_unused() const { return options_.sizes.is_static && passes_ > 0; }

    [[nodiscard]] Result<> check_own() const {
        for (auto const& parameter : parameters_) {
            if (parameter.elements < 0)
                return refuse("has a negative size").at(parameter.name).got(parameter.elements).at_least(0);
            if (!options_.is_view && parameter.gradient.elements() != parameter.elements)
                return refuse("has a gradient of another size")
                    .at(parameter.name)
                    .got(parameter.gradient.elements())
                    .expected(parameter.elements);
            if (!options_.is_view && parameter.elements > 0 && parameter.gradient.data() == nullptr)
                return refuse("has a gradient without memory").at(parameter.name);
        }
        if (options_.sizes.first.count() < 1 || options_.sizes.cap.count() < 1)
            return refuse("a bucket's limit is no size");
        return {};
    }
    /// Gives buckets memory; gradients in views move along.
    [[nodiscard]] Result<> hold(List<Bucket> const& buckets) {
        List<Held> held(buckets.size());
        List<Place> places(tensors_.size());
        for (std::size_t b = 0; b < buckets.size(); ++b) {
            std::int64_t elements = 0;
            for (auto const i : buckets[b]) {
                places[static_cast<std::size_t>(i)] = {b, elements};
                elements += tensors_[static_cast<std::size_t>(i)].elements;
            }
            auto memory = Buffer<float, Host>::allocate(*context_, elements);
            if (!memory) return memory.error();
            std::fill_n(memory->data(), elements, 0.0F);
            if (!held_.empty() && options_.is_view) {
                for (auto const i : buckets[b]) {
                    auto const from = gradient(i);
                    copy(from.data(), {memory->data() + places[static_cast<std::size_t>(i)].offset, from.extents()});
                }
            }
            held[b].parameters = buckets[b];
            held[b].memory = std::move(*memory);
        }
        held_ = std::move(held);
        places_ = std::move(places);
        return {};
    }

    /// What all ranks do before a pass, those that joined as well: false where no rank goes on.
    [[nodiscard]] Result<bool> prepare(bool is_active, bool synchronises) {
        synchronises_ = synchronises;
        if (options_.joins) {
            std::array<std::int32_t, 2> sums{is_active ? 1 : 0, is_active && synchronises ? 1 : 0};
            if (auto const done = all_reduce(*comm_, TensorView<std::int32_t, 1, Host>{sums.data(), {2}}); !done)
                return done.error();
            if (sums[0] == 0) return false;
            std::int32_t lowest = is_active ? comm_->rank() : comm_->size();
            if (auto const done = all_reduce(*comm_, TensorView<std::int32_t, 1, Host>{&lowest, {1}}, ReduceOp::min);
                !done)
                return done.error();
            active_ = sums[0];
            root_ = lowest;
            synchronises_ = sums[1] > 0;
            if (is_active && synchronises_ != synchronises)
                return end_group(*comm_, refuse("some ranks synchronise in this pass and others do not"));
        }
        if (syncs_buffers_) {
            for (auto const& buffer : buffers_) {
                if (auto const sent = broadcast(*comm_, buffer, root_); !sent) return sent.error();
            }
        }
        syncs_buffers_ = synchronises_;
        if (synchronises_) {
            if (auto const rebuilt = rebuild(); !rebuilt) return rebuilt.error();
            order_.clear();
        }
        is_ready_.assign(tensors_.size(), false);
        next_ = 0;
        for (auto& bucket : held_) {
            bucket.missing = 0;
            for (auto const i : bucket.parameters)
                bucket.missing += knows_unused() && used_[static_cast<std::size_t>(i)] == 0 ? 0 : 1;
        }
        return true;
    }
    /// Makes the buckets again, once, by the order of rank 0.
    [[nodiscard]] Result<> rebuild() {
        if (was_rebuilt_ || passes_ == 0 || !options_.sizes.rebuilds()) return {};
        was_rebuilt_ = true;
        // What was not ready comes last, as it stands in the list.
        List<bool> has_come(tensors_.size(), false);
        for (auto const i : order_) has_come[static_cast<std::size_t>(i)] = true;
        for (std::size_t i = 0; i < has_come.size(); ++i) {
            if (!has_come[i]) order_.push_back(static_cast<std::int32_t>(i));
        }
        TensorView<std::int32_t, 1, Host> const order{order_.data(), {static_cast<std::int64_t>(order_.size())}};
        if (auto const sent = broadcast(*comm_, order, 0); !sent) return sent;
        auto const made = rebuilt_buckets(tensors_, order_, options_.sizes);
        return agree_on(*comm_, made ? hold(*made) : Result<>(made.error()));
    }

    /// Puts zeros in the place of gradients that did not come, or names the first.
    [[nodiscard]] Result<> complete_missing(HostStream& stream) {
        bool const may_miss = options_.sizes.finds_unused || (options_.sizes.is_static && passes_ == 0);
        std::int64_t missing = 0;
        std::size_t first = 0;
        kept_.clear();
        for (std::size_t i = tensors_.size(); i-- > 0;) {
            if (is_ready_[i]) continue;
            auto const place = gradient(static_cast<std::int32_t>(i));
            if (knows_unused() && used_[i] == 0) continue;
            if (may_miss) {
                if (options_.is_view) kept_.append(place.data(), place.data() + place.elements());
                std::fill_n(place.data(), place.elements(), 0.0F);
                --held_[places_[i].bucket].missing;
                continue;
            }
            ++missing;
            first = i;
        }
        if (missing > 0) {
            auto const in_all = "got no gradient in this pass (" + std::to_string(missing) + " of " +
                                std::to_string(tensors_.size()) + " parameters did not)";
            return end(refuse(in_all)
                           .at(parameters_[first].name)
                           .fix("let it take part in the loss, freeze it, or set finds_unused"),
                       stream);
        }
        send_complete(stream);
        return {};
    }

    /// Views of parameters that no rank had a gradient of get back what they held.
    void put_back() {
        auto const* from = kept_.data();
        for (std::size_t i = tensors_.size(); i-- > 0;) {
            if (is_ready_[i] || kept_.empty() || (knows_unused() && used_[i] == 0)) continue;
            auto const place = gradient(static_cast<std::int32_t>(i));
            if (used_[i] == 0) copy(from, place);
            from += place.elements();
        }
    }

    /// Reduces the buckets that are complete, in order.
    void send_complete(HostStream& stream) {
        for (; next_ < held_.size() && held_[next_].missing == 0; ++next_) {
            auto const gradients = held_[next_].memory.view();
            auto const ranks = options_.divides_by_active ? active_ : comm_->size();
            stream.submit([comm = comm_, gradients, ranks, hook = hook_,
                           number = static_cast<std::int32_t>(next_)]() -> Result<> {
                if (hook) return hook(*comm, number, gradients);
                // Before the sum, as torch does: what is large stays finite.
                auto const factor = 1.0F / static_cast<float>(ranks);
                for (std::int64_t i = 0; i < gradients.elements(); ++i) gradients.data()[i] *= factor;
                return all_reduce(*comm, gradients);
            });
        }
    }
    /// Which parameters any rank had a gradient of, after all buckets.
    [[nodiscard]] Result<> reduce_used(HostStream& stream, Deadline deadline) {
        bool const is_asked = options_.sizes.finds_unused || (options_.sizes.is_static && passes_ == 0);
        if (is_asked) {
            for (std::size_t i = 0; i < used_.size(); ++i) used_[i] = is_ready_[i] ? 1 : 0;
            TensorView<std::int32_t, 1, Host> const used{used_.data(), {static_cast<std::int64_t>(used_.size())}};
            stream.submit([comm = comm_, used] { return all_reduce(*comm, used); });
        }
        return stream.synchronize(deadline);
    }

    C* comm_;
    HostContext* context_;
    List<BucketParameter> parameters_;
    List<Vector> buffers_;
    GradientBucketOptions options_;
    Hook hook_;
    List<BucketTensor> tensors_;
    List<Held> held_;
    List<Place> places_;
    /// Ranks with a gradient of each parameter.
    List<std::int32_t> used_;
    List<bool> is_ready_;
    List<std::int32_t> order_;
    /// Of a pass's missing gradients, where they are views: what they held, from the last parameter on.
    List<float> kept_;
    std::size_t next_ = 0;
    std::int64_t passes_ = 0;
    std::int32_t active_ = 1;
    std::int32_t root_ = 0;
    bool is_open_ = false;
    bool synchronises_ = true;
    bool syncs_buffers_ = true;
    bool was_rebuilt_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
