// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>
#include <shardwise/op/activation_kind.hpp>
#include <shardwise/op/rope_layout.hpp>
#include <shardwise/op/router_score.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// With an offset the weight is one more than what checkpoints store (gemma, nemotron).
enum class NormKind : std::uint8_t { rms, layer, rms_offset, layer_offset };

/// True for norms that centre a row before they scale it.
[[nodiscard]] constexpr bool is_layer_norm(NormKind kind) {
    return kind == NormKind::layer || kind == NormKind::layer_offset;
}

/// True for norms that multiply by one more than what the model's own files store.
[[nodiscard]] constexpr bool has_offset(NormKind kind) {
    return kind == NormKind::rms_offset || kind == NormKind::layer_offset;
}

/// The heads of a gated delta rule. A value head has the query and the key of its key head.
struct DeltaShape {
    std::int64_t key_heads = 0;
    std::int64_t value_heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    /// Tokens that the convolution of a channel sees, the newest included.
    std::int64_t kernel = 1;

    [[nodiscard]] constexpr std::int64_t values_per_key() const { return key_heads > 0 ? value_heads / key_heads : 0; }
    /// Of a key head: the columns of its values, and those of its query, key and values, which the convolution runs over.
    [[nodiscard]] constexpr std::int64_t value_columns() const { return values_per_key() * value_dim; }
    [[nodiscard]] constexpr std::int64_t channels() const { return 2 * key_dim + value_columns(); }
    /// What so many key heads keep of a sequence, in fp32: the convolution's inputs, and a matrix for each value head.
    [[nodiscard]] constexpr std::int64_t state_elements(std::int64_t heads) const {
        return heads * (channels() * (kernel - 1) + values_per_key() * key_dim * value_dim);
    }
};

/// What the rows of an embedding's table are numbered by.
enum class TableIndex : std::uint8_t { token, position, token_type };

/// What an attention needs to know beyond its inputs.
struct AttentionShape {
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    /// MLA: elements of the compressed cache per token (latent + rope part); 0 where keys and values are cached.
    std::int64_t latent = 0;
    /// MLA: elements at the end of each key, and of the latent, that turn; 0 where the first ones of a head do.
    std::int64_t rotary = 0;
    RopeLayout rope_layout = RopeLayout::half;
    /// Tokens that a query can see; 0 is all of them.
    std::int64_t window = 0;
    /// Tokens of a chunk: a query sees the keys of its own, beside what the window says; 0: there are none (llama4).
    std::int64_t chunk = 0;
    /// Scores grow with the logarithm of the position in steps of so many tokens; 0: they do not (llama4).
    std::int64_t score_step = 0;
    /// By how much of that logarithm: 1 + score_growth * log(1 + steps).
    double score_growth = 0.0;
    bool is_causal = true;
    /// Attends to the encoder's output: its cache is filled once.
    bool is_cross = false;
    /// Scores have a bias by distance, which is the same for all keys so far away or further; 0: none (mpnet).
    std::int64_t bias_reach = 0;
    /// Of those: a head's biases, each for a bucket of distances (relative_bucket).
    std::int64_t bias_buckets = 0;
    /// What multiplies the scores; 0: 1 / sqrt(key_dim).
    double score_scale = 0.0;
    /// That is divided by the layer's number, from 1 on (gpt2).
    bool divides_by_layer = false;
    /// Scores fall with the distance of a key, each head's by its slope (alibi_slopes).
    bool has_slopes = false;
    /// Scores have, before they are scaled, a slope times the key's position in bf16, as bf16 (falcon's linear biases).
    bool has_rounded_slopes = false;
    /// Scores become cap * tanh(score / cap); 0: they do not (gemma2).
    double soft_cap = 0.0;
    /// Under yarn scores grow by the square of yarn_magnitude(factor, mscale_all_dim) (deepseek).
    bool has_yarn_scores = false;
};

/// Whether a sequence's keys and values are kept from step to step: an encoder's own are not.
[[nodiscard]] constexpr bool keeps_rows(AttentionShape const& shape) {
    return shape.is_causal || shape.is_cross;
}

/// The numbers of a head that change its scores: a sink or a slope, or a bias for each offset of a key from -bias_reach on.
[[nodiscard]] constexpr std::int64_t score_numbers(AttentionShape const& shape) {
    return shape.bias_reach > 0 ? 2 * shape.bias_reach + 1 : 1;
}

/// What a norm is beside its width.
struct NormRule {
    NormKind kind = NormKind::rms;
    /// What is added to the variance; 0: the model's.
    double epsilon = 0.0;
    /// Only the first `in_features` of a row are normalised, in place.
    bool is_first_part = false;
    /// The weight has a row of `in_features` for each head; a `*` in its name stands for every head, whose weights have names of their
    /// own.
    bool has_head_weights = false;
};

/// How the rows of an embedding's table are found.
struct TableRule {
    TableIndex index = TableIndex::token;
    /// The row of index 0 (opt's positions begin at row 2).
    std::int64_t first_row = 0;
    /// Of a table of positions: tokens with this id have none; their row is the one before `first_row` (roberta's padding).
    std::int64_t skipped_id = -1;
};

