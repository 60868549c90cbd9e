// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/name_pattern.hpp>
#include <shardwise/quant/quant_method_table.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A list of modules that a quantisation config names (modules_to_not_convert, ignore, targets), ready to be asked for
/// tens of thousands of paths.
///
/// Source  transformers 4.57 integrations/bitsandbytes.py, awq.py, finegrained_fp8.py, mxfp4.py; compressed-tensors 0.20
///         utils/match.py
class ModuleNames {
public:
    static constexpr std::size_t max_text = std::size_t{1} << 18U;
    static constexpr std::size_t max_patterns = 256;

    /// Errors  unsupported for a pattern that NamePattern does not read, capacity_exceeded
    [[nodiscard]] static Result<ModuleNames> of(std::vector<std::string> const& entries, NameRule rule) {
        ModuleNames names;
        std::size_t text = 0;
        for (auto const& entry : entries) {
            if (entry.empty()) continue;
            text += entry.size();
            bool const is_expression = rule == NameRule::targets && entry.rfind("re:", 0) == 0;
            if (text > max_text || names.patterns_.size() == max_patterns) {
                return Error{ErrorCode::capacity_exceeded}
                    .because("names more modules than this library reads")
                    .at_most(static_cast<std::int64_t>(max_text));
            }
            if (rule == NameRule::patterns || is_expression) {
                auto pattern = NamePattern::parse(std::string_view{entry}.substr(is_expression ? 3 : 0));
                if (!pattern) return pattern.error();
                names.patterns_.push_back(*std::move(pattern));
                continue;
            }
            names.whole_.insert(entry);
            if (rule == NameRule::parts) names.add_part(entry);
            if (rule == NameRule::prefixes) names.add_part(entry + ".");
        }
        names.takes_last_ = rule == NameRule::parts || rule == NameRule::prefixes;
        return names;
    }

    /// Whether an entry means the module at this path. `work` grows by the letters that patterns look at.
    [[nodiscard]] bool contain(std::string const& path, std::int64_t& work) const {
        if (whole_.count(path) > 0) return true;
        if (takes_last_ && whole_.count(path.substr(path.rfind('.') + 1)) > 0) return true;
        for (std::size_t i = 0; !steps_.empty() && i < path.size(); ++i) {
            if (is_part_at(std::string_view{path}.substr(i))) return true;
        }
        for (auto const& pattern : patterns_) {
            if (pattern.matches_beginning(path, work)) return true;
        }
        return false;
    }
    /// Whether an entry is this text itself: the name of a class.
    [[nodiscard]] bool name_class(std::string_view class_name) const {
        return whole_.count(std::string(class_name)) > 0;
    }

private:
    /// Parts share their beginnings in a tree of letters, so that a path is compared with all of them at once.
    void add_part(std::string_view part) {
        std::uint32_t node = 0;
        for (char const letter : part) {
            auto const [place, is_new] = steps_.emplace(step(node, letter), nodes_);
            nodes_ += is_new ? 1 : 0;
            node = place->second;
        }
        ends_.insert(node);
    }
    [[nodiscard]] bool is_part_at(std::string_view rest) const {
        std::uint32_t node = 0;
        for (char const letter : rest) {
            auto const next = steps_.find(step(node, letter));
            if (next == steps_.end()) return false;
            node = next->second;
            if (ends_.count(node) > 0) return true;
        }
        return false;
    }
    [[nodiscard]] static std::uint64_t step(std::uint32_t node, char letter) {
        return std::uint64_t{node} << 8U | static_cast<unsigned char>(letter);
    }

    std::unordered_set<std::string> whole_;
    std::unordered_map<std::uint64_t, std::uint32_t> steps_;
    std::unordered_set<std::uint32_t> ends_;
    std::uint32_t nodes_ = 1;
    std::vector<NamePattern> patterns_;
    bool takes_last_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
