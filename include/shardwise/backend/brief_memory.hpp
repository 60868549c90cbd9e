// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// While it lives, what is allocated goes before what is allocated later: a device takes it from the other end of its block, so that no
/// gap stays. The host's memory has no block.
template <class Context>
class BriefMemory {
public:
    enum class Of : std::uint8_t { nothing, weights, all };

    BriefMemory(Context& context, Of what) : context_(context) {
        if constexpr (has_block) {
            was_brief_ = context.is_brief();
            were_weights_brief_ = context.are_weights_brief();
            if (what == Of::all) context.set_brief(true);
            if (what == Of::weights) context.set_brief_weights(true);
        }
    }
    BriefMemory(BriefMemory const&) = delete;
    BriefMemory& operator=(BriefMemory const&) = delete;
    ~BriefMemory() {
        if constexpr (has_block) {
            context_.set_brief(was_brief_);
            context_.set_brief_weights(were_weights_brief_);
        }
    }

private:
    static constexpr bool has_block = requires(Context & context) { context.is_brief(); };

    Context& context_;
    bool was_brief_ = false;
    bool were_weights_brief_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
