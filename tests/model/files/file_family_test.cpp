// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/file_family.hpp>

#include <cstddef>

namespace {

using namespace shardwise;

TEST_CASE("file_families: a list's families in its order, each with its own tables") {
    auto const families = file_families<Architectures>();
    std::size_t i = 0;
    Architectures::for_each([&]<class Arch>(Arch) {
        REQUIRE(i < families.size());
        auto const& family = families[i++];
        CAPTURE(family.name);
        CHECK(family.name == Arch::name);
        CHECK(family.gguf_name == Arch::gguf_name);
        CHECK(family.fields.data() == Arch::fields.data());
        CHECK(family.fields.size() == Arch::fields.size());
        CHECK(family.gguf_marker.empty() != requires { Arch::gguf_marker; });
        CHECK(family.gguf_class.empty() != requires { Arch::gguf_class; });
        CHECK(family.gguf_encoder_name.empty() != requires { Arch::gguf_encoder_name; });
        CHECK(family.gguf_defaults.empty() != requires { Arch::gguf_defaults; });
        CHECK(family.text_part_of.empty() != requires { Arch::text_part_of; });
        CHECK(family.unread_keys.empty() != requires { Arch::unread_keys; });
        CHECK(family.may_be_flat == requires { Arch::may_be_flat; });
        CHECK(family.gguf_full_layer_first == requires { Arch::gguf_full_layer_first; });
        CHECK(detail::find_family(families, Arch::name) == &family);
    });
    CHECK(i == families.size());
    CHECK(detail::find_family(families, "no such family") == nullptr);
}

TEST_CASE("file_families: a family describes a config as describe does, and refuses what it refuses") {
    auto const* const llama = detail::find_family(file_families<ArchitectureList<Llama>>(), "llama");
    REQUIRE(llama != nullptr);
    ModelConfig config;
    CHECK_FALSE(llama->describe(config));
    for (auto const& field : llama->fields) field.store_default(config);
    auto const model = llama->describe(config);
    REQUIRE(model);
    CHECK(model->family == &family_of<Llama>);
    CHECK(model->config.model_type.view() == "llama");
    CHECK(model->tree.modules().size() == describe<Llama>(config)->tree.modules().size());
}

}  // namespace
