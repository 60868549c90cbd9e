// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/mapped_pages.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/hold_floats.hpp>
#include <shardwise/executor/loaded_matrix.hpp>
#include <shardwise/executor/merge_adapter.hpp>
#include <shardwise/executor/packed_forms.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Reads parameters for one rank: its slices only, in the formats that the options ask for, with all threads of the host's context.
/// Counts the bytes of the files that it looks at.
template <ComputeBackend Backend>
class ParameterLoader {
public:
    /// All arguments outlive this.
    ParameterLoader(RankHome<Backend> const& rank, StoredParameters const& parameters, LoadOptions const& options)
        : rank_(rank), parameters_(parameters), options_(options) {}

    [[nodiscard]] StoredParameters const& parameters() const { return parameters_; }
    /// A parameter of the model, or a half of an adapter that is computed beside its product.
    ///
    /// Errors  as StoredParameters::find
    [[nodiscard]] Result<StoredParameter> find(std::string const& name) const {
        return detail::find_adapted(parameters_, options_, name);
    }
    [[nodiscard]] typename Backend::Context& context() const { return rank_.context; }
    [[nodiscard]] RankHome<Backend> const& rank() const { return rank_; }
    /// Bytes of the files' tensors that were read so far.
    [[nodiscard]] Bytes bytes_read() const { return Bytes{bytes_read_}; }

    /// Errors  as held_format
    [[nodiscard]] Result<HeldFormat> format_of(StoredParameter const& parameter) const {
        return held_format(parameter, parameters_.model(), options_);
    }

    /// Rows and inputs of a parameter as a matrix.
    ///
    /// Errors  as held_format; shape_mismatch where the parameter is another matrix; unsupported for blocks that would have to
    ///         be turned round, and for an adapter of a weight that stays packed as it is; malformed_file
    [[nodiscard]] Result<LoadedMatrix> matrix(StoredParameter const& checkpoint, MatrixPart part) {
        auto const adapted = detail::adapted(checkpoint, options_.adapter);
        auto const& parameter = adapted.stored;
        auto const elements = checked_multiply(part.outputs, part.inputs);
        if (!elements || *elements < 1 || parameter.tensor->shape.elements() % *elements != 0) {
            return Error{ErrorCode::shape_mismatch}
                .in(parameter.name)
                .because("has another number of elements than its product")
                .got(parameter.tensor->shape.elements())
                .expected(elements.value_or(0));
        }
        auto const held = format_of(checkpoint);
        if (!held) return held.error();
        auto const merges = detail::check_merge(adapted, *held, parameters_.is_gguf(), options_);
        if (!merges) return merges.error();
        UnitRange const all[] = {{0, part.outputs}};
        if (!part.rows) part.rows = all;
        bool const is_dealt = part.columns && options_.share_largest;
        if (!part.columns) part.columns = {0, part.inputs};
        bool const is_turned = part.is_turned != parameter.is_turned;
        auto const stored =
            stored_source(parameter, is_turned ? part.inputs : part.outputs, is_turned ? part.outputs : part.inputs);
        if (!stored) return stored.error();
        bool const is_as_stored = parameter.packed.empty() && *held == HeldFormat{parameter.format, parameter.group};
        if (!is_turned && adapted.delta == nullptr && is_as_stored) {
            expect(*stored, *part.rows, *part.columns);
            auto slice = slice_weight(*stored, *part.rows, *part.columns);
            if (!slice) return named(slice.error(), parameter.name);
            count(slice->source().data.size() + slice->source().scales.size());
            return Result<LoadedMatrix>(LoadedMatrix(std::move(*slice)));
        }
        return convert(parameter, *stored, part, is_turned, *held, is_dealt, adapted.delta);
    }

    /// The elements of a vector in float; a part of them where ranges are given.
    ///
    /// Errors  shape_mismatch where it has another number of elements
    [[nodiscard]] Result<std::vector<float>> floats(StoredParameter const& checkpoint, std::int64_t expected,
                                                    std::optional<std::span<UnitRange const>> ranges = {}) {
        auto const adapted = detail::adapted(checkpoint, options_.adapter);
        auto const& parameter = adapted.stored;
        auto const merges = detail::check_merge(adapted, {}, parameters_.is_gguf(), options_);
        if (!merges) return merges.error();
        if (expected < 1 || parameter.tensor->shape.elements() % expected != 0) {
            return Error{ErrorCode::shape_mismatch}
                .in(parameter.name)
                .because("has another number of elements than its operation")
                .got(parameter.tensor->shape.elements())
                .expected(expected);
        }
        UnitRange const all[] = {{0, expected}};
        if (!ranges) ranges = all;
        std::vector<float> out;
        auto const take = [&](auto const& fill) {
            for (auto const& range : *ranges) {
                auto const at = out.size();
                out.resize(at + static_cast<std::size_t>(range.size()));
                fill(range, out.data() + at);
                count_share(parameter, range.size(), expected);
            }
        };
        if (parameter.packed.size() > 1) {
            // Two vectors whose elements alternate.
            auto const alternating = stored_source(parameter, expected, 1);
            if (!alternating) return alternating.error();
            take([&](UnitRange range, float* to) { decode(parameter, *alternating, range, {0, 1}, to); });
            return out;
        }
        auto const stored = stored_source(parameter, 1, expected);
        if (!stored) return stored.error();
        take([&](UnitRange range, float* to) { decode(parameter, *stored, {0, 1}, range, to); });
        return out;
    }

private:
    [[nodiscard]] static Error named(Error error, std::string_view name) { return error.in(name); }

