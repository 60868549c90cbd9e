// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

// SHARDWISE_KERNELS: which kernels a unit of the vendor's compiler makes, as a list without quotes. It has formats of weights (`bf16`,
// `q4_0`), elements of activations (`elements:bf16`) and widths of attention's heads (`heads:128`); of what it names none, all are made.
#if !defined(SHARDWISE_KERNELS)
#define SHARDWISE_KERNELS all
#endif
#define SHARDWISE_TEXT_OF(...) #__VA_ARGS__
#define SHARDWISE_TEXT(...) SHARDWISE_TEXT_OF(__VA_ARGS__)

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A format's, an element's name in SHARDWISE_KERNELS.
[[nodiscard]] constexpr std::string_view element_name(RowElement element) {
    switch (element) {
        case RowElement::f32:
            return "elements:fp32";
        case RowElement::bf16:
            return "elements:bf16";
        case RowElement::f16:
            return "elements:fp16";
    }
    return {};
}

/// The name of heads that a kernel for up to `width` elements computes.
[[nodiscard]] constexpr std::string_view heads_name(int width) {
    return width == 64 ? "heads:64" : width == 128 ? "heads:128" : width == 256 ? "heads:256" : std::string_view{};
}

/// A list of kernels: names with commas between.
class KernelList {
public:
    constexpr explicit KernelList(std::string_view text) : text_(text) {}

    [[nodiscard]] constexpr bool has(WeightFormat format) const { return has("", name_of(format)); }
    [[nodiscard]] constexpr bool has(RowElement element) const { return has("elements:", element_name(element)); }
    [[nodiscard]] constexpr bool has_heads(int width) const { return has("heads:", heads_name(width)); }

    /// Whether each name is one that there is.
    [[nodiscard]] constexpr bool is_valid() const {
        for (auto rest = text_; !rest.empty();) {
            if (!is_known(take_name(rest))) return false;
        }
        return true;
    }

private:
    /// What a name says something of: "elements:", "heads:", or "" for formats.
    [[nodiscard]] static constexpr std::string_view kind_of(std::string_view name) {
        auto const colon = name.find(':');
        return colon == std::string_view::npos ? std::string_view{} : name.substr(0, colon + 1);
    }

    [[nodiscard]] static constexpr bool is_known(std::string_view name) {
        if (name == "all") return true;
        for (auto const& row : weight_format_table) {
            if (row.name == name) return true;
        }
        for (auto const element : {RowElement::f32, RowElement::bf16, RowElement::f16}) {
            if (element_name(element) == name) return true;
        }
        for (int const width : {64, 128, 256}) {
            if (heads_name(width) == name) return true;
        }
        return false;
    }

    [[nodiscard]] constexpr bool has(std::string_view kind, std::string_view wanted) const {
        bool is_limited = false;
        for (auto rest = text_; !rest.empty();) {
            auto const name = take_name(rest);
            if (name == wanted) return true;
            if (name != "all" && kind_of(name) == kind) is_limited = true;
        }
        return !is_limited;
    }

    /// The first name of `rest`, which then has those behind it.
    [[nodiscard]] static constexpr std::string_view take_name(std::string_view& rest) {
        auto const comma = rest.find(',');
        auto name = rest.substr(0, comma);
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
        while (name.starts_with(' ')) name.remove_prefix(1);
        while (name.ends_with(' ')) name.remove_suffix(1);
        return name;
    }

    std::string_view text_;
};

/// The kernels that are made for a vendor.
template <class Api>
inline constexpr KernelList kernel_list{SHARDWISE_TEXT(SHARDWISE_KERNELS)};

static_assert(KernelList{SHARDWISE_TEXT(SHARDWISE_KERNELS)}.is_valid(),
              "SHARDWISE_KERNELS has names of formats (fp32, bf16, q4_0, ...), elements:fp32, :bf16, :fp16, and "
              "heads:64, :128, :256");

/// The answer to a call whose kernel the list leaves out.
[[nodiscard]] constexpr Error left_out(std::string_view kernel, std::string_view name) {
    return Error{ErrorCode::unsupported}
        .in(kernel)
        .at(name)
        .because("was left out of the kernels")
        .fix("compile them with it in SHARDWISE_KERNELS");
}

template <class Api, WeightFormat format, class Launch>
[[nodiscard]] Result<> launch_of_format(std::string_view kernel, Launch const& launch) {
    if constexpr (!has_device_products(format)) {
        return Error{ErrorCode::unsupported}.in(kernel).at(name_of(format));
    } else if constexpr (!kernel_list<Api>.has(format)) {
        return left_out(kernel, name_of(format));
    } else {
        return launch(std::integral_constant<WeightFormat, format>{});
    }
}

template <class Api, class Launch, std::size_t... format>
[[nodiscard]] Result<> launch_of_formats(std::string_view kernel, WeightFormat wanted, Launch const& launch,
                                         std::index_sequence<format...>) {
    using Call = Result<> (*)(std::string_view, Launch const&);
    constexpr Call calls[] = {&launch_of_format<Api, static_cast<WeightFormat>(format), Launch>...};
    return calls[static_cast<std::size_t>(wanted)](kernel, launch);
}

/// `launch` with a weight's format as a constant; an error where its products have no kernel. hold_weight makes no weight of a format that
/// devices do not multiply by.
template <class Api, class Launch>
[[nodiscard]] Result<> launch_by_format(std::string_view kernel, WeightFormat format, Launch const& launch) {
    return launch_of_formats<Api>(kernel, format, launch, std::make_index_sequence<weight_format_count>{});
}

/// `launch` with the type that a kernel reads activations as: float, or std::uint16_t for both that have two bytes.
template <class Api, class Launch>
[[nodiscard]] Result<> launch_by_element(std::string_view kernel, RowElement element, Launch const& launch) {
    constexpr auto const& list = kernel_list<Api>;
    if (!list.has(element)) return left_out(kernel, element_name(element));
    if constexpr (list.has(RowElement::f32)) {
        if (element == RowElement::f32) return launch(float{});
    }
    if constexpr (list.has(RowElement::bf16) || list.has(RowElement::f16)) return launch(std::uint16_t{});
    return left_out(kernel, element_name(element));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
