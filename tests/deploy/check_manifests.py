#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the manifests in a folder to their schemas, and to the docker line of the same deployment.

    check_manifests.py FOLDER

NAME.docker is the line, NAME.compose and NAME.kubernetes are the files. Compose is held to compose-spec's schema, Kubernetes'
own kinds to kubernetes-validate, strictly, LeaderWorkerSet to the committed part of its schema and its pods to Kubernetes'.
What runtimes make of words and variables must be what docker gets. A slip in any key must be refused. Needs PyPI's
kubernetes-validate and jsonschema.
"""
import copy
import json
import pathlib
import shlex
import sys

import jsonschema
import kubernetes_validate
import yaml

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/deploy"
COMPOSE = jsonschema.Draft7Validator(json.loads((GOLDEN / "compose.schema.json").read_text()))
GROUP = jsonschema.Draft7Validator(json.loads((GOLDEN / "leader_worker_set.schema.json").read_text()))
VERSION = kubernetes_validate.latest_version()


def is_kubernetes(document: dict) -> bool:
    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
        return True
    except (KeyError, kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError):
        return False


def is_right(document: dict) -> bool:
    if document.get("kind") != "LeaderWorkerSet":
        return is_kubernetes(document)
    if not GROUP.is_valid(document):
        return False
    group = document["spec"]["leaderWorkerTemplate"]
    pods = [group[name]["spec"] for name in ("leaderTemplate", "workerTemplate")]
    return all(is_kubernetes({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}) for pod in pods)


def paths_of(value, path=()):
    """The path of every key in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(value, dict):
            yield path + (key,)
        yield from paths_of(inner, path + (key,))


def with_slip(document, path):
    """The document with another letter at the end of one key."""
    slipped = copy.deepcopy(document)
    inner = slipped
    for key in path[:-1]:
        inner = inner[key]
    inner[str(path[-1]) + "z"] = inner.pop(path[-1])
    return slipped


CHECKED_KINDS = set()


def slips_of(kind: str, document, is_valid, free: set) -> list:
    """Keys that may be misspelt unnoticed, but those of maps whose keys are anybody's; for the first document of a kind."""
    if kind in CHECKED_KINDS:
        return []
    CHECKED_KINDS.add(kind)
    return [path for path in paths_of(document)
            if not (len(path) > 1 and path[-2] in free) and is_valid(with_slip(document, path))]


def docker_words(line: str):
    """What the container gets: its image, the words of its command with the entry point first, and its variables."""
    words = shlex.split(line)
    values = {"--name", "--gpus", "--device", "--shm-size", "--publish", "--volume", "--env", "--entrypoint", "--security-opt",
              "--group-add"}
    assert words[:3] == ["docker", "run", "--rm"], words[:3]
    variables, entry, at = {}, [], 3
    while words[at].startswith("-"):
        assert words[at] in values, words[at]
        if words[at] == "--env":
            name, has_value, value = words[at + 1].partition("=")
            variables[name] = value if has_value else None
        if words[at] == "--entrypoint":
            entry = [words[at + 1]]
        at += 2
    return words[at], entry, words[at + 1:], variables


def plain(text: str) -> str:
    """As compose and Kubernetes read a doubled dollar sign."""
    return text.replace("$$", "$")


def check_compose(name: str, text: str, line: str) -> None:
    document = yaml.safe_load(text)
    for problem in COMPOSE.iter_errors(document):
        raise SystemExit(f"{name}: compose: {problem.json_path}: {problem.message}")
    slips = slips_of("compose", document, COMPOSE.is_valid, {"services", "volumes"})
    assert not slips, f"{name}: compose: {slips}"
    (service,) = document["services"].values()
    image, entry, words, variables = docker_words(line)
    assert plain(service["image"]) == image, name
    assert [plain(word) for word in service.get("entrypoint", [])] == entry, name
    assert [plain(word) for word in service["command"]] == words, name
    read = dict((plain(one).partition("=")[0], plain(one).partition("=")[2] if "=" in one else None)
                for one in service.get("environment", []))
    assert read == variables, f"{name}: {read} {variables}"


def check_container(name: str, container: dict, line: str, more: list) -> None:
    image, entry, words, variables = docker_words(line)
    assert container["image"] == image, name
    assert [plain(word) for word in container.get("command", [])] == entry, name
    assert [plain(word) for word in container["args"]] == words + more, f"{name}: {container['args']}"
    read = {one["name"]: plain(one["value"]) if "value" in one else None for one in container.get("env", [])}
    assert read == variables, f"{name}: {read} {variables}"
    for one in container.get("env", []):
        assert ("value" in one) != ("secretKeyRef" in one.get("valueFrom", {})), name


def check_kubernetes(name: str, text: str, line: str | None) -> None:
    documents = list(yaml.safe_load_all(text))
    kinds = [document["kind"] for document in documents]
    assert kinds[0] in ("Deployment", "LeaderWorkerSet") and kinds[1] == "Service" and len(set(kinds)) == len(kinds), kinds
    for document in documents:
        assert is_right(document), f"{name}: {document['kind']} is not what its schema says"
        # Services select by any label, which a schema cannot know.
        slips = slips_of(document["kind"], document, is_right, {"labels", "matchLabels", "selector", "limits"})
        assert not slips, f"{name}: {document['kind']}: {slips}"
    spec = documents[0]["spec"]
    service = documents[1]["spec"]
    if kinds[0] == "Deployment":
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == service["selector"]
        check_container(name, spec["template"]["spec"]["containers"][0], line, [])
        return
    group = spec["leaderWorkerTemplate"]
    leader, worker = (group[one + "Template"] for one in ("leader", "worker"))
    assert leader["metadata"]["labels"] == service["selector"] != worker["metadata"]["labels"]
    leading, working = (one["spec"]["containers"][0]["args"] for one in (leader, worker))
    assert working[:len(leading)] == leading, name
    assert working[len(leading):] == (["--headless"] if "serve" in leading else []), name
    assert "ports" in leader["spec"]["containers"][0] and "ports" not in worker["spec"]["containers"][0], name
    rank = leading[leading.index("--nnodes"):]
    address = (["--master-addr", "$(LWS_LEADER_ADDRESS)"] if "serve" in leading else
               ["--dist-init-addr", "$(LWS_LEADER_ADDRESS):50000"])
    assert rank == ["--nnodes", "$(LWS_GROUP_SIZE)", "--node-rank", "$(LWS_WORKER_INDEX)"] + address, rank


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    count = 0
    for file in sorted(folder.iterdir()):
        line = folder / (file.stem + ".docker")
        if file.suffix == ".compose":
            check_compose(file.stem, file.read_text(), line.read_text())
        elif file.suffix == ".kubernetes":
            check_kubernetes(file.stem, file.read_text(), line.read_text() if line.exists() else None)
        else:
            continue
        count += 1
    print(f"{count} manifests of {', '.join(sorted(CHECKED_KINDS))} are what their schemas say")


main()