    /// Bytes after a tensor that are asked for with it: several of the next weights, so that the disk is never idle while one is
    /// packed.
    static constexpr std::int64_t read_ahead = std::int64_t{64} << 20;

    /// Has rows that lie together read ahead of their use; a rank that takes a whole tensor will want the next one too.
    void expect(WeightSource const& stored, std::span<UnitRange const> rows, UnitRange columns) {
        bool const lies_together = rows.size() == 1 && columns.size() == stored.inputs && rows[0].begin >= 0 &&
                                   rows[0].size() > 0 && rows[0].end <= stored.outputs;
        if (!lies_together) return;
        auto const row = static_cast<std::int64_t>(stored.data.size()) / stored.outputs;
        auto const begin = reinterpret_cast<std::uintptr_t>(stored.data.data() + rows[0].begin * row);
        auto const end = begin + static_cast<std::uintptr_t>(rows[0].size() * row);
        auto const ahead = static_cast<std::uintptr_t>(rows[0].size() == stored.outputs ? read_ahead : 0);
        bool const continues = begin >= asked_begin_ && begin <= asked_end_;
        // Asking costs a look at every page: not for each of many small tensors.
        if (continues && end + ahead / 2 <= asked_end_) return;
        auto const from = continues ? asked_end_ : begin;
        if (!continues) asked_begin_ = begin;
        asked_end_ = end + ahead;
        parameters_.expect(reinterpret_cast<std::byte const*>(from), asked_end_ - from);
    }

    void count(std::size_t bytes) { bytes_read_ += static_cast<std::int64_t>(bytes); }
    /// Counts the bytes of `part` of `whole` elements of a parameter.
    void count_share(StoredParameter const& parameter, std::int64_t part, std::int64_t whole) {
        auto bytes = static_cast<std::int64_t>(parameter.data.size() + parameter.scales.size());
        for (auto const& packed : parameter.packed) bytes += packed.bytes();
        bytes_read_ += detail::share_of(bytes, part, whole);
    }

    /// The parameter as its file has it; extents alone where it is packed. Vectors have one input.
    [[nodiscard]] static Result<WeightSource> stored_source(StoredParameter const& parameter, std::int64_t outputs,
                                                            std::int64_t inputs) {
        WeightSource const source{.format = parameter.format,
                                  .outputs = outputs,
                                  .inputs = inputs,
                                  .data = parameter.data,
                                  .scales = parameter.scales,
                                  .group = parameter.group,
                                  .is_mapped = true};
        if (!parameter.packed.empty()) {
            std::int64_t rows = 0;
            for (auto const& packed : parameter.packed) rows += packed.outputs;
            if (rows == outputs && parameter.packed.front().inputs == inputs) return source;
            return Error{ErrorCode::shape_mismatch}
                .in(parameter.name)
                .because("is another matrix in the file than in the model")
                .got(rows)
                .expected(outputs);
        }
        if (auto const checked = detail::check_source(source); !checked) return named(checked.error(), parameter.name);
        return source;
    }

