// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/dialect/detail/size_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The largest of a row of numbers over any range, where numbers may be struck out.
class RangeMaximum {
public:
    static constexpr std::int64_t struck_out = -1;
    static constexpr std::size_t nowhere = SIZE_MAX;

    explicit RangeMaximum(std::vector<std::int64_t> const& values) : width_(1) {
        while (width_ < values.size()) width_ *= 2;
        nodes_.assign(2 * width_, struck_out);
        std::copy(values.begin(), values.end(), nodes_.begin() + static_cast<std::ptrdiff_t>(width_));
        for (auto i = width_ - 1; i > 0; --i) nodes_[i] = std::max(nodes_[2 * i], nodes_[2 * i + 1]);
    }

    [[nodiscard]] std::int64_t largest(std::size_t first, std::size_t end) const {
        auto best = struck_out;
        for (first += width_, end += width_; first < end; first /= 2, end /= 2) {
            if (first % 2 != 0) best = std::max(best, nodes_[first++]);
            if (end % 2 != 0) best = std::max(best, nodes_[--end]);
        }
        return best;
    }
    /// The last place in a range that holds `value`, which no place of the range exceeds.
    [[nodiscard]] std::size_t last_of(std::size_t first, std::size_t end, std::int64_t value) const {
        while (first < end) {
            // The largest aligned block that ends here and lies within the range.
            std::size_t node = end - 1 + width_;
            std::size_t size = 1;
            while (node > 1 && node % 2 != 0 && end >= first + 2 * size) node /= 2, size *= 2;
            if (nodes_[node] == value) {
                while (node < width_) node = nodes_[2 * node + 1] == value ? 2 * node + 1 : 2 * node;
                return node - width_;
            }
            end -= size;
        }
        return nowhere;
    }
    void strike(std::size_t place) {
        auto node = place + width_;
        nodes_[node] = struck_out;
        for (node /= 2; node > 0; node /= 2) nodes_[node] = std::max(nodes_[2 * node], nodes_[2 * node + 1]);
    }

private:
    std::size_t width_;
    std::vector<std::int64_t> nodes_;
};

/// Knows the size of the largest layer that the greedy map reserves, with accelerate's habits: a layer is a childless
/// module or one of a class kept whole; the largest is looked for again once every holder of that size has been taken
/// from the queue (put back or not), and after each split; a holder that a tie pulled out of the queue stays a holder
/// until then. Only the first search sees the model's own tensors too.
///
/// Units  bits
class LayerLedger {
public:
    using Index = ExpandedTree::Index;

    LayerLedger(ExpandedTree const& tree, SizeTable const& sizes, std::vector<char> const& is_whole)
        : tree_(tree), sizes_(sizes), layers_(find_layers(is_whole)), layer_count_(begin_.back()) {
        auto const own_tensors = tree.own_end(0);
        largest_ = std::max<std::int64_t>(layers_.largest(0, layer_count_), 0);
        for (Index i = 0; i < own_tensors; ++i) largest_ = std::max(largest_, sizes.of_tensor(i));
        is_tensor_holder_.assign(own_tensors, 0);
        for (Index i = 0; i < own_tensors; ++i) {
            if (sizes.of_tensor(i) != largest_) continue;
            is_tensor_holder_[i] = 1;
            ++tensor_holders_;
        }
        holder_ = find_holder();
    }

    /// The size that main devices keep free.
    [[nodiscard]] std::int64_t largest() const { return largest_; }

    /// A module was taken from the queue, perhaps to be put back.
    void take_module(Index module) {
        auto const range = range_of(module);
        auto const is_new = std::find(taken_.begin(), taken_.end(), range) == taken_.end();
        if (is_new) taken_.push_back(range);
        if (holder_ >= range.first && holder_ < range.second) holder_ = find_holder();
        if (has_no_holder()) search({range});
    }
    /// A tensor was taken from the queue.
    void take_tensor(Index tensor) {
        if (tensor < is_tensor_holder_.size() && is_tensor_holder_[tensor] != 0) {
            is_tensor_holder_[tensor] = 0;
            if (tensor_holders_ > 0) --tensor_holders_;
        }
        if (has_no_holder()) search({});
    }
    /// A module that was taken from the queue has its place.
    void place(Index module) {
        auto const range = range_of(module);
        taken_.erase(std::remove(taken_.begin(), taken_.end(), range), taken_.end());
        remove(range);
    }
    /// A tie gave a place to a module in the queue.
    void pull(Index module) {
        auto const range = range_of(module);
        if (largest_outside_taken(range) == largest_) has_pulled_holder_ = true;
        remove(range);
        if (holder_ >= range.first && holder_ < range.second) holder_ = find_holder();
    }
    /// A module in the queue was split, and all that had been taken is back.
    void search_again() { search({}); }

private:
    using Range = std::pair<std::size_t, std::size_t>;

