// SPDX-License-Identifier: Apache-2.0
#include "list_command.hpp"

#include <shardwise/hardware/presets.hpp>
#include <shardwise/json/writer.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include "commands.hpp"
#include "console.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::vector<std::string> names_of(ListedKind kind) {
    std::vector<std::string> names;
    switch (kind) {
        case ListedKind::models:
            for (auto const& preset : model_presets) names.emplace_back(preset.name);
            break;
        case ListedKind::devices:
            for (auto const& preset : device_presets) names.emplace_back(preset.device.name.view());
            break;
        case ListedKind::architectures:
            Architectures::for_each([&]<class Arch>(Arch) { names.emplace_back(Arch::name); });
            break;
        case ListedKind::quants:
            for (auto const name : quant_words) names.emplace_back(name);
            break;
    }
    return names;
}

}  // namespace

ExitCode run_list(Arguments const& arguments) {
    if (!arguments.listed) {
        return report(Error{ErrorCode::invalid_argument}
                          .in("WHAT")
                          .because("was not given")
                          .fix("name one: shardwise list models, devices, architectures or quants"),
                      Stage::arguments, arguments.json);
    }
    auto const kind = choose<ListedKind>("WHAT", *arguments.listed, listed_choices);
    if (!kind) return report(kind.error(), Stage::arguments, arguments.json);
    auto const names = names_of(*kind);
    if (!arguments.json) {
        std::string text;
        for (auto const& name : names) text += name + "\n";
        print_text(text);
        return ExitCode::done;
    }
    JsonWriter json;
    json.begin_object().member("schema", "shardwise.list/1").member("kind", *arguments.listed);
    json.key("items").begin_array();
    for (auto const& name : names) json.begin_object().member("name", name).end_object();
    json.end_array().end_object();
    print_text(std::move(json).text() + "\n");
    return ExitCode::done;
}

}  // namespace shardwise::cli
