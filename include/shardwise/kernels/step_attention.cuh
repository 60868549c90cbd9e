// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention over a step table: single tokens, whose contexts are split over blocks, the merging of what these have, several tokens of a
// sequence by tiles, and any other shape.
#include <shardwise/kernels/detail/attend_any.cuh>
#include <shardwise/kernels/detail/attend_singles.cuh>
#include <shardwise/kernels/detail/attend_tiles.cuh>
#include <shardwise/kernels/detail/merge_chunks.cuh>
