// SPDX-License-Identifier: Apache-2.0
// Loading a safetensors checkpoint, every byte copied into fresh memory: the executor's loader, which brings weights into the
// order of its products on the way, against the safetensors package.

#include <shardwise/backend/host/host_rank.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/walk.hpp>

#include "machine_rates.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;

constexpr int rounds = 3;

/// A llama of about 600 MB.
std::string config_of(std::string_view dtype, int layers) {
    return R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":24000,"hidden_size":2048,)"
           R"("intermediate_size":5504,"num_attention_heads":16,"num_key_value_heads":16,"torch_dtype":")" +
           std::string(dtype) + R"(","num_hidden_layers":)" + std::to_string(layers) + "}";
}

/// Writes the model's parameters with bytes that do not repeat.
void write_model(Model const& model, std::string const& path) {
    std::string header = "{";
    std::int64_t end = 0;
    walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
        if (!tensor.is_parameter()) return;
        header += header.size() > 1 ? ",\"" : "\"";
        header += std::string(name) + "\":{\"dtype\":\"" + std::string(traits(tensor.dtype).safetensors_name) +
                  "\",\"shape\":[";
        for (std::size_t d = 0; d < tensor.shape.rank(); ++d)
            header += (d > 0 ? "," : "") + std::to_string(tensor.shape[d]);
        header += "],\"data_offsets\":[" + std::to_string(end) + ",";
        end += tensor.bytes().count();
        header += std::to_string(end) + "]}";
    });
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    auto const length = static_cast<std::uint64_t>(header.size());
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<char const*>(&length), sizeof length);
    file << header;
    std::vector<std::uint32_t> chunk(1U << 18U);
    std::uint32_t state = 1;
    for (std::int64_t done = 0; done < end;) {
        // Small finite numbers in fp32 and in bf16.
        for (auto& word : chunk) word = ((state = state * 1664525U + 1013904223U) & 0x803FFFFFU) | 0x3C003C00U;
        auto const size = std::min(end - done, static_cast<std::int64_t>(chunk.size() * 4));
        file.write(reinterpret_cast<char const*>(chunk.data()), size);
        done += size;
    }
}

/// Asks the system to forget the pages of a file; they are on the disk by then.
void forget(std::string const& path) {
    auto const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    (void)::fsync(file);
    (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
}

/// Seconds of the fastest of some loadings by all threads; less than 0 where one fails.
double time_ours(ModelSource const& source, Model const& model, std::string const& path, int threads, bool is_cold) {
    double best = 1e30;
    for (int round = 0; round < rounds; ++round) {
        if (is_cold) forget(path);
        // As a rank of a run has it.
        HostRank rank(rank_options(threads, 1, 0));
        auto& context = rank.context;
        std::optional<Error> failed;
        auto const seconds = bench::time_once([&] {
            auto const parameters = StoredParameters::open(source, model);
            if (!parameters) return static_cast<void>(failed = parameters.error());
            auto const executor = RankExecutor<Host, Fast>::create(context, model, *parameters, {1, 0},
                                                                   {.sequences = 1, .context = 1, .step_tokens = 1});
            if (!executor) failed = executor.error();
        });
        if (failed) {
            std::fprintf(stderr, "bench_load: %s\n", failed->message().c_str());
            return -1.0;
        }
        best = std::min(best, seconds);
    }
    return best;
}

struct Peer {
    std::string version;
    std::string form;
    double seconds = -1.0;
};

Peer time_peer(std::string const& path, int threads, bool is_cold) {
    Peer peer;
    char const* const python = std::getenv("SHARDWISE_PYTHON");
    if (python == nullptr) return peer;
    auto const script = std::filesystem::path(__FILE__).parent_path() / "load_peer.py";
    auto const command = "MALLOC_MMAP_THRESHOLD_=65536 '" + std::string(python) + "' '" + script.string() + "' '" +
                         path + "' " + std::to_string(threads) + " " + std::to_string(rounds) +
                         (is_cold ? " cold" : " warm") + " 2>/dev/null";
    auto* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return peer;
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
        auto const document = parse_json(line);
        if (!document) continue;
        auto const root = document->root();
        if (auto const version = root.find("version")) peer.version = std::string(version->string().value_or(""));
        if (auto const form = root.find("form")) peer.form = std::string(form->string().value_or(""));
        if (auto const seconds = root.find("seconds")) peer.seconds = seconds->real().value_or(-1.0);
    }
    ::pclose(pipe);
    return peer;
}

}  // namespace

