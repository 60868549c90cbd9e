// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace fakes {

/// A line of a machine file: a word, then key=value; values with blanks stand in double quotes.
///
///     gpu name="NVIDIA A100-SXM4-40GB" uuid=GPU-1 pci=00000000:3B:00.0 memory=42949672960
///     fail call=nvmlDeviceGetMemoryInfo device=1 status=15
///     sleep call=nvmlInit_v2 milliseconds=5000
///     fail call=nvmlDeviceGetUtilizationRates device=0 status=15 after=3      (three calls succeed before)
///     series device=0 key=utilization values=0,50,100       (a reading's values, call by call; the last one stays)
struct Row {
    std::string word;
    std::map<std::string, std::string> values;

    [[nodiscard]] std::string text(std::string const& key, std::string const& otherwise = "") const {
        auto const found = values.find(key);
        return found == values.end() ? otherwise : found->second;
    }
    [[nodiscard]] bool has(std::string const& key) const { return values.count(key) > 0; }
    [[nodiscard]] unsigned long long number(std::string const& key, unsigned long long otherwise = 0) const {
        auto const found = values.find(key);
        return found == values.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 0);
    }
};

/// The machine that a fake library pretends to run on: the file that an environment variable names.
class Machine {
public:
    void load(char const* variable) {
        rows_.clear();
        calls_.clear();
        char const* const path = std::getenv(variable);
        std::ifstream file(path == nullptr ? "" : path);
        for (std::string line; std::getline(file, line);) {
            if (!line.empty() && line[0] != '#') rows_.push_back(read(line));
        }
    }
    [[nodiscard]] std::vector<Row> rows(std::string const& word) const {
        std::vector<Row> found;
        for (auto const& row : rows_) {
            if (row.word == word) found.push_back(row);
        }
        return found;
    }
    /// What a reading of a device tells this time: the next value of its series; nothing where it has none.
    [[nodiscard]] std::optional<double> reading(std::string const& key, long long device) const {
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            auto const& row = rows_[i];
            if (row.word != "series" || row.text("key") != key) continue;
            if (static_cast<long long>(row.number("device")) != device) continue;
            std::istringstream values(row.text("values"));
            auto wanted = calls_[i]++;
            std::string value;
            for (std::string next; std::getline(values, next, ',');) {
                value = next;
                if (wanted-- == 0) break;
            }
            if (value == "none") return std::nullopt;
            return std::strtod(value.c_str(), nullptr);
        }
        return std::nullopt;
    }
    /// What a call must answer by the rows "fail" and "sleep"; 0 where nothing is said.
    [[nodiscard]] int status(std::string const& call, long long device = -1) const {
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            auto const& row = rows_[i];
            if (row.text("call") != call) continue;
            if (row.has("device") && static_cast<long long>(row.number("device")) != device) continue;
            if (row.has("after") && calls_[i]++ < row.number("after")) continue;
            if (row.word == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(row.number("milliseconds")));
            if (row.word == "fail") return static_cast<int>(row.number("status"));
        }
        return 0;
    }

private:
    static Row read(std::string const& line) {
        Row row;
        std::istringstream words(line);
        words >> row.word;
        for (std::string rest; words >> std::ws && std::getline(words, rest, '=');) {
            std::string value;
            if (words.peek() == '"') {
                words.get();
                std::getline(words, value, '"');
            } else {
                words >> value;
            }
            row.values[rest] = value;
        }
        return row;
    }

    std::vector<Row> rows_;
    /// How often each row was asked.
    mutable std::map<std::size_t, unsigned long long> calls_;
};

}  // namespace fakes
