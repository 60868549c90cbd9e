// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/detail/pinned_array.hpp>
#include <shardwise/backend/device_graph.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/timed_event.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include "device_vendor.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

/// A size that an emulator takes a fraction of.
[[nodiscard]] constexpr std::int64_t scaled(std::int64_t size, std::int64_t divisor = 1024) {
    return is_emulated ? std::max<std::int64_t>(1, size / divisor) : size;
}

/// Ends a section where a call fails.
inline void check(shardwise::Result<> const& result) {
    if (!result) throw std::runtime_error(std::string(result.error().message()));
}
template <class T>
[[nodiscard]] T take(shardwise::Result<T> result) {
    if (!result) throw std::runtime_error(std::string(result.error().message()));
    return std::move(*result);
}

/// A benchmark of one device: its context and stream, times by events, rows in the form shardwise.bench/1. What fails inside a
/// `section` is a row that says so, and the next section goes on.
///
/// bench_device_x [--json] [--quick] [--seconds N] [WORD...]: all sections, or those whose names hold one of the words; none begins after
/// N seconds, and a row says which did not.
///
/// Example
///     bench::DeviceBench bench("device_x", argc, argv);
///     bench.section("rms_norm", [&] {
///         auto in = bench.numbers<float>(count);  // and so on
///         auto const seconds = bench.time([&](std::int64_t) { bench::check(rms_norm<float>(..., bench.stream())); });
///         bench.add_rate("rms_norm, 4096 x 4096", bytes, seconds, 0.9);
///     });
///     return bench.finish();
class DeviceBench {
public:
    using Context = Device::Context;
    using Stream = Device::Stream;
    using Graph = shardwise::DeviceGraph<Device::VendorApi>;
    using Timed = shardwise::TimedEvent<Device::VendorApi>;
    template <class T>
    using Memory = shardwise::Buffer<T, Device>;

    /// Ends the process: with 2 for an argument that it does not know, with 77 where there is no device.
    DeviceBench(std::string name, int argc, char** argv) : name_(std::move(name)) {
        for (int i = 1; i < argc; ++i) {
            std::string_view const word = argv[i];
            if (word == "--json") {
                is_json_ = true;
            } else if (word == "--quick") {
                is_quick_ = true;
            } else if (word == "--seconds" && i + 1 < argc) {
                limit_ = std::chrono::seconds(std::atoi(argv[++i]));
            } else if (!word.starts_with("-")) {
                only_.emplace_back(word);
            } else {
                std::fprintf(stderr, "bench_%s: takes --json, --quick, --seconds N and words of what to measure\n",
                             name_.c_str());
                std::exit(2);
            }
        }
        auto context = Context::open();
        if (!context) {
            std::printf("SKIPPED: no device for %s: %s\n", std::string(Device::name).c_str(),
                        std::string(context.error().message()).c_str());
            std::exit(77);
        }
        context_ = std::move(*context);
        workspace_.emplace(memory<std::byte>(Device::product_workspace().count()));
        open_stream();
        first_.emplace(timed_event());
        last_.emplace(timed_event());
    }

    [[nodiscard]] Context& context() { return *context_; }
    [[nodiscard]] Stream& stream() { return *stream_; }
    [[nodiscard]] bool is_quick() const { return is_quick_; }

    /// Runs body() where its name is asked for.
    template <class Body>
    void section(std::string const& name, Body const& body) {
        auto const is_wanted = [&](std::string const& word) { return name.find(word) != std::string::npos; };
        if (!only_.empty() && std::none_of(only_.begin(), only_.end(), is_wanted)) return;
        if (std::chrono::steady_clock::now() - begin_ >= limit_) return add_failure(name, "not run: no time left");
        attempt(name, body);
    }
    /// Runs body(), which may have sections of its own.
    template <class Body>
    void attempt(std::string const& name, Body const& body) {
        try {
            body();
            wait();
        } catch (std::exception const& error) {
            add_failure(name, error.what());
            // A failed stream takes nothing more.
            open_stream();
        }
    }

