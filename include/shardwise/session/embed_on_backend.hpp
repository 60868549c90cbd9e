// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/find_bad.hpp>
#include <shardwise/core/log.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/model_reach.hpp>
#include <shardwise/executor/output_of.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/chosen_activations.hpp>
#include <shardwise/session/declared/embed.hpp>
#include <shardwise/session/embed_run_options.hpp>
#include <shardwise/session/rank_communicator.hpp>
#include <shardwise/session/rank_machine.hpp>
#include <shardwise/session/run_options.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Divides a vector by its length as torch's normalize does: by 1e-12 at least.
inline void normalize(std::span<float> vector) {
    double squares = 0.0;
    for (auto const value : vector) squares += static_cast<double>(value) * static_cast<double>(value);
    auto const length = std::max(std::sqrt(squares), 1e-12);
    for (auto& value : vector) value = static_cast<float>(static_cast<double>(value) / length);
}

/// Takes the states of texts as they come, some tokens of one at a time.
class Pooler {
public:
    Pooler(EmbedOptions const& options, std::vector<std::vector<std::int32_t>> const& texts, std::int64_t width)
        : options_(options), sums_(static_cast<std::size_t>(width)) {
        for (auto const& text : texts) {
            auto const rows = options_.pooling == Pooling::none ? static_cast<std::int64_t>(text.size()) : 1;
            embeddings_.push_back({rows, width, {}});
            embeddings_.back().values.reserve(static_cast<std::size_t>(rows * width));
        }
    }

    /// The states of the tokens from `first` on of one text, of `length` in all; a text's come in order, one text after
    /// another.
    void take(std::size_t text, std::int64_t first, std::int64_t length, std::span<float const> states) {
        auto& values = embeddings_[text].values;
        auto const width = sums_.size();
        if (options_.pooling == Pooling::none || (options_.pooling == Pooling::cls && first == 0)) {
            auto const count = options_.pooling == Pooling::none ? states.size() : width;
            values.insert(values.end(), states.begin(), states.begin() + static_cast<std::ptrdiff_t>(count));
        } else if (options_.pooling == Pooling::last) {
            if (first + static_cast<std::int64_t>(states.size() / width) < length) return;
            values.insert(values.end(), states.end() - static_cast<std::ptrdiff_t>(width), states.end());
        } else if (options_.pooling == Pooling::mean) {
            if (first == 0) std::fill(sums_.begin(), sums_.end(), 0.0);
            for (std::size_t i = 0; i < states.size(); ++i) sums_[i % width] += static_cast<double>(states[i]);
            if (first + static_cast<std::int64_t>(states.size() / width) < length) return;
            for (auto const sum : sums_) values.push_back(static_cast<float>(sum / static_cast<double>(length)));
        }
    }
    /// Errors  invalid_argument where an element is infinite or undefined: JSON has no such numbers, and they have no length
    [[nodiscard]] Result<std::vector<Embedding>> finish() && {
        for (std::size_t text = 0; text < embeddings_.size(); ++text) {
            auto& one = embeddings_[text];
            auto const bad = find_bad(one.values.data(), static_cast<std::int64_t>(one.values.size()));
            if (bad >= 0) {
                Error error{ErrorCode::invalid_argument};
                error.in("embed").at("text " + std::to_string(text + 1));
                error.because("element " + std::to_string(bad) + " of its embedding is infinite or undefined");
                if (options_.activations != Dtype::f16) return error.fix("look whether the weights are whole");
                return error.fix("use bf16 or fp32 activations: fp16 ends at 65504");
            }
            for (std::int64_t row = 0; row < one.rows && options_.is_normalized; ++row)
                normalize({one.values.data() + row * one.width, static_cast<std::size_t>(one.width)});
        }
        return std::move(embeddings_);
    }

private:
    EmbedOptions options_;
    std::vector<double> sums_;
    std::vector<Embedding> embeddings_;
};

/// A text's tokens in one step.
struct EmbedPart {
    std::size_t text = 0;
    std::int64_t first = 0;
    std::int64_t tokens = 0;
};

