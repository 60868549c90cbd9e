// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/hardware/preset.hpp>

#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] constexpr bool is_name_separator(char letter) {
    return letter == '-' || letter == '_' || letter == ' ' || letter == '.' || letter == '/';
}

/// A preset's name without its memory: "H100" of "H100-80GB".
[[nodiscard]] constexpr std::string_view without_memory(std::string_view name) {
    auto const dash = name.rfind('-');
    bool const has_memory = dash != std::string_view::npos && name.size() >= 2 && name.substr(name.size() - 2) == "GB";
    return has_memory ? name.substr(0, dash) : name;
}

/// A name in small letters without its separators.
[[nodiscard]] constexpr List<char> letters_of(std::string_view name) {
    List<char> letters;
    for (char const letter : name) {
        if (!is_name_separator(letter)) letters.push_back(to_lower(letter));
    }
    return letters;
}

/// True where `part` is in `whole` and cuts no number: "5090" is in "rtx5090", "a10" is not in "a100".
[[nodiscard]] constexpr bool is_part_of(List<char> const& part, List<char> const& whole) {
    auto const is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
    for (std::size_t at = 0; !part.empty() && at + part.size() <= whole.size(); ++at) {
        std::size_t same = 0;
        while (same < part.size() && part[same] == whole[at + same]) ++same;
        if (same < part.size()) continue;
        auto const end = at + same;
        bool const cuts_before = at > 0 && is_digit(whole[at - 1]) && is_digit(part[0]);
        bool const cuts_after = end < whole.size() && is_digit(whole[end]) && is_digit(part.back());
        if (!cuts_before && !cuts_after) return true;
    }
    return false;
}

}  // namespace detail

/// The presets that an unknown device name may mean. A name that is a part of theirs ("5090"), or that holds theirs without the
/// memory ("GeForce RTX 4090", "NVIDIA A100"), means all that share the longest such part; else the name with the fewest other
/// letters is meant, where one is near.
[[nodiscard]] constexpr List<std::string_view> meant_presets(Span<DevicePreset const> presets, std::string_view name) {
    List<std::string_view> meant;
    std::size_t longest = 1;
    auto const wanted = detail::letters_of(name);
    ClosestName closest(name);
    for (auto const& preset : presets) {
        auto const known = preset.device.name.view();
        closest.offer(known);
        auto const model = detail::letters_of(detail::without_memory(known));
        bool const is_part = detail::is_part_of(wanted, model) || detail::is_part_of(wanted, detail::letters_of(known));
        // Two letters are in too many names.
        std::size_t shared = is_part && wanted.size() > 2 ? wanted.size() : 0;
        if (shared == 0 && detail::is_part_of(model, wanted)) shared = model.size();
        if (shared > longest) meant.clear(), longest = shared;
        if (shared == longest) meant.push_back(known);
    }
    if (meant.empty() && !closest.best().empty()) meant.push_back(closest.best());
    return meant;
}

/// "did you mean A, B or C?" of the presets that a name may mean, the first six at most; empty where there is none.
[[nodiscard]] constexpr FixedText<200> did_you_mean(List<std::string_view> const& meant) {
    constexpr std::size_t most = 6;
    List<char> text;
    auto const add = [&](std::string_view part) { text.append(part.data(), part.data() + part.size()); };
    auto const count = meant.size() < most ? meant.size() : most;
    for (std::size_t i = 0; i < count; ++i) {
        add(i == 0 ? "did you mean " : i + 1 == count ? " or " : ", ");
        add(meant[i]);
    }
    if (count > 0) add("?");
    return std::string_view{text.data(), text.size()};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
