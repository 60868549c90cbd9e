// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/detail/exchange_results.hpp>
#include <shardwise/comm/device/nccl_library.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a library of NCCL's interface knows the memory that a rank's collectives move.
enum class NcclRegistration : std::uint8_t {
    none,
    buffer,  // each rank's own: what is moved is not copied first
    window,  // of all ranks alike: what is moved lies at the same offset of it on each, and kernels reach all of them
};

/// A rank's memory for what its collectives move: the library allocates it, knows of it while a communicator lives, and frees it. Calls
/// are made with the rank's device current.
class NcclMemory {
public:
    explicit NcclMemory(NcclTable const& table) : table_(table) {}
    NcclMemory(NcclMemory const&) = delete;
    NcclMemory& operator=(NcclMemory const&) = delete;

    [[nodiscard]] NcclRegistration registration() const { return registration_; }
    /// Why it is no window where the library has windows, or is not known at all; empty: nothing was refused.
    [[nodiscard]] std::string const& reason() const { return reason_; }

    /// Errors  unsupported where the library has no memory of its own (before 2.19), and the second time; those of its call
    [[nodiscard]] Result<void*> allocate(Bytes bytes) {
        Error refused{ErrorCode::unsupported};
        refused.in("ncclMemAlloc");
        if (memory_ != nullptr) return refused.because("has given memory already").fix("allocate once");
        if (table_.allocate == nullptr || table_.release == nullptr)
            return refused.because("is not in the library").fix("install NCCL 2.19 or later");
        auto const done =
            table_.result(table_.allocate(&memory_, static_cast<std::size_t>(bytes.count())), "ncclMemAlloc");
        if (!done) {
            memory_ = nullptr;
            return done.error();
        }
        bytes_ = bytes;
        return memory_;
    }

    /// Tells the library of the memory, of which every rank calls it, those that have none too: see Nccl::register_memory.
    /// settle(call) waits until `handle` is at rest; reopen() makes another communicator of it where this one has failed.
    ///
    /// Errors  those of reopen; of the exchanges
    template <class Settle, class Reopen>
    [[nodiscard]] Result<> tell(HostCommunicator& control, NcclTable::Handle const& handle, std::uint64_t layout,
                                Settle const& settle, Reopen const& reopen) {
        bool const has_buffers = memory_ != nullptr && table_.add_buffer != nullptr && table_.remove_buffer != nullptr;
        bool const has_windows = memory_ != nullptr && table_.add_window != nullptr && table_.remove_window != nullptr;
        auto const offers =
            detail::exchange_results(control, Result<Offer>(Offer{bytes_.count(), layout, has_buffers, has_windows}));
        if (!offers) return offers.error();
        auto const has_all = [&](auto const& has) { return std::all_of(offers->begin(), offers->end(), has); };
        bool const has_any_buffer =
            std::any_of(offers->begin(), offers->end(), [](Offer const& one) { return one.has_buffers; });
        if (has_all([](Offer const& one) { return one.has_windows; })) {
            bool const is_alike = has_all([&](Offer const& one) {
                return one.bytes == offers->front().bytes && one.layout == offers->front().layout;
            });
            reason_ = "the arena is no window: ranks lay it out unlike";
            if (is_alike) {
                auto const made = detail::exchange_results(control, named(control, make_window(handle, settle)));
                if (!made) {
                    // What a call of all ranks has left behind is not to be built on.
                    reason_ = "the arena is no window: " + std::string(made.error().message());
                    return reopen();
                }
                if (std::all_of(made->begin(), made->end(), [](bool is_there) { return is_there; })) {
                    reason_.clear();
                    registration_ = NcclRegistration::window;
                    return {};
                }
                remove(handle);
                reason_ = "the arena is no window: the library makes none on these devices";
            }
        }
        if (!has_all([](Offer const& one) { return one.has_buffers; })) {
            if (has_any_buffer) reason_ = "the arena is not registered: a rank has none of the library's memory";
            return {};
        }
        auto const made = detail::exchange_results(control, named(control, make_buffer(handle)));
        if (made) {
            registration_ = NcclRegistration::buffer;
        } else {
            remove(handle);
            reason_ = "the arena is not registered: " + std::string(made.error().message());
        }
        return {};
    }
    /// Before the communicator ends.
    void remove(NcclTable::Handle handle) {
        if (window_ != nullptr) (void)table_.remove_window(handle, window_);
        if (buffer_ != nullptr) (void)table_.remove_buffer(handle, buffer_);
        forget();
    }
    /// What was registered went with its communicator.
    void forget() {
        window_ = nullptr;
        buffer_ = nullptr;
        registration_ = NcclRegistration::none;
    }
    /// After the communicator's end.
    void release() {
        if (memory_ != nullptr) (void)table_.release(std::exchange(memory_, nullptr));
    }

private:
    /// What a rank says before the library is called.
    struct Offer {
        std::int64_t bytes;
        std::uint64_t layout;
        bool has_buffers;
        bool has_windows;
    };

    [[nodiscard]] static Result<bool> named(HostCommunicator const& control, Result<bool> const& made) {
        if (made) return made;
        return name_rank(made.error(), control.rank(), control.rank_names());
    }
    /// False: the library takes the call and makes no window.
    template <class Settle>
    [[nodiscard]] Result<bool> make_window(NcclTable::Handle handle, Settle const& settle) {
        constexpr std::string_view call = "ncclCommWindowRegister";
        auto const bytes = static_cast<std::size_t>(bytes_.count());
        auto done =
            table_.result(table_.add_window(handle, memory_, bytes, &window_, NcclTable::symmetric_window), call);
        // The window is there once the communicator is at rest.
        if (done) done = settle(call);
        if (!done) return done.error();
        return window_ != nullptr;
    }
    [[nodiscard]] Result<bool> make_buffer(NcclTable::Handle handle) {
        auto const bytes = static_cast<std::size_t>(bytes_.count());
        auto const done = table_.result(table_.add_buffer(handle, memory_, bytes, &buffer_), "ncclCommRegister");
        if (!done) return done.error();
        return true;
    }

    NcclTable table_;
    void* memory_ = nullptr;
    Bytes bytes_{};
    NcclTable::Window window_ = nullptr;
    void* buffer_ = nullptr;
    NcclRegistration registration_ = NcclRegistration::none;
    std::string reason_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
