#pragma once

// The vendor whose device compiler this is.
#if defined(__CUDACC__)
#include <shardwise/backend/cuda.cuh>
#else
#include <shardwise/backend/hip.cuh>
#endif
