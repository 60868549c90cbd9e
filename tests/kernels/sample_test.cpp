// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/sample.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

struct Golden {
    SamplingOptions options;
    std::vector<std::int32_t> history;
    std::vector<float> logits;
    std::vector<double> probabilities;
};

std::vector<Golden> golden() {
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/sampling.txt");
    std::vector<Golden> all;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream stream(line);
        std::vector<std::vector<std::string>> parts(1);
        for (std::string word; stream >> word;) {
            if (word == "|")
                parts.emplace_back();
            else
                parts.back().push_back(word);
        }
        auto const number = [](std::string const& word) { return std::strtod(word.c_str(), nullptr); };
        Golden row;
        row.options.repetition_penalty = static_cast<float>(number(parts[0][0]));
        row.options.temperature = static_cast<float>(number(parts[0][1]));
        row.options.top_k = static_cast<std::int64_t>(number(parts[0][2]));
        row.options.top_p = static_cast<float>(number(parts[0][3]));
        row.options.min_p = static_cast<float>(number(parts[0][4]));
        for (auto const& word : parts[1]) row.history.push_back(std::stoi(word));
        for (auto const& word : parts[2]) row.logits.push_back(static_cast<float>(number(word)));
        for (auto const& word : parts[3]) row.probabilities.push_back(number(word));
        all.push_back(row);
    }
    return all;
}

/// A stream of its own and one row or more of the same logits.
struct Sampler {
    HostContext context;
    HostStream stream = context.make_stream();

    explicit Sampler(int threads = 1) : context({.threads = threads}) {}
    Result<> run(std::vector<float> const& logits, std::vector<SamplingRow> const& rows,
                 std::vector<std::int32_t>& out) {
        auto const count = static_cast<std::int64_t>(rows.size());
        out.assign(rows.size(), -7);
        auto const width = count == 0 ? 1 : static_cast<std::int64_t>(logits.size()) / count;
        auto const done = sample({logits.data(), {count, width}}, rows, {out.data(), {count}}, stream);
        if (!done) return done;
        return stream.synchronize(Deadline::after(std::chrono::seconds(10)));
    }
    std::int32_t one(std::vector<float> const& logits, SamplingRow const& row) {
        std::vector<std::int32_t> out;
        return run(logits, {row}, out) ? out[0] : -1;
    }
};

}  // namespace

TEST_CASE("philox: gives the published words") {
    using Words = std::array<std::uint32_t, 4>;
    auto const ones = 0xFFFFFFFFU;
    CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U});
    CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == Words{0x408F276DU, 0x41C83B0EU, 0xA20BC7C6U, 0x6D5451FDU});
    CHECK(philox({0x243F6A88U, 0x85A308D3U, 0x13198A2EU, 0x03707344U}, {0xA4093822U, 0x299F31D0U}) ==
          Words{0xD16CFE09U, 0x94FDCCEBU, 0x5001E420U, 0x24126EA1U});
}

