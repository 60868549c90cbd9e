// SPDX-License-Identifier: Apache-2.0
// count_instructions FOLDER TOKENS TRACE_EVENTS [uncounted]: runs the model in a folder on one thread and prints the instructions
// that this process took in user mode. Exit 77 where the kernel counts none; with "uncounted" another program counts them.
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
    using namespace shardwise;
    if (argc < 4) return 2;
    bool const is_counted = argc == 4;
    perf_event_attr what{};
    what.type = PERF_TYPE_HARDWARE;
    what.size = sizeof what;
    what.config = PERF_COUNT_HW_INSTRUCTIONS;
    what.exclude_kernel = 1;
    what.exclude_hv = 1;
    // The ranks are threads that are started after it.
    what.inherit = 1;
    auto const counter = is_counted ? static_cast<int>(syscall(SYS_perf_event_open, &what, 0, -1, -1, 0)) : -1;
    if (is_counted && counter < 0) return 77;
    auto const source = find_model(argv[1], {}, HubCache(HubEnvironment{}));
    auto const checkpoint = source ? read_checkpoint(*source) : Result<Checkpoint>(source.error());
    if (!checkpoint) return 1;
    GenerationRequest request;
    request.prompt = {5, 9, 2};
    request.max_new_tokens = std::atoi(argv[2]);
    RunOptions options;
    options.threads = 1;
    options.context = 512;
    options.trace_events = std::atoi(argv[3]);
    auto const ran = run_on_threads(*source, checkpoint->model, {request}, options);
    std::int64_t count = 0;
    bool const has_count = read(counter, &count, sizeof count) == static_cast<ssize_t>(sizeof count) && count > 0;
    if (!ran || ran->generations[0].tokens.size() != static_cast<std::size_t>(request.max_new_tokens)) return 1;
    if (!is_counted) return 0;
    if (!has_count) return 77;
    std::printf("%lld\n", static_cast<long long>(count));
    return 0;
}
