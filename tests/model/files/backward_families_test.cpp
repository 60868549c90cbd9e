// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/backward_program.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "../block_interpreter.hpp"

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

double dot(Numbers const& a, Numbers const& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

Numbers waves(std::size_t count, double step) {
    Numbers made(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = std::cos(step * static_cast<double>(i + 1));
    return made;
}

/// The gradients of a block are the differences of what it computes, along one direction over its input and all of its
/// parameters; where they are not, those of each parameter say whose are wrong.
void check_differences(BackwardBody const& body) {
    BlockInterpreter block(body);
    auto const out_gradient = waves(block.out_elements(), 0.7);
    // What is moved, each along a wave of its own.
    std::map<std::string, Numbers*> moved;
    for (auto& [name, values] : block.parameters) moved[name] = &values;
    if (body.in_gradient != no_value) moved["the input"] = &block.input();
    auto const rises = [&](std::map<std::string, Numbers*> const& some) {
        constexpr double step = 1e-6;
        double both[2];
        for (int side = 0; side < 2; ++side) {
            auto const move = [&](double by) {
                for (auto const& [name, values] : some) {
                    auto const direction = waves(values->size(), 1.3);
                    for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] += by * direction[i];
                }
            };
            move(side == 0 ? step : -step);
            both[side] = dot(block.forward(), out_gradient);
            move(side == 0 ? -step : step);
        }
        return (both[0] - both[1]) / (2.0 * step);
    };
    auto const all = rises(moved);
    std::map<std::string, double> each;
    (void)block.forward();
    block.backward(out_gradient);
    double sum = 0.0;
    for (auto const& [name, values] : moved) {
        auto const& gradient = name == "the input" ? block.gradient(body.in_gradient) : block.gradients[name];
        sum += each[name] = dot(gradient, waves(gradient.size(), 1.3));
    }
    CHECK(sum == doctest::Approx(all).epsilon(1e-6).scale(1.0));
    if (sum == doctest::Approx(all).epsilon(1e-6).scale(1.0)) return;
    // The block's input went with what was not saved.
    BlockInterpreter fresh(body);
    block.input() = fresh.input();
    for (auto const& one : moved) {
        auto const name = one.first;
        CAPTURE(name);
        CHECK(each[name] == doctest::Approx(rises({{name, one.second}})).epsilon(1e-6).scale(1.0));
    }
}

}  // namespace

TEST_SUITE_BEGIN("large");

TEST_CASE("backward_of: every family's gradients are the differences of what its blocks compute, from what is saved") {
    std::set<std::string> trained, refused;
    int bodies = 0;
    for (auto const& entry :
         std::filesystem::directory_iterator(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/configs")) {
        auto const name = entry.path().filename().string();
        if (name.rfind("small-", 0) != 0) continue;
        CAPTURE(name);
        ModelSource source;
        source.kind = SourceKind::config;
        source.config = entry.path().string();
        auto const read = read_checkpoint(source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        auto const family = std::string(read->model.config.model_type.view());
        for (auto const& block : read->model.program.blocks()) {
            auto const& body = read->model.program.body(block);
            if (body.operations().empty()) continue;
            bool const reads_ids = body.values()[0].width == 1;
            auto const backward = backward_of(body, block.module, !reads_ids);
            if (!backward) {
                CHECK(backward.error().code() == ErrorCode::unsupported);
                CHECK(backward.error().message().find("no gradient yet") != std::string::npos);
                refused.insert(family);
                continue;
            }
            CAPTURE(block.module);
            CHECK((backward->in_gradient == no_value) == reads_ids);
            check_differences(*backward);
            ++bodies;
        }
        trained.insert(family);
    }
    for (auto const* const family : {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi",
                                     "phi3", "gpt2", "opt", "gpt_neox", "falcon"}) {
        CAPTURE(family);
        CHECK(trained.count(family) == 1);
        CHECK(refused.count(family) == 0);
    }
    // Routed experts, MLA, sinks, cross-attention, biases by distance, chunks, pooled first tokens.
    for (auto const* const family :
         {"mixtral", "qwen3_moe", "deepseek_v2", "gpt_oss", "t5", "mpnet", "llama4_text", "bert"}) {
        CAPTURE(family);
        CHECK(refused.count(family) == 1);
    }
    CHECK(bodies > 100);
}

TEST_SUITE_END();