/// Splits texts into steps: encoders take each whole, decoders may take it in pieces, one step after another.
[[nodiscard]] inline std::vector<std::vector<EmbedPart>> embed_steps(
    std::vector<std::vector<std::int32_t>> const& texts, ExecutorLimits const& limits, bool is_whole) {
    std::vector<std::vector<EmbedPart>> steps;
    std::int64_t room = 0;
    for (std::size_t text = 0; text < texts.size(); ++text) {
        auto const length = static_cast<std::int64_t>(texts[text].size());
        for (std::int64_t first = 0; first < length;) {
            auto const left = length - first;
            bool const is_full = room < 1 || (is_whole && left > room) ||
                                 static_cast<std::int64_t>(steps.back().size()) == limits.sequences;
            if (is_full) {
                steps.emplace_back();
                room = limits.step_tokens;
            }
            auto const tokens = std::min(left, room);
            steps.back().push_back({text, first, tokens});
            room -= tokens;
            first += tokens;
        }
    }
    return steps;
}

/// The room that texts need.
///
/// Errors  invalid_argument for no texts, and texts that are empty or have more tokens than the model has positions
[[nodiscard]] inline Result<ExecutorLimits> embed_limits(Model const& model,
                                                         std::vector<std::vector<std::int32_t>> const& texts,
                                                         std::int64_t step_tokens, bool is_whole) {
    Error error{ErrorCode::invalid_argument};
    error.in("embed");
    if (texts.empty()) return error.at("texts").because("are none").fix("give at least one");
    if (step_tokens < 1) return error.at("step_tokens").because("is less than one").got(step_tokens).at_least(1);
    auto const most = longest_context(model);
    std::int64_t longest = 1;
    std::int64_t all = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        auto const length = static_cast<std::int64_t>(texts[i].size());
        auto const name = "text " + std::to_string(i + 1);
        if (length < 1) return error.at(name).because("has no tokens").fix("leave it out");
        if (most && length > *most) {
            return error.at(name)
                .because("has more tokens than the model has positions")
                .got(length)
                .at_most(*most)
                .fix("cut it into shorter texts");
        }
        longest = std::max(longest, length);
        all += length;
    }
    auto const count = static_cast<std::int64_t>(texts.size());
    auto const step = std::min(is_whole ? std::max(step_tokens, longest) : step_tokens, all);
    // An encoder caches nothing: as many texts as a step has tokens. A decoder's caches hold a step's tokens.
    auto const sequences = std::clamp<std::int64_t>(is_whole ? step : step / longest, 1, count);
    return ExecutorLimits{.sequences = sequences, .context = longest, .step_tokens = step, .has_head = false};
}