int main(int argc, char** argv) {
    // What one round frees goes back to the system, so that the next one's memory is fresh; the peer's too.
    (void)::mallopt(M_MMAP_THRESHOLD, 65536);
    bool const is_json = argc > 1 && std::string_view(argv[1]) == "--json";
    char const* const given = std::getenv("TMPDIR");
    auto const folder = std::filesystem::path(given != nullptr ? given : "/tmp") /
                        ("shardwise-bench-load-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    auto const threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    std::string rows;
    bool is_done = true;
    struct Size {
        std::string_view dtype;
        int layers;
    };
    for (auto const& size : {Size{"bfloat16", 4}, Size{"float32", 1}}) {
        auto const path = (folder / "model.safetensors").string();
        std::ofstream(folder / "config.json") << config_of(size.dtype, size.layers);
        auto const config = find_model((folder / "config.json").string(), {}, HubCache(HubEnvironment{}));
        auto const described = config ? read_checkpoint(*config) : Result<Checkpoint>(config.error());
        if (!described) {
            std::fprintf(stderr, "bench_load: %s\n", described.error().message().c_str());
            is_done = false;
            break;
        }
        write_model(described->model, path);
        auto const source = find_model(folder.string(), {}, HubCache(HubEnvironment{}));
        auto const megabytes = static_cast<double>(std::filesystem::file_size(path)) / 1e6;
        for (bool const is_cold : {false, true}) {
            auto ours = time_ours(*source, described->model, path, threads, is_cold);
            auto peer = time_peer(path, threads, is_cold);
            // Twice in turns: neighbours come and go.
            ours = std::min(ours, time_ours(*source, described->model, path, threads, is_cold));
            if (auto const again = time_peer(path, threads, is_cold); again.seconds < peer.seconds) peer = again;
            is_done = is_done && ours > 0.0;
            auto const goal = is_cold ? 1.0 : 1.5;
            auto const ratio = peer.seconds / ours;
            char row[400];
            auto const name = std::string(size.dtype) + (is_cold ? " cold" : " warm");
            if (peer.seconds > 0.0) {
                std::snprintf(row, sizeof row,
                              "%s{\"case\":\"%s\",\"ours\":%.4f,\"peer\":\"safetensors %s\",\"theirs\":%.4f,"
                              "\"unit\":\"s\",\"ratio\":%.3f,\"goal\":%.1f,\"met\":%s}",
                              rows.empty() ? "" : ",", name.c_str(), ours, peer.version.c_str(), peer.seconds, ratio,
                              goal, ratio >= goal ? "true" : "false");
            } else {
                std::snprintf(
                    row, sizeof row,
                    "%s{\"case\":\"%s\",\"ours\":%.4f,\"peer\":\"safetensors\",\"theirs\":null,\"unit\":\"s\","
                    "\"ratio\":null,\"goal\":%.1f,\"met\":null}",
                    rows.empty() ? "" : ",", name.c_str(), ours, goal);
            }
            rows += row;
            if (is_json) continue;
            std::printf("%-14s %6.0f MB  ours %.3f s (%d threads)  safetensors %s %.3f s (%s)  ratio %.2f, goal %.1f\n",
                        name.c_str(), megabytes, ours, threads, peer.version.c_str(), peer.seconds, peer.form.c_str(),
                        ratio, goal);
            std::fflush(stdout);
        }
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    if (is_json) {
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"bench_load\",\"rows\":[%s]}\n", rows.c_str());
    } else {
        std::printf(
            "cold: the file's pages were given back (posix_fadvise); where a host caches the disk they are not cold "
            "there\n");
    }
    return is_done ? 0 : 1;
}
