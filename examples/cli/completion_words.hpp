// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets.hpp>

#include "demo_model.hpp"
#include "options.hpp"

#include <span>
#include <string>
#include <string_view>

/// What the scripts of all shells are made of.
namespace shardwise::cli {

[[nodiscard]] inline std::string joined(std::span<std::string_view const> words, std::string_view between = " ") {
    std::string text;
    for (auto const word : words) text += (text.empty() ? std::string() : std::string(between)) + std::string(word);
    return text;
}

/// The words that an option is completed with; empty where there are none to offer.
[[nodiscard]] inline std::span<std::string_view const> words_of_option(Option const& option) {
    return option.choices.empty() ? option.suggestions : option.choices;
}

/// Names of models, with a blank between.
[[nodiscard]] inline std::string model_words() {
    std::string text{demo_name};
    for (auto const& preset : model_presets) text += " " + std::string(preset.name);
    return text;
}

/// Names of devices as a SPEC takes them, with a blank between.
[[nodiscard]] inline std::string device_words() {
    std::string text;
    for (auto const& preset : device_presets) text += std::string(preset.device.name.view()) + " ";
    return text + "disk";
}

/// The text with `mark` before each character of `special`.
[[nodiscard]] inline std::string marked(std::string_view text, std::string_view special, std::string_view mark) {
    std::string out;
    for (auto const letter : text) {
        if (special.find(letter) != std::string_view::npos) out += mark;
        out += letter;
    }
    return out;
}

}  // namespace shardwise::cli