/// One rank's share of embedding texts.
template <ReductionPolicy Policy, ComputeBackend Backend>
[[nodiscard]] Result<> embed_rank(HostCommunicator& world, typename RankCommunicator<Backend>::Meeting* meeting,
                                  Model const& model, StoredParameters const& parameters,
                                  std::vector<std::vector<std::int32_t>> const& texts, ExecutorLimits const& limits,
                                  std::vector<std::vector<EmbedPart>> const& steps, EmbedOptions const& options,
                                  std::vector<Embedding>& embeddings) {
    auto const run = run_options_of(options);
    RankMachine<Backend> machine(cores_of(world, run));
    RankCommunicator<Backend> communicators;
    // Kernels of the others that wait for this rank's are not to wait for ever.
    auto const end = [&](Error const& error) {
        auto const failed = world.fail(name_rank(error, world.rank()));
        communicators.give_up();
        return failed;
    };
    if (auto const opened = agree_on(world, machine.open(run, world.rank())); !opened) return opened;
    if (auto const opened = agree_on(world, communicators.open(run, world, world, world, machine, meeting)); !opened)
        return opened;
    TensorPlace const place{world.size(), world.rank()};
    auto const output = output_of(model, limits);
    auto const width = output.width;
    auto const row_bytes = width * bits(output.dtype) / 8;
    if constexpr (!HasHostMemory<Backend>) {
        auto const& isa = machine.isa();
        if (!isa) return end(isa.error());
        auto const predicted = predict_memory<Backend, Policy>(model, formats_of(parameters, {}), place, limits, *isa);
        if (!predicted) return end(predicted.error());
        // A model whose kernels are not there is refused by that, not by its size.
        auto const linked = check_linked_kernels<Backend, Policy>(model, parameters, place, limits, {}, {}, {});
        if (!linked) return end(linked.error());
        auto const states = allocated_bytes<Backend>(Bytes{row_bytes * limits.step_tokens});
        auto const apart =
            communicators.set_apart(predicted->activations, machine) ? predicted->less_apart() : Bytes{0};
        auto const reserved = machine.reserve(predicted->total() + states, apart);
        if (auto const fits = agree_on(world, reserved); !fits) return fits;
    }
    LoadOptions const load{.has_checked_kernels = true};
    auto executor = RankExecutor<Backend, Policy>::create(machine.home(), model, parameters, place, limits, {}, load);
    if (!executor) return end(executor.error());
    if (auto const told = communicators.register_values(executor->arena_layout()); !told) return end(told.error());
    if (options.log.hears(LogLevel::debug)) {
        options.log(
            LogLevel::debug, world.rank(),
            "computes on " + (HasHostMemory<Backend> ? std::string("the host's cores") : std::string(Backend::name)) +
                " as tensor-parallel rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()) +
                " and has its share of every block: there is one stage; weights " + to_text(executor->weight_bytes()));
    }
    auto states = Buffer<std::byte, Backend>::allocate(machine.home().context, limits.step_tokens * row_bytes);
    if (!states) return end(states.error());
    std::vector<std::byte> copy(HasHostMemory<Backend> ? 0 : static_cast<std::size_t>(states->size()));
    std::vector<float> seen;
    // Scores of texts are a row for each, as it stands after the last token.
    bool const is_of_text = output.rows == Rows::sequences;
    auto pooled = options;
    if (options.has_scores) pooled.pooling = is_of_text ? Pooling::last : Pooling::none;
    Pooler pooler(pooled, texts, width);
    std::vector<std::int32_t> ids;
    std::vector<SequencePart> parts;
    auto const compute = [&](std::vector<EmbedPart> const& step) -> Result<> {
        auto const rows = static_cast<std::int64_t>(is_of_text ? parts.size() : ids.size());
        auto& stream = machine.stream();
        float const* from = nullptr;
        auto const made = visit_activations<Backend>(output.dtype, [&]<class T>(T) -> Result<> {
            auto* const out = reinterpret_cast<T*>(states->data());
            TensorView<T, 2, Backend> const all(out, {rows, width});
            if (auto const done = executor->forward(ids, parts, all, communicators.group(), stream); !done) return done;
            auto const* read = out;
            if constexpr (!HasHostMemory<Backend>) {
                if (world.rank() != 0) return stream.synchronize(Deadline::after(options.limit));
                TensorView<T, 1, Host> const to(reinterpret_cast<T*>(copy.data()), {rows * width});
                TensorView<T const, 1, Backend> const all_rows(out, {rows * width});
                if (auto const copied = Backend::template copy<T>(all_rows, to, stream); !copied) return copied;
                read = to.data();
            }
            if (auto const done = stream.synchronize(Deadline::after(options.limit)); !done) return done;
            if constexpr (std::same_as<T, float>) {
                from = read;
            } else {
                seen.clear();
                for (std::int64_t i = 0; i < rows * width; ++i) seen.push_back(static_cast<float>(read[i]));
                from = seen.data();
            }
            return {};
        });
        if (!made) return made;
        if (world.rank() != 0) return {};
        for (auto const& part : step) {
            auto const count = static_cast<std::size_t>((is_of_text ? 1 : part.tokens) * width);
            auto const first = part.first + (is_of_text ? part.tokens - 1 : 0);
            pooler.take(part.text, first, static_cast<std::int64_t>(texts[part.text].size()), {from, count});
            from += count;
        }
        return {};
    };
    for (auto const& step : steps) {
        ids.clear();
        parts.clear();
        for (auto const& part : step) {
            auto const begin = texts[part.text].begin() + part.first;
            ids.insert(ids.end(), begin, begin + part.tokens);
            // A text in pieces keeps its cache; a step's texts follow one another, so that none meets another's.
            parts.push_back({static_cast<std::int64_t>(part.text) % limits.sequences, part.first, part.tokens});
        }
        if (auto const done = compute(step); !done) return end(done.error());
    }
    if (world.rank() == 0) {
        auto made = std::move(pooler).finish();
        if (!made) return end(made.error());
        embeddings = *std::move(made);
    }
    if (options.log.hears(LogLevel::info)) {
        options.log(
            LogLevel::info, world.rank(),
            "embedded " + std::to_string(texts.size()) + " texts in " + std::to_string(steps.size()) + " steps");
    }
    return {};
}

