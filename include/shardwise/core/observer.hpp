// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How far long work has come: `done` of `total` steps of what `work` names.
struct WorkProgress {
    std::string_view work;
    std::int64_t done = 0;
    std::int64_t total = 0;
};

/// Hears how far long work has come. The library never prints: who wants to show progress passes an observer. Holds a
/// reference; the default hears nothing and costs a comparison.
///
/// Example  auto const show = [](WorkProgress const& progress) { std::printf("%d\n", static_cast<int>(progress.done)); };
///          read_checkpoint(source, Observer(show));
class Observer {
public:
    constexpr Observer() = default;
    /// `listener(progress)` is called after each step, on the thread that works.
    template <class Listener>
    constexpr explicit Observer(Listener const& listener)
        : listener_(&listener), hear_([](void const* who, WorkProgress const& progress) {
              (*static_cast<Listener const*>(who))(progress);
          }) {}

    void operator()(std::string_view work, std::int64_t done, std::int64_t total) const {
        if (hear_ != nullptr) hear_(listener_, {work, done, total});
    }

private:
    void const* listener_ = nullptr;
    void (*hear_)(void const* who, WorkProgress const& progress) = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
