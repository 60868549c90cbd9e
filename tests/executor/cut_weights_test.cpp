// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "loaded_model.hpp"
#include "written_files.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Weights whose file somebody makes shorter while they are loaded.
namespace {

using namespace shardwise;
using namespace shardwise::testing;

struct Model128 {
    TemporaryFolder folder;
    Model model;

    Model128() {
        (void)folder.write("config.json", even_llama);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto described = read_checkpoint(*only);
        REQUIRE(described);
        model = std::move(described->model);
    }
    void write(SourceKind kind) const {
        if (kind == SourceKind::safetensors) return write_formula_model(model, folder / "weights");
        std::vector<FileTensorData> tensors;
        auto const add = [&](std::string name, std::string_view stored, Shape const& shape) {
            tensors.push_back({std::move(name), "", {shape.begin(), shape.end()}, bytes_of(formula(stored, shape)), 0});
        };
        add("token_embd.weight", "e", {96, 128});
        add("output.weight", "o", {96, 128});
        add("output_norm.weight", "n", {128});
        for (int i = 0; i < 2; ++i) {
            auto const block = "blk." + std::to_string(i) + ".";
            for (auto const* const name : {"attn_q", "attn_k", "attn_v", "attn_output"})
                add(block + name + ".weight", name, {128, 128});
            for (auto const* const name : {"ffn_gate", "ffn_up"}) add(block + name + ".weight", name, {256, 128});
            add(block + "ffn_down.weight", "d", {128, 256});
            for (auto const* const name : {"attn_norm", "ffn_norm"}) add(block + name + ".weight", name, {128});
        }
        write_gguf(folder / "weights", tensors);
    }
    [[nodiscard]] std::uintmax_t size() const { return std::filesystem::file_size(folder / "weights"); }
    void cut(std::uintmax_t bytes) const { std::filesystem::resize_file(folder / "weights", bytes); }

    /// Loads as so many ranks; `meanwhile` hears how many blocks are loaded. What the error says, or "".
    [[nodiscard]] std::string load(SourceKind kind, std::int32_t ranks, LoadOptions options,
                                   std::function<void(std::int64_t)> const& meanwhile) const {
        auto const source = weights_in(folder, kind, "weights");
        auto const parameters = StoredParameters::open(source, model);
        if (!parameters) return parameters.error().message();
        meanwhile(0);
        auto const listener = [&](WorkProgress const& progress) { meanwhile(progress.done); };
        options.observer = Observer(listener);
        auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
            HostContext context({.threads = 2});
            auto own = options;
            if (comm.rank() > 0) own.observer = {};
            auto const executor = RankExecutor<Host, Fast>::create(
                context, model, *parameters, {comm.size(), comm.rank()},
                {.sequences = 1, .context = 16, .step_tokens = 16}, {}, own);
            return executor ? Result<>{} : Result<>(executor.error());
        });
        return done ? std::string{} : done.error().message();
    }
};

}  // namespace

TEST_CASE("RankExecutor: a file of weights that becomes shorter while it is loaded is an error that names it, no signal") {
    Model128 const written;
    LoadOptions packed;
    packed.dtype = Dtype::bf16;
    for (auto const kind : {SourceKind::safetensors, SourceKind::gguf}) {
        for (auto const& options : {LoadOptions{}, packed}) {
            for (std::int32_t const ranks : {1, 2}) {
                // Before the first block, and after each.
                for (std::int64_t when = 0; when < 3; ++when) {
                    CAPTURE(static_cast<int>(kind));
                    CAPTURE(when);
                    written.write(kind);
                    auto const size = written.size();
                    for (auto const left : {std::uintmax_t{0}, size / 2, size - 1}) {
                        if (written.size() != size) written.write(kind);
                        auto const said = written.load(kind, ranks, options, [&](std::int64_t done) {
                            if (done == when) written.cut(left);
                        });
                        CHECK_MESSAGE(said.find("/weights: became shorter while it was read") != std::string::npos, said);
                    }
                }
            }
        }
    }
}

TEST_CASE("RankExecutor: weights are copied: a file that is cut after it was loaded, or grows meanwhile, does no harm") {
    Model128 const written;
    for (auto const kind : {SourceKind::safetensors, SourceKind::gguf}) {
        written.write(kind);
        auto const size = written.size();
        CHECK(written.load(kind, 1, {}, [&](std::int64_t done) {
                  if (done == 1) written.cut(size + 5000);
              }) == "");
        written.cut(size);
        auto const source = weights_in(written.folder, kind, "weights");
        std::vector<std::int32_t> const ids{1, 2, 3};
        auto const before = load_and_run<Deterministic>(source, written.model, ids, 1).logits;
        // load_and_run loads and runs at once: the mapping is there, the file is not.
        auto const parameters = StoredParameters::open(source, written.model);
        REQUIRE(parameters);
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        ExecutorLimits const limits{.sequences = 1, .context = 16, .step_tokens = 16};
        auto executor = RankExecutor<Host, Deterministic>::create(context, written.model, *parameters, {1, 0}, limits);
        REQUIRE(executor);
        written.cut(0);
        std::vector<float> logits(96);
        TensorView<float, 2, Host> const view(logits.data(), {1, 96});
        SequencePart const part{0, 0, 3};
        auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
            if (auto const run = executor->forward(ids, {&part, 1}, view, comm, stream); !run) return run;
            return stream.synchronize(Deadline::after(std::chrono::seconds(60)));
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
        CHECK(logits == before);
    }
}
