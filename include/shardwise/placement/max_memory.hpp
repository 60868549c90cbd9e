// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_key.hpp>
#include <shardwise/core/memory_size.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The most bytes of a model that one device may hold.
struct DeviceLimit {
    DeviceId device{};
    Bytes limit{};

    friend constexpr bool operator==(DeviceLimit const&, DeviceLimit const&) = default;
};

/// The device that a key of a device map or of a `max_memory` names: "0", "cuda:0", "mps", "cpu", "disk".
///
/// Errors  unknown_name
[[nodiscard]] constexpr Result<DeviceId> parse_device_key(std::string_view key) {
    if (key == "mps") return DeviceId::mps();
    if (key == "cpu") return DeviceId::cpu();
    if (key == "disk") return DeviceId::disk();
    auto digits = key;
    if (digits.substr(0, 5) == "cuda:") digits.remove_prefix(5);
    std::int32_t index = 0;
    bool is_number = !digits.empty() && digits.size() <= 6;
    for (char const digit : digits) {
        is_number = is_number && digit >= '0' && digit <= '9';
        if (is_number) index = index * 10 + (digit - '0');
    }
    if (is_number) return DeviceId::gpu(index);
    return Error{ErrorCode::unknown_name}
        .at(key)
        .because("is no device")
        .fix("name GPUs by number, others as mps, cpu or disk");
}

/// The largest limit that is read: no machine has more.
inline constexpr Bytes max_memory_limit{std::int64_t{1} << 60U};

/// Errors  invalid_argument for a limit beyond max_memory_limit
[[nodiscard]] constexpr Result<> check_memory_limit(Bytes limit) {
    if (limit <= max_memory_limit) return {};
    return Error{ErrorCode::invalid_argument}
        .in("max_memory")
        .because("a limit is beyond 2^60 bytes")
        .got(limit.count())
        .at_most(max_memory_limit.count())
        .fix("give what the device has");
}

/// How much of a model each device may hold, as accelerate's `max_memory` says it.
///
/// Order  GPUs by number, then mps, cpu, disk, however they were added
class MaxMemory {
public:
    /// Sets the limit of a device that has none yet.
    ///
    /// Errors  invalid_argument for a negative limit or a device that occurs twice
    [[nodiscard]] constexpr Result<> add(DeviceId device, Bytes limit) {
        if (limit < Bytes{}) {
            return Error{ErrorCode::invalid_argument}
                .in("max_memory")
                .because("a limit is negative")
                .got(limit.count());
        }
        std::size_t at = limits_.size();
        while (at > 0 && device <= limits_[at - 1].device) --at;
        if (at < limits_.size() && limits_[at].device == device) {
            return Error{ErrorCode::invalid_argument}.in("max_memory").because("a device occurs twice");
        }
        limits_.push_back({device, limit});
        for (auto i = limits_.size() - 1; i > at; --i) limits_[i] = limits_[i - 1];
        limits_[at] = {device, limit};
        return {};
    }

    /// The same for a key and a size as users write them: "0", "10GiB".
    ///
    /// Errors  unknown_name for a key, invalid_argument for a size
    [[nodiscard]] Result<> add(std::string_view key, std::string_view size) {
        auto const device = parse_device_key(key);
        if (!device) return device.error();
        auto const limit = parse_memory_size(size);
        if (!limit) return limit.error();
        if (auto const checked = check_memory_limit(*limit); !checked) return checked;
        return add(*device, *limit);
    }

    [[nodiscard]] constexpr std::vector<DeviceLimit> const& limits() const { return limits_; }
    [[nodiscard]] constexpr bool empty() const { return limits_.empty(); }
    /// The limit of a device, nothing where it is not named.
    [[nodiscard]] constexpr Optional<Bytes> of(DeviceId device) const {
        for (auto const& entry : limits_) {
            if (entry.device == device) return entry.limit;
        }
        return std::nullopt;
    }

private:
    std::vector<DeviceLimit> limits_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