    /// Rows of the stored matrix as floats.
    static void decode(StoredParameter const& parameter, WeightSource const& stored, UnitRange rows, UnitRange columns,
                       float* out) {
        auto const width = columns.size();
        if (parameter.packed.empty()) {
            auto const block = traits(stored.format).block_elements;
            std::vector<float> whole;
            for (auto row = rows.begin; row < rows.end; ++row, out += width) {
                bool const is_whole = columns.begin % detail::source_chunk == 0 && columns.end % block == 0;
                if (is_whole || block == 1) {
                    decode_chunks(stored, row, columns, out);
                    continue;
                }
                // Blocks that the range parts are decoded as a whole.
                auto const begin = columns.begin / detail::source_chunk * detail::source_chunk;
                auto const end = std::min(round_up(columns.end, block), stored.inputs);
                whole.resize(static_cast<std::size_t>(end - begin));
                decode_chunks(stored, row, {begin, end}, whole.data());
                std::copy_n(whole.data() + columns.begin - begin, width, out);
            }
            return;
        }
        auto const count = static_cast<std::int64_t>(parameter.packed.size());
        auto const& only = parameter.packed[0];
        if (count == 1) return detail::traits(only.form).decode(only, rows, columns, out);
        for (auto row = rows.begin; row < rows.end; ++row, out += width) {
            auto const& [piece, own] = parameter.packed_row(row);
            detail::traits(piece.form).decode(piece, {own, own + 1}, columns, out);
        }
    }
    static void decode_chunks(WeightSource const& stored, std::int64_t row, UnitRange columns, float* out) {
        for (auto at = columns.begin; at < columns.end; at += detail::source_chunk) {
            detail::decode_source(stored, row, at, std::min(detail::source_chunk, columns.end - at),
                                  out + at - columns.begin);
        }
    }

    /// Rows that are made at a time: the outputs of a panel.
    static constexpr std::int64_t rows_at_a_time = 16;

