// SPDX-License-Identifier: Apache-2.0
#include "matmul_peers.hpp"

#include <chrono>
#include <cstddef>
#include <thread>

#if defined(_OPENMP)
#include <omp.h>
#include <sched.h>
#endif

namespace bench {

void pin_openmp([[maybe_unused]] int threads) {
#if defined(_OPENMP)
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
#pragma omp parallel num_threads(threads)
    {
        auto place = omp_get_thread_num();
        for (std::size_t core = 0; core < CPU_SETSIZE && place >= 0; ++core) {
            if (!CPU_ISSET(core, &allowed) || place-- > 0) continue;
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
        }
    }
#endif
}

void wake_openmp([[maybe_unused]] int threads) {
#if defined(_OPENMP)
    auto const until = std::chrono::steady_clock::now() + std::chrono::microseconds(1000);
    while (std::chrono::steady_clock::now() < until) {
#pragma omp parallel num_threads(threads)
        {}
    }
#endif
}

void rest_openmp() {
#if defined(_OPENMP)
    // libgomp: 300,000 pauses of at most 65 cycles each.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
#endif
}

}  // namespace bench
