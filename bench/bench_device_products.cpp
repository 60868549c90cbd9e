// SPDX-License-Identifier: Apache-2.0
// Products by weights of every format: few rows by the rate of the vendor's copy in the same run, many by cuBLASLt's product of bf16.

#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/quant/weight_format.hpp>

#include "device_bench.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::scaled;
using bench::take;

constexpr std::int64_t outputs = 4096;
constexpr std::int64_t inputs = 14336;
constexpr std::int64_t most_rows = 512;

/// Bytes of a checkpoint: codes at random, numbers that are small.
class Source {
public:
    explicit Source(WeightFormat format)
        : source_{.format = format, .outputs = scaled(outputs, 512), .inputs = scaled(inputs, 56)} {
        auto const& unit = traits(format);
        if (unit.scales == ScalePlace::group) source_.group = 128;
        data_.resize(static_cast<std::size_t>(source_.outputs * detail::data_bytes(format, source_.inputs)));
        scales_.resize(
            static_cast<std::size_t>(source_.outputs * detail::scale_bytes(format, source_.inputs, source_.group)));
        std::mt19937 random(3);
        for (auto& byte : data_) byte = static_cast<std::byte>(random());
        // Halves and floats of about 2^-9: no exponent of all ones.
        auto const put = [](std::vector<std::byte>& bytes, std::size_t at, std::int64_t size) {
            if (size == 1) bytes[at] = std::byte{118};
            if (size == 2) bytes[at + 1] = std::byte{0x18};
            if (size == 4) bytes[at + 3] = std::byte{0x3B};
        };
        for (std::size_t i = 0; i < scales_.size(); i += static_cast<std::size_t>(unit.scale_bytes))
            put(scales_, i, unit.scale_bytes);
        auto const block = static_cast<std::size_t>(unit.block_bytes);
        for (std::size_t i = 0; block > 0 && i < data_.size(); i += block) {
            if (format == WeightFormat::bf16) {
                data_[i + 1] = std::byte{0x3B};
            } else {
                put(data_, i + (format == WeightFormat::q6_k ? 208 : 0), block == 4 ? 4 : 2);
                if (block == 20 || block == 24 || block == 144 || block == 176) put(data_, i + 2, 2);
            }
        }
    }
    [[nodiscard]] WeightSource get() const {
        auto source = source_;
        source.data = data_;
        source.scales = scales_;
        return source;
    }

private:
    WeightSource source_;
    std::vector<std::byte> data_;
    std::vector<std::byte> scales_;
};

/// Goals by what a weight's element takes.
double goal_of(WeightFormat format) {
    auto const& unit = traits(format);
    if (unit.block_elements == 256) return 0.75;
    return unit.bits >= 16 ? 0.92 : unit.bits == 8 ? 0.88 : 0.80;
}

/// Seconds of cuBLASLt's product of bf16 by as many rows.
double vendor_seconds(DeviceBench& run, std::int64_t rows) {
    auto const weight = run.numbers<Bfloat16>(scaled(outputs, 512) * scaled(inputs, 56), 5);
    auto const in = run.numbers<Bfloat16>(rows * scaled(inputs, 56), 6);
    auto out = run.memory<float>(rows * scaled(outputs, 512));
    using Factor = TensorView<Bfloat16 const, 2, Device>;
    return run.time([&](std::int64_t) {
        check(Device::gemm<Bfloat16>(Factor(in.data(), {rows, scaled(inputs, 56)}),
                                     Factor(weight.data(), {scaled(outputs, 512), scaled(inputs, 56)}),
                                     out.matrix(rows, scaled(outputs, 512)), {.is_b_transposed = true}, run.stream()));
    });
}

void measure(DeviceBench& run, WeightFormat format, std::vector<std::pair<std::int64_t, double>>& vendor) {
    Source const source(format);
    auto const k = source.get().inputs;
    auto const n = source.get().outputs;
    // Several, so that no call finds in a cache what the one before it has left.
    std::vector<Device::Weight> weights;
    weights.push_back(take(Device::hold_weight(run.context(), source.get())));
    auto const bytes = weights.front().bytes().count();
    auto const copies = bench::is_emulated ? 1 : std::clamp<std::int64_t>((std::int64_t{200} << 20) / bytes, 2, 8);
    while (static_cast<std::int64_t>(weights.size()) < copies)
        weights.push_back(take(Device::hold_weight(run.context(), source.get())));
    auto const in = run.numbers<float>(most_rows * k, 7);
    auto out = run.memory<float>(most_rows * n);
    auto const name = std::string(name_of(format)) + " " + std::to_string(n) + " x " + std::to_string(k) + ", rows ";
    double one = 0.0;
    for (std::int64_t const rows : {1, 2, 4, 8, 16, 64, 256, 512}) {
        if (bench::is_emulated && rows > 8) break;
        auto const seconds = run.time([&](std::int64_t i) {
            check(Device::multiply(TensorView<float const, 2, Device>(in.data(), {rows, k}),
                                   weights[static_cast<std::size_t>(i % copies)],
                                   TensorView<float, 2, Device>(out.data(), {rows, n}), run.stream()));
        });
        auto const label = name + std::to_string(rows);
        run.add_time(label, seconds, 0.0);
        if (rows == 1) one = seconds;
        bool const is_packed = traits(format).bits <= 8;
        // More rows by the same weights take little longer: 1.15 and 1.25 times one row.
        if (rows == 8) run.add(label + ", by one row", one / seconds, "x", "one row", 1.0, one / seconds, 1.0 / 1.15);
        if (rows == 16 && is_packed)
            run.add(label + ", by one row", one / seconds, "x", "one row", 1.0, one / seconds, 1.0 / 1.25);
        if (rows <= 8) {
            run.add_rate(label, static_cast<double>(bytes), seconds, rows == 1 ? goal_of(format) : 0.0);
            continue;
        }
        auto peer = std::find_if(vendor.begin(), vendor.end(), [&](auto const& each) { return each.first == rows; });
        if (peer == vendor.end()) peer = vendor.insert(peer, {rows, vendor_seconds(run, rows)});
        auto const products = 2e-12 * static_cast<double>(rows * n * k);
        run.add(label, products / seconds, "TFLOP/s", "cuBLASLt, bf16", products / peer->second, peer->second / seconds,
                is_packed && rows >= 256                  ? 0.6
                : traits(format).bits == 16 && rows >= 64 ? 0.5
                                                          : 0.0);
    }
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_products", argc, argv);
    std::vector<std::pair<std::int64_t, double>> vendor;
    for (auto const& unit : weight_format_table) {
        run.section("products " + std::string(unit.name), [&] { measure(run, unit.format, vendor); });
    }
    return run.finish();
}
