// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What divides the frequency of each pair of a head where a checkpoint lists it: longrope's two lists, in config.json
/// or as tensors of a GGUF file, and the list that llama.cpp writes for llama3's scaling, which holds for every
/// context.
struct RopeDivisors {
    std::vector<double> short_context;
    std::vector<double> long_context;
    std::vector<double> any_context;

    /// The list that a tensor of a GGUF file is; null for others.
    [[nodiscard]] std::vector<double>* list_of(std::string_view name) {
        if (name == "rope_freqs.weight") return &any_context;
        if (name == "rope_factors_long.weight") return &long_context;
        return name == "rope_factors_short.weight" ? &short_context : nullptr;
    }
    /// Takes a tensor of fp32 numbers of a GGUF file; false where its name is none of theirs.
    bool take(std::string_view name, std::span<std::byte const> data) {
        auto* const list = list_of(name);
        if (list == nullptr) return false;
        list->resize(data.size() / sizeof(float));
        for (std::size_t i = 0; i < list->size(); ++i) {
            float value = 0.0F;
            std::memcpy(&value, data.data() + i * sizeof value, sizeof value);
            (*list)[i] = static_cast<double>(value);
        }
        return true;
    }
    /// Divides frequencies by the list that holds for every context, where there is one.
    ///
    /// Errors  shape_mismatch for a list of another length; invalid_field for a divisor that is not above 0
    [[nodiscard]] Result<> divide(std::span<float> frequencies) const {
        if (any_context.empty()) return {};
        if (any_context.size() != frequencies.size()) {
            return Error{ErrorCode::shape_mismatch}
                .in("rope_freqs.weight")
                .because("does not have a divisor for each pair that turns")
                .got(static_cast<std::int64_t>(any_context.size()))
                .expected(static_cast<std::int64_t>(frequencies.size()));
        }
        for (std::size_t i = 0; i < frequencies.size(); ++i) {
            if (!(any_context[i] > 0.0))
                return Error{ErrorCode::invalid_field}
                    .in("rope_freqs.weight")
                    .because("has a divisor that is not above 0");
            frequencies[i] = static_cast<float>(static_cast<double>(frequencies[i]) / any_context[i]);
        }
        return {};
    }
};

namespace detail {

[[nodiscard]] inline Result<RopeDivisors> gguf_rope_divisors(OpenCheckpoint& files) {
    auto const named = files.named_gguf();
    if (!named) return named.error();
    auto const& file = (*named)->header.metadata.source();
    auto const& name = files.source().weights.front();
    RopeDivisors out;
    // No head is that wide.
    constexpr std::int64_t max_bytes = std::int64_t{1} << 20U;
    std::vector<char> data;
    for (auto const& tensor : (*named)->first_tensors()) {
        if (tensor.type != GgmlType::f32 || out.list_of(tensor.name) == nullptr) continue;
        if (tensor.bytes.count() > max_bytes) {
            return Error{ErrorCode::capacity_exceeded}
                .in(name)
                .at(tensor.name)
                .because("has more divisors than a head has pairs")
                .got(tensor.shape.elements());
        }
        data.resize(static_cast<std::size_t>(tensor.bytes.count()));
        if (!file.read(static_cast<std::uint64_t>(tensor.offset), data)) return file.check(name).error();
        (void)out.take(tensor.name, std::as_bytes(std::span(data)));
    }
    return out;
}

[[nodiscard]] inline Result<RopeDivisors> config_rope_divisors(OpenCheckpoint& files) {
    RopeDivisors out;
    auto const file = files.config();
    if (!file) return file.error();
    if (*file == nullptr) return out;
    auto const& document = (*file)->document;
    auto root = document.root();
    if (auto const part = root.find("text_config"); part && part->is_object()) root = *part;
    for (std::string_view const key : {"rope_scaling", "rope_parameters"}) {
        auto const rope = root.find(key);
        if (!rope || !rope->is_object()) continue;
        for (auto const& [name, list] :
             {std::pair{"short_factor", &out.short_context}, std::pair{"long_factor", &out.long_context}}) {
            auto const values = rope->find(name);
            if (!values || !values->is_array()) continue;
            list->clear();
            for (auto const value : *values) {
                auto const number = value.real();
                if (!number || !(*number > 0.0) || !std::isfinite(*number)) {
                    return Error{ErrorCode::invalid_field}
                        .in(files.source().config)
                        .at(std::string(key) + "." + name)
                        .because("must be a list of numbers above 0");
                }
                list->push_back(*number);
            }
        }
    }
    if (auto const clear = document.check_repeats(); !clear) return Error{clear.error()}.in(files.source().config);
    return out;
}

}  // namespace detail

/// What a checkpoint lists: longrope's lists in its config.json, or the tensors of a GGUF file; empty where it has
/// none.
///
/// Errors  those of reading the files; invalid_field for a list of anything but numbers above 0
[[nodiscard]] inline Result<RopeDivisors> read_rope_divisors(OpenCheckpoint& files) {
    bool const is_gguf = files.source().kind == SourceKind::gguf && !files.source().weights.empty();
    return is_gguf ? detail::gguf_rope_divisors(files) : detail::config_rope_divisors(files);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
