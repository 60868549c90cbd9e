// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/parallel/device_weight_stream.hpp>

#include "backends.hpp"
#include "expert_model_cases.hpp"
#include "model_cases.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Layers whose weights do not stay on a device: their stream by itself, and whole models.

namespace shardwise::testing {

/// Layers of unlike sizes, some in pinned memory and some that are read.
class OffloadedLayers {
    using Api = TestDevice::VendorApi;

public:
    [[nodiscard]] static Result<OffloadedLayers> make(DeviceContext<Api>& context, MemoryCounter& host,
                                                      std::vector<LayerHome> const& homes) {
        OffloadedLayers layers;
        for (std::size_t i = 0; i < homes.size(); ++i) {
            std::vector<std::byte> bytes(1000 + 256 * (i % 3), static_cast<std::byte>(i + 1));
            PinnedMemory<Api> pinned;
            if (homes[i] == LayerHome::cpu) {
                auto memory = PinnedMemory<Api>::allocate(context, host, static_cast<std::int64_t>(bytes.size()));
                if (!memory) return memory.error();
                std::copy(bytes.begin(), bytes.end(), memory->data());
                pinned = std::move(*memory);
            }
            layers.pinned_.push_back(std::move(pinned));
            layers.bytes_.push_back(std::move(bytes));
        }
        return Result<OffloadedLayers>(std::move(layers));
    }
    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(bytes_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const {
        return Bytes{static_cast<std::int64_t>(bytes_[static_cast<std::size_t>(layer)].size())};
    }
    [[nodiscard]] std::byte const* pinned(std::int64_t layer) const {
        return pinned_[static_cast<std::size_t>(layer)].data();
    }
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        auto const from = bytes_[static_cast<std::size_t>(layer)].begin() + static_cast<std::ptrdiff_t>(begin);
        std::copy_n(from, to.size(), to.begin());
        return {};
    }

private:
    std::vector<PinnedMemory<Api>> pinned_;
    std::vector<std::vector<std::byte>> bytes_;
};

/// Walks `walks` times over layers; what each walk's work found in their slots, one byte of every layer and whether all are alike.
[[nodiscard]] inline Result<std::vector<int>> walk_layers(Bench<TestDevice>& bench, std::vector<LayerHome> const& homes,
                                                          std::int64_t depth, int walks) {
    using Api = TestDevice::VendorApi;
    HostContext host({.threads = 1});
    auto source = OffloadedLayers::make(bench.context(), host.memory(), homes);
    if (!source) return source.error();
    auto stream = bench.context().make_stream();
    constexpr std::int64_t most = 1600;
    auto const count = static_cast<std::int64_t>(homes.size()) * walks;
    auto out = Buffer<std::byte, TestDevice>::allocate(bench.context(), most * count);
    if (!out) return out.error();
    auto weights =
        DeviceWeightStream<Api, OffloadedLayers>::create(bench.context(), host.memory(), std::move(*source), depth);
    if (!weights) return weights.error();
    auto const deadline = Deadline::after(std::chrono::seconds{60});
    std::vector<std::int64_t> sizes;
    for (int walk = 0; walk < walks; ++walk) {
        for (std::int64_t layer = 0; layer < static_cast<std::int64_t>(homes.size()); ++layer) {
            if (auto const here = weights->acquire(layer, stream, deadline); !here) return here.error();
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
            // Work that takes long: the next copy comes to its slot before it is done.
            stream.submit([](FakeStream* native) -> Result<> {
                native->put([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
                return {};
            });
#endif
            auto const size = 1000 + 256 * (layer % 3);
            auto const at = static_cast<std::int64_t>(sizes.size());
            TensorView<std::byte const, 1, TestDevice> const from(weights->place(layer), {size});
            TensorView<std::byte, 1, TestDevice> const to(out->data() + most * at, {size});
            if (auto const copied = TestDevice::copy<std::byte>(from, to, stream); !copied) return copied.error();
            weights->release(layer, stream);
            sizes.push_back(size);
        }
    }
    std::vector<std::byte> found(static_cast<std::size_t>(most * count));
    TensorView<std::byte, 1, Host> const all(found.data(), {most * count});
    if (auto const copied = TestDevice::copy<std::byte>(out->view(), all, stream); !copied) return copied.error();
    if (auto const done = stream.synchronize(deadline); !done) return done.error();
    std::vector<int> seen;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        auto const first = found.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(most) * i);
        bool const is_one = std::all_of(first, first + sizes[i], [&](std::byte byte) { return byte == *first; });
        seen.push_back(is_one ? static_cast<int>(*first) : -1);
    }
    return seen;
}

inline constexpr auto deep_llama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":48,"num_hidden_layers":5,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("max_position_embeddings":64})";
inline constexpr auto deep_mixtral =
    R"({"model_type":"mixtral","architectures":["MixtralForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":24,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("num_local_experts":4,"num_experts_per_tok":2,"max_position_embeddings":64})";
inline constexpr auto deep_deepseek =
    R"({"model_type":"deepseek_v2","architectures":["DeepseekV2ForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":36,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":4,)"
    R"("q_lora_rank":null,"kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,)"
    R"("first_k_dense_replace":1,"n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":16,)"
    R"("max_position_embeddings":64})";

