// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/optimizer_share.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/parallel/place.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a rank holds weights: its place among the data-parallel ranks that share them (ZeRO 3); in which dtype: float32, or bf16 where an
/// optimizer keeps what rounding takes from them (KahanSum); and where: in memory, or in a file of a folder (offload).
struct WeightStorage {
    TensorPlace shares;
    Dtype dtype = Dtype::f32;
    /// Empty: in memory.
    std::string folder{};

    WeightStorage() = default;
    // NOLINTNEXTLINE(google-explicit-constructor): implicit on purpose.
    WeightStorage(TensorPlace const& place, Dtype held = Dtype::f32, std::string in = {})
        : shares(place), dtype(held), folder(std::move(in)) {}

    [[nodiscard]] bool is_half() const { return dtype == Dtype::bf16; }
    /// Whether layers compute with what lies in memory.
    [[nodiscard]] bool is_direct() const { return shares.ranks == 1 && !is_half() && !is_mapped(); }
    [[nodiscard]] bool is_mapped() const { return !folder.empty(); }
    /// Errors  unsupported for what does not go with an adapter, and for other dtypes; as check_place
    [[nodiscard]] Result<> check(bool is_adapter) const {
        Error bad{ErrorCode::unsupported};
        bad.in("training");
        if (is_half() && is_adapter)
            return bad.at("weights").because("of an adapter are held in float32 alone: they are few");
        if (dtype != Dtype::f32 && !is_half()) return bad.at("weights").because("are held in float32 or bfloat16");
        return detail::check_place("training", shares);
    }
    /// Of an element.
    [[nodiscard]] std::int64_t width() const { return is_half() ? 2 : 4; }
    friend bool operator==(WeightStorage const& a, WeightStorage const& b) {
        return a.shares.ranks == b.shares.ranks && a.shares.rank == b.shares.rank && a.dtype == b.dtype &&
               a.is_mapped() == b.is_mapped();
    }
};

/// Which elements of each parameter, and of its copy that is cut along the other axis, one of the data-parallel ranks holds, and where:
/// its optimizer_share where ranks share weights (ZeRO 3), all of them, as the layout has them, where there is one. The parameters come
/// first, and after them what is frozen; of that what is held in a format of its own has none where layers compute with it as it lies in
/// memory, and else the floats that its bytes take the place of.
///
/// Units   elements
class WeightShares {
public:
    struct Share {
        UnitRange own;
        std::int64_t begin = 0;
        UnitRange turned;
        std::int64_t turned_begin = 0;
    };

    WeightShares() = default;
    WeightShares(TrainingLayout const& layout, WeightStorage const& storage) : place_(storage.shares) {
        if (!is_shared()) {
            elements_ = layout.weight_elements();
            turned_elements_ = layout.turned_elements();
        }
        for (auto const* const all : {&layout.parameters(), &layout.frozen()}) {
            for (auto const& parameter : *all) {
                bool const is_placed = !is_shared() && !parameter.held;
                bool const is_elsewhere = storage.is_direct() && parameter.held;
                shares_.push_back(is_placed ? whole(parameter) : is_elsewhere ? Share{} : next(parameter));
            }
        }
    }

    /// Among the ranks that share weights.
    [[nodiscard]] TensorPlace const& place() const { return place_; }
    [[nodiscard]] bool is_shared() const { return place_.ranks > 1; }
    [[nodiscard]] Share const& operator[](std::size_t parameter) const { return shares_[parameter]; }
    /// Of all weights and of all copies, gaps included.
    [[nodiscard]] std::int64_t elements() const { return elements_; }
    [[nodiscard]] std::int64_t turned_elements() const { return turned_elements_; }

private:
    /// All of a parameter, where the layout has it.
    [[nodiscard]] static Share whole(TrainingParameter const& parameter) {
        return {{0, parameter.elements}, parameter.begin, {0, parameter.turned_elements}, parameter.turned_begin};
    }
    /// This rank's part, after those before.
    [[nodiscard]] Share next(TrainingParameter const& parameter) {
        Share const out{range(parameter.words()), elements_, range(parameter.turned_words()), turned_elements_};
        elements_ += round_up(out.own.size(), TrainingLayout::alignment);
        turned_elements_ += round_up(out.turned.size(), TrainingLayout::alignment);
        return out;
    }
    [[nodiscard]] UnitRange range(std::int64_t elements) const {
        return optimizer_share(elements, place_.ranks, place_.rank);
    }

    TensorPlace place_;
    std::vector<Share> shares_;
    std::int64_t elements_ = 0;
    std::int64_t turned_elements_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
