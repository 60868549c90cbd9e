// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/calibrate/all_reduce_rates.hpp>
#include <shardwise/calibrate/calibrated_formats.hpp>
#include <shardwise/calibrate/host_timer.hpp>
#include <shardwise/calibrate/memory_rates.hpp>
#include <shardwise/calibrate/product_rates.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/core/observer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What is measured, and how long that may take.
struct CalibrationOptions {
    /// Threads of all ranks together; 0: as many as the caller may use cores.
    int threads = 0;
    /// Ranks whose sums are measured; 0: two, or one where there is one thread only.
    std::int32_t ranks = 0;
    /// Memory that a probe of memory, or of products with one row, reads.
    Bytes probe_bytes = memory_probe_bytes;
    /// For each of the probes.
    std::chrono::nanoseconds probe_time = std::chrono::milliseconds(400);
    /// For all of them.
    std::chrono::nanoseconds limit = std::chrono::seconds(55);
};

/// What a machine was measured to do.
///
/// Units  bytes per second, seconds
struct Calibration {
    int threads = 1;
    IsaLevel isa = IsaLevel::portable;
    double read_one = 0.0;
    double read_all = 0.0;
    double copy_one = 0.0;
    double copy_all = 0.0;
    /// By all threads: for each format first large products, then those with one row.
    std::vector<ProductRate> products;
    AllReduceRates all_reduce;
    /// How long the measuring took.
    double seconds = 0.0;
};

namespace detail {

/// Measures one thing after another and tells an observer.
class Calibrator {
public:
    Calibrator(CalibrationOptions const& options, Observer const& observer)
        : options_(options), observer_(observer), deadline_(Deadline::after(options.limit)) {}

    [[nodiscard]] Result<Calibration> run() {
        auto const begin = std::chrono::steady_clock::now();
        Calibration found;
        found.threads = options_.threads > 0 ? options_.threads : detail::default_threads();
        HostContext one({.threads = 1});
        HostContext all({.threads = found.threads, .is_pinned = true});
        // Ranks that are threads have cores of their own later.
        std::optional<CorePin> pin(std::in_place, 0);
        if (!all.isa()) return all.isa().error();
        found.isa = *all.isa();
        struct Memory {
            std::string_view name;
            Result<double> (*measure)(HostContext&, RateProbe, Bytes);
            HostContext& context;
            double& to;
        };
        auto const copy = [](HostContext& context, RateProbe probe, Bytes bytes) {
            return measure_copy_rate(context, probe, bytes);
        };
        for (auto const& [name, measure, context, to] :
             {Memory{"reading memory", measure_read_rate, one, found.read_one},
              Memory{"reading memory", measure_read_rate, all, found.read_all},
              Memory{"copying memory", copy, one, found.copy_one},
              Memory{"copying memory", copy, all, found.copy_all}}) {
            auto const rate = measure(context, next(name), options_.probe_bytes);
            if (!rate) return rate.error();
            to = *rate;
        }
        HostTimer timer(all);
        for (auto const& each : calibrated_formats) {
            auto const format = each.format;
            auto const large = measure_product(timer, format, next("products"));
            if (!large) return large.error();
            found.products.push_back(*large);
            auto const one_row = measure_one_row(timer, format, next("products"), options_.probe_bytes);
            if (!one_row) return one_row.error();
            found.products.push_back(*one_row);
        }
        pin.reset();
        auto const ranks = options_.ranks > 0 ? options_.ranks : std::min(found.threads, 2);
        auto const sums = measure_all_reduce(ranks, next("sums over ranks"));
        if (!sums) return sums.error();
        found.all_reduce = *sums;
        found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        return found;
    }

private:
    static constexpr std::int64_t probes = 4 + 2 * static_cast<std::int64_t>(calibrated_formats.size()) + 1;

    RateProbe next(std::string_view name) {
        observer_(name, done_++, probes);
        return {.name = name, .time = options_.probe_time, .deadline = deadline_};
    }

    CalibrationOptions const& options_;
    Observer const& observer_;
    Deadline deadline_;
    std::int64_t done_ = 0;
};

}  // namespace detail

/// Measures what the host does here: reading and copying memory with one thread and with all, products by format for
/// many rows and for one, and sums over ranks that are threads. Nothing else should run meanwhile.
///
/// Memory  about twice `probe_bytes` at a time
/// Errors  invalid_argument for impossible options, or for an instruction set that the machine lacks; out_of_memory;
///         deadline_exceeded, naming what was not measured in time
[[nodiscard]] inline Result<Calibration> calibrate(CalibrationOptions const& options = {},
                                                   Observer const& observer = {}) {
    Error refused{ErrorCode::invalid_argument};
    refused.in("calibrate");
    if (options.threads < 0) return refused.at("threads").because("is negative").got(options.threads);
    if (options.ranks < 0) return refused.at("ranks").because("is negative").got(options.ranks);
    if (options.probe_bytes.count() < 1) return refused.at("probe_bytes").because("is nothing to read");
    return detail::Calibrator(options, observer).run();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
