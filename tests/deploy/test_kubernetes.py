"""The manifests for Kubernetes name what there is: settings, ports, paths that answer; and fit each other."""

import sys
from pathlib import Path
from typing import Any

import httpx
import yaml

from millstream.server import settings
from running import announced, free_port, started

DEPLOY = Path(__file__).parents[2] / "deploy"
OBJECTS: dict[str, Any] = {
    one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
}
POD: dict[str, Any] = OBJECTS["Deployment"]["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
GIVEN: dict[str, str] = {one["name"]: one["value"] for one in CONTAINER["env"] if "value" in one}
SECRETS: dict[str, str] = {"MILLSTREAM_STORE": "memory", "MILLSTREAM_AUTH_SECRET": "x" * 32}


def test_variables_are_settings() -> None:
    assert {one["name"] for one in CONTAINER["env"]} == {*GIVEN, *SECRETS}
    loaded = settings.load({}, GIVEN | SECRETS, None)
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"streams": loaded.port, "admin": loaded.admin_port}
    assert POD["terminationGracePeriodSeconds"] > loaded.drain_timeout_s


def test_probes_are_answered_without_a_token() -> None:
    port = free_port()
    here = GIVEN | SECRETS | {"MILLSTREAM_PORT": "0", "MILLSTREAM_HOST": "127.0.0.1"}
    here |= {"MILLSTREAM_ADMIN_PORT": str(port)}
    with started([sys.executable, "-m", "millstream", "serve"], announced, here):
        for kind in ("readinessProbe", "livenessProbe"):
            asked = CONTAINER[kind]["httpGet"]
            assert asked["port"] == "admin"
            by_address = httpx.get(
                f"http://127.0.0.1:{port}{asked['path']}", headers={"host": "10.1.2.3:9437"}
            )
            assert by_address.status_code == 200, kind


def test_a_disruption_leaves_some_servers() -> None:
    deployment, budget = OBJECTS["Deployment"]["spec"], OBJECTS["PodDisruptionBudget"]["spec"]
    assert 1 < budget["minAvailable"] < deployment["replicas"]
    labels = deployment["template"]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"] == deployment["selector"]["matchLabels"] == labels
    service = OBJECTS["Service"]["spec"]
    assert service["selector"] == labels
    assert service["ports"][0]["targetPort"] in {port["name"] for port in CONTAINER["ports"]}


def test_the_image_runs_as_the_user_that_the_pod_asks_for_and_knows_the_database() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    assert f"--uid {CONTAINER['securityContext']['runAsUser']} " in image
    assert "postgres]" in image
