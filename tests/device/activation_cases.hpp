// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/embed.hpp>
#include <shardwise/session/embed_on_backend.hpp>

#include "encoder_cases.hpp"
#include "expert_model_cases.hpp"
#include "model_cases.hpp"
#include "offload_cases.hpp"
#include "pair_sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Whole models whose activations lie in bf16 or f16 between kernels.

namespace shardwise::testing {

/// Tokens of the longest of model_requests, and of what is made for it.
inline constexpr std::int64_t longest_text = 21;

/// What rounding may move a model's output by: each operation's result is rounded once, by one unit of it at most; norms and weights of
/// about one keep what is moved as large as it was beside the state. A gated delta rule adds up what it was given for every token.
[[nodiscard]] inline double rounding_bound(Model const& model, Dtype activations, std::span<float const> output) {
    double largest = 0.0;
    for (auto const value : output) largest = std::max(largest, static_cast<double>(std::abs(value)));
    std::int64_t operations = 0;
    for (auto const& block : model.program.blocks()) {
        for (auto const& op : model.program.body(block).operations())
            operations += block.count * (op.kind == OpKind::gated_delta ? longest_text : 1);
    }
    auto const unit = activations == Dtype::bf16 ? 0x1p-8 : 0x1p-11;
    return unit * static_cast<double>(operations) * largest;
}

/// Whether no element of two rows is further apart than rounding moves it; and some are, since there is rounding.
inline void check_moved(Model const& model, Dtype activations, std::span<float const> found,
                        std::span<float const> wanted) {
    REQUIRE(found.size() == wanted.size());
    double moved = 0.0;
    for (std::size_t k = 0; k < found.size(); ++k)
        moved = std::max(moved, static_cast<double>(std::abs(found[k] - wanted[k])));
    auto const bound = rounding_bound(model, activations, wanted);
    CAPTURE(moved);
    CAPTURE(bound);
    CHECK(moved <= bound);
    CHECK(moved > bound / 4096.0);
}

/// The host's logits but for rounding, and its tokens as long as no other is as near; what was held is what was predicted.
template <class B>
[[nodiscard]] ModelLogits check_rounded(ModelCase const& of) {
    FormulaModel const model(of.config);
    auto const& described = model.checkpoint->model;
    auto const requests = model_requests(of);
    ModelCase alone{of.config, 1, of.sequences, of.step_tokens, of.new_tokens, of.load, of.kv_dtype};
    ModelLogits theirs;
    auto const expected = run_model<Host>(model, alone, requests, &theirs);
    REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
    ModelLogits ours;
    auto const found = run_model<B>(model, of, requests, &ours);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    for (auto const& rank : found->ranks) {
        CHECK(rank.peak <= rank.predicted);
        CHECK(rank.held == rank.predicted);
    }
    // The first group tells of its own.
    for (std::size_t i = 0; i < requests.size(); i += static_cast<std::size_t>(of.ep)) {
        auto const& rows = ours[static_cast<std::int64_t>(i)];
        auto const& wanted = theirs[static_cast<std::int64_t>(i)];
        REQUIRE(rows.size() == wanted.size());
        for (std::size_t step = 0; step < rows.size(); ++step) {
            CAPTURE(i);
            CAPTURE(step);
            check_moved(described, *of.activations, rows[step], wanted[step]);
            auto const mine = static_cast<std::size_t>(found->generations[i].tokens[step]);
            auto const token = static_cast<std::size_t>(expected->generations[i].tokens[step]);
            if (mine == token) continue;
            // What follows is another text.
            auto const apart = static_cast<double>(wanted[step][token] - wanted[step][mine]);
            CHECK(apart <= 2.0 * rounding_bound(described, *of.activations, wanted[step]));
            break;
        }
    }
    return ours;
}

/// Writes one value over all elements of a tensor of a formula model's file.
inline void overwrite(FormulaModel const& model, std::string const& name, float value) {
    std::fstream file(model.folder / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    std::uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof length);
    std::string header(length, ' ');
    file.read(header.data(), static_cast<std::streamsize>(length));
    auto const found = header.find('"' + name + '"');
    REQUIRE(found != std::string::npos);
    std::string_view const key = "\"data_offsets\":[";
    auto const at = header.find(key, found) + key.size();
    auto const begin = std::stoull(header.substr(at));
    auto const end = std::stoull(header.substr(header.find(',', at) + 1));
    std::vector<float> const values((end - begin) / sizeof(float), value);
    file.seekp(static_cast<std::streamoff>(sizeof length + length + begin));
    file.write(reinterpret_cast<char const*>(values.data()), static_cast<std::streamsize>(end - begin));
    REQUIRE(file.good());
}

[[nodiscard]] inline ModelCase rounded(char const* config, Dtype activations, std::int32_t tp = 1,
                                       bool is_deterministic = false) {
    ModelCase of{config, tp};
    of.activations = activations;
    of.is_deterministic = is_deterministic;
    return of;
}

}  // namespace shardwise::testing

