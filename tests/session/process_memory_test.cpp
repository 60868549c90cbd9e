// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <doctest/doctest.h>

#include "checkpoint_files.hpp"
#include "skip.hpp"
#include "temporary_folder.hpp"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <malloc.h>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// A line of /proc/self/status, in bytes.
std::int64_t of_process(std::string const& key) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
    }
    return -1;
}

TEST_SUITE("long") {
    TEST_CASE("run_on_threads: a process grows by what was predicted, within 5 %, with a model of over 500 MB") {
        TemporaryFolder const folder;
        (void)folder.write("config.json", R"({"model_type":"llama","architectures":["LlamaForCausalLM"],)"
                                          R"("vocab_size":32000,"hidden_size":1024,"num_hidden_layers":15,)"
                                          R"("intermediate_size":4096,"num_attention_heads":16,)"
                                          R"("num_key_value_heads":8,"max_position_embeddings":2048})");
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE(described);
        std::vector<WrittenTensor> tensors;
        walk_tensors(described->model.tree, [&](std::string_view name, Tensor const& tensor) {
            std::vector<std::int64_t> shape;
            for (std::size_t i = 0; i < tensor.shape.rank(); ++i) shape.push_back(tensor.shape[i]);
            if (tensor.is_parameter())
                tensors.push_back({std::string(name), "BF16", shape, 2 * tensor.shape.elements()});
        });
        write_safetensors(folder / "model.safetensors", tensors);
        auto const source = find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const checkpoint = read_checkpoint(*source);
        REQUIRE(checkpoint);
        GenerationRequest request;
        request.prompt.assign(300, 7);
        request.max_new_tokens = 4;
        struct Form {
            std::int32_t tp;
            Optional<Dtype> dtype;
        };
        for (auto const& form : {Form{1, {}}, Form{2, {}}, Form{1, Dtype::f32}}) {
            auto const tp = form.tp;
            CAPTURE(tp);
            // What the last run freed goes back to the system, and the highest mark so far is forgotten.
            (void)malloc_trim(0);
            std::ofstream("/proc/self/clear_refs") << "5";
            auto const start = of_process("VmRSS");
            if (of_process("VmHWM") > start + (1 << 20)) SHARDWISE_SKIP("the kernel does not forget VmHWM");
            auto const ran = run_on_threads(*source, checkpoint->model, {request},
                                            {.tp = tp, .threads = 2, .load = {.dtype = form.dtype}});
            REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
            auto const grown = static_cast<double>(of_process("VmHWM") - start);
            double predicted = 0.0;
            for (auto const& rank : ran->ranks) predicted += static_cast<double>(rank.predicted.count());
            CHECK(predicted > 5e8);
            CHECK(grown > 0.95 * predicted);
            CHECK(grown < 1.05 * predicted);
        }
    }
}

}  // namespace
