// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/gguf_config.hpp>

#include <doctest/doctest.h>

#include "checkpoint_fixtures.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

/// A GGUF file of keys and of tensors that hold one block each.
class Written {
public:
    Written& text(std::string_view key, std::string_view value) {
        name(keys_, key), put(keys_, std::uint32_t{8}), name(keys_, value);
        return ++key_count_, *this;
    }
    Written& number(std::string_view key, std::uint32_t value) {
        name(keys_, key), put(keys_, std::uint32_t{4}), put(keys_, value);
        return ++key_count_, *this;
    }
    Written& real(std::string_view key, float value) {
        name(keys_, key), put(keys_, std::uint32_t{6}), put(keys_, value);
        return ++key_count_, *this;
    }
    Written& numbers(std::string_view key, std::initializer_list<std::int32_t> values) {
        name(keys_, key), put(keys_, std::uint32_t{9}), put(keys_, std::uint32_t{5});
        put(keys_, std::uint64_t{values.size()});
        for (auto const value : values) put(keys_, value);
        return ++key_count_, *this;
    }
    /// `extents` innermost first, as the file has them.
    Written& tensor(std::string_view title, std::initializer_list<std::uint64_t> extents, std::uint32_t type = 1) {
        name(tensors_, title), put(tensors_, static_cast<std::uint32_t>(extents.size()));
        std::uint64_t size = type == 0 ? 4 : 2;
        for (auto const extent : extents) put(tensors_, extent), size *= extent;
        put(tensors_, type), put(tensors_, std::uint64_t{data_});
        data_ += (size + 31) / 32 * 32;
        return ++tensor_count_, *this;
    }
    [[nodiscard]] std::string bytes() const {
        std::string file = "GGUF";
        put(file, std::uint32_t{3}), put(file, tensor_count_), put(file, key_count_);
        file += keys_ + tensors_;
        file.resize((file.size() + 31) / 32 * 32 + data_);
        return file;
    }
    [[nodiscard]] Result<ModelConfig> read() const {
        auto const file = bytes();
        auto const header = parse_gguf(file, "m.gguf");
        REQUIRE(header.has_value());
        return read_gguf_config(*header, "m.gguf");
    }

private:
    template <class Number>
    static void put(std::string& out, Number number) {
        char raw[sizeof number];
        std::memcpy(raw, &number, sizeof number);
        out.append(raw, sizeof number);
    }
    static void name(std::string& out, std::string_view value) {
        put(out, std::uint64_t{value.size()});
        out += value;
    }

    std::string keys_;
    std::string tensors_;
    std::uint64_t key_count_ = 0;
    std::uint64_t tensor_count_ = 0;
    std::uint64_t data_ = 0;
};

Written model(std::string const& arch) {
    Written file;
    file.text("general.architecture", arch).number(arch + ".block_count", 2).number(arch + ".embedding_length", 64);
    file.number(arch + ".attention.head_count", 4).number(arch + ".context_length", 128);
    return std::move(file.number(arch + ".feed_forward_length", 96).tensor("token_embd.weight", {64, 32}));
}

/// The least that a llama needs.
Written small_llama() {
    Written written;
    written.text("general.architecture", "llama").number("llama.embedding_length", 64).number("llama.block_count", 1);
    written.number("llama.attention.head_count", 4).number("llama.context_length", 512);
    written.tensor("token_embd.weight", {64, 32});
    return written;
}

TEST_CASE("Scaled positions have llama.cpp's keys") {
    auto const linear = small_llama().real("llama.rope.scaling.factor", 4.0F).read();
    REQUIRE(linear);
    CHECK(linear->rope.kind == RopeKind::linear);
    CHECK(linear->rope.factor == 4.0);
    auto const older = small_llama().real("llama.rope.scale_linear", 2.0F).read();
    REQUIRE(older);
    CHECK(older->rope.kind == RopeKind::linear);
    auto const none =
        small_llama().text("llama.rope.scaling.type", "none").real("llama.rope.scaling.factor", 4.0F).read();
    REQUIRE(none);
    CHECK(none->rope.kind == RopeKind::standard);
    auto const yarn = small_llama()
                          .text("llama.rope.scaling.type", "yarn")
                          .real("llama.rope.scaling.factor", 8.0F)
                          .number("llama.rope.scaling.original_context_length", 128)
                          .real("llama.rope.scaling.yarn_log_multiplier", 0.0625F)
                          .read();
    REQUIRE(yarn);
    CHECK(yarn->rope.kind == RopeKind::yarn);
    CHECK(yarn->rope.original_max_positions == 128);
    CHECK(yarn->rope.mscale_all_dim == 0.625);
    auto const lists = small_llama().tensor("rope_factors_long.weight", {8}, 0).read();
    REQUIRE(lists);
    CHECK(lists->rope.kind == RopeKind::longrope);
    auto const unknown =
        small_llama().text("llama.rope.scaling.type", "spiral").real("llama.rope.scaling.factor", 8.0F).read();
    REQUIRE_FALSE(unknown);
    CHECK(unknown.error().message().find("spiral") != std::string::npos);
    CHECK_FALSE(small_llama().real("llama.rope.scaling.factor", -1.0F).read());
    for (float const base : {0.0F, -1e4F}) {
        auto const refused = small_llama().real("llama.rope.freq_base", base).read();
        REQUIRE_FALSE(refused);
        CHECK(refused.error().place() == "llama.rope.freq_base");
        CHECK(refused.error().reason() == "must be above 0");
    }
    auto const negative = small_llama().real("llama.attention.layer_norm_rms_epsilon", -1e-5F).read();
    REQUIRE_FALSE(negative);
    CHECK(negative.error().place() == "llama.attention.layer_norm_rms_epsilon");
}

}  // namespace

