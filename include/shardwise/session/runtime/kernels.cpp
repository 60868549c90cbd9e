// SPDX-License-Identifier: Apache-2.0
// A unit of shardwise::runtime: the products of every weight format at each instruction-set level.
#define SHARDWISE_RUNTIME_KERNELS 1

#include <shardwise/backend/host/product/product_kernel.hpp>
