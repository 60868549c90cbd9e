// SPDX-License-Identifier: Apache-2.0
// Device maps of Mixture-of-Experts trees: the accelerate dialect against accelerate itself, on the same trees.

#include <shardwise/json/value.hpp>
#include <shardwise/model/expanded_tree.hpp>
#include <shardwise/placement/dialect/accelerate.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;

/// A tree in both of its forms: ours, and the file that the peer reads.
struct Subject {
    std::string name;
    ModuleTree tree;
};

/// One call that both are timed at.
struct Case {
    std::string name;
    int gpus = 0;
    bool has_no_split = false;
    int peer_runs = 1;
    /// The least ratio to the peer and the most seconds; 0: none is asked.
    double ratio_goal = 0.0;
    double seconds_goal = 0.0;
};

Tensor weight(std::string_view name, std::int64_t rows, std::int64_t columns) {
    Tensor tensor{};
    tensor.name = name;
    tensor.shape = columns == 0 ? Shape{rows} : Shape{rows, columns};
    tensor.dtype = Dtype::bf16;
    return tensor;
}

/// 24 blocks of 256 experts, each of nine linear layers with bias: 28 modules and parameters an expert, 172,226 in all.
ModuleTree wide_experts() {
    ModuleTree tree;
    auto const linear = tree.add("Linear", {weight("weight", 512, 2048), weight("bias", 512, 0)});
    auto const norm = tree.add("RMSNorm", {weight("weight", 2048, 0)});
    auto const router = tree.add("Router", {weight("weight", 256, 2048)});
    auto const expert = tree.add("Expert", List<Child>{numbered(0, 9, linear)});
    auto const experts = tree.add("ModuleList", List<Child>{numbered(0, 256, expert)});
    auto const mlp = tree.add("MoeMlp", List<Child>{{"gate", router}, {"experts", experts}});
    auto const block =
        tree.add("MoeBlock", List<Child>{{"norm", norm}, {"mlp", mlp}, {"act", tree.add("SiLU", {})}});
    auto const layers = tree.add("ModuleList", List<Child>{numbered(0, 24, block)});
    tree.set_root(tree.add("MoeModel", List<Child>{{"layers", layers}}));
    return tree;
}

/// 94 blocks of 128 experts with an activation each, as Qwen3-235B-A22B: about 98,800 modules and parameters.
ModuleTree many_blocks() {
    ModuleTree tree;
    auto const linear = [&tree](std::int64_t out, std::int64_t in) {
        return tree.add("Linear", {weight("weight", out, in)});
    };
    auto const norm = tree.add("RMSNorm", {weight("weight", 4096, 0)});
    auto const head_norm = tree.add("RMSNorm", {weight("weight", 128, 0)});
    auto const act = tree.add("SiLU", {});
    auto const attention = tree.add("Attention", List<Child>{{"q_proj", linear(8192, 4096)},
                                                                    {"k_proj", linear(512, 4096)},
                                                                    {"v_proj", linear(512, 4096)},
                                                                    {"o_proj", linear(4096, 8192)},
                                                                    {"q_norm", head_norm},
                                                                    {"k_norm", head_norm}});
    auto const up = linear(1536, 4096);
    auto const expert = tree.add(
        "Expert",
        List<Child>{{"gate_proj", up}, {"up_proj", up}, {"down_proj", linear(4096, 1536)}, {"act_fn", act}});
    auto const experts = tree.add("ModuleList", List<Child>{numbered(0, 128, expert)});
    auto const mlp = tree.add("MoeMlp", List<Child>{{"gate", linear(128, 4096)}, {"experts", experts}});
    auto const block = tree.add(
        "MoeBlock",
        List<Child>{
            {"self_attn", attention}, {"mlp", mlp}, {"input_layernorm", norm}, {"post_attention_layernorm", norm}});
    auto const layers = tree.add("ModuleList", List<Child>{numbered(0, 94, block)});
    auto const embedding = tree.add("Embedding", {weight("weight", 151936, 4096)});
    auto const model =
        tree.add("Model", List<Child>{{"embed_tokens", embedding}, {"layers", layers}, {"norm", norm}});
    tree.set_root(tree.add("MoeForCausalLM", List<Child>{{"model", model}, {"lm_head", linear(151936, 4096)}}));
    return tree;
}

