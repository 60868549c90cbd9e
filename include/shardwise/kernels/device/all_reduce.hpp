// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/ids.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/peer_memory.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/all_reduce.cuh.
template <class Api, class T>
Result<> launch_all_reduce(AllReduceCall const& call, typename Api::Stream stream);

}  // namespace detail

/// How a group of peers works together.
struct PeerOptions {
    /// What a rank can hand over at a time; longer vectors go in pieces. Ranks keep twice as much.
    Bytes staging = Bytes{std::int64_t{1} << 20U};
    /// Blocks of every kernel; 0: as many as run at once on the fullest device, at most 16.
    std::int32_t blocks = 0;
    /// How long a rank waits for another before the group is over.
    std::chrono::microseconds limit = std::chrono::seconds{10};
};

/// Ranks of one process that reach each other's device memory: one device each, or several on one device. A rank is a
/// context, a stream and what lies here.
///
/// Memory  owned by the group: contexts outlive it, and the streams of its calls are waited for before it ends
template <class Api>
class PeerGroup {
public:
    using Backend = DeviceBackend<Api>;

    /// A rank for each context; a context may stand several times.
    ///
    /// Errors  invalid_argument for no or too many ranks or an impossible option; unsupported where two devices cannot reach
    ///         each other; out_of_memory; backend_failure
    [[nodiscard]] static Result<std::unique_ptr<PeerGroup>> open(std::span<DeviceContext<Api>* const> contexts,
                                                                 PeerOptions const& options = {}) {
        constexpr std::int64_t most = detail::PeerMemory::max_ranks;
        auto const ranks = static_cast<std::int64_t>(contexts.size());
        Error error{ErrorCode::invalid_argument};
        error.in("peer group");
        if (ranks < 1 || ranks > most) return error.because("has no ranks or too many").got(ranks).between(1, most);
        if (options.blocks < 0 || options.blocks > detail::PeerMemory::max_blocks) {
            return error.because("has an impossible number of blocks")
                .got(options.blocks)
                .between(1, detail::PeerMemory::max_blocks);
        }
        if (options.staging < Bytes{16}) {
            return error.because("has staging memory for less than 16 bytes").got(options.staging.count()).at_least(16);
        }
        if (options.limit.count() <= 0) return error.because("has no time to wait").got(options.limit.count());
        std::unique_ptr<PeerGroup> group(new PeerGroup(options));
        auto const max_blocks = co_resident_blocks(contexts);
        if (options.blocks > max_blocks) {
            return error.because("has more blocks than its ranks' devices run at once")
                .got(options.blocks)
                .at_most(max_blocks)
                .fix("ask for fewer blocks, or put fewer ranks on a device");
        }
        group->blocks_ = options.blocks > 0 ? options.blocks : std::min<std::int32_t>(16, max_blocks);
        for (auto* const context : contexts) {
            if (auto const added = group->add(*context); !added) return added.error();
        }
        if (auto const connected = group->connect(); !connected) return connected.error();
        return group;
    }
    PeerGroup(PeerGroup const&) = delete;
    PeerGroup& operator=(PeerGroup const&) = delete;
    ~PeerGroup() {
        for (auto const& member : members_) {
            detail::DeviceScope<Api> const scope(member.context->device());
            Api::release(member.memory);
            member.context->memory().remove(bytes_of_rank());
        }
    }

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }
    [[nodiscard]] std::int32_t blocks() const { return blocks_; }
    /// The memory of a rank, on its device.
    [[nodiscard]] detail::PeerMemory* memory(Rank rank) const {
        return static_cast<detail::PeerMemory*>(members_[static_cast<std::size_t>(rank.value())].memory);
    }

    /// out = the sum of every rank's `in`, in the order of ranks, in float: the same bits on all ranks. Every rank calls it,
    /// with the same count and T, in a stream of its own device; a rank's calls run one after another. A rank that does not
    /// come in time, or asks for something else, ends the group: the stream reports it, and so does every later call.
    ///
    /// Shapes  in, out [count]; out may be in
    /// Order   on `stream`
    /// Errors  shape_mismatch; invalid_argument; the failure that ended the group
    template <ActivationElement T>
    [[nodiscard]] Result<> all_reduce(Rank rank, TensorView<T const, 1, Backend> in, TensorView<T, 1, Backend> out,
                                      DeviceStream<Api>& stream) {
        Error error{ErrorCode::invalid_argument};
        error.in("all_reduce");
        if (rank.value() < 0 || rank.value() >= size()) {
            return error.because("there is no such rank").got(rank.value()).between(0, size() - 1);
        }
        if (in.elements() != out.elements()) {
            return Error{ErrorCode::shape_mismatch}
                .in("all_reduce")
                .because("the output is not as long as the input")
                .got(out.elements())
                .expected(in.elements());
        }
        auto& member = members_[static_cast<std::size_t>(rank.value())];
        if (stream.device() != member.context->device()) {
            return error.because("the stream is of another device than the rank")
                .got(stream.device())
                .expected(member.context->device());
        }
        if (auto const over = detail::fault_result(member.fault->value()); !over) return over;
        stream.watch(member.fault);

        detail::AllReduceCall call{};
        for (std::int32_t peer = 0; peer < size(); ++peer) call.peers[peer] = memory(Rank{peer});
        call.rank = rank.value();
        call.ranks = size();
        call.half_bytes = half_bytes_;
        call.fault = &member.fault->value();
        // More than a year is for ever, and would leave 63 bits of ticks.
        constexpr std::chrono::microseconds longest = std::chrono::hours{24 * 365};
        call.limit_ticks = std::min(options_.limit, longest).count() * Api::ticks_per_microsecond;
        call.blocks = blocks_;
        // The count in elements, so that a difference reads well, with the dtype in the low digit: of the whole, for the first
        // pieces of two lengths may be alike.
        call.identity = static_cast<std::uint64_t>(in.elements()) * 10U + static_cast<std::uint64_t>(dtype_of<T>) % 10U;
        auto const piece = half_bytes_ / static_cast<std::int64_t>(sizeof(T));
        for (std::int64_t first = 0; first < in.elements(); first += piece) {
            call.in = in.data() + first;
            call.out = out.data() + first;
            call.count = std::min(piece, in.elements() - first);
            stream.submit([&](typename Api::Stream native) { return detail::launch_all_reduce<Api, T>(call, native); });
        }
        return {};
    }

