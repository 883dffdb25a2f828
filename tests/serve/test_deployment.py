"""Deployment files: their commands, probes and scripts work."""

import json
import re
import shlex
import subprocess

import httpx
import pytest
import yaml
from servers import ROOT

from nmt_keras import cli
from serve.client.translating import DEFAULT_BATCH_SIZE, DEFAULT_MODEL, DEFAULT_TEXT_BYTES
from serve.models.model_config import read_model_configs
from serve.server import OTHER_FILES

DEPLOY = ROOT / "serve" / "deploy"

NGINX = (DEPLOY / "nginx.conf").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
KUBERNETES = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
PODS = KUBERNETES["Deployment"]["spec"]["template"]
(CONTAINER,) = PODS["spec"]["containers"]


def number(pattern: str, text: str) -> int:
    """Returns the only number that ``pattern`` matches in ``text``."""
    (found,) = set(re.findall(pattern, text))
    return int(found)


def test_the_models_are_those_that_clients_ask_for_by_default():
    (model,) = read_model_configs(DEPLOY / "models.config")
    assert (model.name, str(model.base_path)) == (DEFAULT_MODEL, f"/models/{DEFAULT_MODEL}")


@pytest.mark.parametrize(
    ("port", "model", "is_healthy"), [(None, "spa-eng", True), (None, "no", False), (1, "a", False)]
)
def test_the_health_check_passes_only_for_a_model_that_is_available(served, port, model, is_healthy):
    command = [part.replace("$$", "$") for part in COMPOSE["serving"]["healthcheck"]["test"][1:]]
    here = [part.replace("/8501", f"/{port or served.rpartition(':')[2]}") for part in command]
    assert here != command
    code = subprocess.run(here, env={"MODEL": model, "PATH": "/usr/bin:/bin"}, timeout=30).returncode
    assert (code == 0) is is_healthy


def test_probes_ask_for_what_exists_only_while_the_model_is_available(served):
    for probe in ("startupProbe", "readinessProbe"):
        path = CONTAINER[probe]["httpGet"]["path"]
        assert httpx.get(served + path, trust_env=False).status_code == 200
        assert httpx.get(served + path.replace("spa-eng", "no-such"), trust_env=False).status_code == 404
    assert httpx.get(served + CONTAINER["livenessProbe"]["httpGet"]["path"], trust_env=False).status_code == 200


def test_kubernetes_runs_the_server_of_compose_and_cannot_write_its_models():
    assert CONTAINER["image"] == COMPOSE["serving"]["image"]
    assert [*CONTAINER["command"], *CONTAINER["args"]] == COMPOSE["serving"]["entrypoint"]
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in CONTAINER["volumeMounts"]}
    assert mounts == {"/models": True, "/config": True, "/tmp": False}


def test_pods_of_kubernetes_are_reached_by_rest_only_and_open_no_connections():
    rest = number(r"--rest_api_port=(\d+)", " ".join(CONTAINER["args"]))
    service, policy = KUBERNETES["Service"]["spec"], KUBERNETES["NetworkPolicy"]["spec"]
    ((admitted,), closed) = policy["ingress"], policy["egress"]
    reached = {each["port"] for each in (*service["ports"], *admitted["ports"])}
    assert reached == {each["containerPort"] for each in CONTAINER["ports"]} == {rest}
    assert admitted["from"]
    assert all(each["namespaceSelector"] for each in admitted["from"])  # an empty one admits all namespaces
    assert (closed, set(policy["policyTypes"])) == ([], {"Ingress", "Egress"})
    assert service["selector"] == policy["podSelector"]["matchLabels"] == PODS["metadata"]["labels"]
    assert len({each["metadata"].get("namespace", "translation") for each in KUBERNETES.values()}) == 1


def test_a_batch_of_the_client_s_longest_sentences_passes_nginx():
    body = json.dumps({"inputs": {"text": ["ñ" * (DEFAULT_TEXT_BYTES // 2)] * DEFAULT_BATCH_SIZE}}, ensure_ascii=False)
    assert len(body.encode()) < number(r"client_max_body_size (\d+)m;", NGINX) * 2**20


UNIT = (DEPLOY / "systemd" / "nmt-serve.service").read_text()


def test_the_service_of_systemd_has_options_of_the_command_and_room_for_its_connections_and_last_requests():
    _, *arguments = shlex.split(re.search(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[1])
    options = cli.parse(arguments).options
    assert options.host == "127.0.0.1"
    assert number(r"LimitNOFILE=\d+:(\d+)", UNIT) >= options.limits.connections + OTHER_FILES
    assert number(r"TimeoutStopSec=(\d+)", UNIT) > options.shutdown_seconds


def test_the_training_job_starts_every_worker_with_all_addresses_and_a_command_that_parses(tmp_path):
    documents = yaml.safe_load_all((ROOT / "docs" / "guides" / "training-job.yaml").read_text())
    job = next(each["spec"] for each in documents if each["kind"] == "Job")
    assert job["activeDeadlineSeconds"] >= 86_400  # ends in any case, but not during a day's training
    (container,) = job["template"]["spec"]["containers"]
    (workers,) = (each["value"] for each in container["env"] if each["name"] == "WORKERS")
    assert job["completions"] == job["parallelism"] == int(workers)
    program = tmp_path / "nmt"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$TF_CONFIG" | tr "\\n" " "\necho\nprintf "%s\\n" "$@"\n')
    (tmp_path / "getent").write_text(f"#!/bin/sh\necho $* >> {tmp_path}/asked; [ $(wc -l < {tmp_path}/asked) = 2 ]\n")
    for each in (program, tmp_path / "getent"):
        each.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "WORKERS": workers, "JOB_COMPLETION_INDEX": "2"}
    done = subprocess.run(container["command"], env=environment, capture_output=True, text=True, check=True)
    config, *arguments = done.stdout.splitlines()
    assert json.loads(config) == {
        "cluster": {"worker": [f"training-{number}.training:2222" for number in range(4)]},
        "task": {"type": "worker", "index": 2},
    }
    names = " ".join(f"training-{number}.training" for number in range(4))
    assert (tmp_path / "asked").read_text() == f"hosts {names}\n" * 2
    assert cli.parse(arguments).chosen().train.steps == 300_000


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_runs_commands_that_exist(path):
    workflow = yaml.safe_load(path.read_text())
    commands = "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])
    makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
    targets = set(re.findall(r"^([\w./-]+):(?!=)", makefile, re.MULTILINE))
    called = set(re.findall(r"\bmake ([\w./-]+)", commands))
    assert called <= targets
    assert called >= ({"audit", "lint", "test"} if path.name == "tests.yml" else set())
    for file in re.findall(r"\bserve/[\w./-]+\.(?:yaml|config)\b", commands):
        assert (ROOT / file).is_file()
