// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/backend/detail/free_ranges.hpp>
#include <shardwise/backend/detail/pinned_array.hpp>
#include <shardwise/backend/device_stream.hpp>
#include <shardwise/backend/memory_counter.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_id.hpp>
#include <shardwise/core/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

template <class Api>
class WeightUpload;

/// What a device's context is made of.
struct DeviceOptions {
    /// The vendor's number of the device.
    std::int32_t device = 0;
    /// How long the library itself waits where a call has no deadline: for uploads of weights, and when a stream ends.
    std::chrono::nanoseconds limit = std::chrono::seconds{60};
};

/// Everything that a device's back end keeps between calls: which device, the count of its memory, the handles of the
/// vendor's products. The caller owns it, and it outlives its buffers and streams; two contexts do not meet.
template <class Api>
class DeviceContext {
    static_assert(detail::DeviceApi<Api>);

public:
    using Products = typename Api::Products;

    /// Errors  no_such_device; unsupported where the device's warps are not as wide as the kernels were made for;
    ///         backend_failure where the driver does not answer
    [[nodiscard]] static Result<std::unique_ptr<DeviceContext>> open(DeviceOptions const& options = {}) {
        auto const count = Api::count_devices();
        if (!count) return count.error();
        if (options.device < 0 || options.device >= *count) {
            return Error{ErrorCode::no_such_device}
                .in(Api::name)
                .because("this machine has no device of that number")
                .got(options.device)
                .between(0, *count - 1)
                .fix("choose a smaller number, or make the device visible");
        }
        auto const facts = Api::describe(options.device);
        if (!facts) return facts.error();
        if (facts->warp_size != Api::warp_size && facts->warp_size != Api::least_warp_size) {
            auto error =
                Error{ErrorCode::unsupported}
                    .in(Api::name)
                    .because("the device runs threads in groups of another size than the kernels were made for")
                    .got(facts->warp_size)
                    .fix("choose another device");
            if constexpr (Api::least_warp_size == Api::warp_size) return error.expected(Api::warp_size);
            return error.between(Api::least_warp_size, Api::warp_size);
        }
        return std::unique_ptr<DeviceContext>(new DeviceContext(options, *facts));
    }

    [[nodiscard]] DeviceId id() const { return DeviceId::gpu(options_.device); }
    [[nodiscard]] std::int32_t device() const { return options_.device; }
    [[nodiscard]] std::chrono::nanoseconds limit() const { return options_.limit; }
    [[nodiscard]] detail::DeviceFacts const& facts() const { return facts_; }
    [[nodiscard]] MemoryCounter& memory() { return memory_; }

    /// A stream of its own. Where the device gives none, the stream has failed from the start.
    [[nodiscard]] DeviceStream<Api> make_stream() {
        return DeviceStream<Api>(*this, options_.device, options_.limit, std::nullopt);
    }
    /// Work in a stream that belongs to somebody else, who destroys it.
    [[nodiscard]] DeviceStream<Api> adopt_stream(typename Api::Stream native) {
        return DeviceStream<Api>(*this, options_.device, options_.limit, native);
    }

