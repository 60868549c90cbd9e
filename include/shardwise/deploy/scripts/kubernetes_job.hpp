// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/deploy/formats/kubernetes.hpp>
#include <shardwise/deploy/formats/yaml_text.hpp>
#include <shardwise/deploy/scripts/job_request.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The resource of a vendor's device plugin.
[[nodiscard]] constexpr std::string_view device_resource(DeviceKind kind) {
    switch (kind) {
        case DeviceKind::cuda: return "nvidia.com/gpu";
        case DeviceKind::hip: return "amd.com/gpu";
        case DeviceKind::cpu:
        case DeviceKind::metal:
        case DeviceKind::disk: return {};
    }
    return {};
}

/// Whether a YAML file may hold the word: UTF-8, beyond ASCII without control characters and marks of direction.
///
/// Source  YAML 1.2.2, 5.1
[[nodiscard]] inline bool is_yaml_word(std::string word) {
    for (char& letter : word) {
        if (static_cast<unsigned char>(letter) < 0x80) letter = 'a';
    }
    return escaped(word) == word;
}

[[nodiscard]] inline std::string kubernetes_resources(JobRequest const& request) {
    std::string text;
    auto const per_pod = request.layout.ranks.front();
    if (request.cpus)
        text += "            requests:\n              cpu: " + yaml_text(std::to_string(*request.cpus * per_pod)) + "\n";
    auto const resource = device_resource(request.layout.kind);
    if (!resource.empty()) {
        text += "            limits:\n              " + std::string(resource) + ": " + yaml_text(std::to_string(per_pod)) +
                "\n";
    }
    return text.empty() ? text : "          resources:\n" + text;
}

/// Where pods of `shardwise run` meet: a folder of the job's own on a volume that all of them see.
[[nodiscard]] inline std::string kubernetes_meeting(bool has_meeting) {
    if (!has_meeting) return {};
    return "          env:\n            - name: JOB_UID\n              valueFrom:\n                fieldRef:\n"
           "                  fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']\n"
           "            - name: SHARDWISE_RENDEZVOUS\n              value: \"/rendezvous/$(JOB_UID)\"\n";
}

[[nodiscard]] inline std::string kubernetes_job_volumes(JobRequest const& request, bool has_meeting) {
    std::string text = "          volumeMounts:\n            - name: shm\n              mountPath: /dev/shm\n";
    if (!request.mount.empty())
        text += "            - name: model\n              mountPath: " + yaml_text(request.mount) +
                "\n              readOnly: true\n";
    if (has_meeting) text += "            - name: rendezvous\n              mountPath: /rendezvous\n";
    text += "      volumes:\n        - name: shm\n          emptyDir:\n            medium: Memory\n";
    if (!request.mount.empty())
        text += "        - name: model\n          hostPath:\n            path: " + yaml_text(request.mount) + "\n";
    if (has_meeting)
        text += "        - name: rendezvous\n          persistentVolumeClaim:\n            claimName: " +
                yaml_text(request.name) + "\n";
    return text;
}

}  // namespace detail

/// An Indexed Job, one pod for each node of the plan, with the headless Service by which pods find the first one. Each pod
/// runs `shardwise launch`, which starts its ranks with torchrun's variables. Pods of `shardwise run` on several nodes meet
/// in a folder of a volume that all of them may write: its claim has the job's name.
///
/// Errors  those of check_job and check_alike; unsupported for devices that no device plugin gives out;
///         invalid_argument without an image
/// Source  Kubernetes 1.34: batch/v1 Job, completionMode Indexed; v1 Service
[[nodiscard]] inline Result<std::string> kubernetes_job(JobRequest const& request) {
    if (auto const checked = check_job(request); !checked) return checked.error();
    if (auto const checked = check_alike(request, "Kubernetes"); !checked) return checked.error();
    auto const& layout = request.layout;
    if (layout.has_accelerators() && detail::device_resource(layout.kind).empty()) {
        return Error{ErrorCode::unsupported}
            .in("Kubernetes")
            .at(name_of(layout.kind))
            .because("has no device plugin")
            .fix("plan for CUDA or HIP devices");
    }
    bool const is_image = !request.image.empty() && request.image.front() != '-';
    if (!is_image || request.image.find_first_of(" \t\r\n") != std::string::npos) {
        return Error{ErrorCode::invalid_argument}.in("image").because("is no name of an image").fix(
            "name one that holds the shardwise program and the command");
    }
    for (auto const& word : request.command) {
        if (detail::is_yaml_word(word)) continue;
        return Error{ErrorCode::invalid_argument}.in("command").at(word).because("is no UTF-8 that a manifest holds").fix(
            "put it into a file of the image");
    }
    auto const name = yaml_text(request.name);
    auto const nodes = std::to_string(layout.nodes());
    bool const has_meeting = request.is_run && layout.nodes() > 1;
    std::string text = "apiVersion: v1\nkind: Service\nmetadata:\n  name: " + name +
                       "\nspec:\n  clusterIP: \"None\"\n  publishNotReadyAddresses: true\n  selector:\n    app: " + name +
                       "\n  ports:\n    - name: rendezvous\n      port: " + std::to_string(request.port) + "\n";
    if (has_meeting) {
        text += "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: " + name +
                "\nspec:\n  accessModes:\n    - ReadWriteMany\n  resources:\n    requests:\n      storage: \"1Gi\"\n";
    }
    text += "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + name + "\nspec:\n  completions: " + nodes +
            "\n  parallelism: " + nodes + "\n  completionMode: Indexed\n  backoffLimit: 0\n  template:\n    metadata:\n" +
            "      labels:\n        app: " + name + "\n    spec:\n      restartPolicy: Never\n      subdomain: " + name +
            "\n      containers:\n        - name: ranks\n          image: " + yaml_text(request.image) +
            "\n          command: [\"shardwise\"]\n          args:\n            - \"launch\"\n";
    // The number of a pod is the only thing that is replaced.
    auto const add = [&text](std::string const& word) { text += "            - " + word + "\n"; };
    add(yaml_text("--nproc"));
    add(yaml_text(std::to_string(layout.ranks.front())));
    if (layout.nodes() > 1) {
        for (auto const& word : {std::string("--nnodes"), nodes, std::string("--node-rank"),
                                 std::string("$(JOB_COMPLETION_INDEX)"), std::string("--master-addr"),
                                 request.name + "-0." + request.name, std::string("--master-port"),
                                 std::to_string(request.port)})
            add(yaml_text(word));
    }
    add(yaml_text("--"));
    for (auto const& word : request.command) add(detail::kubernetes_word(word));
    text += detail::kubernetes_meeting(has_meeting);
    text += detail::kubernetes_resources(request);
    text += detail::kubernetes_job_volumes(request, has_meeting);
    return text;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
