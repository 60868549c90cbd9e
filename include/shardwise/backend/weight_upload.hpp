// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/detail/pinned_array.hpp>
#include <shardwise/backend/device_context.hpp>
#include <shardwise/backend/device_event.hpp>
#include <shardwise/backend/device_stream.hpp>
#include <shardwise/backend/host/thread_pool.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Brings weights to a device while the next ones are packed: two slabs of pinned memory, of which the threads of a pool fill one while the
/// stream empties the other. Nobody waits but for a slab that is still being emptied, and in `finish`.
///
/// Between `begin` and its end `hold_weight` of its context uses it, called by one thread, and what it has made is on the device after
/// `finish`.
///
/// Memory  pinned: twice `slab_bytes`, or a row where that is longer, from the first weights on; it outlives nothing that it refers to
template <class Api>
class WeightUpload {
public:
    static constexpr Bytes slab_bytes{std::int64_t{64} << 20U};

    /// `pool` packs; null: the caller alone.
    WeightUpload(DeviceContext<Api>& context, ThreadPool* pool, Bytes slab = slab_bytes)
        : context_(&context), pool_(pool), slab_(slab.count()), stream_(context.make_stream()) {}
    WeightUpload(WeightUpload const&) = delete;
    WeightUpload& operator=(WeightUpload const&) = delete;
    /// Waits for what is on its way, at most as long as the context's limit.
    ~WeightUpload() {
        (void)finish();
        if (context_->upload() == this) context_->set_upload(nullptr);
    }

    /// From now on the context's weights go by it.
    void begin() { context_->set_upload(this); }

    [[nodiscard]] DeviceStream<Api>& stream() { return stream_; }
    /// Calls pack(begin, end) for pieces of [0, count), each of at least `grain`.
    template <class Pack>
    void run_ranges(std::int64_t count, std::int64_t grain, Pack const& pack) {
        if (pool_ == nullptr) return pack(0, count);
        pool_->run_ranges(count, grain, pack);
    }
    /// Units  bytes
    [[nodiscard]] std::int64_t slab() const { return slab_; }

    /// Pinned memory for `bytes`, whose copies are put into the stream before the next call.
    ///
    /// Errors  out_of_memory; those of the stream; deadline_exceeded
    [[nodiscard]] Result<std::byte*> room(std::int64_t bytes) {
        if (stream_.failure()) return *stream_.failure();
        auto* slab = &slabs_[now_];
        if (slab->used + bytes > slab->size) {
            if (slab->used > 0) {
                slab->emptied.record(stream_);
                now_ = 1 - now_;
                slab = &slabs_[now_];
            }
            if (auto const waited = slab->emptied.synchronize(Deadline::after(context_->limit())); !waited)
                return waited.error();
            slab->used = 0;
            if (bytes > slab->size) {
                if (auto const made = make(*slab, bytes); !made) return made.error();
            }
        }
        auto* const at = slab->memory.data() + slab->used;
        slab->used += round_up(bytes, 256);
        return at;
    }
    /// Waits until all is on the device.
    ///
    /// Errors  those of the copies; deadline_exceeded
    [[nodiscard]] Result<> finish() {
        auto const done = stream_.synchronize(Deadline::after(context_->limit()));
        if (done) slabs_[0].used = slabs_[1].used = 0;
        return done;
    }

private:
    struct Slab {
        detail::PinnedArray<Api, std::byte> memory;
        std::int64_t size = 0;
        std::int64_t used = 0;
        DeviceEvent<Api> emptied;
    };

    [[nodiscard]] Result<> make(Slab& slab, std::int64_t bytes) {
        auto const least = round_up(bytes, 256);
        auto size = std::max(least, slab_);
        detail::DeviceScope<Api> const scope(context_->device());
        if (!scope.result()) return scope.result();
        auto made = detail::PinnedArray<Api, std::byte>::make(size);
        if (!made && size > least) {
            // Where the host has not so much to pin, a weight at a time.
            size = least;
            made = detail::PinnedArray<Api, std::byte>::make(size);
        }
        if (!made) return made.error();
        slab.memory = std::move(*made);
        slab.size = size;
        return {};
    }

    DeviceContext<Api>* context_;
    ThreadPool* pool_;
    std::int64_t slab_;
    std::array<Slab, 2> slabs_;
    std::size_t now_ = 0;
    /// Goes first: it waits for what reads the slabs.
    DeviceStream<Api> stream_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
