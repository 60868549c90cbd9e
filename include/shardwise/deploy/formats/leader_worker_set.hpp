// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>
#include <shardwise/deploy/formats/kubernetes_pod.hpp>
#include <shardwise/deploy/formats/yaml_text.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A pod's template of a LeaderWorkerSet: two columns further to the right than a Deployment's.
[[nodiscard]] inline std::string group_template(std::string_view name, std::string_view role, Container const& container,
                                                std::string_view pod) {
    std::string text = "    " + std::string(name) + ":\n      metadata:\n        labels:\n          app: " +
                       yaml_text(container.name) + "\n          role: " + std::string(role) + "\n";
    while (!pod.empty()) {
        auto const end = pod.find('\n');
        text += "  " + std::string(pod.substr(0, end)) + "\n";
        if (end == std::string_view::npos) break;
        pod.remove_prefix(end + 1);
    }
    return text;
}

}  // namespace detail

/// A LeaderWorkerSet of one group: a pod on each node, of which the first serves. A pod that ends restarts them all.
///
/// Source  github.com/kubernetes-sigs/lws v0.9.0: leaderworkerset.x-k8s.io/v1; LWS_LEADER_ADDRESS, LWS_GROUP_SIZE and
///         LWS_WORKER_INDEX are put into every container by its controller
[[nodiscard]] inline std::string leader_worker_set_text(Container const& container, bool has_claims) {
    auto worker = container.node_arguments;
    worker.insert(worker.end(), container.worker_arguments.begin(), container.worker_arguments.end());
    return "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata:\n  name: " +
           yaml_text(container.name) + "\nspec:\n  replicas: 1\n  leaderWorkerTemplate:\n    size: " +
           std::to_string(container.nodes) + "\n    restartPolicy: RecreateGroupOnPodRestart\n" +
           detail::group_template("leaderTemplate", "leader", container,
                                  detail::kubernetes_pod(container, has_claims, container.node_arguments, true)) +
           detail::group_template("workerTemplate", "worker", container,
                                  detail::kubernetes_pod(container, has_claims, worker, false));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
