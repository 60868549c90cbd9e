// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/merge_checkpoint.hpp>

#include <doctest/doctest.h>

#include "../../executor/adapter_files.hpp"
#include "../../executor/formula_model.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

std::vector<float> values_of(StoredParameter const& stored) {
    std::vector<float> out(stored.data.size() / sizeof(float));
    REQUIRE(stored.format == WeightFormat::f32);
    std::memcpy(out.data(), stored.data.data(), stored.data.size());
    return out;
}
std::vector<float> values_of(WeightSource const& source) {
    std::vector<float> out(source.data.size() / sizeof(float));
    REQUIRE(source.format == WeightFormat::f32);
    std::memcpy(out.data(), source.data.data(), source.data.size());
    return out;
}

Model const& model_of(FormulaModel const& files) {
    return files.checkpoint->model;
}

/// A file system that cannot swap two names.
struct CallsWithoutExchange : FileCalls {
    static int exchange(char const*, char const*) {
        errno = EINVAL;
        return -1;
    }
};

}  // namespace

TEST_CASE("write_merged: a model by itself, whose weights are the base's and scale * B * A, and nothing else changes") {
    std::size_t merged_weights = 0;
    for (auto const& one : golden_adapters()) {
        CAPTURE(one.base.name);
        FormulaModel const base(one.base.config);
        TemporaryFolder const folder;
        write_adapter(folder, one.settings, one.tensors);
        auto const adapter = Adapter::open(folder.path(), model_of(base));
        REQUIRE(adapter);
        auto const stored = StoredParameters::open(base.source, model_of(base));
        REQUIRE(stored);
        auto const files = read_checkpoint_files(base.source);
        REQUIRE(files);
        TemporaryFolder const out;
        // What is there under that name is replaced, also where a file system cannot swap two names.
        REQUIRE(write_merged(out.path(), "merged", *stored, *adapter, *files));
        for (bool const swaps : {true, false}) {
            out.write("merged/stale.txt", "stale");
            auto const written =
                swaps ? write_merged(out.path(), "merged", *stored, *adapter, *files)
                      : write_merged<CallsWithoutExchange>(out.path(), "merged", *stored, *adapter, *files);
            REQUIRE_MESSAGE(written, (written ? "" : written.error().message()));
            CHECK_FALSE(std::filesystem::exists(out / "merged/stale.txt"));
        }
        CHECK(detail::entries_of(out.path()) == std::vector<std::string>{"merged"});
        auto const source = find_model(out / "merged", {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const read = read_checkpoint(*source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        auto const made = StoredParameters::open(*source, read->model);
        REQUIRE(made);
        walk_tensors(model_of(base).tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter()) return;
            CAPTURE(name);
            auto const before = stored->find(name);
            auto const after = made->find(name);
            REQUIRE(before);
            REQUIRE(after);
            auto expected = values_of(adapter->replaced(*before));
            auto const got = values_of(*after);
            REQUIRE(got.size() == expected.size());
            auto const* const delta = adapter->delta(before->name);
            if (delta == nullptr) {
                CHECK(got == expected);
                return;
            }
            ++merged_weights;
            // A of a product is [rank, inputs], of a table [rank, rows]; B has the outputs, or the columns.
            auto const a = values_of(delta->is_table ? delta->left : delta->right);
            auto const b = values_of(delta->is_table ? delta->right : delta->left);
            auto const rank = delta->rank();
            auto const inputs = static_cast<std::int64_t>(a.size()) / rank;
            auto const columns = tensor.shape[1];
            bool const is_turned = tensor.is_transposed || delta->is_table;
            double worst = 0.0;
            double most = 0.0;
            for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
                auto const in = is_turned ? i / columns : i % columns;
                auto const to = is_turned ? i % columns : i / columns;
                double sum = 0.0;
                for (std::int64_t k = 0; k < rank; ++k)
                    sum += static_cast<double>(b[static_cast<std::size_t>(to * rank + k)]) *
                           static_cast<double>(a[static_cast<std::size_t>(k * inputs + in)]);
                auto const at = static_cast<std::size_t>(i);
                worst = std::max(worst, std::abs(static_cast<double>(expected[at]) + delta->scale * sum -
                                                 static_cast<double>(got[at])));
                most = std::max(most, std::abs(delta->scale * sum));
            }
            CHECK(worst < 1e-6);
            CHECK(most > 1e-3);
        });
    }
    CHECK(merged_weights > 20);
}

