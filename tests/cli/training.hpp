// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program.hpp"
#include "small_llama.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <vector>

/// Runs of `train` on a small model.
namespace shardwise::tests {

/// A small model, ids to train it with, and a folder for runs.
struct Training {
    static constexpr std::int64_t batch = 4;
    static constexpr std::int64_t context = 8;

    SmallLlama model;
    TemporaryFolder folder;
    std::string data;

    explicit Training(std::int64_t tokens = 50 * batch * context) {
        std::string bytes;
        for (std::int64_t i = 0; i < tokens; ++i)
            bytes += {static_cast<char>((7 * i + i * i / 11 + i / 5 + 3) % 61), '\0'};
        data = folder.write("ids.u16", bytes);
    }

    [[nodiscard]] std::string out(std::string const& name) const { return folder.path() + "/" + name; }
    /// The words of a command line; those in `more` are added. What machines compute in by default differs.
    [[nodiscard]] std::vector<std::string> words(std::string const& name, std::vector<std::string> const& more) const {
        std::vector<std::string> all{"train", model.folder.path(), "--data", data,     "--out", out(name), "--batch",
                                     "4",     "--context",         "8",      "--json", "--lr",  "3e-3",    "--threads",
                                     "1"};
        if (std::find(more.begin(), more.end(), "--precision") == more.end())
            all.insert(all.end(), {"--precision", "fp32"});
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    [[nodiscard]] Ran run(std::string const& name, std::vector<std::string> const& more) const {
        return tests::run(words(name, more));
    }
    /// The same, for a run that is to end well.
    [[nodiscard]] Answer train(std::string const& name, std::vector<std::string> const& more) const {
        auto const ran = run(name, more);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return Answer(ran.out);
    }
};

/// The columns that are compared, of each line.
inline std::vector<std::string> compared_lines(std::string const& path) {
    std::vector<std::string> out;
    auto const text = read_text(path);
    // A line that is still being written does not count.
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;) {
        auto line = text.substr(at, end - at);
        for (int i = 0; i < 4; ++i) line.resize(line.rfind(','));
        out.push_back(line);
        at = end + 1;
    }
    return out;
}

inline std::vector<std::string> cells_of(std::string const& line) {
    std::vector<std::string> out{""};
    for (auto const letter : line) {
        if (letter == ',')
            out.emplace_back();
        else
            out.back() += letter;
    }
    return out;
}

inline double number_of(std::string const& text) {
    double value = -1.0;
    (void)std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

inline bool exists(std::string const& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
}

}  // namespace shardwise::tests