    /// Device memory, not initialised.
    template <class T>
    [[nodiscard]] Memory<T> memory(std::int64_t count) {
        return take(Memory<T>::allocate(*context_, count));
    }
    /// Device memory with numbers between -1 and 1, the same on every run; repeated every Mi elements.
    template <class T>
    [[nodiscard]] Memory<T> numbers(std::int64_t count, unsigned seed = 1) {
        std::mt19937 generator(seed);
        std::vector<T> block(static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 20)));
        for (auto& value : block) {
            value = T(static_cast<float>(static_cast<double>(generator()) / 2147483648.0 - 1.0));
        }
        return repeated<T>(block, count);
    }
    /// Device memory with the given values over and over.
    template <class T>
    [[nodiscard]] Memory<T> repeated(std::vector<T> const& block, std::int64_t count) {
        auto made = memory<T>(count);
        auto const size = std::min(count, static_cast<std::int64_t>(block.size()));
        shardwise::TensorView<T const, 1, shardwise::Host> const from(block.data(), {size});
        check(Device::template copy<T>(from, made.view().part(0, size), *stream_));
        for (auto at = size; at > 0 && at < count;) {
            auto const part = std::min(at, count - at);
            check(Device::template copy<T>(std::as_const(made).view().part(0, part), made.view().part(at, part),
                                           *stream_));
            at += part;
        }
        wait();
        return made;
    }
    template <class T>
    [[nodiscard]] Memory<T> send(std::vector<T> const& values) {
        return repeated<T>(values, static_cast<std::int64_t>(values.size()));
    }

    /// A point of this device's streams that has a time.
    [[nodiscard]] Timed timed_event() { return take(Timed::make(context_->device())); }

    void wait() {
        auto const done = stream_->synchronize(shardwise::Deadline::after(std::chrono::seconds{30}));
        // The section's memory goes with the exception: what still runs uses it.
        if (!done) (void)stream_->synchronize(shardwise::Deadline::after(std::chrono::minutes{10}));
        check(done);
    }

    /// Seconds that one call takes on the device: the median of batches, each long enough for the clock. call(i) puts the i-th
    /// call into the stream; where a cold cache is wanted it takes other memory every time (`Rotated`). Below some 5 us the host
    /// does not keep up: take time_in_graph.
    template <class Call>
    [[nodiscard]] double time(Call const& call) {
        std::int64_t index = 0;
        auto const batch = [&](std::int64_t calls) {
            return time_once([&] {
                for (std::int64_t i = 0; i < calls; ++i) call(index++);
            });
        };
        return median_of(batch);
    }
    /// Seconds of one call among many in a graph. Calls within a graph are in order.
    template <class Call>
    [[nodiscard]] double time_in_graph(Call const& call, std::int64_t calls = 64) {
        // An emulator launches nothing that there is to be hidden.
        if (is_emulated) calls = 1;
        // Code is loaded at its first call, which a capture may not hold.
        call(0);
        wait();
        auto const graph = take(Graph::capture(*stream_, [&]() -> shardwise::Result<> {
            for (std::int64_t i = 0; i < calls; ++i) call(i);
            return {};
        }));
        auto const batch = [&](std::int64_t launches) {
            return time_once([&] {
                for (std::int64_t i = 0; i < launches; ++i) graph.launch(*stream_);
            });
        };
        return median_of(batch) / static_cast<double>(calls);
    }
    /// Seconds between two events around what `put` puts into the stream.
    template <class Put>
    [[nodiscard]] double time_once(Put const& put) {
        first_->record(*stream_);
        put();
        last_->record(*stream_);
        wait();
        return take(last_->since(*first_));
    }

    /// The rate at which the vendor's own copy reads and writes device memory, in this run: bytes read and bytes written count.
    [[nodiscard]] double copy_rate() {
        if (copy_rate_ > 0.0) return copy_rate_;
        auto const bytes = scaled(std::int64_t{512} << 20, 512);
        auto from = repeated<std::byte>(std::vector<std::byte>(static_cast<std::size_t>(scaled(1 << 20))), bytes);
        auto to = memory<std::byte>(bytes);
        auto const seconds = time([&](std::int64_t) {
            check(Device::template copy<std::byte>(std::as_const(from).view(), to.view(), *stream_));
        });
        copy_rate_ = 2.0 * static_cast<double>(bytes) / seconds;
        return copy_rate_;
    }

    /// The rate at which pinned memory of the host is copied to the device, in pieces of 64 MiB.
    [[nodiscard]] double pinned_rate() {
        auto const bytes = scaled(std::int64_t{64} << 20);
        auto pinned = take(shardwise::detail::PinnedArray<Device::VendorApi, std::byte>::make(bytes));
        std::fill(pinned.data(), pinned.data() + bytes, std::byte{1});
        auto device = memory<std::byte>(bytes);
        shardwise::TensorView<std::byte const, 1, shardwise::Host> const from(pinned.data(), {bytes});
        auto const seconds =
            time([&](std::int64_t) { check(Device::template copy<std::byte>(from, device.view(), *stream_)); });
        return static_cast<double>(bytes) / seconds;
    }

    /// A row: `ours` and `theirs` in `unit`; ratio above 1: we are ahead. A goal of 0 is none.
    void add(std::string const& name, double ours, std::string_view unit, std::string const& peer, double theirs,
             double ratio, double goal) {
        // An emulator's times say nothing.
        if (is_emulated) goal = 0.0;
        bool const is_met = ratio >= goal;
        is_everything_met_ = is_everything_met_ && (goal <= 0.0 || is_met);
        char row[512];
        std::snprintf(row, sizeof row,
                      "{\"case\":\"%s\",\"ours\":%.6g,\"peer\":\"%s\",\"theirs\":%s,\"unit\":\"%.*s\",\"ratio\":%s,"
                      "\"goal\":%g,\"met\":%s}",
                      name.c_str(), ours, peer.c_str(), number(theirs).c_str(), static_cast<int>(unit.size()),
                      unit.data(), number(ratio).c_str(), goal,
                      goal <= 0.0 ? "null"
                      : is_met    ? "true"
                                  : "false");
        add_row(row);
        if (is_json_) return;
        std::printf("%-58s %10.4g %-6.*s %-24s %10s  ratio %-7s goal %g%s\n", name.c_str(), ours,
                    static_cast<int>(unit.size()), unit.data(), peer.c_str(), number(theirs).c_str(),
                    number(ratio).c_str(), goal, goal <= 0.0 || is_met ? "" : "  MISSED");
    }
    /// What moves `bytes` of device memory, by the copy rate of this run.
    void add_rate(std::string const& name, double bytes, double seconds, double goal) {
        auto const rate = bytes / seconds;
        add(name, rate * 1e-9, "GB/s", "copy in this run", copy_rate() * 1e-9, rate / copy_rate(), goal);
    }
    /// What takes at most `limit` seconds; 0: no goal.
    void add_time(std::string const& name, double seconds, double limit) {
        add(name, seconds * 1e6, "us", "limit", limit * 1e6, limit / seconds, limit > 0.0 ? 1.0 : 0.0);
    }
    void add_failure(std::string const& name, std::string_view why) {
        has_failed_ = true;
        std::string text;
        for (char const letter : why) {
            if (letter == '"' || letter == '\\') text += '\\';
            text += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
        }
        add_row("{\"case\":\"" + name + "\",\"error\":\"" + text + "\",\"met\":false}");
        std::fprintf(stderr, "bench_%s: %s: %s\n", name_.c_str(), name.c_str(), text.c_str());
    }

    /// Prints what is left to print: the exit status, 1 where something failed or, without --json, missed its goal.
    [[nodiscard]] int finish() {
        if (is_json_) {
            std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"%s\",\"rows\":[%s]}\n", name_.c_str(),
                        rows_.c_str());
        }
        return has_failed_ || (!is_json_ && !is_everything_met_) ? 1 : 0;
    }

