// SPDX-License-Identifier: Apache-2.0
#include "estimate_answer.hpp"
#include "model_facts.hpp"
#include "text.hpp"

#include <algorithm>
#include <array>

namespace shardwise::cli {

namespace {

constexpr int largest_bar_width = 40;

/// A term of the breakdown: its name, its part of the sums, how bars show it.
struct Term {
    std::string_view name;
    Bytes MemoryTerms::*size;
    std::string_view glyph;
    std::string_view color;
};

constexpr std::array<Term, 6> all_terms{{{"weights", &MemoryTerms::weights, "\u2588", "34"},
                                         {"kv cache", &MemoryTerms::kv_cache, "\u2593", "36"},
                                         {"activations", &MemoryTerms::activations, "\u2592", "33"},
                                         {"gradients", &MemoryTerms::gradients, "\u2593", "32"},
                                         {"optimizer", &MemoryTerms::optimizer, "\u2588", "31"},
                                         {"overhead", &MemoryTerms::overhead, "\u2591", "35"}}};

[[nodiscard]] std::string rank_name(DeviceEstimate const& device, Parallelism const& parallel) {
    std::string out;
    auto const add = [&](std::string_view group, std::int64_t degree, std::int64_t at) {
        if (degree > 1) out += (out.empty() ? "" : " ") + std::string(group) + std::to_string(at);
    };
    add("pp", parallel.pp, device.place.pp);
    add("dp", parallel.dp, device.place.dp);
    add("ep", parallel.ep, device.place.ep);
    add("tp", parallel.tp, device.place.tp);
    return out;
}

/// Ranks that take the same stand in one row.
[[nodiscard]] std::string device_table(EstimateAnswer const& answer, Style const& style) {
    auto const& devices = answer.estimate.devices;
    std::vector<Term> terms;
    for (auto const& term : all_terms) {
        bool const is_used = std::any_of(devices.begin(), devices.end(), [&](DeviceEstimate const& device) {
            return device.terms.*term.size > Bytes{};
        });
        if (is_used) terms.push_back(term);
    }
    bool const has_ranks = devices.size() > 1;
    std::vector<std::string> head{has_ranks ? "rank" : "device"};
    if (has_ranks) head.emplace_back("place");
    for (auto const& term : terms) head.emplace_back(term.name);
    head.emplace_back("total");
    Table table(head);
    for (std::size_t i = 0; i < devices.size();) {
        auto last = i;
        while (last + 1 < devices.size() && devices[last + 1].terms == devices[i].terms) ++last;
        std::vector<std::string> row{std::to_string(i) + (last > i ? "-" + std::to_string(last) : "")};
        if (has_ranks) {
            row.push_back(rank_name(devices[i], answer.request.parallel) +
                          (last > i ? " .. " + rank_name(devices[last], answer.request.parallel) : ""));
        }
        for (auto const& term : terms) row.push_back(to_text(devices[i].terms.*term.size));
        row.push_back(to_text(devices[i].total()));
        table.add(row);
        i = last + 1;
    }
    auto out = table.text(style, has_ranks ? 2 : 1);
    if (devices.empty()) return out;

    auto const& largest = answer.estimate.largest_device();
    std::vector<BarPart> parts;
    std::string legend;
    for (auto const& term : terms) {
        parts.push_back({largest.terms.*term.size, term.glyph, term.color});
        legend += "  " + style.paint(term.color, term.glyph) + " " + std::string(term.name);
    }
    out += "\n" + bar(parts, largest.total(), largest_bar_width, style) + legend + "\n";
    if (answer.trained) {
        auto const& trained = *answer.trained;
        std::int64_t most = 0;
        for (auto const& rank : trained.ranks) most = std::max(most, rank.total().count());
        out += style.dim(trained.refusal.empty()
                             ? "shardwise train --save-every allocates " + to_text(Bytes{most}) + " on a rank, " +
                                   to_text(trained.ranks.front().staging) + " of it to write checkpoints beside steps"
                             : "shardwise train does not run this: " + trained.refusal) +
               "\n";
        if (answer.low_rank.rank > 0)
            out += style.dim("an adapter of rank " + std::to_string(answer.low_rank.rank) +
                             " is trained: " + grouped(trained.parameters) + " parameters") +
                   "\n";
    }
    if (!answer.request.training) {
        out += style.dim("activations: prefill " + to_text(largest.phases.prefill) + ", decode " +
                         to_text(largest.phases.decode)) +
               "\n";
    }
    return out;
}

[[nodiscard]] std::string module_table(EstimateAnswer const& answer, Style const& style) {
    bool const has_cache = answer.estimate.terms.kv_cache > Bytes{};
    std::vector<std::string> head{"module", "layers", "weights each", "weights"};
    if (has_cache) head.emplace_back("kv cache");
    Table table(head);
    for (auto const& module : answer.estimate.modules) {
        std::vector<std::string> row{escaped(name_of(module)), module.is_numbered ? grouped(module.count) : "",
                                     module.is_numbered ? to_text(module.weights) : "",
                                     to_text(module.weights * module.count)};
        if (has_cache) row.push_back(module.kv_cache > Bytes{} ? to_text(module.kv_cache * module.count) : "");
        table.add(row);
    }
    return table.text(style);
}

}  // namespace

std::string name_of(ModuleEstimate const& module) {
    std::string name{module.path.view()};
    if (!module.is_numbered) return name.empty() ? "(own tensors)" : name;
    name += (name.empty() ? "" : ".") + std::to_string(module.first);
    return module.count > 1 ? name + "-" + std::to_string(module.first + module.count - 1) : name;
}

std::string sentence_of(Assumption assumption, EstimateRequest const& request) {
    if (assumption != Assumption::chunked_prefill) return std::string(text_of(assumption));
    return "prompts are computed in chunks of at most " + counted(request.prefill_chunk, "token") +
           " of all sequences together: --prefill-chunk";
}

std::string estimate_text(EstimateAnswer const& answer, Style const& style) {
    auto const& estimate = answer.estimate;
    auto out = style.bold(escaped(answer.loaded.name)) + " (" + escaped(answer.loaded.architecture()) + "), " +
               short_count(estimate.parameters) + " parameters";
    if (estimate.active_parameters != estimate.parameters)
        out += ", " + short_count(estimate.active_parameters) + " active per token" +
               (answer.loaded.model.config.active_embedding ? " (embedding included)" : " (without the embedding)");
    out += std::string(part_note(answer.loaded.model.config)) + "\n" +
           style.dim(question_of(answer.loaded, answer.request)) + "\n\n";
    out += device_table(answer, style);
    if (estimate.devices.size() > 1)
        out += "all " + counted(static_cast<std::int64_t>(estimate.devices.size()), "rank") +
               " together: " + to_text(estimate.total) + "\n";
    if (estimate.host > Bytes{}) out += "in host memory: " + to_text(estimate.host) + "\n";
    if (!answer.request.training && estimate.kv_bytes_per_token > Bytes{})
        out += "each token of context adds " + to_text(estimate.kv_bytes_per_token) + " to the cache of its sequence\n";
    out += "\n" + module_table(answer, style);
    out += "\n" + style.bold("assumed") + "\n";
    for (auto const assumption : estimate.assumptions) out += "  - " + sentence_of(assumption, answer.request) + "\n";
    return out;
}

}  // namespace shardwise::cli
