// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>
#include <shardwise/deploy/formats/kubernetes_pod.hpp>
#include <shardwise/deploy/formats/leader_worker_set.hpp>
#include <shardwise/deploy/formats/yaml_text.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A Deployment and a Service, and with `has_claims` a ResourceClaimTemplate in place of the device plugin's resource; over
/// several nodes a LeaderWorkerSet in place of the Deployment. Variables without a value come from a Secret that has the
/// deployment's name; which devices a pod gets is the scheduler's to say.
///
/// Source  Kubernetes 1.34: apps/v1, v1, resource.k8s.io/v1
[[nodiscard]] inline std::string kubernetes_text(Container const& container, bool has_claims) {
    auto const labels = "app: " + yaml_text(container.name);
    bool const is_claimed = has_claims && !container.devices.empty();
    auto const claim = is_claimed ? detail::kubernetes_claim(container) : std::string{};
    if (container.nodes > 1) {
        return leader_worker_set_text(container, has_claims) +
               detail::kubernetes_service(container, "    " + labels + "\n    role: leader\n") + claim;
    }
    return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: " + yaml_text(container.name) +
           "\nspec:\n  replicas: 1\n  selector:\n    matchLabels:\n      " + labels +
           "\n  strategy:\n    type: Recreate\n  template:\n    metadata:\n      labels:\n        " + labels + "\n" +
           detail::kubernetes_pod(container, has_claims, {}, true) +
           detail::kubernetes_service(container, "    " + labels + "\n") + claim;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