TEST_CASE("Models: activations in 16 bits move a device's logits by their rounding") {
    using namespace shardwise;
    using testing::rounded;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_llama, Dtype::bf16));
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_llama, Dtype::f16, 2));
    (void)testing::check_rounded<TestDevice>(rounded(testing::tiny_mixtral, Dtype::bf16, 2, true));
    auto stages = rounded(testing::tiny_deepseek, Dtype::bf16);
    stages.pp = 2;
    stages.kv_dtype = Dtype::bf16;
    // The host's rounds what it caches, too.
    (void)testing::check_rounded<TestDevice>(stages);
}

TEST_CASE("Models: under Deterministic activations in bf16 have the same bits for any number of ranks and sequences") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FormulaModel const model(testing::tiny_llama);
    auto of = testing::rounded(testing::tiny_llama, Dtype::bf16, 1, true);
    auto const requests = testing::model_requests(of);
    testing::ModelLogits wanted;
    REQUIRE(testing::run_model<TestDevice>(model, of, requests, &wanted));
    for (std::int32_t const tp : {1, 2, 3}) {
        // The first run has one rank, too.
        if (testing::takes_samples() && tp < 3) continue;
        CAPTURE(tp);
        of.tp = tp;
        of.sequences = tp;
        of.step_tokens = 4 + tp;
        testing::ModelLogits found;
        REQUIRE(testing::run_model<TestDevice>(model, of, requests, &found));
        CHECK(found == wanted);
    }
}

TEST_CASE("Models: the arena of activations in 16 bits is half as large, and layers may be fetched") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FormulaModel const model(testing::tiny_llama);
    auto const& described = model.checkpoint->model;
    auto const parameters = StoredParameters::open(model.source, described);
    REQUIRE(parameters);
    ExecutorLimits limits{2, 64, 32};
    auto const arena = [&](Dtype dtype) {
        limits.activations = dtype;
        auto const predicted =
            predict_memory<TestDevice, Fast>(described, formats_of(*parameters), {1, 0}, limits, IsaLevel::portable);
        REQUIRE(predicted);
        return predicted->activations.count();
    };
    auto const floats = arena(Dtype::f32);
    CHECK(arena(Dtype::bf16) == arena(Dtype::f16));
    // Logits stay floats.
    CHECK(arena(Dtype::bf16) >= floats / 2);
    CHECK(arena(Dtype::bf16) <= floats / 2 + limits.sequences * 61 * 4);
    auto of = testing::rounded(testing::deep_llama, Dtype::bf16);
    of.step_tokens = 32;
    of.new_tokens = 2;
    of.homes = {LayerHome::cpu, LayerHome::resident, LayerHome::disk, LayerHome::cpu, LayerHome::disk};
    testing::check_offload<TestDevice>(of);
}

