// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/observer.hpp>

#include "console.hpp"
#include "progress_bar.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace shardwise::cli {

/// Shows on stderr that work goes on, as long as it lives; nothing where stderr is no terminal or --color, NO_COLOR or TERM
/// forbid it. Must be gone before anything is printed.
class Progress {
public:
    explicit Progress(ColorMode mode);
    ~Progress();
    Progress(Progress const&) = delete;
    Progress& operator=(Progress const&) = delete;

    /// For work that tells how far it has come.
    [[nodiscard]] Observer observer() const { return Observer(listener_); }

private:
    struct Listener {
        ProgressBar* bar;
        void operator()(WorkProgress const& progress) const { bar->note(progress); }
    };

    ProgressBar bar_;
    Listener listener_{&bar_};
    std::mutex mutex_;
    std::condition_variable wake_;
    bool is_done_ = false;
    std::thread thread_;
};

/// Gives what `work(observer)` gives, and shows meanwhile that it goes on.
template <class Work>
[[nodiscard]] auto with_progress(ColorMode mode, Work&& work) {
    Progress const progress(mode);
    return work(progress.observer());
}

}  // namespace shardwise::cli
