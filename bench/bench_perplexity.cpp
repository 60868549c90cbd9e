// SPDX-License-Identifier: Apache-2.0
// What rounded activations do to a model's perplexity on a text, beside full ones, by weights held in each format.

#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/quant/scheme.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;

/// Windows of the text, at equal distances, which a step takes one token of each of.
constexpr std::int64_t windows = 32;
constexpr std::int64_t window_tokens = 128;

/// Minus the logarithm of the probability of each token but a window's first, of all windows one after another.
using Losses = std::vector<double>;

Result<> run_windows(Model const& model, StoredParameters const& parameters, LoadOptions const& options,
                     ProductActivations activations, std::span<std::int32_t const> ids, Threads& comm, Losses& losses) {
    HostContext context({.is_pinned = true, .product_activations = activations});
    auto stream = context.make_stream();
    auto executor = RankExecutor<Host, Fast>::create(
        context, model, parameters, {1, 0},
        {.sequences = windows, .context = window_tokens, .step_tokens = windows, .product_activations = activations},
        {}, options);
    if (!executor) return executor.error();
    auto const vocabulary = model.config.vocab_size;
    std::vector<float> logits(static_cast<std::size_t>(windows * vocabulary));
    std::vector<std::int32_t> step(static_cast<std::size_t>(windows));
    std::vector<SequencePart> parts;
    for (std::int64_t at = 0; at + 1 < window_tokens; ++at) {
        parts.clear();
        for (std::int64_t i = 0; i < windows; ++i) {
            step[static_cast<std::size_t>(i)] = ids[static_cast<std::size_t>(i * window_tokens + at)];
            parts.push_back({i, at, 1});
        }
        auto const ran = executor->forward(step, parts, {logits.data(), {windows, vocabulary}}, comm, stream);
        if (!ran) return ran;
        if (auto const done = stream.synchronize(Deadline::after(std::chrono::seconds(60))); !done) return done;
        for (std::int64_t i = 0; i < windows; ++i) {
            auto const row = std::span(logits).subspan(static_cast<std::size_t>(i * vocabulary),
                                                       static_cast<std::size_t>(vocabulary));
            auto const largest = static_cast<double>(*std::max_element(row.begin(), row.end()));
            double sum = 0.0;
            for (auto const value : row) sum += std::exp(static_cast<double>(value) - largest);
            auto const next = static_cast<std::size_t>(ids[static_cast<std::size_t>(i * window_tokens + at + 1)]);
            losses.push_back(std::log(sum) + largest - static_cast<double>(row[next]));
        }
    }
    return {};
}

Result<Losses> measure(Model const& model, StoredParameters const& parameters, LoadOptions const& options,
                       ProductActivations activations, std::span<std::int32_t const> ids) {
    Losses losses;
    auto const done = run_threads(
        1, [&](Threads& comm) { return run_windows(model, parameters, options, activations, ids, comm, losses); });
    if (!done) return done.error();
    return losses;
}

double mean(Losses const& losses) {
    double sum = 0.0;
    for (auto const loss : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
}

/// Of a token's loss under one policy and under the other.
double root_mean_square(Losses const& a, Losses const& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(sum / static_cast<double>(a.size()));
}

int fail(Error const& error) {
    std::fprintf(stderr, "bench_perplexity: %s\n", error.message().c_str());
    return 1;
}

}  // namespace

/// bench_perplexity MODEL TEXT [WEIGHTS...]: a table of rows, one for each way to hold the weights: `file`, bf16, or what --quant takes.
int main(int argc, char** argv) {
    if (argc < 3) return std::fprintf(stderr, "bench_perplexity: takes a model, a text and ways to hold weights\n"), 2;
    auto const source = find_model(argv[1], {}, HubCache(HubEnvironment{}));
    if (!source) return fail(source.error());
    auto const checkpoint = read_checkpoint(*source);
    if (!checkpoint) return fail(checkpoint.error());
    auto const& model = checkpoint->model;
    auto const parameters = StoredParameters::open(*source, model);
    if (!parameters) return fail(parameters.error());
    auto const loaded = load_tokenizer(*source);
    if (!loaded) return fail(loaded.error());
    std::ifstream file(argv[2], std::ios::binary);
    std::string const text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < windows; ++i) {
        // Eight bytes for each token are more than enough.
        auto const from = text.size() * static_cast<std::size_t>(i) / windows;
        auto const found = loaded->tokenizer.encode(
            std::string_view(text).substr(from, static_cast<std::size_t>(8 * window_tokens)), {.adds_special = false});
        if (!found) return fail(found.error());
        if (found->size() <= static_cast<std::size_t>(window_tokens))
            return std::fprintf(stderr, "bench_perplexity: the text is too short\n"), 1;
        // What the cut left of a word is not counted.
        ids.insert(ids.end(), found->begin() + 1, found->begin() + 1 + window_tokens);
    }
    std::vector<std::string> ways(argv + 3, argv + argc);
    if (ways.empty()) ways = {"file", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "int8", "int4", "bf16"};
    std::printf("%lld tokens in windows of %lld\n", static_cast<long long>(windows * (window_tokens - 1)),
                static_cast<long long>(window_tokens));
    std::printf(
        "| weights held as | perplexity, full activations | rounded to | perplexity | by full | rms of a token's loss "
        "|\n"
        "| --- | --- | --- | --- | --- | --- |\n");
    for (auto const& way : ways) {
        LoadOptions options;
        auto rounded = ProductActivations::int8;
        if (way == "bf16") {
            options.dtype = Dtype::bf16;
            rounded = ProductActivations::bf16;
        } else if (way != "file") {
            auto const scheme = parse_quant_scheme(way);
            if (!scheme) return fail(scheme.error());
            options.quant = *scheme;
        }
        auto const full = measure(model, *parameters, options, ProductActivations::full, ids);
        if (!full) return fail(full.error());
        auto const less = measure(model, *parameters, options, rounded, ids);
        if (!less) return fail(less.error());
        auto const before = std::exp(mean(*full));
        auto const after = std::exp(mean(*less));
        std::printf("| %s | %.3f | %s | %.3f | %.4f | %.3f |\n", way.c_str(), before,
                    std::string(name_of(rounded)).c_str(), after, after / before, root_mean_square(*full, *less));
        std::fflush(stdout);
    }
    return 0;
}
