// SPDX-License-Identifier: Apache-2.0
// All-reduce between ranks that share one device, each with a stream of its own: the time of a call among many in a graph per rank.

#include <shardwise/kernels/device/all_reduce.hpp>

#include "device_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::take;

template <class Api>
PeerGroup<Api> group_of(DeviceContext<Api> const&);
using Group = decltype(group_of(std::declval<Device::Context const&>()));

constexpr std::int64_t calls_in_graph = bench::is_emulated ? 2 : 64;

/// Ranks on one device.
template <class T>
class Ranks {
public:
    Ranks(DeviceBench& run, int count) : run_(run) {
        std::vector<Device::Context*> contexts(static_cast<std::size_t>(count), &run.context());
        // All streams first: making one may wait for what runs.
        for (int rank = 0; rank < count; ++rank) streams_.push_back(run.context().make_stream());
        group_ =
            take(Group::open(contexts, {.staging = Bytes{std::int64_t{8} << 20}, .limit = std::chrono::seconds{5}}));
    }

    /// Seconds of a call of `bytes`, by the first rank's clock.
    [[nodiscard]] double time(std::int64_t bytes, bool in_graph) {
        auto const count = bytes / static_cast<std::int64_t>(sizeof(T));
        std::vector<Memory> in;
        std::vector<Memory> out;
        for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
            in.push_back(run_.numbers<T>(count, static_cast<unsigned>(rank + 1)));
            out.push_back(run_.memory<T>(count));
        }
        auto const put = [&](std::size_t rank) {
            check(group_->template all_reduce<T>(Rank{static_cast<std::int32_t>(rank)}, std::as_const(in[rank]).view(),
                                                 out[rank].view(), streams_[rank]));
        };
        // The first call loads the code, which may wait for the device.
        for (std::size_t rank = 0; rank < streams_.size(); ++rank) put(rank);
        wait();
        using Graph = bench::DeviceBench::Graph;
        std::vector<Graph> graphs;
        for (std::size_t rank = 0; in_graph && rank < streams_.size(); ++rank) {
            graphs.push_back(bench::take(Graph::capture(streams_[rank], [&]() -> Result<> {
                for (std::int64_t i = 0; i < calls_in_graph; ++i) put(rank);
                return {};
            })));
        }
        std::vector<double> times;
        for (int pass = 0; pass < (bench::is_emulated ? 1 : 15); ++pass) {
            auto first = run_.timed_event();
            auto last = run_.timed_event();
            first.record(streams_[0]);
            for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
                if (in_graph) {
                    graphs[rank].launch(streams_[rank]);
                } else {
                    put(rank);
                }
            }
            last.record(streams_[0]);
            wait();
            times.push_back(bench::take(last.since(first)) / static_cast<double>(in_graph ? calls_in_graph : 1));
        }
        auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
        std::nth_element(times.begin(), middle, times.end());
        return *middle;
    }

private:
    using Memory = DeviceBench::Memory<T>;

    void wait() {
        for (auto& stream : streams_) check(stream.synchronize(Deadline::after(std::chrono::seconds{20})));
    }

    DeviceBench& run_;
    std::unique_ptr<Group> group_;
    std::vector<Device::Stream> streams_;
};

template <class T>
void measure(DeviceBench& run, int ranks, std::string const& type) {
    auto const name = std::to_string(ranks) + " ranks on one device, " + type;
    run.section(name, [&] {
        Ranks<T> group(run, ranks);
        for (std::int64_t const bytes : {std::int64_t{16} << 10, std::int64_t{256} << 10, std::int64_t{8} << 20}) {
            auto const used = bench::scaled(bytes);
            auto const size =
                bytes >= (1 << 20) ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
            auto const seconds = group.time(used, true);
            bool const has_goal = ranks == 8 && bytes == (16 << 10);
            run.add_time("all_reduce, " + name + ", " + size + " in a graph", seconds, has_goal ? 3.5e-6 : 0.0);
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    // As many queues as ranks: those that share one wait for each other's kernels. The driver reads it at its first call.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("GPU_MAX_HW_QUEUES", "16", 0);
    DeviceBench run("device_all_reduce", argc, argv);
    for (int const ranks : {2, 4, 8}) {
        measure<float>(run, ranks, "fp32");
        if (ranks == 8) measure<Bfloat16>(run, ranks, "bf16");
    }
    return run.finish();
}