private:
    struct Member {
        DeviceContext<Api>* context;
        void* memory;
        typename DeviceStream<Api>::Fault fault;
    };

    explicit PeerGroup(PeerOptions const& options)
        : options_(options), half_bytes_(round_up(options.staging.count(), detail::PeerMemory::line)) {}

    /// Blocks of a rank's kernel that run at once with those of the other ranks on its device.
    [[nodiscard]] static std::int32_t co_resident_blocks(std::span<DeviceContext<Api>* const> contexts) {
        std::int32_t least = detail::PeerMemory::max_blocks;
        for (auto const* const context : contexts) {
            auto const neighbours = std::count_if(contexts.begin(), contexts.end(), [&](auto const* other) {
                return other->device() == context->device();
            });
            least = std::min(least, context->facts().multiprocessors / static_cast<std::int32_t>(neighbours));
        }
        return std::max(least, 1);
    }
    [[nodiscard]] Bytes bytes_of_rank() const {
        return Bytes{static_cast<std::int64_t>(sizeof(detail::PeerMemory)) + 2 * half_bytes_};
    }

    [[nodiscard]] Result<> add(DeviceContext<Api>& context) {
        auto fault = detail::Pinned<Api, detail::FaultRecord>::make();
        if (!fault) return fault.error();
        detail::DeviceScope<Api> const scope(context.device());
        if (!scope.result()) return scope.result();
        auto const bytes = static_cast<std::size_t>(bytes_of_rank().count());
        auto const memory = Api::allocate_shared(bytes);
        if (!memory) return memory.error();
        context.memory().add(bytes_of_rank());
        members_.push_back({&context, *memory, std::move(*fault)});
        auto stream = context.make_stream();
        stream.submit(
            [&](typename Api::Stream native) { return Api::clear(*memory, sizeof(detail::PeerMemory), native); });
        return stream.synchronize(Deadline::after(context.limit()));
    }
    [[nodiscard]] Result<> connect() {
        for (auto const& member : members_) {
            detail::DeviceScope<Api> const scope(member.context->device());
            if (!scope.result()) return scope.result();
            for (auto const& peer : members_) {
                if (peer.context->device() == member.context->device()) continue;
                auto const enabled = Api::enable_peer(member.context->device(), peer.context->device());
                if (!enabled) return enabled;
            }
        }
        return {};
    }

    PeerOptions options_;
    std::int64_t half_bytes_;
    std::int32_t blocks_ = 1;
    std::vector<Member> members_;
};

/// The sum over the ranks of a group; what PeerGroup::all_reduce says.
template <ActivationElement T, class Api>
[[nodiscard]] Result<> all_reduce(PeerGroup<Api>& group, Rank rank, TensorView<T const, 1, DeviceBackend<Api>> in,
                                  TensorView<T, 1, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    return group.all_reduce(rank, in, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