private:
    /// The median of batch(calls) / calls; the first ones, in which code is loaded and clocks rise, do not count.
    template <class Batch>
    [[nodiscard]] double median_of(Batch const& batch) {
        if constexpr (is_emulated) return batch(1);
        (void)batch(1);
        auto const one = std::max(batch(1), 1e-7);
        auto const calls = static_cast<std::int64_t>(std::clamp(2e-3 / one, 1.0, 2000.0));
        (void)batch(calls);
        std::vector<double> times;
        double total = 0.0;
        auto const least = is_quick_ ? 5U : 9U;
        auto const limit = is_quick_ ? 0.02 : 0.06;
        while (times.size() < least || total < limit) {
            auto const seconds = batch(calls);
            total += seconds;
            times.push_back(seconds / static_cast<double>(calls));
        }
        auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
        std::nth_element(times.begin(), middle, times.end());
        return *middle;
    }
    /// One as a rank's steps have it: with a workspace for the vendor's products.
    void open_stream() {
        stream_ = std::make_unique<Stream>(context_->make_stream());
        stream_->lend_to_products({workspace_->data(), static_cast<std::size_t>(workspace_->size())});
    }
    static std::string number(double value) {
        char text[32];
        std::snprintf(text, sizeof text, "%.4g", value);
        return value > 0.0 && value < 1e300 ? text : "null";
    }
    void add_row(std::string const& row) {
        if (!rows_.empty()) rows_ += ',';
        rows_ += row;
    }

    std::string name_;
    bool is_json_ = false;
    bool is_quick_ = false;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    std::chrono::nanoseconds limit_ = std::chrono::hours(24);
    std::vector<std::string> only_;
    std::unique_ptr<Context> context_;
    std::optional<Memory<std::byte>> workspace_;
    std::unique_ptr<Stream> stream_;
    std::optional<Timed> first_;
    std::optional<Timed> last_;
    double copy_rate_ = 0.0;
    std::string rows_;
    bool is_everything_met_ = true;
    bool has_failed_ = false;
};

