// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/attention_options.hpp>

#include "attention_problem.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

/// Problems of all kinds: a batch of single tokens, of several, of both; every option; rows on packs and not. Few keys but where a
/// context has several parts, of 256, or spans, of 2,048: an emulator's threads are slow.
std::vector<AttentionProblem> attention_problems() {
    std::vector<AttentionProblem> problems;
    auto const add = [&](std::string name, AttentionOptions const& options,
                         std::vector<AttentionProblem::Sequence> sequences) -> AttentionProblem& {
        problems.push_back({std::move(name), options, std::move(sequences)});
        return problems.back();
    };
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    add("one token", attention_of(2, 1, 16, 16), {{0, 1}});
    add("grouped heads of 64 in decode", attention_of(8, 2, 64, 64), {{0, 1}, {255, 1}, {256, 1}, {600, 1}, {17, 1}});
    add("several spans", attention_of(2, 1, 16, 16), {{2500, 1}, {2047, 1}, {2048, 1}});
    add("a window over two spans", attention_of(2, 1, 16, 16, 1000), {{2800, 1}, {30, 1}});
    add("a group of three", attention_of(3, 1, 80, 80), {{37, 1}, {31, 1}});
    add("a group of ten", attention_of(10, 1, 64, 64), {{33, 1}, {3, 1}});
    add("heads of 96, each its own keys", attention_of(2, 2, 96, 96), {{40, 1}});
    add("a group of six of 128", attention_of(6, 1, 128, 128), {{40, 1}, {3, 1}});
    add("heads of 256", attention_of(4, 2, 256, 256), {{33, 1}, {3, 20}});
    add("odd heads", attention_of(3, 1, 37, 21), {{290, 1}, {5, 2}});
    add("wide heads", attention_of(2, 1, 320, 300), {{20, 1}, {2, 3}});
    add("keys wider than values", attention_of(4, 2, 192, 128), {{50, 1}, {7, 9}});
    add("a prompt beside single tokens", attention_of(4, 2, 64, 64), {{9, 1}, {0, 40}, {280, 1}, {60, 5}});
    add("a prompt after its past", attention_of(2, 2, 128, 128), {{250, 33}, {0, 2}});
    add("a window", attention_of(4, 2, 64, 64, 20), {{300, 1}, {5, 1}, {60, 40}});
    add("a window wider than numbers go", attention_of(2, 1, 64, 64, most), {{30, 1}, {0, 12}});
    auto& capped = add("a soft cap and a scale", attention_of(4, 2, 64, 64), {{40, 1}, {3, 12}});
    capped.options.soft_cap = 1.5F;
    capped.options.scale = 0.3F;
    add("sinks", attention_of(4, 2, 64, 64, 128), {{270, 1}, {3, 12}}).has_sinks = true;
    add("slopes", attention_of(4, 4, 64, 64), {{40, 1}, {3, 12}}).has_slopes = true;
    auto& own = add("an encoder", attention_of(4, 4, 32, 32, 0, false), {{0, 40}, {0, 1}, {0, 100}});
    own.is_own = true;
    auto& biased = add("biases by distance", attention_of(2, 2, 32, 32, 0, false), {{0, 40}, {0, 1}});
    biased.is_own = true;
    biased.options.shape.bias_reach = 7;
    auto& both = add("a window both ways", attention_of(2, 1, 64, 64, 9, false), {{0, 40}, {0, 1}});
    both.is_own = true;
    auto& causal = add("biases by distance from a past", attention_of(2, 2, 32, 32), {{300, 1}, {3, 12}, {40, 1}});
    causal.options.shape.bias_reach = 7;
    auto const add_sources = [&](std::string name, AttentionOptions options,
                                 std::vector<AttentionProblem::Sequence> sequences) {
        options.shape.is_causal = false;
        options.shape.is_cross = true;
        add(std::move(name), options, std::move(sequences));
    };
    add_sources("sources of unlike lengths", attention_of(2, 2, 64, 64),
                {{5, 1, 1}, {0, 1, 37}, {40, 1, 256}, {3, 1, 600}, {20, 1, 3}});
    add_sources("sources of several tokens each", attention_of(2, 2, 32, 32),
                {{0, 3, 1}, {2, 9, 70}, {1, 1, 5}, {0, 40, 17}});
    add_sources("sources of several spans", attention_of(2, 1, 16, 16), {{3, 1, 2500}, {0, 1, 2047}, {2, 1, 1}});
    add_sources("sources of wide heads", attention_of(4, 2, 256, 256), {{33, 1, 20}, {3, 2, 33}});
    add_sources("sources of odd heads", attention_of(3, 1, 37, 21), {{4, 1, 290}, {0, 2, 5}});
    add("rows that lie apart", attention_of(4, 2, 64, 64), {{40, 1}, {3, 12}}).gap = 16;
    add("rows that lie on no pack", attention_of(4, 2, 64, 64), {{40, 1}, {3, 12}}).gap = 1;
    add("memory that lies on no pack", attention_of(4, 2, 64, 64), {{40, 1}, {3, 12}}).shift = 1;
    // Queries at the beginning and at the end of a chunk among them.
    add("wide heads in chunks", attention_of(2, 1, 320, 300), {{20, 1}, {2, 11}}).options.shape.chunk = 8;
    add("a chunk over two spans", attention_of(2, 1, 16, 16), {{2900, 1}, {1499, 1}, {1500, 1}}).options.shape.chunk =
        1500;
    add("chunks", attention_of(4, 2, 64, 64), {{300, 1}, {5, 1}, {319, 1}, {50, 40}}).options.shape.chunk = 20;
    add("chunks of one", attention_of(2, 1, 64, 64), {{9, 1}, {3, 4}}).options.shape.chunk = 1;
    add("chunks and a window", attention_of(2, 1, 64, 64, 7), {{40, 1}, {28, 20}}).options.shape.chunk = 16;
    // Beyond 256 positions are rounded, too.
    auto& rounded = add("rounded slopes", attention_of(4, 4, 64, 64), {{600, 1}, {300, 12}});
    rounded.has_slopes = rounded.options.shape.has_rounded_slopes = true;
    auto& wide = add("rounded slopes of wide heads", attention_of(2, 2, 300, 290), {{270, 1}, {262, 3}});
    wide.has_slopes = wide.options.shape.has_rounded_slopes = true;
    auto& all = add("rounded slopes in chunks, under a cap", attention_of(4, 2, 64, 64), {{300, 1}, {265, 12}});
    all.has_slopes = all.options.shape.has_rounded_slopes = true;
    all.options.shape.chunk = 270;
    all.options.soft_cap = 1.5F;
    all.options.scale = 0.3F;
    add("chunks longer than numbers go", attention_of(2, 1, 64, 64), {{30, 1}, {0, 12}}).options.shape.chunk = most;
    add("an encoder of wide heads", attention_of(2, 1, 320, 300, 0, false), {{0, 3}, {0, 1}}).is_own = true;
    auto& odd = add("an encoder of odd heads on no pack", attention_of(3, 1, 37, 21, 0, false), {{0, 20}, {0, 1}});
    odd.is_own = true;
    odd.gap = 1;
    add("an encoder of heads of 128", attention_of(2, 2, 128, 128, 0, false), {{0, 1}, {0, 9}}).is_own = true;
    add("an encoder of heads of 192", attention_of(2, 1, 192, 192, 0, false), {{0, 17}}).is_own = true;
    return problems;
}

}  // namespace