/// The tree in the form of `map --tree`.
void write_module(ModuleTree const& tree, ModuleId id, std::string_view name, std::string& out) {
    auto const& module = tree.module(id);
    out += "{\"class\":\"" + std::string(module.class_name) + "\",\"name\":\"" + std::string(name) + "\",\"params\":[";
    for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
        auto const& tensor = tree.tensor(module, i);
        out += std::string(i == 0 ? "" : ",") + "{\"name\":\"" + std::string(tensor.name) +
               "\",\"dtype\":\"BF16\",\"shape\":[";
        for (std::size_t k = 0; k < tensor.shape.rank(); ++k)
            out += (k == 0 ? "" : ",") + std::to_string(tensor.shape[k]);
        out += "]}";
    }
    out += "],\"children\":[";
    bool is_first = true;
    for (std::uint32_t i = 0; i < module.child_count; ++i) {
        auto const& child = tree.child(module, i);
        for (std::int32_t k = 0; k < child.count; ++k) {
            if (!is_first) out += ',';
            is_first = false;
            write_module(tree, child.module,
                         child.name.empty() ? std::to_string(child.first + k) : std::string(child.name), out);
        }
    }
    out += "]}";
}

struct Measured {
    double seconds = 0.0;
    std::vector<std::string> lines;
};

/// A device map as sorted text, to compare.
std::vector<std::string> sorted_lines(DialectMap const& map) {
    std::vector<std::string> lines;
    for (auto const& entry : map.entries) lines.push_back(entry.prefix + "=" + device_key(entry.device));
    std::sort(lines.begin(), lines.end());
    return lines;
}

/// A quarter more than the even share; blocks that are kept whole need the share of 8.
Bytes limit_of(ExpandedTree const& tree, Case const& wanted) {
    std::int64_t total = 0;
    for (auto const elements : tree.elements()) total += 2 * elements;
    return Bytes{total * 5 / 4 / (wanted.has_no_split ? 8 : wanted.gpus)};
}

/// The median of many runs on a tree that is expanded already.
Measured measure(ExpandedTree const& tree, Case const& wanted) {
    MaxMemory limits;
    for (int gpu = 0; gpu < wanted.gpus; ++gpu) (void)limits.add(DeviceId::gpu(gpu), limit_of(tree, wanted));
    AccelerateOptions options;
    if (wanted.has_no_split) options.no_split = {"MoeBlock"};
    std::vector<double> times;
    DialectMap map;
    for (int run = 0; run < 51; ++run) {
        auto const start = std::chrono::steady_clock::now();
        map = infer_accelerate_map(tree, limits, options);
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], sorted_lines(map)};
}

std::string peer_cases(ExpandedTree const& tree, std::vector<Case> const& cases) {
    std::string out = "[";
    for (auto const& wanted : cases) {
        out += std::string(out.size() > 1 ? "," : "") + "{\"repeat\":" + std::to_string(wanted.peer_runs) +
               ",\"no_split\":" + (wanted.has_no_split ? "[\"MoeBlock\"]" : "[]") + ",\"max_memory\":{";
        auto const limit = std::to_string(limit_of(tree, wanted).count());
        for (int gpu = 0; gpu < wanted.gpus; ++gpu)
            out += (gpu > 0 ? ",\"" : "\"") + std::to_string(gpu) + "\":" + limit;
        out += "}}";
    }
    return out + "]";
}

struct Peer {
    std::string version;
    std::vector<Measured> cases;
};

/// What the peer answers; nothing where there is none.
std::optional<Peer> ask_peer(ExpandedTree const& tree, ModuleTree const& source, std::vector<Case> const& cases) {
    char const* python = std::getenv("SHARDWISE_PYTHON");
    if (python == nullptr || *python == '\0') return std::nullopt;
    auto const file = std::filesystem::temp_directory_path() / ("bench_map_" + std::to_string(::getpid()) + ".json");
    std::string text;
    write_module(source, source.root(), "", text);
    std::ofstream(file) << text;
    auto const script = std::filesystem::path(__FILE__).parent_path() / "map_peer.py";
    auto const command = "'" + std::string(python) + "' '" + script.string() + "' '" + file.string() + "' '" +
                         peer_cases(tree, cases) + "' 2>/dev/null";
    std::string output;
    if (auto* pipe = ::popen(command.c_str(), "r"); pipe != nullptr) {
        char buffer[65536];
        for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, got);
        if (::pclose(pipe) != 0) output.clear();
    }
    std::filesystem::remove(file);
    Peer peer;
    for (std::size_t begin = 0; begin < output.size();) {
        auto const end = std::min(output.find('\n', begin), output.size());
        auto const document = parse_json(std::string_view{output}.substr(begin, end - begin));
        if (!document) return std::nullopt;
        auto const root = document->root();
        if (auto const version = root.find("version")) {
            peer.version = std::string(version->string().value_or(""));
        } else {
            auto const seconds = root.find("seconds");
            auto const map = root.find("map");
            if (!seconds || !map) return std::nullopt;
            Measured measured{seconds->real().value_or(0.0), {}};
            for (auto const entry : *map) {
                measured.lines.push_back(std::string(entry.key()) + "=" + std::string(entry.string().value_or("")));
            }
            std::sort(measured.lines.begin(), measured.lines.end());
            peer.cases.push_back(std::move(measured));
        }
        begin = end + 1;
    }
    if (peer.cases.size() != cases.size()) return std::nullopt;
    return peer;
}

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