/// The same memory several times over, so that no call finds in a cache what the one before it has left: some 256 MB together, several
/// times the largest cache (H100: 50 MB, MI300: 256 MB).
template <class T>
class Rotated {
public:
    /// `bytes_beside`: what a call moves besides this memory.
    Rotated(DeviceBench& bench, std::int64_t count, bool has_numbers, std::int64_t bytes_beside = 0) : count_(count) {
        auto const bytes = count * static_cast<std::int64_t>(sizeof(T)) + bytes_beside;
        copies_ = std::clamp<std::int64_t>(scaled(std::int64_t{512} << 20) / std::max<std::int64_t>(1, bytes), 1, 1024);
        if (is_emulated) copies_ = 1;
        memory_ = has_numbers ? bench.numbers<T>(count * copies_) : bench.memory<T>(count * copies_);
    }
    /// The memory of the i-th call.
    [[nodiscard]] T* data(std::int64_t call) { return memory_.data() + call % copies_ * count_; }
    [[nodiscard]] shardwise::TensorView<T, 2, Device> matrix(std::int64_t call, std::int64_t rows,
                                                             std::int64_t columns) {
        return {data(call), {rows, columns}};
    }
    [[nodiscard]] shardwise::TensorView<T const, 2, Device> rows(std::int64_t call, std::int64_t rows,
                                                                 std::int64_t columns) {
        return {data(call), {rows, columns}};
    }

private:
    std::int64_t count_;
    std::int64_t copies_ = 1;
    shardwise::Buffer<T, Device> memory_;
};

}  // namespace bench
