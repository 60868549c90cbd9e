#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/op/operation.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace shardwise::inline v0_2_0::detail {

/// Keys of one part of a context: enough that merging costs little, few enough that a short context still has parts for
/// several threads.
inline constexpr std::int64_t attention_part_keys = 256;

/// The softmax-weighted sum of some keys' values, still relative to the largest of their scores.
class AttentionPart {
public:
    AttentionPart(float* values, std::int64_t width) : values_(values), width_(width) {
        std::fill_n(values, width, 0.0F);
    }
    /// A part that was made before.
    AttentionPart(float* values, std::int64_t width, float largest_score, float weights)
        : largest(largest_score), sum(weights), values_(values), width_(width) {}

    float largest = -std::numeric_limits<float>::infinity();
    /// Of the weights exp(score - largest).
    float sum = 0.0F;

    /// Takes in a value of this weight.
    template <class T>
    void add(float weight, T const* value) {
        sum += weight;
        for (std::int64_t i = 0; i < width_; ++i) values_[i] += weight * static_cast<float>(value[i]);
    }
    /// Takes in the keys behind these.
    void merge(AttentionPart const& other) {
        if (other.sum == 0.0F) return;
        auto const together = std::max(largest, other.largest);
        auto const own = sum == 0.0F ? 0.0F : std::exp(largest - together);
        auto const theirs = std::exp(other.largest - together);
        sum = sum * own + other.sum * theirs;
        for (std::int64_t i = 0; i < width_; ++i) values_[i] = values_[i] * own + other.values_[i] * theirs;
        largest = together;
    }
    /// A score that draws weight to itself and has no value.
    void add_sink(float score) {
        auto const together = std::max(largest, score);
        auto const own = sum == 0.0F ? 0.0F : std::exp(largest - together);
        sum = sum * own + std::exp(score - together);
        for (std::int64_t i = 0; i < width_; ++i) values_[i] *= own;
        largest = together;
    }
    /// The mean; zeros where no key was seen.
    template <class T>
    void finish(T* out) const {
        auto const scale = sum == 0.0F ? 0.0F : 1.0F / sum;
        for (std::int64_t i = 0; i < width_; ++i) out[i] = T(values_[i] * scale);
    }

private:
    float* values_;
    std::int64_t width_;
};

/// The tensors of an attention and what its scores are made by.
template <class T, class Cache>
struct AttentionHeads {
    TensorView<T const, 2, Host> q;
    TensorView<Cache const, 2, Host> k;
    TensorView<Cache const, 2, Host> v;
    AttentionShape shape;
    float scale;
    float soft_cap;
    std::int64_t first_query;
    float const* slopes;

    /// Attends to one part of the context.
    void attend(std::int64_t query, std::int64_t head, std::int64_t part, AttentionPart& out) const {
        auto const position = first_query + query;
        auto begin = part * attention_part_keys;
        auto end = std::min(k.extent(0), begin + attention_part_keys);
        if (shape.is_causal) end = std::min(end, position + 1);
        if (shape.window > 0) {
            begin = std::max(begin, position - shape.window + 1);
            if (!shape.is_causal) end = std::min(end, position + shape.window);
        }
        auto const kv_head = head / (shape.heads / shape.kv_heads);
        auto const* const row = q.row(query) + head * shape.key_dim;
        float scores[attention_part_keys];
        for (auto key = begin; key < end; ++key) {
            auto const score = score_of(row, k.row(key) + kv_head * shape.key_dim, head, position, key);
            scores[key - begin] = score;
            out.largest = std::max(out.largest, score);
        }
        for (auto key = begin; key < end; ++key) {
            out.add(std::exp(scores[key - begin] - out.largest), v.row(key) + kv_head * shape.value_dim);
        }
    }

private:
    [[nodiscard]] float score_of(T const* query, Cache const* key, std::int64_t head, std::int64_t position,
                                 std::int64_t key_position) const {
        float product = 0.0F;
        for (std::int64_t i = 0; i < shape.key_dim; ++i)
            product += static_cast<float>(query[i]) * static_cast<float>(key[i]);
        auto score = product * (scale > 0.0F ? scale : 1.0F / std::sqrt(static_cast<float>(shape.key_dim)));
        if (soft_cap > 0.0F) score = soft_cap * std::tanh(score / soft_cap);
        if (slopes != nullptr) score -= slopes[head] * static_cast<float>(std::abs(position - key_position));
        return score;
    }
};

}  // namespace shardwise::inline v0_2_0::detail
