// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/train/token_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Token files one after another, as one sequence of tokens.
class TokenDataset {
public:
    /// Errors  invalid_argument for no files, no tokens or no vocabulary
    [[nodiscard]] static Result<TokenDataset> create(std::vector<TokenFile> files, std::int64_t vocabulary) {
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject);
        if (vocabulary < 1) return bad.at("vocabulary").because("has no token").got(vocabulary).at_least(1);
        if (files.empty()) return bad.because("there are no files");
        std::int64_t tokens = 0;
        for (auto const& file : files) tokens += file.tokens();
        if (tokens == 0) return Error{bad}.in(files.front().path()).because("there are no tokens");
        return TokenDataset(std::move(files), vocabulary, tokens);
    }

    [[nodiscard]] std::int64_t tokens() const { return tokens_; }
    [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }
    [[nodiscard]] std::vector<TokenFile> const& files() const { return files_; }
    /// Whether some tokens' losses do not count.
    [[nodiscard]] bool has_loss() const {
        return std::any_of(files_.begin(), files_.end(), [](auto const& file) { return file.has_loss(); });
    }

    /// Copies ids, and whether the loss of predicting each counts; `counts` may be empty.
    ///
    /// Errors  invalid_argument beyond the tokens; shape_mismatch for other counts than ids; as TokenFile::read
    [[nodiscard]] Result<> read(std::int64_t first, Span<std::int32_t> ids, Span<std::uint8_t> counts = {}) const {
        auto const size = static_cast<std::int64_t>(ids.size());
        if (!counts.empty() && counts.size() != ids.size())
            return Error{ErrorCode::shape_mismatch}
                .in(subject)
                .at("counts")
                .because("are not as many as the ids")
                .got(static_cast<std::int64_t>(counts.size()))
                .expected(size);
        if (first < 0 || size > tokens_ || first > tokens_ - size)
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .because("has fewer tokens than are read from the first one on")
                .got(first)
                .at_most(tokens_ - size);
        std::size_t done = 0;
        for (auto const& file : files_) {
            if (done == ids.size()) break;
            if (first >= file.tokens()) {
                first -= file.tokens();
                continue;
            }
            auto const count = std::min(ids.size() - done, static_cast<std::size_t>(file.tokens() - first));
            auto const read = file.read(first, vocabulary_, ids.subspan(done, count),
                                        counts.empty() ? counts : counts.subspan(done, count));
            if (!read) return read;
            done += count;
            first = 0;
        }
        return {};
    }

    /// Asks the system to begin to bring tokens into memory: see TokenFile::expect.
    void expect(std::int64_t first, std::int64_t count) const {
        for (auto const& file : files_) {
            if (count < 1) return;
            if (first < file.tokens()) {
                auto const some = std::min(count, file.tokens() - first);
                file.expect(first, some);
                count -= some;
                first = file.tokens();
            }
            first -= file.tokens();
        }
    }

    /// Looks at every token: what `read` would refuse later is refused at once.
    ///
    /// Errors  as TokenFile::read
    [[nodiscard]] Result<> check() const {
        constexpr std::int64_t kept = std::int64_t{1} << 21U;
        std::vector<std::int32_t> ids(std::size_t{1} << 16U);
        for (auto const& file : files_) {
            for (std::int64_t first = 0; first < file.tokens(); first += static_cast<std::int64_t>(ids.size())) {
                auto const count = std::min(static_cast<std::int64_t>(ids.size()), file.tokens() - first);
                auto const known = file.read(first, vocabulary_, {ids.data(), static_cast<std::size_t>(count)});
                if (!known) return known;
                if (first % kept == 0 || first + count == file.tokens()) file.release_before(first);
            }
        }
        return {};
    }

    /// The tokens to train with and, after them, those to validate with: the last `share` of all.
    ///
    /// Errors  invalid_argument for a share that is not between 0 and 1
    [[nodiscard]] Result<std::pair<UnitRange, UnitRange>> split(double share) const {
        if (!(share > 0.0 && share < 1.0))
            return Error{ErrorCode::invalid_argument}
                .in(subject)
                .at("valid_part")
                .because("is no share between 0 and 1");
        auto const kept = tokens_ - static_cast<std::int64_t>(static_cast<double>(tokens_) * share);
        return std::pair(UnitRange{0, kept}, UnitRange{kept, tokens_});
    }

private:
    static constexpr std::string_view subject = "token dataset";

    TokenDataset(std::vector<TokenFile> files, std::int64_t vocabulary, std::int64_t tokens)
        : files_(std::move(files)), vocabulary_(vocabulary), tokens_(tokens) {}

    std::vector<TokenFile> files_;
    std::int64_t vocabulary_;
    std::int64_t tokens_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