/// One row of the report.
std::string row(std::string const& name, double ours, std::string const& peer, std::optional<double> theirs,
                double goal, bool only_informs) {
    double const ratio = theirs ? *theirs / ours : 0.0;
    std::string out = "{\"case\":\"" + name + "\",\"ours\":" + number(ours) + ",\"peer\":\"" + peer + "\",\"theirs\":";
    out += theirs ? number(*theirs) : "null";
    out += ",\"unit\":\"s\",\"ratio\":" + (theirs ? number(ratio) : "null") + ",\"goal\":" + number(goal) + ",\"met\":";
    return out + (only_informs ? "true" : !theirs ? "null" : ratio >= goal ? "true" : "false") + "}";
}

}  // namespace

int main(int argc, char** argv) {
    bool const is_json = argc > 1 && std::string_view{argv[1]} == "--json";
    std::vector<Subject> subjects;
    subjects.push_back({"24 blocks x 256 experts", wide_experts()});
    subjects.push_back({"94 blocks x 128 experts", many_blocks()});
    std::vector<std::vector<Case>> const cases{{{"8 GPUs, blocks kept whole", 8, true, 3, 500.0, 3e-3},
                                                {"8 GPUs", 8, false, 1, 0.0, 3e-3},
                                                {"64 GPUs, blocks kept whole", 64, true, 1, 0.0, 10e-3},
                                                {"64 GPUs", 64, false, 1, 5000.0, 10e-3}},
                                               {{"8 GPUs, blocks kept whole", 8, true, 2}, {"8 GPUs", 8, false, 1}}};

    std::string rows;
    bool is_equal = true;
    for (std::size_t i = 0; i < subjects.size(); ++i) {
        auto const& subject = subjects[i];
        auto const tree = expand(subject.tree);
        if (!tree) return std::fprintf(stderr, "bench_map: %s\n", tree.error().message().c_str()), 1;
        auto const entries = tree->module_count() + tree->tensor_count();
        if (!is_json) std::printf("%s: %u modules and parameters\n", subject.name.c_str(), entries);
        auto const peer = ask_peer(*tree, subject.tree, cases[i]);
        auto const peer_name = peer ? "accelerate " + peer->version : std::string("accelerate");
        for (std::size_t k = 0; k < cases[i].size(); ++k) {
            auto const& wanted = cases[i][k];
            auto const ours = measure(*tree, wanted);
            std::optional<double> theirs;
            if (peer) {
                theirs = peer->cases[k].seconds;
                if (peer->cases[k].lines != ours.lines) {
                    is_equal = false;
                    std::fprintf(stderr, "bench_map: %s, %s: the two maps differ\n", subject.name.c_str(),
                                 wanted.name.c_str());
                }
            }
            auto const name = subject.name + ", " + wanted.name;
            bool const only_informs = wanted.ratio_goal <= 0.0;
            rows += (rows.empty() ? "" : ",") +
                    row(name, ours.seconds, peer_name, theirs, std::max(1.0, wanted.ratio_goal), only_informs);
            if (wanted.seconds_goal > 0.0)
                rows += "," + row(name + ", limit", ours.seconds, "limit", wanted.seconds_goal, 1.0, false);
            if (is_json) continue;
            std::printf("  %-28s ours %8.3f ms (median of 51)", wanted.name.c_str(), ours.seconds * 1e3);
            if (theirs) {
                std::printf("   %s %8.3f s (best of %d)   %.0f times", peer_name.c_str(), *theirs, wanted.peer_runs,
                            *theirs / ours.seconds);
            }
            std::printf("   %zu entries\n", ours.lines.size());
        }
    }
    if (is_json) std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"map\",\"rows\":[%s]}\n", rows.c_str());
    return is_equal ? 0 : 1;
}
