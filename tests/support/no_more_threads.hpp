// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#if defined(__GLIBC__)
#include <pthread.h>

namespace shardwise::testing {

/// While it lives, the system gives no thread: each would have a stack that no address space has room for.
class NoMoreThreads {
public:
    NoMoreThreads() {
        REQUIRE(pthread_getattr_default_np(&usual_) == 0);
        pthread_attr_t vast;
        REQUIRE(pthread_attr_init(&vast) == 0);
        REQUIRE(pthread_attr_setstacksize(&vast, std::size_t{1} << 50U) == 0);
        REQUIRE(pthread_setattr_default_np(&vast) == 0);
        (void)pthread_attr_destroy(&vast);
    }
    NoMoreThreads(NoMoreThreads const&) = delete;
    NoMoreThreads& operator=(NoMoreThreads const&) = delete;
    ~NoMoreThreads() {
        (void)pthread_setattr_default_np(&usual_);
        (void)pthread_attr_destroy(&usual_);
    }

private:
    pthread_attr_t usual_;
};

}  // namespace shardwise::testing
#endif