TEST_CASE("write_merged: a base in 16 bits has each sum rounded once; one that is no number there is refused by name") {
    auto const one = golden_adapters().front();
    auto const written_as = [&](std::string const& dtype, float factor) {
        FormulaModel const base(one.base.config);
        TemporaryFolder const folder;
        auto tensors = one.tensors;
        write_adapter(folder, one.settings, tensors);
        // The base again, in 16 bits.
        auto const whole = StoredParameters::open(base.source, model_of(base));
        REQUIRE(whole);
        std::vector<FileTensorData> data;
        walk_tensors(model_of(base).tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter()) return;
            auto const values = values_of(*whole->find(name));
            std::string bytes;
            for (auto const value : values) {
                auto const half = dtype == "BF16" ? to_bf16(value * factor) : to_f16(value * factor);
                bytes.append(reinterpret_cast<char const*>(&half), sizeof half);
            }
            std::vector<std::int64_t> shape;
            for (auto const extent : tensor.shape) shape.push_back(extent);
            data.push_back({std::string(name), dtype, shape, bytes});
        });
        TemporaryFolder const half;
        (void)half.write("config.json", one.base.config);
        write_tensors(half / "model.safetensors", data);
        auto const source = find_model(half.path(), {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const read = read_checkpoint(*source);
        REQUIRE(read);
        auto const adapter = Adapter::open(folder.path(), read->model);
        REQUIRE(adapter);
        auto const stored = StoredParameters::open(*source, read->model);
        REQUIRE(stored);
        TemporaryFolder const out;
        auto const written = write_merged(out.path(), "merged", *stored, *adapter, *read_checkpoint_files(*source));
        if (!written) {
            CHECK(detail::entries_of(out.path()).empty());
            return written.error().message();
        }
        auto const made_source = find_model(out / "merged", {}, HubCache(HubEnvironment{}));
        REQUIRE(made_source);
        auto const made = StoredParameters::open(*made_source, read->model);
        REQUIRE(made);
        std::string const name = "model.layers.1.self_attn.v_proj.weight";
        auto const before = stored->find(name);
        auto const after = made->find(name);
        REQUIRE(after);
        CHECK(after->format == before->format);
        auto const* const delta = adapter->delta(name);
        REQUIRE(delta != nullptr);
        WeightSource const from{before->format, delta->left.outputs, delta->right.inputs, before->data, {}};
        auto const right = delta->scaled_right({0, from.inputs});
        std::vector<float> row(static_cast<std::size_t>(from.inputs));
        std::size_t differing = 0;
        for (std::int64_t i = 0; i < from.outputs; ++i) {
            detail::decode_source(from, i, 0, from.inputs, row.data());
            delta->add({i, i + 1}, from.inputs, right, row.data());
            for (std::int64_t j = 0; j < from.inputs; ++j) {
                auto const value = row[static_cast<std::size_t>(j)];
                std::uint16_t got = 0;
                std::memcpy(&got, after->data.data() + (i * from.inputs + j) * 2, 2);
                differing += got != (dtype == "BF16" ? to_bf16(value) : to_f16(value)) ? 1U : 0U;
            }
        }
        CHECK(differing == 0);
        return std::string("written");
    };
    CHECK(written_as("BF16", 1.0F) == "written");
    CHECK(written_as("F16", 1.0F) == "written");
    CHECK(written_as("F16", 1e6F).find("is no number in its dtype") != std::string::npos);
}

TEST_CASE("round_weight: what is no number in its dtype is told, also where rounding alone makes it infinite") {
    std::uint16_t half = 0;
    CHECK(detail::round_weight(1.5F, Dtype::bf16, &half));
    CHECK(half == to_bf16(1.5F));
    CHECK(detail::round_weight(65504.0F, Dtype::f16, &half));
    CHECK_FALSE(detail::round_weight(65520.0F, Dtype::f16, &half));
    CHECK(detail::round_weight(3.38e38F, Dtype::bf16, &half));
    CHECK_FALSE(detail::round_weight(3.4e38F, Dtype::bf16, &half));
    CHECK(detail::round_weight(3.4e38F, Dtype::f32, nullptr));
    CHECK_FALSE(detail::round_weight(HUGE_VALF, Dtype::f32, nullptr));
}
