// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/weight_upload.hpp>

#include "product_cases.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

// Weights that go to a device while others are packed.

namespace {

/// Weights of several formats, loaded one after another; each one's product of two rows, once all are there. `load(weights, hold)` calls
/// hold() for every weight and says when they are.
template <class B, class Load>
std::vector<std::vector<float>> loaded_products(Bench<B>& bench, Load const& load) {
    std::vector<StoredWeight> stored;
    for (auto const format : {WeightFormat::bf16, WeightFormat::q4_0, WeightFormat::f32, WeightFormat::q4_k,
                              WeightFormat::q8_0, WeightFormat::q6_k})
        for (std::int64_t const outputs : {3, 70}) stored.emplace_back(format, outputs, whole_blocks(format, 300), 64);
    std::vector<DeviceWeight<typename B::VendorApi>> held;
    Result<> const done = load([&]() -> Result<> {
        for (auto const& weight : stored) {
            auto made = B::hold_weight(bench.context(), weight.source());
            if (!made) return made.error();
            held.push_back(std::move(*made));
        }
        return {};
    });
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    std::vector<std::vector<float>> all;
    for (auto const& weight : held) {
        auto const in = bench.send(numbers(2 * weight.inputs(), 61));
        auto out = bench.send(std::vector<float>(static_cast<std::size_t>(2 * weight.outputs())));
        TensorView<float const, 2, B> const from(in.data(), {2, weight.inputs()});
        REQUIRE(B::multiply(from, weight, TensorView<float, 2, B>(out.data(), {2, weight.outputs()}), bench.stream()));
        all.push_back(bench.fetch(out));
    }
    return all;
}

}  // namespace

TEST_CASE("WeightUpload: weights of every size come through slabs of every size, and through none, as they are") {
    using B = TestDevice;
    auto bench = open_bench<B>();
    if (!bench) return;
    auto const alone = loaded_products(*bench, [](auto const& hold) { return hold(); });
    ThreadPool pool(3);
    // Less than a row; a few rows; a few weights; all at once.
    for (std::int64_t const slab : {100, 4'000, 200'000, 64 << 20}) {
        for (auto* const packs : {&pool, static_cast<ThreadPool*>(nullptr)}) {
            CAPTURE(slab);
            auto const together = loaded_products(*bench, [&](auto const& hold) -> Result<> {
                WeightUpload<B::VendorApi> upload(bench->context(), packs, Bytes{slab});
                upload.begin();
                auto const done = hold();
                return done ? upload.finish() : done;
            });
            CHECK(together == alone);
        }
    }
    CHECK(bench->context().upload() == nullptr);
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("WeightUpload: nobody waits before the end while slabs have room, and a vendor's refusal is named") {
    using B = TestDevice;
    using Api = B::VendorApi;
    auto bench = open_bench<B>();
    if (!bench) return;
    auto& machine = FakeMachine::get();
    std::vector<StoredWeight> stored;
    for (int i = 0; i < 6; ++i) stored.emplace_back(WeightFormat::q4_0, 40, 256, 64);
    auto const load = [&](Bytes slab) -> Result<> {
        WeightUpload<Api> upload(bench->context(), nullptr, slab);
        upload.begin();
        std::vector<DeviceWeight<Api>> held;
        auto const waits = machine.calls("is_reached");
        auto const pinned = machine.calls("allocate_pinned");
        for (auto const& weight : stored) {
            auto made = B::hold_weight(bench->context(), weight.source());
            if (!made) return made.error();
            held.push_back(std::move(*made));
        }
        if (slab == WeightUpload<Api>::slab_bytes) {
            CHECK(machine.calls("is_reached") == waits);
            CHECK(machine.calls("allocate_pinned") == pinned + 1);
        }
        return upload.finish();
    };
    CHECK(load(WeightUpload<Api>::slab_bytes));
    for (auto const* const call : {"allocate_pinned", "create_event", "record", "copy", "is_reached"}) {
        CAPTURE(call);
        machine.fail(call);
        auto const refused = load(Bytes{4'000});
        machine.fail("");
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message().find(call) != std::string_view::npos);
    }
    CHECK(load(Bytes{4'000}));
}
#endif
