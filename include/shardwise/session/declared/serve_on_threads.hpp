// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/on_call.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_options.hpp>

#include <functional>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class OpenCheckpoint;
struct Model;
struct ModelSource;

/// Gives the next request; nothing ends the serving. It may take as long as it likes.
using NextRequest = std::function<std::optional<GenerationRequest>()>;
/// Gets what became of a request, before the next one is asked for.
using OnGeneration = std::function<void(Result<Generation> const&)>;

/// Loads a checkpoint over ranks that are threads of this process and generates for one request after another, each
/// with the tokens that it gives from scratch; what its prompt has in common with the last one and its answer is not computed
/// again. `options.context` is the room that each has; `next`, `on_generation` and the other callbacks are
/// called on the caller's thread.
///
/// Errors  invalid_argument for impossible ranks; those of loading, of the executor and of the ranks. A request that is
///         refused is no error: `on_generation` gets why.
SHARDWISE_ON_CALL
[[nodiscard]] Result<> serve_on_threads(OpenCheckpoint& files, Model const& model, RunOptions const& options,
                                        NextRequest const& next, OnGeneration const& on_generation);

/// The same, for files that are opened for it alone.
SHARDWISE_ON_CALL
[[nodiscard]] Result<> serve_on_threads(ModelSource const& source, Model const& model, RunOptions const& options,
                                        NextRequest const& next, OnGeneration const& on_generation);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