    /// Takes one block of the device's memory, which all later allocations of the back end are parts of as long as it has place for
    /// them; what it has no place for is asked of the vendor. Once; no bytes are no block. What was allocated
    /// before it stays outside of the block, and goes back to the vendor.
    ///
    /// Memory  what is freed is used again at once: nothing in a stream reads it any more
    /// Errors  invalid_argument for negative bytes, and where there is a block already; out_of_memory; backend_failure
    [[nodiscard]] Result<> reserve(Bytes bytes) {
        Error refused{ErrorCode::invalid_argument};
        refused.in(Api::name).at("reserve");
        if (bytes.count() < 0) return refused.because("has a negative size").got(bytes.count());
        std::lock_guard const lock(mutex_);
        if (block_ != nullptr) return refused.because("has a block already").fix("reserve once, all that is needed");
        if (bytes.count() == 0) return {};
        detail::DeviceScope<Api> const scope(options_.device);
        if (!scope.result()) return scope.result();
        auto made = Api::allocate(static_cast<std::size_t>(bytes.count()));
        if (!made) return made.error();
        block_ = static_cast<std::byte*>(*made);
        block_bytes_ = bytes;
        free_ = detail::FreeRanges(bytes.count());
        return {};
    }
    [[nodiscard]] Bytes reserved() const { return block_bytes_; }
    /// Memory of the device's that somebody else owns, for one buffer: what is allocated while `take_apart` is on, and no larger.
    /// It outlives that buffer.
    void set_apart(void* memory, Bytes bytes) {
        std::lock_guard const lock(mutex_);
        apart_ = static_cast<std::byte*>(memory);
        apart_bytes_ = bytes;
    }
    /// Whether what is allocated next is that buffer (detail::allocate_apart).
    void take_apart(bool does) { takes_apart_ = does; }
    /// A part of the block; null where it has no place.
    [[nodiscard]] void* take(Bytes bytes) {
        std::lock_guard const lock(mutex_);
        if (takes_apart_ && !is_apart_taken_ && bytes <= apart_bytes_) {
            is_apart_taken_ = true;
            return apart_;
        }
        auto const offset = free_.take(bytes.count(), is_brief_);
        return offset ? block_ + *offset : nullptr;
    }
    /// False for memory that is no part of the block, and was not set apart.
    [[nodiscard]] bool give_back(void* memory, Bytes bytes) {
        auto* const at = static_cast<std::byte*>(memory);
        std::lock_guard const lock(mutex_);
        std::less<std::byte*> const before;
        if (is_apart_taken_ && at == apart_) {
            is_apart_taken_ = false;
            return true;
        }
        if (block_ == nullptr || before(at, block_) || !before(at, block_ + block_bytes_.count())) return false;
        free_.give_back(at - block_, bytes.count());
        return true;
    }
    /// Whether what is allocated from now on goes before what is allocated later: of all, or of weights (`holds_weights_briefly`).
    /// The context's rank says so while it loads.
    void set_brief(bool is_brief) { is_brief_ = is_brief; }
    void set_brief_weights(bool is_brief) { are_weights_brief_ = is_brief; }
    [[nodiscard]] bool is_brief() const { return is_brief_; }
    [[nodiscard]] bool are_weights_brief() const { return are_weights_brief_; }

    /// What brings weights to the device while a rank loads; null: each weight is waited for.
    [[nodiscard]] WeightUpload<Api>* upload() const { return upload_; }
    void set_upload(WeightUpload<Api>* upload) { upload_ = upload; }

    /// What is free on the device now, whoever holds the rest.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<Bytes> free_memory() const {
        detail::DeviceScope<Api> const scope(options_.device);
        if (!scope.result()) return scope.result().error();
        return Api::free_memory();
    }

    /// The handles of the vendor's products, made when first asked for.
    [[nodiscard]] Result<Products*> products() {
        std::lock_guard const lock(mutex_);
        if (!products_) {
            detail::DeviceScope<Api> const scope(options_.device);
            if (!scope.result()) return scope.result().error();
            auto made = std::make_unique<Products>();
            if (auto const opened = made->open(); !opened) return opened.error();
            products_ = std::move(made);
        }
        return products_.get();
    }

    /// At least so many bytes of pinned memory, the same at every call until more are asked for: what was put into `stream` with them
    /// is waited for then. For one stream of the context.
    ///
    /// Errors  out_of_memory; those of the stream; deadline_exceeded
    [[nodiscard]] Result<std::byte*> staging(std::size_t bytes, DeviceStream<Api>& stream) {
        if (bytes > staging_bytes_) {
            if (auto const done = stream.synchronize(Deadline::after(options_.limit)); !done) return done.error();
            detail::DeviceScope<Api> const scope(options_.device);
            if (!scope.result()) return scope.result().error();
            auto made = detail::PinnedArray<Api, std::byte>::make(static_cast<std::int64_t>(bytes));
            if (!made) return made.error();
            staging_ = std::move(*made);
            staging_bytes_ = bytes;
        }
        return staging_.data();
    }

    DeviceContext(DeviceContext const&) = delete;
    DeviceContext& operator=(DeviceContext const&) = delete;
    ~DeviceContext() {
        if (block_ == nullptr) return;
        detail::DeviceScope<Api> const scope(options_.device);
        Api::release(block_);
    }

private:
    DeviceContext(DeviceOptions const& options, detail::DeviceFacts const& facts) : options_(options), facts_(facts) {}

    DeviceOptions options_;
    detail::DeviceFacts facts_;
    MemoryCounter memory_;
    std::mutex mutex_;
    std::unique_ptr<Products> products_;
    detail::PinnedArray<Api, std::byte> staging_;
    std::size_t staging_bytes_ = 0;
    std::byte* block_ = nullptr;
    Bytes block_bytes_{};
    detail::FreeRanges free_;
    std::byte* apart_ = nullptr;
    Bytes apart_bytes_{};
    bool takes_apart_ = false;
    bool is_apart_taken_ = false;
    bool is_brief_ = false;
    bool are_weights_brief_ = false;
    WeightUpload<Api>* upload_ = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
