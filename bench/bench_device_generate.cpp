// SPDX-License-Identifier: Apache-2.0
// Generation end to end on a device: a llama with random weights, in tokens per second, against the rate at which the device copies
// memory, and transformers on the same device.
//
// bench_device_generate [--json] [--quick] [--large]: of 1.1 billion parameters, or with --large of 8 billion. SHARDWISE_PYTHON names
// the Python that has transformers; without it that row says so.

#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/hub_cache.hpp>
#include <shardwise/session/run_on_devices.hpp>

#include "device_bench.hpp"
#include "generate_model.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;

/// A form in which the weights are held, and its bits.
struct Form {
    char const* name;
    LoadOptions load;
    double bits;
};

struct Rates {
    double prefill = 0.0;
    double decode = 0.0;
    double load = 0.0;
};

Rates generate(ModelSource const& source, Model const& model, std::int64_t prompt, std::int64_t made,
               std::int64_t sequences, LoadOptions const& load) {
    std::vector<GenerationRequest> requests(static_cast<std::size_t>(sequences));
    for (auto& request : requests) {
        for (std::int64_t i = 0; i < prompt; ++i)
            request.prompt.push_back(static_cast<std::int32_t>(i * 7 % 1000 + 100));
        request.max_new_tokens = made;
    }
    RunOptions options;
    options.sequences = sequences;
    options.load = load;
    options.kv_dtype = Dtype::bf16;
    options.step_tokens = 1024;
    OpenCheckpoint files(source);
    auto const report = bench::take(run_on_devices<bench::Device>(files, model, requests, options));
    return {static_cast<double>(report.prompt_tokens) / report.prefill_seconds,
            made > 1 ? static_cast<double>(report.decode_tokens) / report.decode_seconds : 0.0, report.load_seconds};
}

/// Bytes that one token reads: all weights but the embedding's rows.
double bytes_of(bench::LlamaShape const& shape, double bits) {
    double bytes = 0.0;
    for (auto const& matrix : bench::matrices_of(shape)) {
        if (matrix.outputs == 1 || matrix.name == "model.embed_tokens.weight") continue;
        auto const elements = static_cast<double>(matrix.outputs) * static_cast<double>(matrix.inputs);
        // The schemes leave the head as it is stored.
        bytes += elements * (matrix.name == "lm_head.weight" ? 16.0 : bits) / 8.0;
    }
    return bytes;
}

struct Temporary {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("shardwise_device_" + std::to_string(::getpid()));
    ~Temporary() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

std::optional<std::string> ask_transformers(std::string const& folder, int tokens) {
    char const* const python = std::getenv("SHARDWISE_PYTHON");
    if (python == nullptr || *python == '\0') return std::nullopt;
    char const* const given = std::getenv("SHARDWISE_GENERATE_PEER");
    auto const script = given != nullptr
                            ? std::filesystem::path(given)
                            : std::filesystem::path(__FILE__).parent_path() / "device_generate_peer.py";
    auto const command = "'" + std::string(python) + "' '" + script.string() + "' '" + folder + "/config.json' " +
                         std::to_string(tokens) + " 2>/dev/null";
    auto* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return std::nullopt;
    std::string output;
    char buffer[1024];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, got);
    if (::pclose(pipe) != 0) return std::nullopt;
    return output;
}

double number_after(std::string const& text, std::string const& key) {
    auto const at = text.find("\"" + key + "\": ");
    return at == std::string::npos ? 0.0 : std::strtod(text.c_str() + at + key.size() + 4, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
    bool is_large = false;
    std::vector<char*> rest;
    for (int i = 0; i < argc; ++i) {
        if (std::string_view(argv[i]) == "--large")
            is_large = true;
        else
            rest.push_back(argv[i]);
    }
    bench::DeviceBench bench("device_generate", static_cast<int>(rest.size()), rest.data());
    bench::LlamaShape shape;
    if (is_large) shape = {128256, 4096, 14336, 32, 32, 8};
    if (bench::is_emulated) shape = {256, 64, 128, 2, 4, 2};
    std::string const size = is_large ? "8B" : "1.1B";
    Temporary const folder;
    bench.attempt("write", [&] {
        if (!bench::write_llama(folder.path.string(), shape)) throw std::runtime_error("no room for the weights");
    });
    bench.attempt("generate", [&] {
        auto const source =
            bench::take(find_model(folder.path.string(), {}, HubCache(HubEnvironment::current())));
        auto const checkpoint = bench::take(read_checkpoint(source));
        auto const copy = bench.copy_rate();
        std::optional<std::string> peer;
        bench.attempt("transformers", [&] { peer = ask_transformers(folder.path.string(), 64); });
        for (auto const& form : {Form{"bf16", {}, 16.0},
                                 Form{"int4", {.quant = *parse_quant_scheme("int4")}, 4.5},
                                 Form{"int8", {.quant = *parse_quant_scheme("int8")}, 8.0}}) {
            auto const at = size + " " + form.name;
            bench.section(at, [&] {
                auto const made = bench::scaled(128, 64);
                auto const one = generate(source, checkpoint.model, 16, made, 1, form.load);
                auto const bound = copy / bytes_of(shape, form.bits);
                bench.add(at + ", decode", one.decode, "tokens/s", "copy rate by the weights' bytes", bound,
                          one.decode / bound, 0.0);
                if (peer && form.bits == 16.0) {
                    auto const theirs = number_after(*peer, "decode");
                    bench.add(at + ", decode", one.decode, "tokens/s", "transformers", theirs, one.decode / theirs, 2.5);
                }
                auto const many = generate(source, checkpoint.model, 16, bench::scaled(64, 32), 32, form.load);
                bench.add(at + ", 32 sequences", many.decode, "tokens/s", "one sequence", one.decode,
                          many.decode / one.decode, 0.0);
                auto const prompt = generate(source, checkpoint.model, bench::scaled(1024, 64), 1, 1, form.load);
                bench.add(at + ", prefill 1024", prompt.prefill, "tokens/s", "transformers",
                          peer ? number_after(*peer, "prefill") : 0.0,
                          peer ? prompt.prefill / number_after(*peer, "prefill") : 0.0, 0.0);
                auto const gigabytes = bytes_of(shape, form.bits) / 1e9;
                bench.add(at + ", load", gigabytes / one.load, "GB/s", "", 0.0, 0.0, 0.0);
            });
        }
    });
    return bench.finish();
}