TEST_CASE("absent keys follow llama.cpp's rules, the vocabulary its table") {
    auto const config = model("llama").text("general.name", "Tiny").read();
    REQUIRE(config.has_value());
    CHECK(config->model_type.view() == "llama");
    CHECK(config->name.view() == "Tiny");
    CHECK(config->layers == 2);
    CHECK(config->kv_heads == 4);
    CHECK(config->head_dim == 16);
    CHECK(config->vocab_size == 32);
    CHECK(config->tie_word_embeddings);
    CHECK(config->dtype == Dtype::f16);
    auto const full = model("llama")
                          .number("llama.attention.head_count_kv", 2)
                          .number("llama.attention.key_length", 8)
                          .tensor("output.weight", {64, 32}, 0)
                          .read();
    REQUIRE(full.has_value());
    CHECK(full->kv_heads == 2);
    CHECK(full->head_dim == 8);
    CHECK_FALSE(full->tie_word_embeddings);
    CHECK(full->dtype == Dtype::f32);
}

TEST_CASE("a marker tells families of one GGUF name apart") {
    CHECK(model("llama").number("llama.expert_count", 4).read()->model_type.view() == "mixtral");
    CHECK(model("llama").number("llama.expert_count", 0).read()->model_type.view() == "llama");
    auto const deepseek = [] {
        return std::move(model("deepseek2")
                             .number("deepseek2.attention.kv_lora_rank", 32)
                             .number("deepseek2.rope.dimension_count", 8)
                             .number("deepseek2.attention.key_length", 40)
                             .number("deepseek2.attention.key_length_mla", 24)
                             .number("deepseek2.attention.value_length", 32)
                             .number("deepseek2.attention.value_length_mla", 12));
    };
    auto const v2 = deepseek().read();
    REQUIRE(v2.has_value());
    CHECK(v2->model_type.view() == "deepseek_v2");
    CHECK(v2->q_lora_rank == 0);
    CHECK(v2->qk_rope_head_dim == 8);
    CHECK(v2->qk_nope_head_dim == 16);
    CHECK(v2->v_head_dim == 12);
    CHECK(deepseek().tensor("blk.1.exp_probs_b.bias", {4}, 0).read()->model_type.view() == "deepseek_v3");
}

TEST_CASE("a list over layers is one number where all are the same") {
    CHECK(model("llama").numbers("llama.attention.head_count_kv", {2, 2}).read()->kv_heads == 2);
    auto const mixed = model("llama").numbers("llama.attention.head_count_kv", {2, 4}).read();
    REQUIRE_FALSE(mixed.has_value());
    CHECK(mixed.error().code() == ErrorCode::unsupported);
    CHECK(mixed.error().message() ==
          "m.gguf: llama.attention.head_count_kv: layer 1: differs from layer 0's, and this family's layers are "
          "described "
          "as equal (got 4, expected 2)");
    CHECK(model("llama").numbers("llama.attention.head_count_kv", {}).read().error().code() ==
          ErrorCode::invalid_field);
}

TEST_CASE("a GGUF whose layers differ is mapped from its tensors' names") {
    testing::TemporaryFolder const folder;
    auto file = model("llama").numbers("llama.attention.head_count_kv", {2, 4});
    std::ofstream(folder.path("m.gguf"), std::ios::binary) << file.tensor("blk.1.ffn_up.weight", {64, 64}).bytes();
    auto const checkpoint = testing::read(folder.path("m.gguf"));
    REQUIRE(checkpoint.has_value());
    REQUIRE(checkpoint->not_described.has_value());
    CHECK(checkpoint->not_described->place() == "llama.attention.head_count_kv");
    CHECK(checkpoint->warnings.size() == 2);
    CHECK(testing::tensor_of(*checkpoint, "blk.1.ffn_up.weight").shape == Shape{64, 64});
}

TEST_CASE("impossible metadata are refused with the key") {
    auto const absent = Written{}.text("general.architecture", "llama").read();
    REQUIRE_FALSE(absent.has_value());
    CHECK(absent.error().code() == ErrorCode::missing_field);
    CHECK(absent.error().place() == "llama.embedding_length");
    CHECK(Written{}.read().error().place() == "general.architecture");
    auto const unknown = model("llamma").read();
    REQUIRE_FALSE(unknown.has_value());
    CHECK(unknown.error().code() == ErrorCode::unknown_name);
    CHECK(unknown.error().reason() == "\"llamma\" is not a known architecture; did you mean llama?");
    CHECK(unknown.error().advice().find("qwen3moe") != std::string::npos);
    auto const with = [](std::uint32_t layers, std::uint32_t heads) {
        Written file;
        file.text("general.architecture", "llama").number("llama.embedding_length", 64);
        return file.number("llama.block_count", layers).number("llama.attention.head_count", heads).read();
    };
    CHECK(with(0, 4).error().place() == "llama.block_count");
    CHECK(with(2, 0).error().place() == "llama.attention.head_count");
    CHECK(with(1U << 20U, 4).error().code() == ErrorCode::capacity_exceeded);
    CHECK(with(0xFFFFFFFFU, 4).error().code() == ErrorCode::size_overflow);
}
