// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>
#include <shardwise/deploy/formats/docker.hpp>
#include <shardwise/deploy/formats/yaml_text.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A word of a command, in which $(NAME) would be replaced unless its dollar sign is doubled.
[[nodiscard]] inline std::string kubernetes_word(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        out += text[i];
        // "$$" is read as "$" as well.
        if (text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '(' || text[i + 1] == '$')) out += '$';
    }
    return yaml_text(out);
}

[[nodiscard]] inline std::string kubernetes_environment(Container const& container) {
    if (container.environment.empty()) return {};
    std::string text = "          env:\n";
    for (auto const& entry : container.environment) {
        text += "            - name: " + yaml_text(entry.name) + "\n";
        if (entry.value) {
            text += "              value: " + kubernetes_word(*entry.value) + "\n";
            continue;
        }
        text += "              valueFrom:\n                secretKeyRef:\n                  name: " +
                yaml_text(container.name) + "\n                  key: " + yaml_text(entry.name) +
                "\n                  optional: true\n";
    }
    return text;
}

[[nodiscard]] inline std::string kubernetes_probe(std::string_view name, Container const& container,
                                                  std::string_view limits) {
    return "          " + std::string(name) + ":\n            httpGet:\n              path: " + health_path +
           "\n              port: " + std::to_string(container.port) + "\n" + std::string(limits);
}

[[nodiscard]] inline std::string kubernetes_claim(Container const& container) {
    bool const is_amd = container.kind() == DeviceKind::hip;
    return "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata:\n  name: " +
           yaml_text(container.name) +
           "\nspec:\n  spec:\n    devices:\n      requests:\n        - name: gpu\n          exactly:\n"
           "            deviceClassName: " +
           (is_amd ? "gpu.amd.com" : "gpu.nvidia.com") +
           "\n            allocationMode: ExactCount\n            count: " + std::to_string(container.devices.size()) +
           "\n";
}

/// A Service in front of the pods with these labels.
[[nodiscard]] inline std::string kubernetes_service(Container const& container, std::string_view labels) {
    return "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: " + yaml_text(container.name) +
           "\nspec:\n  selector:\n" + std::string(labels) + "  ports:\n    - name: http\n      port: " +
           std::to_string(container.host_port) + "\n      targetPort: http\n";
}

/// Folders of the pod: the host's, and what lives as long as the pod.
[[nodiscard]] inline std::string kubernetes_volumes(Container const& container, bool is_mount) {
    std::string text = is_mount ? "          volumeMounts:\n            - name: shm\n              mountPath: /dev/shm\n"
                                : "      volumes:\n        - name: shm\n          emptyDir:\n            medium: Memory\n"
                                  "            sizeLimit: " +
                                      gib_word(container.shared_memory, "Gi") + "\n";
    for (std::size_t i = 0; i < container.mounts.size(); ++i) {
        auto const& mount = container.mounts[i];
        auto const name = "volume-" + std::to_string(i);
        if (is_mount) {
            text += "            - name: " + name + "\n              mountPath: " + yaml_text(mount.target) + "\n";
            if (mount.is_read_only) text += "              readOnly: true\n";
        } else if (mount.is_host_path()) {
            text += "        - name: " + name + "\n          hostPath:\n            path: " + yaml_text(mount.source) +
                    "\n            type: " + (mount.is_read_only ? "Directory" : "DirectoryOrCreate") + "\n";
        } else {
            text += "        - name: " + name + "\n          emptyDir: {}\n";
        }
    }
    return text;
}

/// The specification of a pod, from "    spec:" on. `more` are words after the container's own, in which $(NAME) stands for a
/// variable; a pod that does not serve has neither port nor probes.
[[nodiscard]] inline std::string kubernetes_pod(Container const& container, bool has_claims,
                                                std::vector<std::string> const& more, bool serves) {
    bool const is_amd = container.kind() == DeviceKind::hip;
    bool const has_devices = !container.devices.empty();
    std::string text = "    spec:\n      containers:\n        - name: engine\n          image: " +
                       yaml_text(container.image) + "\n";
    if (!container.entrypoint.empty())
        text += "          command: [" + kubernetes_word(container.entrypoint) + "]\n";
    text += "          args:\n";
    for (auto const& word : container.arguments) text += "            - " + kubernetes_word(word) + "\n";
    for (auto const& word : more) text += "            - " + yaml_text(word) + "\n";
    if (serves) {
        text += "          ports:\n            - name: http\n              containerPort: " +
                std::to_string(container.port) + "\n";
    }
    text += kubernetes_environment(container);
    if (has_devices && has_claims) {
        text += "          resources:\n            claims:\n              - name: gpu\n";
    } else if (has_devices) {
        text += "          resources:\n            limits:\n              " +
                std::string(is_amd ? "amd.com/gpu" : "nvidia.com/gpu") + ": " +
                yaml_text(std::to_string(container.devices.size())) + "\n";
    }
    if (serves) {
        // Half an hour for the image's weights.
        text += kubernetes_probe("startupProbe", container,
                                 "            periodSeconds: 10\n            failureThreshold: 180\n");
        text += kubernetes_probe("readinessProbe", container, "            periodSeconds: 5\n");
        text += kubernetes_probe("livenessProbe", container,
                                 "            periodSeconds: 10\n            failureThreshold: 6\n");
    }
    text += kubernetes_volumes(container, true);
    if (has_devices && has_claims) {
        text += "      resourceClaims:\n        - name: gpu\n          resourceClaimTemplateName: " +
                yaml_text(container.name) + "\n";
    }
    return text + kubernetes_volumes(container, false);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
