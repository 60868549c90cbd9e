// SPDX-License-Identifier: Apache-2.0
#include <shardwise/monitor/monitor_summary.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace shardwise;

namespace {

MonitorSample look(double elapsed, std::vector<DeviceSample> devices) {
    MonitorSample sample;
    sample.elapsed = elapsed;
    sample.devices = std::move(devices);
    return sample;
}
DeviceSample busy(double percent, std::int64_t mebibytes) {
    DeviceSample sample;
    sample.utilization = percent;
    sample.memory_used = Bytes{mebibytes << 20};
    sample.memory_total = Bytes{1024LL << 20};
    return sample;
}

}  // namespace

TEST_CASE("RunningSeries: numpy's numbers") {
    RunningSeries series;
    CHECK_FALSE(series.summary());
    // numpy 1.26: x = [3, 1, 4, 1, 5, 9, 2, 6]; min 1, mean 3.875, max 9, percentile(x, [50, 95]) = 3.5, 7.95
    for (double const value : {3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0}) series.add(value);
    series.add(std::nan(""));
    auto const summary = series.summary();
    REQUIRE(summary);
    CHECK(summary->count == 8);
    CHECK(summary->min == 1.0);
    CHECK(summary->mean == doctest::Approx(3.875));
    CHECK(summary->max == 9.0);
    CHECK(summary->p50 == doctest::Approx(3.5));
    CHECK(summary->p95 == doctest::Approx(7.95));
}

TEST_CASE("RunningSeries: a long run keeps exact extremes and mean, and percentiles close to them") {
    RunningSeries series;
    constexpr int count = 100000;
    for (int i = 0; i < count; ++i) series.add(static_cast<double>((i * 7919) % count));
    auto const summary = *series.summary();
    CHECK(summary.count == count);
    CHECK(summary.min == 0.0);
    CHECK(summary.max == count - 1.0);
    CHECK(summary.mean == doctest::Approx((count - 1) / 2.0));
    // A sample of at least 2,048: three standard errors are 3.3 %.
    CHECK(std::abs(summary.p50 / count - 0.5) < 0.04);
    CHECK(std::abs(summary.p95 / count - 0.95) < 0.02);
}

TEST_CASE("SummaryBuilder: each device's means, and the totals of all") {
    SummaryBuilder builder(2);
    builder.add(look(1.0, {busy(0, 100), busy(10, 512)}));
    builder.add(look(2.0, {busy(50, 300), busy(30, 512)}));
    builder.add(look(3.5, {busy(100, 200), busy(20, 512)}));
    auto const summary = builder.summary();
    CHECK(summary.samples == 3);
    CHECK(summary.duration == doctest::Approx(2.5));
    CHECK(summary.devices[0].utilization->mean == doctest::Approx(50.0));
    CHECK(summary.devices[0].utilization->p50 == 50.0);
    CHECK(summary.devices[1].utilization->max == 30.0);
    CHECK(*summary.total_avg_utilization == doctest::Approx(70.0));
    CHECK(*summary.total_max_utilization == 100.0);
    CHECK(*summary.total_avg_memory_mb == doctest::Approx(712.0));
    REQUIRE(summary.avg_utilization_per_gpu.size() == 2);
    CHECK(*summary.avg_utilization_per_gpu[1] == doctest::Approx(20.0));
    CHECK(*summary.avg_memory_per_gpu_mb[0] == doctest::Approx(200.0));
    CHECK(*summary.any_gpu_active);
    CHECK(summary.devices[0].memory_percent->max == doctest::Approx(100.0 * 300 / 1024));
    CHECK_FALSE(summary.energy);
}

TEST_CASE("SummaryBuilder: idle devices are not active, unknown ones are unknown") {
    SummaryBuilder idle(1);
    idle.add(look(0.0, {busy(0, 1)}));
    CHECK(*idle.summary().any_gpu_active == false);
    SummaryBuilder unknown(1);
    unknown.add(look(0.0, {DeviceSample{}}));
    CHECK_FALSE(unknown.summary().any_gpu_active);
    CHECK_FALSE(unknown.summary().total_avg_memory_mb);
    CHECK_FALSE(unknown.summary().avg_utilization_per_gpu[0]);
    SummaryBuilder none(0);
    none.add(look(0.0, {}));
    CHECK_FALSE(none.summary().total_avg_utilization);
}

TEST_CASE("SummaryBuilder: energy by the counter, else by trapezoids over power, and which of them") {
    auto const draws = [](double watts) {
        DeviceSample sample;
        sample.power = watts;
        return sample;
    };
    auto counted = draws(1000.0);
    counted.energy = 0.0;
    SummaryBuilder builder(2);
    builder.add(look(0.0, {counted, draws(100.0)}));
    counted.energy = 42.0;
    builder.add(look(1.0, {counted, draws(200.0)}));
    builder.add(look(3.0, {counted, draws(400.0)}));
    auto const summary = builder.summary();
    CHECK(*summary.devices[0].energy == 42.0);
    CHECK(summary.devices[0].energy_source == EnergySource::counter);
    // 1 s at 150 W and 2 s at 300 W
    CHECK(*summary.devices[1].energy == doctest::Approx(750.0));
    CHECK(summary.devices[1].energy_source == EnergySource::power);
    CHECK(*summary.energy == doctest::Approx(792.0));
    SummaryBuilder single(1);
    single.add(look(0.0, {draws(100.0)}));
    CHECK_FALSE(single.summary().devices[0].energy);
    CHECK(single.summary().devices[0].energy_source == EnergySource::unknown);
}