    [[nodiscard]] Range range_of(Index module) const { return {begin_[module], begin_[tree_.end(module)]}; }
    [[nodiscard]] bool has_no_holder() const {
        return holder_ == RangeMaximum::nowhere && !has_pulled_holder_ && tensor_holders_ == 0;
    }

    std::vector<std::int64_t> find_layers(std::vector<char> const& is_whole) {
        auto const count = tree_.module_count();
        begin_.resize(std::size_t{count} + 1);
        std::vector<std::int64_t> sizes;
        sizes.reserve(count);
        begin_[0] = 0;
        for (Index module = 1; module < count;) {
            begin_[module] = static_cast<Index>(sizes.size());
            auto const end = tree_.end(module);
            if (end != module + 1 && is_whole[tree_.class_id(module)] == 0) {
                ++module;
                continue;
            }
            sizes.push_back(sizes_.of_module(module));
            std::fill(begin_.begin() + module + 1, begin_.begin() + end, static_cast<Index>(sizes.size()));
            module = end;
        }
        begin_[count] = static_cast<Index>(sizes.size());
        return sizes;
    }

    /// Calls visit(first, end) for each part of a range that holds nothing taken, from the back, until it returns true.
    template <class Visit>
    void visit_untaken(Range range, Visit visit) const {
        auto end = range.second;
        while (true) {
            Range last{range.first, range.first};
            for (auto const& taken : taken_) {
                if (taken.first < end && taken.second > last.second) last = taken;
            }
            auto const first = std::max(range.first, last.second);
            if (first < end && visit(first, end)) return;
            if (last.first <= range.first) return;
            end = std::min(end, last.first);
        }
    }
    [[nodiscard]] std::int64_t largest_outside_taken(Range range) const {
        auto best = RangeMaximum::struck_out;
        visit_untaken(range, [&](std::size_t first, std::size_t end) {
            best = std::max(best, layers_.largest(first, end));
            return false;
        });
        return best;
    }
    /// The last module in the queue that is as large as the largest layer.
    [[nodiscard]] std::size_t find_holder() const {
        auto found = RangeMaximum::nowhere;
        visit_untaken({done_, layer_count_}, [&](std::size_t first, std::size_t end) {
            if (layers_.largest(first, end) != largest_) return false;
            found = layers_.last_of(first, end, largest_);
            return true;
        });
        return found;
    }
    void search(std::vector<Range> taken) {
        taken_ = std::move(taken);
        has_pulled_holder_ = false;
        tensor_holders_ = 0;
        largest_ = std::max<std::int64_t>(largest_outside_taken({done_, layer_count_}), 0);
        holder_ = find_holder();
    }
    /// Layers before `done_` are gone; later ones that are gone too are struck out.
    void remove(Range range) {
        bool const is_next = range.first == done_ || layers_.largest(done_, range.first) == RangeMaximum::struck_out;
        if (range.first >= done_ && is_next) {
            done_ = range.second;
            return;
        }
        for (auto place = range.first; place < range.second; ++place) layers_.strike(place);
    }

    ExpandedTree const& tree_;
    SizeTable const& sizes_;
    std::vector<Index> begin_;
    RangeMaximum layers_;
    std::size_t layer_count_;
    std::size_t done_ = 0;
    std::int64_t largest_ = 0;
    std::size_t holder_ = RangeMaximum::nowhere;
    std::vector<char> is_tensor_holder_;
    std::size_t tensor_holders_ = 0;
    std::vector<Range> taken_;
    bool has_pulled_holder_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
