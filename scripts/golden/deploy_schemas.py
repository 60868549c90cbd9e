#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/deploy/{leader_worker_set,compose}.schema.json, to which tests/deploy/check_manifests.py holds manifests.

    deploy_schemas.py LWS_CLONE COMPOSE_CLONE

LWS_CLONE is a clone of github.com/kubernetes-sigs/lws, of which tag v0.9.0 is read: the schema of the custom resource, without
descriptions, with the fields that `deploy` may write, each object closed. COMPOSE_CLONE is one of
github.com/compose-spec/compose-spec, of which commit 170098ba is read; its schema is kept whole. Both are under Apache-2.0.
Needs PyYAML.
"""
import json
import pathlib
import subprocess
import sys

import yaml

LWS = ("v0.9.0", "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml")
COMPOSE = ("170098ba07d9f53c383a41bfd4c5166b0a4529a6", "schema/compose-spec.json")
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/deploy"

KEPT = set("""
apiVersion kind metadata name labels spec replicas leaderWorkerTemplate size restartPolicy leaderTemplate workerTemplate
containers image command args ports containerPort env value valueFrom secretKeyRef key optional resources limits claims
startupProbe readinessProbe livenessProbe httpGet path port periodSeconds failureThreshold volumeMounts mountPath readOnly
volumes emptyDir medium sizeLimit hostPath type resourceClaims resourceClaimTemplateName
""".split())


def show(clone: str, version: tuple) -> str:
    return subprocess.run(["git", "-C", clone, "show", ":".join(version)], check=True, capture_output=True, text=True).stdout


def cut(schema):
    """The schema without texts, with the kept properties, closed. Plain JSON Schema has no int-or-string."""
    if isinstance(schema, list):
        return [cut(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    out = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {name: cut(one) for name, one in sorted(value.items()) if name in KEPT}
            out["additionalProperties"] = False
        elif key in ("description", "format", "default") or key.startswith("x-kubernetes"):
            continue
        else:
            out[key] = cut(value)
    return out


def main() -> None:
    crd = yaml.safe_load(show(sys.argv[1], LWS))
    (schema,) = [one["schema"]["openAPIV3Schema"] for one in crd["spec"]["versions"] if one["name"] == "v1"]
    # Of metadata a resource's schema says nothing.
    name = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False, "required": ["name"]}
    kept = cut(schema)
    kept["properties"]["metadata"] = name
    kept["properties"]["apiVersion"] = {"const": "leaderworkerset.x-k8s.io/v1"}
    kept["properties"]["kind"] = {"const": crd["spec"]["names"]["kind"]}
    kept["required"] = ["apiVersion", "kind", "metadata", "spec"]
    kept["$comment"] = f"kubernetes-sigs/lws {LWS[0]}, {LWS[1]}: the fields that deploy writes, Apache-2.0"
    (GOLDEN / "leader_worker_set.schema.json").write_text(json.dumps(kept, indent=1) + "\n")
    (GOLDEN / "compose.schema.json").write_text(show(sys.argv[2], COMPOSE))


main()
