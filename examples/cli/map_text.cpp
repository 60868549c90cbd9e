// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/checked.hpp>
#include <shardwise/placement/max_memory.hpp>

#include "map_answer.hpp"
#include "map_profile.hpp"
#include "text.hpp"

#include <algorithm>
#include <charconv>

namespace shardwise::cli {

namespace {

/// The number at the end of a prefix; -1 where there is none.
[[nodiscard]] std::int64_t last_number(std::string_view prefix) {
    auto const dot = prefix.rfind('.');
    auto const digits = dot == std::string_view::npos ? prefix : prefix.substr(dot + 1);
    std::int64_t number = -1;
    auto const [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return !digits.empty() && problem == std::errc{} && end == digits.data() + digits.size() ? number : -1;
}

[[nodiscard]] std::string_view without_number(std::string_view prefix) {
    auto const dot = prefix.rfind('.');
    return dot == std::string_view::npos ? std::string_view{} : prefix.substr(0, dot + 1);
}

/// The prefixes on one device, runs of numbers folded: "model.layers.0-18".
[[nodiscard]] std::vector<std::string> folded_prefixes(MapAnswer const& answer, DeviceId device) {
    std::vector<std::string> out;
    auto const& map = answer.device_map;
    for (std::size_t i = 0; i < map.size(); ++i) {
        if (map[i].device != device) continue;
        auto const first = last_number(map[i].prefix);
        auto last = i;
        while (first >= 0 && last + 1 < map.size() && map[last + 1].device == device &&
               without_number(map[last + 1].prefix) == without_number(map[i].prefix) &&
               last_number(map[last + 1].prefix) == last_number(map[last].prefix) + 1) {
            ++last;
        }
        auto text = map[i].prefix.empty() ? std::string("everything") : escaped(map[i].prefix);
        if (last > i) text += "-" + std::to_string(last_number(map[last].prefix));
        out.push_back(text);
        i = last;
    }
    return out;
}

[[nodiscard]] std::string name_of(MapAnswer const& answer, DeviceId id) {
    auto const key = device_key(id);
    for (auto const& device : answer.devices) {
        if (device.id == id && !device.name.empty() && device.name != key)
            return "device " + key + " (" + device.name + ")";
    }
    return id.kind == DeviceClass::gpu ? "device " + key : key;
}

/// "34.46 of 40.00 GiB": both in the unit of the second.
[[nodiscard]] std::string share_text(Bytes used, Bytes capacity) {
    auto const whole = to_text(capacity);
    auto const unit = whole.substr(whole.find(' ') + 1);
    double scale = 1.0;
    for (std::string_view const larger : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
        if (unit == "B") break;
        scale *= 1024.0;
        if (unit == larger) break;
    }
    auto const amount =
        unit == "B" ? std::to_string(used.count()) : decimals(static_cast<double>(used.count()) / scale, 2);
    return amount + " of " + whole;
}

[[nodiscard]] std::string picture(MapAnswer const& answer, Style const& style) {
    std::size_t id_width = 0;
    std::size_t name_width = 0;
    std::size_t memory_width = 0;
    auto const memory_of = [](AnswerDevice const& device) {
        return device.capacity ? share_text(device.used, *device.capacity) : to_text(device.used);
    };
    auto const name_of_device = [](AnswerDevice const& device) {
        return device.name == device_key(device.id) ? std::string() : device.name;
    };
    for (auto const& device : answer.devices) {
        id_width = std::max(id_width, device_key(device.id).size());
        name_width = std::max(name_width, name_of_device(device).size());
        memory_width = std::max(memory_width, memory_of(device).size());
    }
    std::string out;
    for (auto const& device : answer.devices) {
        std::string line = aligned_right(device_key(device.id), id_width) + "  ";
        if (name_width > 0) line += padded(name_of_device(device), name_width) + "  ";
        auto const other = device.used - device.weights - device.kv_cache - device.activations - device.overhead;
        line += bar({{device.weights + other, "\u2588", "34"},
                     {device.kv_cache, "\u2593", "36"},
                     {device.activations, "\u2592", "33"},
                     {device.overhead, "\u2591", "35"}},
                    device.capacity.value_or(device.used), device_bar_width, style);
        line += "  " + aligned_right(memory_of(device), memory_width);
        auto const share = device.capacity && *device.capacity > Bytes{}
                               ? decimals(100.0 * static_cast<double>(device.used.count()) /
                                              static_cast<double>(device.capacity->count()),
                                          1) +
                                     " %"
                               : std::string();
        line += "  " + aligned_right(share, 7);
        auto const indent = columns(line) + 2;
        bool const is_narrow = indent + 36 > static_cast<std::size_t>(style.width);
        auto const room = static_cast<std::size_t>(style.width) - (is_narrow ? 6 : indent);
        auto const holds = folded_prefixes(answer, device.id);
        auto const lines = wrapped(holds, room);
        constexpr std::size_t max_lines = 6;
        for (std::size_t i = 0; i < lines.size() && i <= max_lines; ++i) {
            auto const text = i == max_lines ? "... and more: --json lists all" : lines[i];
            if (i == 0 && !is_narrow) {
                line += "  " + text;
            } else if (!text.empty()) {
                line += "\n" + std::string(is_narrow ? 6 : indent, ' ') + text;
            }
        }
        while (!line.empty() && line.back() == ' ') line.pop_back();
        out += line + "\n";
    }
    return out;
}

[[nodiscard]] std::string legend(MapAnswer const& answer, Style const& style) {
    Bytes weights{};
    Bytes cache{};
    Bytes activations{};
    Bytes overhead{};
    for (auto const& device : answer.devices) {
        weights += device.weights;
        cache += device.kv_cache;
        activations += device.activations;
        overhead += device.overhead;
    }
    std::string out;
    auto const add = [&](Bytes size, std::string_view glyph, std::string_view color, std::string_view what) {
        if (size > Bytes{})
            out +=
                (out.empty() ? "" : "   ") + style.paint(color, glyph) + " " + std::string(what) + " " + to_text(size);
    };
    add(weights, "\u2588", "34", "weights");
    add(cache, "\u2593", "36", "kv cache");
    add(activations, "\u2592", "33", "activations");
    add(overhead, "\u2591", "35", "runtime");
    return out.empty() ? out : out + "\n";
}

[[nodiscard]] std::string answer_text(MapRequest const& request, MapAnswer const& answer) {
    switch (request.inverse) {
        case Inverse::none:
            return {};
        case Inverse::context:
            return "longest context that fits: " + grouped(*answer.number) + " tokens";
        case Inverse::batch:
            return "largest batch that fits: " + counted(*answer.number, "sequence");
        case Inverse::devices:
            return "fewest devices that suffice: " + grouped(*answer.number);
        case Inverse::quant:
            return "mildest quantisation that fits: " + answer.word;
    }
    return {};
}

/// A size as --devices and --max-memory take it, rounded up.
[[nodiscard]] std::string written_size(std::int64_t bytes) {
    struct Unit {
        std::string_view name;
        unsigned shift;
    };
    for (auto const unit : {Unit{"GiB", 30}, Unit{"MiB", 20}, Unit{"KiB", 10}}) {
        if (bytes < std::int64_t{1} << unit.shift && unit.shift > 10) continue;
        return std::to_string(ceil_divide(bytes, std::int64_t{1} << unit.shift)) + std::string(unit.name);
    }
    return {};
}

}  // namespace

std::string certificate_text(Certificate const& certificate) {
    std::string value;
    switch (certificate.objective) {
        case Objective::load:
            value = "load " + decimals(certificate.value, 3) + ": the fullest device uses " +
                    decimals(100.0 * certificate.value, 1) + " % of its memory";
            break;
        case Objective::bottleneck:
            value = "bottleneck: the slowest stage takes " + duration(certificate.value) + " per step";
            break;
        case Objective::latency:
            value = "latency: all stages and links take " + duration(certificate.value) + " per step";
            break;
    }
    if (certificate.value <= certificate.lower_bound) return value + "; proven optimal among contiguous maps";
    auto const bound = certificate.objective == Objective::load ? decimals(certificate.lower_bound, 3)
                                                                : duration(certificate.lower_bound);
    return value + "; no contiguous map is below " + bound +
           (certificate.lower_bound > 0.0 ? " (gap " + decimals(100.0 * certificate.gap(), 1) + " %)" : "");
}

std::string quant_word(QuantScheme const& scheme) {
    for (std::string_view const word : {"int4", "awq", "gptq"}) {
        if (*parse_quant_scheme(word) == scheme) return std::string(word);
    }
    return std::string(shardwise::name_of(scheme).view());
}

std::string sentence(Fix const& fix, MapAnswer const& answer) {
    auto const saves = " (saves " + to_text(fix.change) + ")";
    switch (fix.kind) {
        case FixKind::kv_dtype: {
            std::string const name{traits(*fix.dtype).short_name};
            return "store the key-value cache in " + name + ": --kv-dtype " + name + saves;
        }
        case FixKind::context:
            return "lower the context from " + grouped(answer.context) + " to " + grouped(fix.amount) +
                   " tokens: --context " + std::to_string(fix.amount) + saves;
        case FixKind::dtype: {
            std::string const name{traits(*fix.dtype).short_name};
            return "store the weights in " + name + ": --dtype " + name + saves;
        }
        case FixKind::quant: {
            auto const name = quant_word(*fix.quant);
            return "quantise the weights to " + name + ": --quant " + name + saves;
        }
        case FixKind::devices: {
            std::string kind;
            for (auto const& device : answer.devices) {
                if (device.id.is_accelerator() && !device.name.empty()) kind = device.name;
            }
            return "add " + grouped(fix.amount) + " more " + (kind.empty() ? "gpu" : kind) + " (adds " +
                   to_text(fix.change) + ")";
        }
        case FixKind::offload: {
            auto const size = written_size(fix.amount);
            return "let the cpu hold " + to_text(Bytes{fix.amount}) + ": add +cpu:" + size +
                   " to --devices, or \"cpu\":\"" + size + "\" to --max-memory";
        }
    }
    return {};
}

std::string map_text(MapRequest const& request, MapAnswer const& answer, Style const& style) {
    std::string out = style.bold(escaped(answer.model));
    if (answer.parameters) out += ", " + short_count(*answer.parameters) + " parameters";
    out += std::string(answer.part_note) + "\n" + style.dim(answer.question) + "\n";
    if (answer.times) out += style.dim(profile_text(answer)) + "\n";
    out += "\n";
    if (auto const text = answer.fits ? answer_text(request, answer) : std::string(); !text.empty())
        out += style.bold(text) + "\n\n";
    if (!answer.devices.empty()) out += picture(answer, style);
    if (auto const text = legend(answer, style); !text.empty()) out += "\n" + text;
    out += "\n";
    if (answer.fits) {
        out += style.good("fits");
        if (answer.certificate) out += ": " + certificate_text(*answer.certificate);
        return out + "\n";
    }
    out += style.bad("does not fit");
    if (!answer.reason.empty()) out += ": " + answer.reason;
    out += "\n";
    if (answer.shortfall) {
        out += "short by " + style.bold(to_text(answer.shortfall->missing)) + ": with that much more on " +
               name_of(answer, answer.shortfall->device) + " it would fit; no other device needs less\n";
    }
    if (!answer.fixes.empty()) out += "\nany of these makes it fit, the mildest change first:\n";
    for (auto const& fix : answer.fixes) out += "  - " + sentence(fix, answer) + "\n";
    return out;
}

}  // namespace shardwise::cli
