// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/family.hpp>
#include <shardwise/model/field.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What the readers of files need to know of a family: its constant tables, and how it describes a config. They take a list of
/// these and are compiled once, whatever the number of families.
struct FileFamily {
    /// config.json's model_type.
    std::string_view name;
    Span<Field const> fields;
    Span<UnreadKey const> unread_keys;
    /// The model_type of whole models whose text model it is, where their text_config need not say so.
    std::string_view text_part_of;
    /// The keys of such a text model may stand in the config.json itself.
    bool may_be_flat = false;
    std::string_view gguf_name;
    /// What tells its files from those of other families of its name in GGUF; empty: nothing.
    std::string_view gguf_marker;
    /// The model's class in GGUF, where that is not the usual one.
    std::string_view gguf_class;
    /// The name of its encoder alone, and that one's class.
    std::string_view gguf_encoder_name;
    std::string_view gguf_encoder_class;
    Span<GgufDefault const> gguf_defaults;
    /// What it infers of the tensors of a GGUF file; null: nothing.
    void (*infer_from_gguf)(GgufTensorNames const& names, ModelConfig& config) = nullptr;
    /// The word of layer_types for layers that do not see everything, and the set that they fill.
    std::string_view local_kind = "sliding_attention";
    /// The key of a list of the layers with experts; empty: the family reads none.
    std::string_view sparse_layers_key;
    /// Of several layers the first has no window, not the last.
    bool gguf_full_layer_first = false;
    Result<> (*complete)(ModelConfig& config) = nullptr;
    Result<Model> (*describe)(ModelConfig config) = nullptr;
};

/// The families of a list, as readers take them.
using FileFamilies = Span<FileFamily const>;

namespace detail {

template <ModelArchitecture Arch>
[[nodiscard]] constexpr FileFamily make_file_family() {
    FileFamily family;
    family.name = Arch::name;
    family.fields = Arch::fields;
    if constexpr (requires { Arch::unread_keys; }) family.unread_keys = Arch::unread_keys;
    if constexpr (requires { Arch::text_part_of; }) family.text_part_of = Arch::text_part_of;
    family.may_be_flat = requires {
        Arch::may_be_flat;
    };
    family.gguf_name = Arch::gguf_name;
    if constexpr (requires { Arch::gguf_marker; }) family.gguf_marker = Arch::gguf_marker;
    if constexpr (requires { Arch::gguf_class; }) family.gguf_class = Arch::gguf_class;
    if constexpr (requires { Arch::gguf_encoder_name; }) {
        family.gguf_encoder_name = Arch::gguf_encoder_name;
        family.gguf_encoder_class = Arch::gguf_encoder_class;
    }
    if constexpr (requires { &Arch::infer_from_gguf; }) family.infer_from_gguf = &Arch::infer_from_gguf;
    if constexpr (requires { Arch::gguf_defaults; }) family.gguf_defaults = Arch::gguf_defaults;
    if constexpr (requires { Arch::local_kind; }) family.local_kind = Arch::local_kind;
    if constexpr (requires { Arch::sparse_layers_key; }) family.sparse_layers_key = Arch::sparse_layers_key;
    family.gguf_full_layer_first = requires {
        Arch::gguf_full_layer_first;
    };
    family.complete = &Arch::complete;
    family.describe = [](ModelConfig config) { return shardwise::describe<Arch>(config); };
    return family;
}

template <class List>
[[nodiscard]] constexpr std::size_t count_families() {
    std::size_t count = 0;
    List::for_each([&count](auto) { ++count; });
    return count;
}

template <class List>
[[nodiscard]] constexpr auto make_file_families() {
    std::array<FileFamily, count_families<List>()> families{};
    std::size_t i = 0;
    List::for_each([&]<class Arch>(Arch) { families[i++] = make_file_family<Arch>(); });
    return families;
}

template <class List>
inline constexpr auto file_family_table = make_file_families<List>();

/// The family with this model_type; null where there is none.
[[nodiscard]] constexpr FileFamily const* find_family(FileFamilies families, std::string_view model_type) {
    for (auto const& family : families) {
        if (family.name == model_type) return &family;
    }
    return nullptr;
}

}  // namespace detail

/// The families of a list of architectures. No constant: a header that names them would compile them all.
template <class List>
[[nodiscard]] FileFamilies file_families() {
    return detail::file_family_table<List>;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