TEST_CASE("Models: texts are embedded with activations in 16 bits, which the host refuses by name") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FormulaModel const encoder(testing::tiny_bert);
    auto const& described = encoder.checkpoint->model;
    std::vector<std::int32_t> const ids{5, 9, 2, 40, 7, 7, 1, 58, 0, 3};
    std::vector<SequencePart> const parts{{0, 0, 4}, {1, 0, 1}, {2, 0, 5}};
    for (bool const has_head : {false, true}) {
        CAPTURE(has_head);
        auto const wanted = testing::encode_texts<Host>(encoder, ids, parts, has_head);
        REQUIRE_MESSAGE(wanted, (wanted ? "" : wanted.error().message()));
        for (auto const dtype : {Dtype::bf16, Dtype::f16}) {
            CAPTURE(traits(dtype).short_name);
            auto const found = testing::encode_texts<TestDevice>(encoder, ids, parts, has_head, dtype);
            REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
            testing::check_moved(described, dtype, *found, *wanted);
        }
    }
    // Before anything is loaded.
    CHECK_FALSE(check_activations<TestDevice>(described, Dtype::i8));
    CHECK(check_activations<TestDevice>(described, Dtype::f16));
    CHECK(check_activations<TestDevice>(described, Dtype::bf16));
    auto const on_host = testing::encode_texts<Host>(encoder, ids, parts, false, Dtype::bf16);
    REQUIRE_FALSE(on_host);
    CHECK(on_host.error().code() == ErrorCode::unsupported);
    CHECK(on_host.error().message().find("activations") != std::string::npos);

    testing::FormulaModel const decoder(testing::tiny_llama);
    testing::FakeRoom const room;
    std::vector<std::vector<std::int32_t>> const texts{{5, 9, 2}, {7, 1, 3, 40, 11, 7, 2, 8, 9, 30}, {30}};
    OpenCheckpoint files(decoder.source);
    EmbedOptions options{.threads = 1, .step_tokens = 6};
    auto const wanted = embed_on_threads(files, decoder.checkpoint->model, texts, options);
    REQUIRE_MESSAGE(wanted, (wanted ? "" : wanted.error().message()));
    for (auto const dtype : {Dtype::bf16, Dtype::f16}) {
        options.activations = dtype;
        auto const found = embed_on_backend<TestDevice>(files, decoder.checkpoint->model, texts, options);
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        for (std::size_t i = 0; i < wanted->size(); ++i)
            testing::check_moved(decoder.checkpoint->model, dtype, (*found)[i].values, (*wanted)[i].values);
    }
    CHECK_FALSE(embed_on_threads(files, decoder.checkpoint->model, texts, options));
}

TEST_CASE("Models: embeddings that are infinite or undefined are refused, as of fp16 beyond its range") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FormulaModel const model(testing::tiny_llama);
    auto const& described = model.checkpoint->model;
    testing::FakeRoom const room;
    std::vector<std::vector<std::int32_t>> const texts{{5, 9, 2}, {30}};
    EmbedOptions options{.threads = 1, .step_tokens = 6};
    auto const embed = [&](Dtype activations, bool is_normalized) {
        options.activations = activations;
        options.is_normalized = is_normalized;
        OpenCheckpoint files(model.source);
        return embed_on_backend<TestDevice>(files, described, texts, options);
    };
    auto const is_refused = [](Result<std::vector<Embedding>> const& made, char const* fix) {
        REQUIRE_FALSE(made);
        CHECK(made.error().code() == ErrorCode::invalid_argument);
        CHECK(made.error().message().find("text 1") != std::string::npos);
        CHECK(made.error().reason().find("is infinite or undefined") != std::string_view::npos);
        CHECK(made.error().advice().find(fix) != std::string_view::npos);
    };
    // States are what the last norm multiplies.
    testing::overwrite(model, "model.norm.weight", 1e6F);
    for (bool const is_normalized : {false, true}) {
        for (auto const pooling : {Pooling::none, Pooling::mean}) {
            options.pooling = pooling;
            CHECK(embed(Dtype::f32, is_normalized));
            CHECK(embed(Dtype::bf16, is_normalized));
            is_refused(embed(Dtype::f16, is_normalized), "use bf16 or fp32");
        }
    }
    options.tp = 2;
    is_refused(embed(Dtype::f16, true), "use bf16 or fp32");
    testing::overwrite(model, "model.norm.weight", std::numeric_limits<float>::infinity());
    is_refused(embed(Dtype::f32, false), "weights");
    options.tp = 1;
    OpenCheckpoint files(model.source);
    is_refused(embed_on_threads(files, described, texts, options), "weights");
}

TEST_CASE("Models: experts that groups of ranks share compute activations in 16 bits, of the bits of one group") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    auto shared = testing::rounded(testing::tiny_mixtral, Dtype::f16, 2);
    shared.ep = 2;
    (void)testing::check_rounded<TestDevice>(shared);
    shared = testing::rounded(testing::tiny_odd_mixtral, Dtype::bf16, 1, true);
    shared.ep = 2;
    auto groups = testing::check_rounded<TestDevice>(shared);
    shared.ep = 1;
    auto alone = testing::check_rounded<TestDevice>(shared);
    for (std::int64_t const request : {0, 2}) CHECK(groups[request] == alone[request]);
}