    [[nodiscard]] Result<LoadedMatrix> convert(StoredParameter const& parameter, WeightSource const& stored,
                                               MatrixPart const& part, bool is_turned, HeldFormat held, bool is_dealt,
                                               LowRankDelta const* delta) {
        if (is_turned &&
            (!parameter.packed.empty() || traits(stored.format).block_elements != 1 || !stored.scales.empty())) {
            return Error{ErrorCode::unsupported}
                .in(parameter.name)
                .at(name_of(stored.format))
                .because("packs rows that the model has as columns");
        }
        std::vector<UnitRange> runs;
        std::int64_t outputs = 0;
        for (auto const& range : *part.rows) {
            if (range.begin < 0 || range.end < range.begin || range.end > part.outputs)
                return Error{ErrorCode::shape_mismatch}.in(parameter.name).because("rows lie outside of the weight");
            outputs += range.size();
            for (auto at = range.begin; at < range.end; at += rows_at_a_time)
                runs.push_back({at, std::min(at + rows_at_a_time, range.end)});
        }
        auto const own = *part.columns;
        auto const width = own.size();
        auto const grain = input_grain(held.format, held.group);
        if (width > 0 && (own.begin % grain != 0 || (own.end % grain != 0 && own.end != part.inputs))) {
            return Error{ErrorCode::invalid_argument}
                .in(parameter.name)
                .because("columns part a block of " + std::string(name_of(held.format)))
                .got(own.begin)
                .multiple_of(grain);
        }
        WeightSource const target{held.format, outputs, width, {}, {}, held.group};
        auto const bytes = detail::source_bytes(target);
        if (!bytes) return named(bytes.error(), parameter.name);
        LoadedMatrix out(target, *bytes);
        bool const can_repack =
            !parameter.packed.empty() && detail::traits(parameter.packed.front().form).repack != nullptr;
        bool const is_repacked = can_repack && delta == nullptr && parameter.format != WeightFormat::f32 &&
                                 held == HeldFormat{parameter.format, parameter.group};
        // A scale for the whole row needs the whole row, or what all ranks know of it.
        bool const has_row_scales = !is_repacked && traits(held.format).scales == ScalePlace::row;
        bool const is_shared = has_row_scales && is_dealt;
        bool const needs_rows = has_row_scales && !is_shared && width > 0 && width != part.inputs;
        std::vector<std::int64_t> places;
        std::int64_t next = 0;
        for (auto const& run : runs) {
            places.push_back(next);
            next += run.size();
        }
        std::vector<double> added;
        if (delta != nullptr) added = delta->scaled_right(needs_rows ? UnitRange{0, part.inputs} : own);
        std::vector<float> largest;
        if (is_shared) {
            largest.resize(static_cast<std::size_t>(outputs));
            rank_.host.pool().run_ranges(
                static_cast<std::int64_t>(runs.size()), 1, [&](std::int64_t begin, std::int64_t end) {
                    std::vector<float> values;
                    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                        values.resize(static_cast<std::size_t>(runs[i].size() * width));
                        take_rows(parameter, stored, is_turned, runs[i], own, values.data());
                        if (delta != nullptr) delta->add(runs[i], width, added, values.data());
                        for (std::size_t k = 0; k < values.size(); ++k) {
                            auto& most =
                                largest[static_cast<std::size_t>(places[i]) + k / static_cast<std::size_t>(width)];
                            most = std::max(most, std::abs(values[k]));
                        }
                    }
                });
            if (auto const shared = options_.share_largest(largest); !shared) return shared.error();
        }
        if (outputs == 0 || width == 0) return Result<LoadedMatrix>(std::move(out));
        if (!is_repacked && !can_quantize(held.format))
            return detail::not_quantized_here(ErrorCode::unsupported, parameter.name, name_of(held.format));
        auto const row_data = bytes->data / outputs;
        auto const row_scales = bytes->scales / outputs;
        std::atomic<bool> is_false = false;
        auto const make = [&](std::int64_t begin, std::int64_t end) {
            auto const columns = needs_rows ? UnitRange{0, part.inputs} : own;
            std::vector<float> values;
            std::vector<float> extended;
            std::vector<std::byte> whole;
            for (auto i = begin; i < end; ++i) {
                auto const run = runs[static_cast<std::size_t>(i)];
                auto const place = places[static_cast<std::size_t>(i)];
                if (is_repacked) {
                    for (auto row = run.begin; row < run.end; ++row) {
                        auto const to = place + row - run.begin;
                        auto const& [piece, own_row] = parameter.packed_row(row);
                        bool const fits = detail::traits(piece.form)
                                              .repack(piece, target, own_row, columns, out.data() + to * row_data,
                                                      out.scales() + to * row_scales);
                        if (!fits) is_false = true;
                    }
                    continue;
                }
                values.resize(static_cast<std::size_t>(run.size() * columns.size()));
                take_rows(parameter, stored, is_turned, run, columns, values.data());
                if (delta != nullptr) delta->add(run, columns.size(), added, values.data());
                if (!is_turned && parameter.packed.empty()) {
                    auto const row = stored.data.size() / static_cast<std::size_t>(stored.outputs);
                    detail::drop_pages(stored.data.subspan(static_cast<std::size_t>(run.begin) * row,
                                                           static_cast<std::size_t>(run.size()) * row));
                }
                for (std::int64_t row = 0; row < run.size(); ++row) {
                    auto* const data = out.data() + (place + row) * row_data;
                    auto* const scales = out.scales() + (place + row) * row_scales;
                    auto const* from = values.data() + row * columns.size();
                    auto count = static_cast<std::size_t>(columns.size());
                    if (is_shared) {
                        // What the others know of the row is one more value of it.
                        extended.assign(from, from + count++);
                        extended.push_back(largest[static_cast<std::size_t>(place + row)]);
                        from = extended.data();
                    }
                    bool const is_cut = needs_rows || is_shared;
                    whole.resize(is_cut ? count : 0);
                    auto* const to = is_cut ? whole.data() : data;
                    traits(held.format).encode({from, count}, held.group, {to, scales});
                    if (is_cut) std::copy_n(whole.data() + (needs_rows ? own.begin : 0), width, data);
                }
            }
        };
        rank_.host.pool().run_ranges(static_cast<std::int64_t>(runs.size()), 1, make);
        if (is_false) {
            return Error{ErrorCode::malformed_file}
                .in(parameter.name)
                .at("qzeros")
                .because("is not in the middle although quantization_config says that the packing is symmetric")
                .fix("set sym to false in config.json");
        }
        drop_pages_of(parameter);
        count_share(parameter, outputs * (needs_rows ? part.inputs : width), part.outputs * part.inputs);
        return Result<LoadedMatrix>(std::move(out));
    }
    /// Rows of the matrix that the model has, as floats.
    static void take_rows(StoredParameter const& parameter, WeightSource const& stored, bool is_turned, UnitRange rows,
                          UnitRange columns, float* out) {
        if (is_turned) return turn(stored, rows, columns, out);
        decode(parameter, stored, rows, columns, out);
    }
    /// What was copied from the mapped file is not held twice.
    static void drop_pages_of(StoredParameter const& parameter) {
        detail::drop_pages(parameter.data);
        detail::drop_pages(parameter.scales);
        for (auto const& packed : parameter.packed) detail::drop_pages(packed.data);
    }
    /// Rows of the transposed matrix: columns of the stored one.
    static void turn(WeightSource const& stored, UnitRange rows, UnitRange columns, float* out) {
        std::array<float, rows_at_a_time> values;
        for (auto input = columns.begin; input < columns.end; ++input) {
            detail::decode_source(stored, input, rows.begin, rows.size(), values.data());
            for (std::int64_t row = 0; row < rows.size(); ++row)
                out[row * columns.size() + input - columns.begin] = values[static_cast<std::size_t>(row)];
        }
    }

    RankHome<Backend> rank_;
    StoredParameters const& parameters_;
    LoadOptions options_;
    std::int64_t bytes_read_ = 0;
    /// What the system was asked to read last.
    std::uintptr_t asked_begin_ = 0;
    std::uintptr_t asked_end_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