/// Tokens and logits are those of the model whose weights all stay, bit for bit, and memory is what was predicted.
template <class B>
void check_offload(ModelCase of) {
    FormulaModel const model(of.config);
    auto const requests = model_requests(of);
    auto const homes = std::exchange(of.homes, {});
    ModelLogits theirs;
    auto const resident = run_model<B>(model, of, requests, &theirs);
    REQUIRE_MESSAGE(resident, (resident ? "" : resident.error().message()));
    of.homes = homes;
    ModelLogits ours;
    auto const fetched = run_model<B>(model, of, requests, &ours);
    REQUIRE_MESSAGE(fetched, (fetched ? "" : fetched.error().message()));
    for (std::size_t i = 0; i < requests.size(); ++i)
        CHECK(fetched->generations[i].tokens == resident->generations[i].tokens);
    CHECK(ours == theirs);
    for (std::size_t i = 0; i < fetched->ranks.size(); ++i) {
        auto const& rank = fetched->ranks[i];
        CHECK(rank.peak <= rank.predicted);
        CHECK(rank.pinned == rank.predicted_pinned);
        CHECK((rank.pinned > Bytes{0}) == !HasHostMemory<B>);
        if (HasHostMemory<B>) continue;
        CHECK(rank.held == rank.predicted);
        CHECK(rank.weights < resident->ranks[i].weights);
    }
    CHECK(fetched->graphs.captured == 0);
    if (!HasHostMemory<B> && of.has_graphs) CHECK(fetched->graphs.reason == "weights are fetched while a step computes");
}

}  // namespace shardwise::testing

TEST_CASE("DeviceWeightStream: every walk sees every layer's bytes, from pinned memory and read, through any slots") {
    using namespace shardwise;
    using enum LayerHome;
    auto const bench = testing::open_bench<testing::TestDevice>();
    if (!bench) return;
    auto const before = bench->context().memory().current();
    for (auto const& homes : {std::vector<LayerHome>{}, {cpu}, {disk}, {cpu, disk}, {disk, cpu, cpu}, {cpu, cpu, cpu, cpu},
                              {disk, disk, disk, disk, disk}, {cpu, disk, disk, cpu, disk, cpu, cpu}}) {
        for (std::int64_t const depth : {2, 3}) {
            CAPTURE(homes.size());
            CAPTURE(depth);
            auto const seen = testing::walk_layers(*bench, homes, depth, 3);
            REQUIRE_MESSAGE(seen, (seen ? "" : seen.error().message()));
            for (std::size_t i = 0; i < seen->size(); ++i)
                CHECK((*seen)[i] == static_cast<int>(i % homes.size()) + 1);
        }
    }
    CHECK(bench->context().memory().current() == before);
    auto const refused = testing::walk_layers(*bench, {cpu, cpu}, 1, 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::invalid_argument);
}

TEST_CASE_TEMPLATE("Models: layers that are kept in the host's memory and in a file have the bits of those that stay", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    using enum LayerHome;
    if (!testing::open_bench<B>()) return;
    testing::check_offload<B>({.config = testing::deep_llama, .homes = {cpu, resident, disk, cpu, disk}});
    testing::check_offload<B>(
        {.config = testing::deep_mixtral, .tp = 2, .is_deterministic = true, .homes = {cpu, cpu, cpu, cpu}});
    testing::check_offload<B>({.config = testing::deep_mixtral, .homes = {cpu, disk, cpu, cpu}});
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("DeviceWeightStream: each call of the vendor that fails is an error, and nothing stays") {
    using namespace shardwise;
    using enum LayerHome;
    auto& machine = testing::FakeMachine::get();
    for (std::string const call : {"allocate", "allocate_pinned", "create_stream", "create_event", "copy", "record",
                                   "hold_back", "is_reached", "select_device"}) {
        for (int after = 0;; ++after) {
            CAPTURE(call);
            CAPTURE(after);
            Result<std::vector<int>> seen(Error{ErrorCode::backend_failure});
            auto const before = machine.calls(call);
            {
                auto const bench = testing::open_bench<testing::TestDevice>();
                REQUIRE(bench);
                machine.fail(call, after);
                seen = testing::walk_layers(*bench, {cpu, disk, cpu, disk}, 2, 2);
                machine.mend();
            }
            CHECK(machine.is_empty());
            if (seen) {
                for (std::size_t i = 0; i < seen->size(); ++i) CHECK((*seen)[i] == static_cast<int>(i % 4) + 1);
            } else {
                CHECK((seen.error().code() == ErrorCode::backend_failure ||
                       seen.error().code() == ErrorCode::out_of_memory));
            }
            // All of its calls have succeeded.
            if (machine.calls(call) - before <= after) break;
        }
    }
}
#endif