/// How tokens go to experts: of route, experts and combine.
struct Routing {
    std::int64_t experts = 0;
    std::int64_t experts_per_token = 0;
    /// Of experts: rows are multiplied by their router's weights before the product, not when they are combined (llama4).
    bool weighs_inputs = false;
    /// Of experts: the weight's outputs are gates and ups in turn, of which the value has all gates before all ups (gpt_oss).
    bool alternates = false;
    /// Of route.
    RouterRule rule{};
};

/// Which heads the rows of a weight make, where files may store them in another order than that of the columns.
enum class HeadRows : std::uint8_t {
    plain,  // in the order of the columns, or of no heads
    rotated,  // queries or keys: GGUF of some families has the two halves of a head in turn (GgufForm::permutes_rope_rows)
    grouped,  // queries, keys and values together for each key-value head; in GGUF all queries, all keys, all values
    delta,    // queries, keys, values and gates together for each key head; in GGUF all queries, all keys and so on
};

/// How files store the rows of a product's weight.
struct StoredHeads {
    HeadRows rows = HeadRows::plain;
    /// Rows of a query, or of a key.
    std::int64_t dim = 0;
    /// Of grouped the query heads and the key-value heads; of delta the key heads.
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    /// Of delta: rows of the values of a key head, and of their gates.
    std::int64_t value_rows = 0;
};

/// Where in a unit the columns of a part begin.
struct PartColumns {
    std::int64_t first = 0;
};

/// The row that is taken of each sequence. The first is bert's pooler's, the mean that of modernbert's classifiers.
enum class TakenRow : std::uint8_t { last, first, mean };

/// What a scale multiplies by.
struct ScaleFactor {
    double factor = 1.0;
};

/// What an operation has beside inputs, output and parameters, by its kind: one of the structs; where it holds none, each is as by
/// default. To ask for another than it holds is a mistake of the caller's (SHARDWISE_ASSERT).
class OpDetails {
public:
    constexpr OpDetails() : nothing_(0) {}
    constexpr OpDetails(AttentionShape const& shape) : held_(Held::attention), attention_(shape) {}
    constexpr OpDetails(DeltaShape const& shape) : held_(Held::delta), delta_(shape) {}
    constexpr OpDetails(NormRule const& rule) : held_(Held::norm), norm_(rule) {}
    constexpr OpDetails(TableRule const& rule) : held_(Held::table), table_(rule) {}
    constexpr OpDetails(Routing const& routing) : held_(Held::routing), routing_(routing) {}
    constexpr OpDetails(ActivationKind kind) : held_(Held::activation), activation_(kind) {}
    constexpr OpDetails(StoredHeads const& heads) : held_(Held::heads), heads_(heads) {}
    constexpr OpDetails(PartColumns columns) : held_(Held::part), part_(columns) {}
    constexpr OpDetails(TakenRow row) : held_(Held::row), row_(row) {}
    constexpr OpDetails(ScaleFactor factor) : held_(Held::scale), scale_(factor) {}

    /// Each is what its kind of operation has: see Operation, whose functions these are.
    [[nodiscard]] constexpr AttentionShape const& attention() const {
        return holds(Held::attention) ? attention_ : default_attention;
    }
    [[nodiscard]] constexpr DeltaShape const& delta() const { return holds(Held::delta) ? delta_ : default_delta; }
    [[nodiscard]] constexpr NormRule const& norm() const { return holds(Held::norm) ? norm_ : default_norm; }
    [[nodiscard]] constexpr TableRule const& table() const { return holds(Held::table) ? table_ : default_table; }
    [[nodiscard]] constexpr Routing const& routing() const { return holds(Held::routing) ? routing_ : default_routing; }
    /// Of any operation: none where it is not route, experts or combine.
    [[nodiscard]] constexpr Routing const& any_routing() const {
        return held_ == Held::routing ? routing_ : default_routing;
    }
    [[nodiscard]] constexpr StoredHeads const& heads() const { return holds(Held::heads) ? heads_ : default_heads; }
    [[nodiscard]] constexpr ActivationKind activation() const {
        return holds(Held::activation) ? activation_ : ActivationKind::silu;
    }
    [[nodiscard]] constexpr PartColumns const& part() const { return holds(Held::part) ? part_ : default_part; }
    [[nodiscard]] constexpr TakenRow row() const { return holds(Held::row) ? row_ : TakenRow::last; }
    [[nodiscard]] constexpr ScaleFactor const& scale() const { return holds(Held::scale) ? scale_ : default_scale; }

private:
    enum class Held : std::uint8_t {
        nothing,
        attention,
        delta,
        norm,
        table,
        routing,
        heads,
        activation,
        part,
        row,
        scale
    };

    static constexpr AttentionShape default_attention{};
    static constexpr DeltaShape default_delta{};
    static constexpr NormRule default_norm{};
    static constexpr TableRule default_table{};
    static constexpr Routing default_routing{};
    static constexpr StoredHeads default_heads{};
    static constexpr PartColumns default_part{};
    static constexpr ScaleFactor default_scale{};

    [[nodiscard]] constexpr bool holds(Held held) const {
        SHARDWISE_ASSERT(held_ == held || held_ == Held::nothing);
        return held_ == held;
    }

    Held held_ = Held::nothing;
    union {
        std::uint8_t nothing_;
        AttentionShape attention_;
        DeltaShape delta_;
        NormRule norm_;
        TableRule table_;
        Routing routing_;
        StoredHeads heads_;
        ActivationKind activation_;
        PartColumns part_;
        TakenRow row_;
        ScaleFactor scale_;
    };
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
