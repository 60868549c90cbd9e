// SPDX-License-Identifier: Apache-2.0
// Generation end to end on a device: a llama with random weights, in tokens per second, against the rates at which the device copies
// memory and multiplies matrices, and transformers on the same device.
//
// bench_device_generate [--json] [--quick] [--seconds N] [--large]: of 1.1 billion parameters, or with --large of Llama-3-8B's shape,
// which the goals are of. SHARDWISE_PYTHON names the Python that has transformers; without it that row says so.

#include <shardwise/quant/scheme.hpp>

#include "device_bench.hpp"
#include "device_generate.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::GeneratedModel;
using bench::GenerateOptions;
using bench::scaled;
using bench::take;

/// A form in which the weights are held, the bits of an element of the layers and of the head, and what one sequence is to reach.
struct Form {
    char const* name;
    LoadOptions load;
    double bits;
    double head_bits;
    double goal = 0.0;
};

/// Issue 21's of Llama-3-8B's shape: tokens per second of one sequence.
struct Goals {
    double bf16 = 0.0;
    double q4_0 = 0.0;
};
Goals goals_of(std::string const& device) {
    if (device.find("H200") != std::string::npos) return {250.0, 600.0};
    if (device.find("H100") != std::string::npos) return {170.0, 420.0};
    return {};
}

std::optional<std::string> ask_transformers(std::string const& folder, int tokens) {
    char const* const python = std::getenv("SHARDWISE_PYTHON");
    if (python == nullptr || *python == '\0') return std::nullopt;
    char const* const given = std::getenv("SHARDWISE_GENERATE_PEER");
    auto const script = given != nullptr ? std::filesystem::path(given)
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

/// Multiplications and additions a second of the vendor's product of bf16, of a prompt's rows by the layers' widest matrix.
double product_rate(DeviceBench& run, std::int64_t rows, std::int64_t outputs, std::int64_t inputs) {
    auto const weight = run.numbers<Bfloat16>(outputs * inputs, 5);
    auto const in = run.numbers<Bfloat16>(rows * inputs, 6);
    auto out = run.memory<float>(rows * outputs);
    using Factor = TensorView<Bfloat16 const, 2, Device>;
    auto const seconds = run.time([&](std::int64_t) {
        check(Device::gemm<Bfloat16>(Factor(in.data(), {rows, inputs}), Factor(weight.data(), {outputs, inputs}),
                                     out.matrix(rows, outputs), {.is_b_transposed = true}, run.stream()));
    });
    return 2.0 * static_cast<double>(rows * outputs * inputs) / seconds;
}

/// The rates of one form.
class Measured {
public:
    Measured(DeviceBench& run, GeneratedModel const& model, std::string size, bool is_large, Form form,
             std::optional<std::string> const& peer)
        : run_(run),
          model_(model),
          at_(std::move(size) + " " + form.name),
          is_large_(is_large),
          form_(std::move(form)),
          peer_(peer),
          bytes_(bench::weight_bytes(model.shape(), form_.bits, form_.head_bits)) {}

    void one_sequence() {
        run_.section(at_ + ", decode", [&] {
            auto const rates = generate({.made = made()});
            one_ = rates.decode;
            auto const bound = run_.copy_rate() / bytes_;
            row(", decode", one_, "copy rate by the weights' bytes", bound, 0.0);
            if (form_.goal > 0.0) row(", decode", one_, "goal on this device", form_.goal, 1.0);
            if (peer_ && form_.bits == 16.0) row(", decode", one_, "transformers", number_after(*peer_, "decode"), 2.5);
            run_.add(at_ + ", load", bytes_ * 1e-9 / rates.load_seconds, "GB/s", "", 0.0, 0.0, 0.0);
        });
    }
    void many_sequences() {
        run_.section(at_ + ", 32 sequences", [&] {
            auto const tokens = scaled(64, 32);
            auto const many = generate({.made = tokens, .sequences = 32}).decode;
            // All weights once in a step, and each sequence's keys and values, half of those that it ends with.
            auto const cached = bench::cache_bytes(model_.shape()) * (16.0 + static_cast<double>(tokens) / 2.0);
            row(", 32 sequences", many, "copy rate by bytes of a step",
                32.0 * run_.copy_rate() / (bytes_ + 32.0 * cached), is_large_ ? 0.8 : 0.0);
            if (one_ > 0.0) row(", 32 sequences", many, "one sequence", one_, 0.0);
        });
    }
    void prompt() {
        run_.section(at_ + ", prefill", [&] {
            auto const rows = scaled(is_large_ ? 2048 : 1024, 64);
            auto const& shape = model_.shape();
            auto const reached = generate({.prompt = rows, .made = 1}).prefill;
            auto const rate = product_rate(run_, rows, shape.ffn, shape.width);
            auto const name = ", prefill " + std::to_string(rows);
            row(name, reached, "rate of products, bf16", rate / (2.0 * bench::layer_elements(shape)),
                is_large_ ? 0.5 : 0.0);
            if (peer_) row(name, reached, "transformers", number_after(*peer_, "prefill"), 0.0);
        });
    }
    /// Ranks that share the device keep most of what one reaches.
    void ranks(std::int32_t count, double goal) {
        run_.section(at_ + ", tp " + std::to_string(count), [&] {
            if (one_ <= 0.0) throw std::runtime_error("one rank was not measured");
            auto const rates = generate({.made = made(), .ranks = count});
            row(", tp " + std::to_string(count) + " on one device", rates.decode, "one rank", one_,
                is_large_ ? goal : 0.0);
        });
    }

private:
    [[nodiscard]] static std::int64_t made() { return scaled(128, 64); }
    [[nodiscard]] bench::GenerateRates generate(GenerateOptions options) const {
        options.load = form_.load;
        return model_.generate(options);
    }
    void row(std::string const& what, double ours, std::string const& peer, double theirs, double goal) {
        run_.add(at_ + what, ours, "tokens/s", peer, theirs, theirs > 0.0 ? ours / theirs : 0.0, goal);
    }

    DeviceBench& run_;
    GeneratedModel const& model_;
    std::string at_;
    bool is_large_;
    Form form_;
    std::optional<std::string> const& peer_;
    double bytes_;
    double one_ = 0.0;
};

}  // namespace