TEST_CASE("Models: the processor does not compute activations in 16 bits") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FormulaModel const model(testing::tiny_llama);
    auto of = testing::rounded(testing::tiny_llama, Dtype::bf16);
    auto const requests = testing::model_requests(of);
    CHECK_FALSE(testing::run_model<Host>(model, of, requests, nullptr));
    of.pp = 2;
    of.devices = {0, RunDevices::processor};
    auto const refused = testing::run_model<TestDevice>(model, of, requests, nullptr);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().message().find("on the processor") != std::string::npos);
}

TEST_CASE("Models: where nothing is asked for, devices have activations in bf16, but beside the processor") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::FormulaModel const llama(testing::tiny_llama);
    testing::FormulaModel const mixtral(testing::tiny_mixtral);
    auto const logits_of = [](testing::FormulaModel const& model, testing::ModelCase const& of) {
        testing::ModelLogits found;
        auto const ran = testing::run_model<TestDevice>(model, of, testing::model_requests(of), &found);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        for (auto const& rank : ran->ranks) CHECK(rank.held == rank.predicted);
        return found;
    };
    auto const check_chosen = [&](testing::FormulaModel const& model, testing::ModelCase of, Dtype chosen) {
        of.activations = {};
        auto const found = logits_of(model, of);
        for (auto const dtype : {Dtype::f32, Dtype::bf16}) {
            of.activations = dtype;
            CHECK((logits_of(model, of) == found) == (dtype == chosen));
        }
    };
    check_chosen(llama, testing::rounded(testing::tiny_llama, Dtype::bf16, 2), Dtype::bf16);
    auto shared = testing::rounded(testing::tiny_mixtral, Dtype::bf16);
    shared.ep = 2;
    check_chosen(mixtral, shared, Dtype::bf16);
    CHECK(detail::chosen_activations<Host>(llama.checkpoint->model, RunOptions{}) == Dtype::f32);
    RunOptions options;
    options.pp = 2;
    options.devices.numbers = {0, RunDevices::processor};
    CHECK(detail::chosen_activations<TestDevice>(llama.checkpoint->model, options) == Dtype::f32);
    options.devices.numbers = {0, 0};
    CHECK(detail::chosen_activations<TestDevice>(llama.checkpoint->model, options) == Dtype::bf16);
    // Texts that are embedded, too.
    testing::FakeRoom const room;
    std::vector<std::vector<std::int32_t>> const texts{{5, 9, 2}, {30}};
    OpenCheckpoint files(llama.source);
    EmbedOptions embed{.threads = 1};
    auto const found = embed_on_backend<TestDevice>(files, llama.checkpoint->model, texts, embed);
    embed.activations = Dtype::bf16;
    auto const wanted = embed_on_backend<TestDevice>(files, llama.checkpoint->model, texts, embed);
    REQUIRE((found && wanted));
    CHECK((*found)[0].values == (*wanted)[0].values);
}

TEST_CASE("Models: activations in 16 bits, of all families, caches, ranks and ways to add up" *
          doctest::test_suite("long")) {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    for (auto const dtype : {Dtype::bf16, Dtype::f16}) {
        for (auto const* const config :
             {testing::tiny_llama, testing::tiny_deepseek, testing::tiny_gemma2, testing::tiny_gpt2,
              testing::tiny_mistral, testing::tiny_phi3, testing::tiny_qwen3, testing::tiny_opt, testing::tiny_gpt_neox,
              testing::tiny_mixtral, testing::tiny_qwen2_moe, testing::tiny_gpt_oss, testing::tiny_qwen3_next,
              testing::tiny_apertus}) {
            CAPTURE(std::string(config));
            CAPTURE(traits(dtype).short_name);
            for (bool const is_deterministic : {false, true}) {
                for (std::int32_t const tp : {1, 2, 3}) {
                    CAPTURE(is_deterministic);
                    CAPTURE(tp);
                    auto of = testing::rounded(config, dtype, tp, is_deterministic);
                    (void)testing::check_rounded<TestDevice>(of);
                    if (tp != 2) continue;
                    of.comm = DeviceComm::staged;
                    of.load = testing::held_in(Dtype::bf16);
                    of.kv_dtype = Dtype::bf16;
                    (void)testing::check_rounded<TestDevice>(of);
                }
            }
            auto stages = testing::rounded(config, dtype);
            stages.pp = 2;
            stages.load = testing::held_in(Dtype::f16);
            (void)testing::check_rounded<TestDevice>(stages);
        }
    }
}
