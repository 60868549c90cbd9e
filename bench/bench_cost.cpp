// SPDX-License-Identifier: Apache-2.0
// The cost model against published measurements, row by row: one set of constants for all of them. With --markdown the
// table of docs/explanation/cost-model.md.

#include "published_sources.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

using published::Row;

struct Answer {
    Row row;
    double ours = 0.0;
    double error = 0.0;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    auto const middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

double median_error(std::vector<Answer> const& answers, bool only_held_out) {
    std::vector<double> errors;
    for (auto const& answer : answers) {
        if (!only_held_out || answer.row.is_held_out) errors.push_back(answer.error);
    }
    return median(std::move(errors));
}

/// A row whose ratio is the smaller figure over the larger one: 1 where we agree.
std::string json_row(Answer const& answer) {
    auto const [least, most] = std::minmax(answer.ours, answer.row.theirs);
    char numbers[256];
    std::snprintf(numbers, sizeof numbers,
                  ",\"ours\":%.6g,\"peer\":\"published\",\"theirs\":%.6g,\"unit\":\"%s\",\"ratio\":%.4g,\"goal\":0,"
                  "\"met\":true}",
                  answer.ours, answer.row.theirs, std::string(published::unit_of(answer.row.measure)).c_str(),
                  least / most);
    return "{\"case\":\"" + answer.row.name + "\"" + numbers;
}

std::string json_limit(std::string const& name, double ours, double limit, std::string_view unit) {
    char numbers[256];
    std::snprintf(numbers, sizeof numbers,
                  ",\"ours\":%.6g,\"peer\":\"limit\",\"theirs\":%.6g,\"unit\":\"%s\",\"ratio\":%.4g,\"goal\":1,"
                  "\"met\":%s}",
                  ours, limit, std::string(unit).c_str(), limit / ours, ours <= limit ? "true" : "false");
    return "{\"case\":\"" + name + "\"" + numbers;
}

/// The time to price all bodies of a program in a setting that is not known yet: the best of several means.
double seconds_per_setting() {
    auto const model = shardwise::describe(shardwise::presets::llama_3_1_405b);
    if (!model) return 0.0;
    auto const device = *shardwise::find_device_preset("H100-80GB");
    constexpr std::int64_t settings = 256;
    double best = 1.0;
    for (int run = 0; run < 11; ++run) {
        shardwise::CostModel costs(*model, {.context = 4096});
        auto const start = std::chrono::steady_clock::now();
        for (std::int64_t batch = 1; batch <= settings; ++batch) {
            shardwise::BlockSetting const setting{.batch = batch, .tp = shardwise::RankGroup::in_node(8, device.link)};
            if (costs.bodies(setting, device).empty()) return 1.0;
        }
        auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        best = std::min(best, seconds / static_cast<double>(settings));
    }
    return best;
}

}  // namespace

int main(int argc, char** argv) {
    bool const is_json = argc > 1 && std::string_view{argv[1]} == "--json";
    if (argc > 1 && std::string_view{argv[1]} == "--markdown") {
        std::string_view source;
        for (auto const& row : published::rows()) {
            if (row.source != source) {
                source = row.source;
                std::printf("| *%.*s* | ours | theirs | | |\n", static_cast<int>(source.size()), source.data());
            }
            std::printf("%s\n", published::markdown_row(row).c_str());
        }
        return 0;
    }
    std::vector<Answer> answers;
    for (auto& row : published::rows()) {
        auto const ours = published::answer(row);
        auto const error = published::error_of(row, ours);
        answers.push_back({std::move(row), ours, error});
    }
    auto const all = median_error(answers, false);
    auto const held_out = median_error(answers, true);
    auto const pricing = seconds_per_setting();
    if (is_json) {
        std::string rows;
        for (auto const& answer : answers) rows += json_row(answer) + ",";
        rows += json_limit("median error, all rows", all, 0.25, "of the published figure") + ",";
        rows +=
            json_limit("median error, rows held out of the calibration", held_out, 0.25, "of the published figure") +
            ",";
        rows += json_limit("pricing a new setting of Llama 3.1 405B", pricing, 20e-6, "s");
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"cost\",\"rows\":[%s]}\n", rows.c_str());
        return 0;
    }
    std::string_view source;
    for (auto const& [row, ours, error] : answers) {
        if (row.source != source) {
            source = row.source;
            std::printf("%.*s%s\n", static_cast<int>(source.size()), source.data(),
                        row.is_held_out ? " (held out)" : "");
        }
        std::printf("  %-60s ours %10.4g  theirs %10.4g %-15s %+6.1f %%\n", row.name.c_str(), ours, row.theirs,
                    std::string(published::unit_of(row.measure)).c_str(), 100.0 * (ours / row.theirs - 1.0));
    }
    std::printf("median error %.1f %% of %zu rows, %.1f %% of those held out; a new setting is priced in %.1f us\n",
                100.0 * all, answers.size(), 100.0 * held_out, 1e6 * pricing);
    return 0;
}