int main(int argc, char** argv) {
    // As many queues as ranks: those that share one wait for each other's kernels. The driver reads it at its first call.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("GPU_MAX_HW_QUEUES", "16", 0);
    bool is_large = false;
    std::vector<char*> rest;
    for (int i = 0; i < argc; ++i) {
        if (std::string_view(argv[i]) == "--large")
            is_large = true;
        else
            rest.push_back(argv[i]);
    }
    DeviceBench run("device_generate", static_cast<int>(rest.size()), rest.data());
    bench::LlamaShape shape;
    if (is_large) shape = {128256, 4096, 14336, 32, 32, 8};
    if (bench::is_emulated) shape = {256, 64, 128, 2, 4, 2};
    run.attempt("generate", [&] {
        GeneratedModel const model(shape);
        auto const goals = is_large ? goals_of(bench::device_name()) : Goals{};
        auto const quant = [](char const* name) { return LoadOptions{.quant = take(parse_quant_scheme(name))}; };
        std::vector<Form> forms{{"bf16", {}, 16.0, 16.0, goals.bf16},
                                {"q4_0", quant("q4_0-pure"), 4.5, 4.5, goals.q4_0}};
        // The others leave the head as it is stored.
        if (!is_large) {
            forms.push_back({"int4", quant("int4"), 4.5, 16.0});
            forms.push_back({"int8", quant("int8"), 8.0, 16.0});
        }
        std::optional<std::string> peer;
        run.attempt("transformers", [&] { peer = ask_transformers(model.folder(), 64); });
        for (auto const& form : forms) {
            Measured measured(run, model, is_large ? "8B" : "1.1B", is_large, form, peer);
            measured.one_sequence();
            measured.many_sequences();
            bool const is_stored = form.bits == 16.0;
            if (is_stored || !is_large) measured.prompt();
            if (!is_stored) continue;
            measured.ranks(2, 0.95);
            if (bench::is_emulated || !is_large) continue;
            measured.ranks(4, 0.90);
            measured.ranks(8, 0.85);
        }
    });
    return run.finish();
}