TEST_CASE("sampling_weight: is the exponential within its units") {
    int wrong = 0;
    for (int i = 0; i < 3000; ++i) {
        auto const distance = static_cast<float>(i) * 0.0101F;
        auto const expected = std::ldexp(std::exp(-static_cast<double>(distance)), detail::sampling_bits);
        auto const got = static_cast<double>(detail::sampling_weight(distance));
        if (distance < 30.0F && !(std::abs(got - expected) <= expected * 0x1p-29 + 1.0)) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(detail::sampling_weight(30.0F) == 0);
    CHECK(detail::sampling_weight(std::numeric_limits<float>::infinity()) == 0);
    CHECK(detail::multiply_high(~std::uint64_t{0}, ~std::uint64_t{0}) == ~std::uint64_t{0} - 1);
    CHECK(detail::multiply_high(std::uint64_t{1} << 63U, 7) == 3);
}

TEST_CASE("sample: draws from the distribution that transformers' processors leave") {
    auto const cases = golden();
    REQUIRE(cases.size() == 14);
    for (auto const& row : cases) {
        CAPTURE(row.options.top_k);
        CAPTURE(row.options.top_p);
        ThreadPool pool(1);
        detail::SamplingScores scores(static_cast<std::int64_t>(row.logits.size()), pool);
        REQUIRE(scores.load(row.logits.data(), {.options = row.options, .history = row.history}));
        scores.restrict_to(row.options);
        double sum = 0.0;
        for (std::size_t i = 0; i < row.logits.size(); ++i) sum += static_cast<double>(scores.weight(i));
        int wrong = 0;
        for (std::size_t i = 0; i < row.logits.size(); ++i) {
            auto const got = static_cast<double>(scores.weight(i)) / sum;
            // A score of at most 40 is rounded twice: the exponential moves by 40 times as much.
            if (!(std::abs(got - row.probabilities[i]) <= row.probabilities[i] * 80.0 * 0x1p-24 + 0x1p-40)) ++wrong;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("sample: frequencies of many draws are the probabilities, and do not depend on threads or batch") {
    constexpr std::size_t draws = 4000;
    constexpr std::size_t tokens = 6;
    std::vector<float> logits;
    std::vector<SamplingRow> rows;
    float const base[tokens] = {0.0F, 1.0F, -1.0F, 2.0F, -std::numeric_limits<float>::infinity(), 1.0F};
    for (std::size_t i = 0; i < draws; ++i) {
        logits.insert(logits.end(), base, base + tokens);
        rows.push_back({.options = {.temperature = 0.9F, .seed = 99}, .sequence = i / 10, .step = i % 10});
    }
    std::vector<std::int32_t> first;
    REQUIRE(Sampler(1).run(logits, rows, first));
    std::vector<std::int32_t> again;
    REQUIRE(Sampler(3).run(logits, rows, again));
    CHECK(first == again);
    Sampler alone;
    for (std::size_t const i : {0U, 17U, 3999U}) {
        CHECK(alone.one({base, base + tokens}, rows[i]) == first[i]);
    }
    double sum = 0.0;
    for (auto const value : base) sum += std::exp(static_cast<double>(value) / 0.9);
    for (std::size_t token = 0; token < tokens; ++token) {
        auto const probability = std::exp(static_cast<double>(base[token]) / 0.9) / sum;
        auto const count =
            static_cast<double>(std::count(first.begin(), first.end(), static_cast<std::int32_t>(token)));
        // Four standard deviations of a binomial count; the seed is fixed.
        CHECK(std::abs(count - probability * draws) <= 4.0 * std::sqrt(probability * (1.0 - probability) * draws));
    }
    rows[5].options.seed = 100;
    int changed = 0;
    for (std::size_t i = 0; i < 40; ++i) {
        rows[i].options.seed = 100;
        changed += alone.one({base, base + tokens}, rows[i]) != first[i] ? 1 : 0;
    }
    CHECK(changed > 5);
}

TEST_CASE("sample: over a large vocabulary each token has the weight that sorting gives it, whatever the threads") {
    constexpr std::size_t tokens = 20'003;
    std::mt19937 random(5);
    std::vector<float> logits(tokens);
    // Few values: each has hundreds of tokens, so that the edges of top k and top p lie among equals.
    for (auto& logit : logits) logit = static_cast<float>(random() % 64U) / 8.0F;
    ThreadPool one(1);
    ThreadPool three(3);
    detail::SamplingScores both[] = {{tokens, one}, {tokens, three}};
    for (SamplingOptions const& options :
         {SamplingOptions{.temperature = 0.7F}, SamplingOptions{.temperature = 1.0F, .top_k = 40},
          SamplingOptions{.temperature = 1.3F, .top_k = 9'000}, SamplingOptions{.temperature = 0.9F, .top_p = 0.37F},
          SamplingOptions{.temperature = 0.5F, .top_k = 700, .top_p = 0.8F, .min_p = 0.2F}}) {
        std::vector<std::uint32_t> order(tokens);
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
        auto const score = [&](std::uint32_t token) { return logits[token] / options.temperature; };
        auto const kept = options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : tokens;
        auto const least = score(order[kept - 1]);
        std::vector<std::uint64_t> weights(tokens);
        std::uint64_t total = 0;
        for (auto const token : order) {
            auto const weight = detail::sampling_weight(score(order[0]) - score(token));
            total += weights[token] = score(token) < least ? 0 : weight;
        }
        std::uint64_t before = 0;
        auto const best = static_cast<double>(weights[order[0]]);
        for (auto const token : order) {
            auto const weight = weights[token];
            bool const is_kept =
                options.top_p >= 1.0F || before == 0 ||
                static_cast<double>(before) < static_cast<double>(options.top_p) * static_cast<double>(total);
            before += weight;
            if (!is_kept || static_cast<double>(weight) < best * static_cast<double>(options.min_p)) weights[token] = 0;
        }
        for (auto& scores : both) {
            CAPTURE(options.top_k);
            CAPTURE(options.top_p);
            REQUIRE(scores.load(logits.data(), {.options = options}));
            CHECK(scores.best() == static_cast<std::int32_t>(order[0]));
            scores.restrict_to(options);
            int wrong = 0;
            std::uint64_t sum = 0;
            for (std::size_t i = 0; i < tokens; ++i) {
                wrong += scores.weight(i) == weights[i] ? 0 : 1;
                sum += weights[i];
            }
            CHECK(wrong == 0);
            for (std::uint64_t const bits : {std::uint64_t{0}, std::uint64_t{1} << 62U, ~std::uint64_t{0}}) {
                auto left = detail::multiply_high(bits, sum);
                std::size_t token = 0;
                while (left >= weights[token]) left -= weights[token++];
                CHECK(scores.draw(bits) == static_cast<std::int32_t>(token));
            }
        }
    }
}

TEST_CASE("sample: the lower token of equals wins, also at the edges of top k and top p") {
    Sampler sampler;
    CHECK(sampler.one({1.0F, 3.0F, 3.0F, 2.0F}, {}) == 1);
    CHECK(sampler.one({5.0F}, {}) == 0);
    CHECK(sampler.one({5.0F}, {.options = {.temperature = 1.0F, .top_k = 9, .top_p = 0.0F, .min_p = 1.0F}}) == 0);
    // The penalty alone turns the greedy choice.
    std::vector<std::int32_t> const history{1, 1};
    CHECK(sampler.one({1.0F, 3.0F, 2.0F}, {.options = {.repetition_penalty = 2.0F}, .history = history}) == 2);
    CHECK(sampler.one({-1.0F, -0.9F}, {.options = {.repetition_penalty = 2.0F}, .history = history}) == 0);
    for (std::uint64_t step = 0; step < 30; ++step) {
        // Four equal tokens of a quarter each: half of the probability is two of them, the lower two.
        CHECK(sampler.one({2.0F, 2.0F, 2.0F, 2.0F}, {.options = {.temperature = 1.0F, .top_p = 0.5F}, .step = step}) <
              2);
        // As in transformers, all that equal the k-th stay.
        CHECK(sampler.one({2.0F, 1.0F, 2.0F, 2.0F}, {.options = {.temperature = 1.0F, .top_k = 1}, .step = step}) != 1);
    }
}

TEST_CASE("sample: temperatures near zero draw from the greatest logits alone, however small the temperature is") {
    auto const infinity = std::numeric_limits<float>::infinity();
    for (float const temperature : {1e-4F, 1e-30F, 1e-38F, std::numeric_limits<float>::denorm_min()}) {
        CAPTURE(temperature);
        for (float const top_p : {1.0F, 0.9F}) {
            int second = 0;
            for (std::uint64_t step = 0; step < 40; ++step) {
                Sampler sampler;
                SamplingRow const row{.options = {.temperature = temperature, .top_p = top_p}, .step = step};
                CHECK(sampler.one({-5.0F, -6.0F, -5.5F}, row) == 0);
                CHECK(sampler.one({1e30F, 3e38F, -infinity, -3e38F}, row) == 1);
                auto const token = sampler.one({1.0F, 7.0F, 7.0F}, row);
                CHECK((token == 1 || token == 2));
                second += token == 2 ? 1 : 0;
            }
            // Equals are equally probable: four standard deviations of 40 draws are 12.6; the seed is fixed.
            CHECK(std::abs(second - 20) <= 12);
        }
    }
}

TEST_CASE("sample: rows without a distribution fail with their number, options out of range at once") {
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    auto const infinity = std::numeric_limits<float>::infinity();
    for (auto const& logits :
         {std::vector<float>{0.0F, 1.0F, nan, 2.0F}, std::vector<float>{0.0F, 1.0F, infinity, 2.0F},
          std::vector<float>{0.0F, 1.0F, -infinity, -infinity}}) {
        for (float const temperature : {0.0F, 1.0F}) {
            Sampler sampler(2);
            std::vector<std::int32_t> out;
            SamplingRow const row{.options = {.temperature = temperature}};
            auto const done = sampler.run(logits, {row, row}, out);
            REQUIRE_FALSE(done);
            CHECK(done.error().message() ==
                  "sample: logits: a row has a NaN or infinity, or nothing that can be drawn (got 1); look for an "
                  "overflow in "
                  "the model, or a repetition penalty near 0");
            CHECK(out[1] == -1);
            CHECK(out[0] == (temperature == 0.0F ? 1 : out[0]));
        }
    }
    std::vector<std::int32_t> out;
    std::vector<std::int32_t> const strange{4};
    auto const refused = [&](SamplingRow const& row) {
        Sampler fresh;
        auto const done = fresh.run({1.0F, 2.0F}, {row}, out);
        return done ? std::string{} : std::string(done.error().place());
    };
    CHECK(refused({.options = {.temperature = -1.0F}}) == "temperature");
    CHECK(refused({.options = {.temperature = nan}}) == "temperature");
    CHECK(refused({.options = {.top_k = -1}}) == "top_k");
    CHECK(refused({.options = {.top_p = 1.1F}}) == "top_p");
    CHECK(refused({.options = {.top_p = nan}}) == "top_p");
    CHECK(refused({.options = {.min_p = -0.1F}}) == "min_p");
    CHECK(refused({.options = {.repetition_penalty = 0.0F}}) == "repetition_penalty");
    CHECK(refused({.history = strange}) == "history");
    CHECK(Sampler().run({}, {}, out));
    float const logit = 0.0F;
    Sampler other;
    CHECK(sample({&logit, {1, 1}}, {}, {nullptr, {0}}, other.stream).error().code() == ErrorCode::shape_mismatch);
    std::vector<SamplingRow> const rows(3);
    CHECK(sample({&logit, {1, 1}}, rows, {out.data(), {1}}, other.stream).error().message() ==
          "sample: each row of logits needs its options and a place for its token (got 3, expected 1)");
}