/// By text, whether it is longer than the context beyond which rotations are others (longrope); all alike, for other models.
[[nodiscard]] inline std::vector<bool> turn_as_long(Model const& model,
                                                    std::vector<std::vector<std::int32_t>> const& texts) {
    auto const& rope = model.config.rope;
    bool const has_lists = rope.kind == RopeKind::longrope && rope.original_max_positions > 0;
    std::vector<bool> out;
    for (auto const& text : texts)
        out.push_back(has_lists && static_cast<std::int64_t>(text.size()) > rope.original_max_positions);
    return out;
}

}  // namespace detail

template <ComputeBackend Backend>
[[nodiscard]] Result<std::vector<Embedding>> embed_on_backend(OpenCheckpoint& files, Model const& model,
                                                              std::vector<std::vector<std::int32_t>> const& texts,
                                                              EmbedOptions const& options);

namespace detail {

/// Texts whose rotations differ, each kind by itself: a text has the vectors that it has alone.
template <ComputeBackend Backend>
[[nodiscard]] Result<std::vector<Embedding>> embed_apart(OpenCheckpoint& files, Model const& model,
                                                         std::vector<std::vector<std::int32_t>> const& texts,
                                                         std::vector<bool> const& are_long,
                                                         EmbedOptions const& options) {
    std::vector<Embedding> out(texts.size());
    for (bool const is_long : {false, true}) {
        std::vector<std::size_t> places;
        std::vector<std::vector<std::int32_t>> some;
        for (std::size_t i = 0; i < texts.size(); ++i) {
            if (are_long[i] != is_long) continue;
            places.push_back(i);
            some.push_back(texts[i]);
        }
        auto made = embed_on_backend<Backend>(files, model, some, options);
        if (!made) return made;
        for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = std::move((*made)[i]);
    }
    return out;
}

}  // namespace detail

/// embed_on_threads on one back end: the host, or the devices that the options name (with their kernels' headers included).
///
/// Errors  as embed_on_threads
template <ComputeBackend Backend>
[[nodiscard]] Result<std::vector<Embedding>> embed_on_backend(OpenCheckpoint& files, Model const& model,
                                                              std::vector<std::vector<std::int32_t>> const& texts,
                                                              EmbedOptions const& options) {
    auto const are_long = detail::turn_as_long(model, texts);
    if (std::adjacent_find(are_long.begin(), are_long.end(), std::not_equal_to<>()) != are_long.end())
        return detail::embed_apart<Backend>(files, model, texts, are_long, options);
    if (options.tp < 1) {
        return Error{ErrorCode::invalid_argument}.in("tp").because("is less than one rank").got(options.tp).at_least(1);
    }
    if (options.has_scores && (model.config.labels == 0 || options.is_normalized)) {
        return Error{ErrorCode::invalid_argument}.in("scores").because(
            model.config.labels == 0 ? "are what a class with labels gives, which " +
                                           std::string(model.config.model_class.view()) + " is not"
                                     : std::string("are not divided by their length"));
    }
    if (model.program.has_encoder()) {
        return Error{ErrorCode::unsupported}
            .in(model.config.model_class.view())
            .because("is an encoder and a decoder that reads it, of which no text has one embedding")
            .fix("name a checkpoint of the encoder alone, or generate with it");
    }
    bool const is_whole = is_bidirectional(model);
    auto limits = detail::embed_limits(model, texts, options.step_tokens, is_whole);
    if (!limits) return limits.error();
    limits->has_head = options.has_scores;
    limits->activations = detail::chosen_activations<Backend>(model, options.activations);
    if (auto const checked = check_activations<Backend>(model, limits->activations); !checked) return checked.error();
    auto const parameters = StoredParameters::open(files, model);
    if (!parameters) return parameters.error();
    auto const steps = detail::embed_steps(texts, *limits, is_whole);
    std::vector<Embedding> embeddings;
    typename detail::RankCommunicator<Backend>::Meeting meeting(options.tp);
    auto const run = [&](Threads& comm) -> Result<> {
        HostCommunicator world(std::move(comm));
        return options.is_deterministic
                   ? detail::embed_rank<Deterministic, Backend>(world, &meeting, model, *parameters, texts, *limits,
                                                                steps, options, embeddings)
                   : detail::embed_rank<Fast, Backend>(world, &meeting, model, *parameters, texts, *limits, steps,
                                                       options, embeddings);
    };
    auto const done = run_threads(options.tp, run, {.timeout = options.timeout});
    if (!done) return done.error();
    return embeddings;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
