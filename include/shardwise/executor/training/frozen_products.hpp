// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/executor/training/held_base.hpp>
#include <shardwise/executor/training/held_part.hpp>
#include <shardwise/executor/training/training_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The frozen products of an adapter's base that are held in formats of their own, as a layout says.
///
/// Memory  layout.held_bytes(), allocated at creation
class FrozenProducts {
public:
    /// Of a frozen parameter of the layout; what a layout holds otherwise is empty.
    struct Product {
        HeldProduct own;
        HeldProduct turned;
    };

    FrozenProducts() = default;

    /// Errors  out_of_memory
    [[nodiscard]] static Result<FrozenProducts> create(HostContext& context, TrainingLayout const& layout) {
        FrozenProducts out;
        auto memory = Buffer<std::byte, Host>::allocate(context, layout.held_bytes());
        if (!memory) return memory.error();
        out.memory_ = std::move(*memory);
        for (auto const& parameter : layout.frozen()) {
            auto& product = out.products_.emplace_back();
            if (!parameter.held) continue;
            product.own = product_at(*parameter.held, out.memory_.data() + parameter.held->begin);
            if (!parameter.held_turned) continue;
            product.turned = product_at(*parameter.held_turned, out.memory_.data() + parameter.held_turned->begin);
        }
        return Result<FrozenProducts>(std::move(out));
    }

    /// By the layout's numbers of what is frozen.
    [[nodiscard]] std::vector<Product> const& products() const { return products_; }
    void copy_from(FrozenProducts const& other) {
        std::copy_n(other.memory_.data(), other.memory_.size(), memory_.data());
    }

    /// Copies this rank's parts of a product of the base.
    ///
    /// Errors  as ParameterLoader::matrix; shape_mismatch where a loader holds it in another format than the layout
    [[nodiscard]] Result<> load(TrainingParameter const& parameter, detail::ParameterReader const& reader,
                                ParameterLoader<Host>& loader, StoredParameter const& found) {
        auto const load = [&](HeldPart const& part) {
            return load_part(part, parameter, reader, loader, found, memory_.data() + part.begin);
        };
        if (auto const done = load(*parameter.held); !done) return done;
        return parameter.held_turned ? load(*parameter.held_turned) : Result<>{};
    }

    /// A part whose data lie somewhere.
    [[nodiscard]] static HeldProduct product_at(HeldPart const& part, std::byte const* data) {
        HeldProduct out{part.source(), {part.columns.begin - part.blocks.begin, part.columns.end - part.blocks.begin}};
        // The layout has counted them.
        auto const bytes = detail::source_bytes(out.source).value_or({});
        out.source.data = {data, static_cast<std::size_t>(bytes.data)};
        out.source.scales = {data + round_up(bytes.data, TrainingLayout::held_alignment),
                             static_cast<std::size_t>(bytes.scales)};
        return out;
    }
    /// Copies one of a rank's parts of a product of the base.
    ///
    /// Shapes  to [part.bytes]
    /// Errors  as load
    [[nodiscard]] static Result<> load_part(HeldPart const& part, TrainingParameter const& parameter,
                                            detail::ParameterReader const& reader, ParameterLoader<Host>& loader,
                                            StoredParameter const& found, std::byte* to) {
        auto const extents = part.source();
        auto const& shape = parameter.tensor->shape;
        bool const is_turned = parameter.tensor->is_transposed;
        auto const rows = rows_of(reader, loader.parameters(), part.rows);
        MatrixPart wanted{.outputs = shape[is_turned ? 1 : 0],
                          .inputs = shape[is_turned ? 0 : 1],
                          .is_turned = is_turned,
                          .rows = rows};
        if (part.blocks.size() < wanted.inputs) wanted.columns = part.blocks;
        auto const matrix = loader.matrix(found, wanted);
        if (!matrix) return matrix.error();
        auto const& source = matrix->source();
        bool const is_same = source.format == extents.format && source.group == extents.group &&
                             source.outputs == extents.outputs && source.inputs == extents.inputs;
        if (!is_same)
            return Error{ErrorCode::shape_mismatch}
                .in(parameter.name)
                .because("is held otherwise than the layout says");
        std::copy(source.data.begin(), source.data.end(), to);
        std::copy(source.scales.begin(), source.scales.end(),
                  to + round_up(static_cast<std::int64_t>(source.data.size()), TrainingLayout::held_alignment));
        return {};
    }

    /// Copies words of this rank's parts of a product of the base: some of what it holds, and some of the copy that is cut along the other
    /// axis.
    ///
    /// Memory  a part, for as long as it is read
    /// Errors  as load
    [[nodiscard]] static Result<> load_words(TrainingParameter const& parameter, detail::ParameterReader const& reader,
                                             ParameterLoader<Host>& loader, StoredParameter const& found, UnitRange own,
                                             float* to, UnitRange turned, float* turned_to) {
        auto const load = [&](HeldPart const& part, UnitRange words, float* out) -> Result<> {
            std::vector<float> all(static_cast<std::size_t>(part.words()));
            auto* const bytes = reinterpret_cast<std::byte*>(all.data());
            auto const done = load_part(part, parameter, reader, loader, found, bytes);
            if (done)
                std::memcpy(out, all.data() + words.begin, static_cast<std::size_t>(words.size()) * sizeof(float));
            return done;
        };
        if (auto const done = load(*parameter.held, own, to); !done) return done;
        return parameter.held_turned ? load(*parameter.held_turned, turned, turned_to) : Result<>{};
    }

    /// Rows of a file's weight that make some columns of what its product makes.
    [[nodiscard]] static std::vector<UnitRange> rows_of(detail::ParameterReader const& reader,
                                                        StoredParameters const& stored,
                                                        std::vector<UnitRange> const& columns) {
        return stored_rows(*reader.operation, stored.model(), stored.is_gguf(), columns);
    }

private:
    Buffer<std::byte, Host> memory_;
    std::vector<Product> products_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
