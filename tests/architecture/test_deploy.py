"""The files to deploy with hold what they promise, and every command in them exists."""

from __future__ import annotations

import configparser
import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from offpath.cli.main import cli
from offpath.config import FIELDS, PREFIX, Settings
from tests.architecture.sources import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MANIFESTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text("utf-8"))
)
SCALING: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "deploy" / "keda.yaml").read_text("utf-8"))
)
DASHBOARD: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "deploy" / "dashboard.yaml").read_text("utf-8"))
)
DEPLOYMENT = next(one for one in MANIFESTS if one["kind"] == "Deployment")
POD = DEPLOYMENT["spec"]["template"]["spec"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
PROBE = ["offpath", "health", "--url", "http://127.0.0.1:8080"]


KUSTOMIZATION: dict[str, Any] = yaml.safe_load(
    (ROOT / "deploy" / "kustomization.yaml").read_text("utf-8")
)


def unit(name: str = "offpath-worker") -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    parser.read_string((ROOT / "deploy" / f"{name}.service").read_text("utf-8"))
    return parser


UNIT = unit()["Service"]
BOARD_UNIT = unit("offpath-dashboard")["Service"]


def in_dockerfile(word: str) -> list[list[str]]:
    text = DOCKERFILE.replace("\\\n", " ")
    found = [line.partition(word)[2] for line in text.splitlines() if f"{word} [" in line]
    return [json.loads(one) for one in found]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command line of offpath, with the place that it stands in."""
    for name, service in SERVICES.items():
        for words in (service.get("command"), service.get("healthcheck", {}).get("test", [""])[1:]):
            if words and words[0] == "offpath":
                yield f"compose {name}", words
    for container in (*POD["initContainers"], *POD["containers"]):
        yield f"kubernetes {container['name']}", container["command"]
    (board,) = DASHBOARD[0]["spec"]["template"]["spec"]["containers"]
    yield "kubernetes dashboard", board["command"]
    yield "unit dashboard", ["offpath", *shlex.split(BOARD_UNIT["ExecStart"])[1:]]
    yield from (("Dockerfile", words) for words in in_dockerfile("CMD"))
    for key in ("ExecStartPre", "ExecStart"):
        words = shlex.split(UNIT[key])
        assert words[0].endswith("/bin/offpath")
        yield f"unit {key}", ["offpath", *words[1:]]


def parsed(words: Sequence[str]) -> click.Context:
    """Parse a command as the program does; raises UsageError for what it does not know."""
    name, command, rest = cli.resolve_command(click.Context(cli), list(words[1:]))
    assert command is not None
    return command.make_context(name, rest)


COMMANDS = list(commands())


@pytest.mark.parametrize(
    ("place", "words"), COMMANDS, ids=[f"{place}: {words[1]}" for place, words in COMMANDS]
)
def test_every_command_and_option_exists(place: str, words: list[str]) -> None:
    assert parsed(words).command.name == words[1], place


def test_a_command_that_does_not_exist_would_be_seen() -> None:
    with pytest.raises(click.UsageError):
        parsed(["offpath", "no-such-command"])
    with pytest.raises(click.UsageError):
        parsed(["offpath", "worker", "a:b", "--no-such-option"])
    assert len(COMMANDS) >= 10


def test_every_setting_in_them_exists() -> None:
    given = {*SERVICES["worker"]["environment"], "OFFPATH_APP"}
    for container in (*POD["initContainers"], *POD["containers"]):
        given |= {one["name"] for one in container["env"]}
    known = {f"{PREFIX}{name.upper()}" for name in FIELDS}
    assert given - known == set()


# -- compose ---------------------------------------------------------------------------------------


def condition(service: str, on: str) -> str:
    found: str = SERVICES[service]["depends_on"][on]["condition"]
    return found


def test_the_schema_is_there_before_a_worker_starts() -> None:
    assert condition("migrate", "postgres") == "service_healthy"
    assert condition("worker", "postgres") == "service_healthy"
    assert condition("worker", "migrate") == "service_completed_successfully"


def test_a_workers_health_is_the_readiness_probe() -> None:
    assert SERVICES["worker"]["healthcheck"]["test"] == ["CMD", *PROBE]
    worker = parsed(SERVICES["worker"]["command"]).params
    assert worker["health_port"] == 8080


def test_the_fleet_is_judged_by_the_store_and_no_probe() -> None:
    """Work that waits for all is not a worker's readiness: a command of its own asks for it."""
    context = parsed(SERVICES["fleet"]["command"])
    assert (context.command.name, context.params["url"]) == ("health", None)
    environment = SERVICES["fleet"]["environment"]
    assert "OFFPATH_URL" in environment
    assert "OFFPATH_HEALTH_PORT" not in environment


def test_who_depends_on_a_worker_waits_until_it_is_healthy() -> None:
    dependants = [name for name, one in SERVICES.items() if "worker" in one.get("depends_on", {})]
    assert dependants == ["fleet", "try"]
    assert {condition(name, "worker") for name in dependants} == {"service_healthy"}


def test_every_service_is_judged_or_runs_once() -> None:
    for name, service in SERVICES.items():
        check = service["healthcheck"]
        assert check.get("disable") is True or check["test"][0] == "CMD", name
    assert {n for n, one in SERVICES.items() if one["healthcheck"].get("disable")} == {
        "fleet",
        "migrate",
        "try",
    }


def seconds(text: str) -> int:
    assert text.endswith("s")
    return int(text[:-1])


def test_each_manager_waits_longer_than_the_drain() -> None:
    compose = parsed(SERVICES["worker"]["command"]).params["drain_timeout"]
    assert seconds(SERVICES["worker"]["stop_grace_period"]) >= compose + 2
    pod = parsed(POD["containers"][0]["command"]).params["drain_timeout"]
    assert POD["terminationGracePeriodSeconds"] >= pod + 2
    started = parsed(["offpath", *shlex.split(UNIT["ExecStart"])[1:]]).params["drain_timeout"]
    assert int(UNIT["TimeoutStopSec"]) >= started + 2


# -- image, kubernetes, systemd --------------------------------------------------------------------


def test_the_image_starts_the_worker_itself_and_is_judged_by_the_probe() -> None:
    worker, probe = in_dockerfile("CMD")
    assert worker[:2] == ["offpath", "worker"]
    assert probe == PROBE
    assert "USER 10001" in DOCKERFILE
    build = SERVICES["worker"]["build"]
    assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    copied = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY")]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


def test_the_worker_itself_gets_the_signal_and_orphans_are_reaped() -> None:
    """In exec form there is no shell in between. systemd does both by itself."""
    starts = [
        line for line in DOCKERFILE.splitlines() if line.startswith(("CMD", "ENTRYPOINT", "SHELL"))
    ]
    assert [json.loads(line.partition(" ")[2])[:2] for line in starts] == [["offpath", "worker"]]
    for command in (SERVICES["worker"]["command"], POD["containers"][0]["command"]):
        assert isinstance(command, list)
        assert command[:2] == ["offpath", "worker"]
    assert "entrypoint" not in SERVICES["worker"]
    assert SERVICES["worker"]["init"] is True
    assert POD["shareProcessNamespace"] is True


def test_a_pod_is_alive_by_livez_and_ready_by_readyz() -> None:
    (worker,) = POD["containers"]
    paths = {name: worker[name]["httpGet"]["path"] for name in worker if name.endswith("Probe")}
    assert paths == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    (port,) = worker["ports"]
    environment = {one["name"]: one.get("value") for one in worker["env"]}
    assert int(environment["OFFPATH_HEALTH_PORT"]) == port["containerPort"]
    assert {worker[name]["httpGet"]["port"] for name in paths} == {port["name"]}


def test_an_open_probe_is_behind_a_policy_for_the_same_pods() -> None:
    (policy,) = [one for one in MANIFESTS if one["kind"] == "NetworkPolicy"]
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_a_pod_migrates_before_its_worker_and_holds_no_password() -> None:
    (first,) = POD["initContainers"]
    assert first["command"] == ["offpath", "migrate"]
    for container in (first, *POD["containers"]):
        (url,) = [one for one in container["env"] if one["name"] == "OFFPATH_URL"]
        assert "secretKeyRef" in url["valueFrom"]


def test_the_unit_is_told_ready_and_watched_by_progress() -> None:
    assert UNIT["Type"] == "notify"
    assert UNIT["NotifyAccess"] == "main"
    assert int(UNIT["WatchdogSec"]) >= 30
    assert UNIT["Restart"] == "always"
    assert UNIT["KillMode"] == "mixed"
    assert "--processes" not in UNIT["ExecStart"]
    assert UNIT["ExecStartPre"].endswith("offpath migrate")


def test_a_dashboard_that_others_reach_has_a_token_and_a_policy() -> None:
    deployment, policy = DASHBOARD
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    pod = deployment["spec"]["template"]["spec"]
    (board,) = pod["containers"]
    params = parsed(board["command"]).params
    (port,), (mount,) = board["ports"], board["volumeMounts"]
    assert (params["host"], params["port"]) == ("0.0.0.0", port["containerPort"])
    assert params["token_file"].is_relative_to(mount["mountPath"])
    (secret,) = [one["secret"] for one in pod["volumes"] if one["name"] == mount["name"]]
    assert oct(secret["defaultMode"]) == "0o440"
    assert policy["spec"]["ingress"][0]["ports"] == [{"port": port["containerPort"]}]


def test_the_unit_of_the_dashboard_listens_here_alone_and_gets_its_token_from_systemd() -> None:
    params = parsed(["offpath", *shlex.split(BOARD_UNIT["ExecStart"])[1:]]).params
    assert params["host"] == "127.0.0.1"
    name, _, path = BOARD_UNIT["LoadCredential"].partition(":")
    assert path.startswith("/etc/")
    assert str(params["token_file"]) == f"${{CREDENTIALS_DIRECTORY}}/{name}"


# -- scaling ---------------------------------------------------------------------------------------

_TRIGGER = {"query", "targetQueryValue", "activationTargetQueryValue"}
"""Of the fields that the documentation of this trigger names, those that are set here; the
connection comes from the authentication."""


def test_workers_are_scaled_by_what_is_due_and_runs() -> None:
    credentials, scaled = SCALING
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["type"] == "postgresql"
    assert set(trigger["metadata"]) == _TRIGGER
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert trigger["metadata"]["query"].startswith("select offpath.demand(")
    assert trigger["metadata"]["activationTargetQueryValue"] == "0"
    assert int(trigger["metadata"]["targetQueryValue"]) == Settings().concurrency
    assert "--concurrency" not in POD["containers"][0]["command"]
    assert trigger["authenticationRef"]["name"] == credentials["metadata"]["name"]
    (connection,) = credentials["spec"]["secretTargetRef"]
    assert connection["parameter"] == "connection"


def test_workers_that_drain_are_not_scaled_away() -> None:
    spec = SCALING[1]["spec"]
    assert spec["scaleTargetRef"]["name"] == DEPLOYMENT["metadata"]["name"]
    assert spec["cooldownPeriod"] > POD["terminationGracePeriodSeconds"]


def test_whoever_takes_a_handler_over_has_little_to_take() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["automountServiceAccountToken"] is False
    for container in (*POD["initContainers"], *POD["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    for name in ("migrate", "worker", "fleet", "try"):
        service = SERVICES[name]
        assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert UNIT["CapabilityBoundingSet"] == ""
    assert UNIT["UMask"] == "0077"
    shut = ("NoNewPrivileges", "ProtectHome", "PrivateDevices", "RestrictSUIDSGID")
    assert [UNIT[each] for each in shut] == ["true"] * len(shut)


def images_of(one: dict[str, Any]) -> set[str]:
    pod = one.get("spec", {}).get("template", {}).get("spec", {})
    return {
        each["image"].partition(":")[0]
        for each in (*pod.get("initContainers", ()), *pod.get("containers", ()))
    }


def test_the_kustomization_is_of_files_and_images_that_are_there() -> None:
    files = [ROOT / "deploy" / name for name in KUSTOMIZATION["resources"]]
    objects = [one for file in files for one in yaml.safe_load_all(file.read_text("utf-8"))]
    named = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert sorted(named) == sorted(
        (one["kind"], one["metadata"]["name"]) for one in (*MANIFESTS, *DASHBOARD)
    )
    used = set().union(*(images_of(one) for one in objects))
    assert {one["name"] for one in KUSTOMIZATION["images"]} == used


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, and no cluster")
def test_kubectl_builds_the_kustomization_with_the_image_of_an_overlay(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "kustomization.yaml").write_text(
        "resources: [../deploy]\nnamePrefix: shop-\n"
        "images: [{name: offpath-service, newName: registry.example/shop, newTag: v7}]\n"
    )
    built = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "shop"], capture_output=True, text=True, check=True
    )
    objects = list(yaml.safe_load_all(built.stdout))
    assert len(objects) == len(MANIFESTS) + len(DASHBOARD)
    assert all(one["metadata"]["name"].startswith("shop-offpath-") for one in objects)
    assert set().union(*(images_of(one) for one in objects)) == {"registry.example/shop"}
    assert "offpath-service" not in built.stdout
