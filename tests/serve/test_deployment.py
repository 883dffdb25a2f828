"""Deployment files: they agree with each other and with the code, and their scripts work."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from nmt_keras import cli
from serve.client.translating import DEFAULT_BATCH_SIZE, DEFAULT_MODEL, DEFAULT_TEXT_BYTES
from serve.server import OTHER_FILES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "serve" / "deploy"

NGINX = (DEPLOY / "nginx.conf").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
KUSTOMIZATION = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
MANIFESTS = {
    document["kind"]: document
    for resource in KUSTOMIZATION["resources"]
    for document in yaml.safe_load_all((DEPLOY / resource).read_text())
}
"""Objects that ``kubectl apply -k serve/deploy`` creates, by kind."""
POD = MANIFESTS["Deployment"]["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]


def default(text: str) -> str:
    """Returns a value of compose.yaml with the defaults of its variables."""
    return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", text)


def number(pattern: str, text: str) -> int:
    """Returns the only number that ``pattern`` matches in ``text``."""
    (found,) = set(re.findall(pattern, text))
    return int(found)


# TensorFlow Serving


@pytest.mark.parametrize("path", ["models.config", "k8s/models.config"])
def test_the_models_are_those_that_clients_ask_for_by_default(path):
    config = text_format.Parse((DEPLOY / path).read_text(), model_server_config_pb2.ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == (DEFAULT_MODEL, f"/models/{DEFAULT_MODEL}")
    assert model.model_platform == "tensorflow"


def test_the_largest_batch_holds_the_largest_request_of_a_client():
    assert number(r"max_batch_size { value: (\d+)", (DEPLOY / "batching.config").read_text()) >= DEFAULT_BATCH_SIZE


def test_prometheus_finds_the_metrics():
    annotations = POD["metadata"]["annotations"]
    assert f'path: "{annotations["prometheus.io/path"]}"' in (DEPLOY / "monitoring.config").read_text()
    assert annotations["prometheus.io/port"] == "8501"


def test_the_server_starts_with_the_same_options_and_files_everywhere():
    serving = COMPOSE["serving"]
    assert CONTAINER["image"] == serving["image"]
    assert CONTAINER["command"] + CONTAINER["args"] == serving["entrypoint"]
    mounted = {inside: default(outside) for inside, outside in map(mount, serving["volumes"])}
    read = [option.split("=")[1] for option in serving["entrypoint"] if "_file=" in option]
    assert all((DEPLOY / mounted[path]).is_file() for path in read)
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    assert all((DEPLOY / path).is_file() for path in generated["files"])
    assert {Path(path).name for path in generated["files"]} == {Path(path).name for path in read}


def mount(volume: str) -> tuple[str, str]:
    """Returns the path in the container and the path on the host of a read-only volume."""
    outside, inside, mode = volume.rsplit(":", 2)
    assert mode == "ro"
    return inside, outside


@pytest.mark.parametrize("service", ["serving", "nginx"])
def test_a_container_has_no_more_rights_than_it_needs(service):
    found = COMPOSE[service]
    assert default(found["user"]).split(":")[0] not in ("0", "root")
    assert found["read_only"]
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert all(map(mount, found["volumes"]))
    assert all(default(port).startswith("127.0.0.1:") for port in found["ports"])


@pytest.mark.parametrize("service", ["serving", "nginx"])
def test_the_log_of_a_container_takes_a_limited_part_of_the_disk(service):
    logging = COMPOSE[service]["logging"]
    assert logging["driver"] in ("json-file", "local")
    size, files = logging["options"]["max-size"], logging["options"]["max-file"]
    assert number(r"(\d+)m", size) * int(files) <= 100


@pytest.mark.server
def test_the_health_check_passes_only_for_a_model_that_is_available(served):
    command = [part.replace("$$", "$") for part in COMPOSE["serving"]["healthcheck"]["test"][1:]]
    for address, model, is_healthy in ((served, "spa-eng", True), (served, "no", False), ("http://h:1", "a", False)):
        here = [part.replace("/8501", f"/{address.rsplit(':', 1)[1]}") for part in command]
        assert here != command
        code = subprocess.run(here, env={"MODEL": model, "PATH": "/usr/bin:/bin"}, timeout=30).returncode
        assert (code == 0) is is_healthy


@pytest.mark.server
def test_probes_ask_for_what_exists_only_while_the_model_is_available(served):
    for probe in ("startupProbe", "readinessProbe"):
        path = CONTAINER[probe]["httpGet"]["path"]
        assert httpx.get(served + path, trust_env=False).status_code == 200
        assert httpx.get(served + path.replace("spa-eng", "no-such"), trust_env=False).status_code == 404
    assert httpx.get(served + CONTAINER["livenessProbe"]["httpGet"]["path"], trust_env=False).status_code == 200


# nginx

MIB = 2**20
CONNECTION = 64 * 2**10
"""Bytes of a client's connection: TLS state, an output buffer of 16 KiB, HTTP/2 state."""
REQUEST = 512 * 2**10
"""Bytes of a request: 64 KiB for the beginning of an HTTP/2 body, headers, buffers, and 264 KiB for zlib."""
WORKER = 8 * MIB
"""Bytes of an nginx process, without connections."""


def test_nginx_stays_within_its_memory():
    assert "proxy_request_buffering off;" in NGINX  # otherwise, bodies would fill /tmp, which is in memory
    assert "proxy_buffering off;" in NGINX
    workers = number(r"worker_processes (\d+);", NGINX)
    connections = workers * number(r"worker_connections (\d+);", NGINX)
    requests = number(r"limit_conn total (\d+);", NGINX) + number(r"limit_conn page (\d+);", NGINX)
    zones = sum(map(int, re.findall(r"(?:zone=|shared:)\w+:(\d+)m", NGINX))) * MIB
    needed = (1 + workers) * WORKER + connections * CONNECTION + requests * REQUEST + zones
    assert needed + tmpfs("nginx") <= number(r"(\d+)m", COMPOSE["nginx"]["mem_limit"]) * MIB


def tmpfs(service: str) -> int:
    """Returns the maximum bytes of a service's temporary files, which are part of its memory."""
    (found,) = COMPOSE[service]["tmpfs"]
    return number(r"size=(\d+)m", found) * MIB


PARSED = 16
"""Maximum bytes that TensorFlow Serving needs for a byte of JSON, for a list of empty strings: 16 for each value and 24
for each string of the tensor, which are three bytes of the body, and copies of the body."""


def test_bodies_take_at_most_half_of_the_memory_of_the_model_server():
    memory = number(r"(\d+)g", default(COMPOSE["serving"]["mem_limit"])) * 2**30
    body = number(r"client_max_body_size (\d+)m;", NGINX)
    assert number(r"limit_conn total (\d+);", NGINX) * body * MIB * PARSED <= memory / 2
    assert tmpfs("serving") <= memory / 16


def test_the_ingress_has_the_limits_of_nginx():
    prefix = "nginx.ingress.kubernetes.io/"
    annotations = MANIFESTS["Ingress"]["metadata"]["annotations"]
    found = {name.removeprefix(prefix): value for name, value in annotations.items()}
    rate, burst = number(r"rate=(\d+)r/s", NGINX), number(r"burst=(\d+)", NGINX)
    body = number(r"client_max_body_size (\d+)m;", NGINX)
    assert found == {
        "limit-burst-multiplier": str(burst // rate),
        "limit-connections": str(number(r"limit_conn address (\d+);", NGINX)),
        "limit-rps": str(rate),
        "proxy-body-size": f"{body}m",
        "proxy-connect-timeout": str(number(r"proxy_connect_timeout (\d+)s;", NGINX)),
        "proxy-read-timeout": str(number(r"proxy_read_timeout (\d+)s;", NGINX)),
        "proxy-request-buffering": "off",
    }


def test_a_batch_of_the_client_s_longest_sentences_passes_nginx():
    body = json.dumps({"inputs": {"text": ["ñ" * (DEFAULT_TEXT_BYTES // 2)] * DEFAULT_BATCH_SIZE}}, ensure_ascii=False)
    assert len(body.encode()) < number(r"client_max_body_size (\d+)m;", NGINX) * MIB


def test_requests_for_the_page_have_a_limit_of_their_own():
    """The page stays available while requests hold all slots of the API."""
    locations = re.findall(r"location [^=].*?\n        }", NGINX, re.DOTALL)
    found = {block: re.findall(r"limit_conn (\w+)", block) for block in locations}
    assert [zones for block, zones in found.items() if "_pass " in block] == [["address", "total"]] * 2
    assert [zones for block, zones in found.items() if "try_files" in block] == [["page"]]


def test_nginx_waits_longer_than_the_model_server_does():
    timeout = number(r"timeout_in_ms=(\d+)", " ".join(CONTAINER["args"]))
    assert number(r"proxy_read_timeout (\d+)s;", NGINX) * 1000 > timeout


# Kubernetes


@pytest.mark.kubectl
def test_kubectl_renders_the_manifests_in_one_namespace_with_the_files_of_the_server():
    done = subprocess.run(["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, timeout=60, check=True)
    rendered = {document["kind"]: document for document in yaml.safe_load_all(done.stdout)}
    assert rendered.keys() == MANIFESTS.keys() | {"ConfigMap"}
    namespaces = {document["metadata"].get("namespace") for kind, document in rendered.items() if kind != "Namespace"}
    assert namespaces == {rendered["Namespace"]["metadata"]["name"]}
    volumes = rendered["Deployment"]["spec"]["template"]["spec"]["volumes"]
    name = rendered["ConfigMap"]["metadata"]["name"]  # contains a hash of the files, so that a change causes a rollout
    assert name in {volume.get("configMap", {}).get("name") for volume in volumes}
    assert name.startswith("serving-")


def test_every_object_selects_the_pods_of_the_deployment():
    labels = POD["metadata"]["labels"]
    assert MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "serving"


def test_a_rollout_never_leaves_fewer_pods_and_gives_requests_time_to_end():
    spec = MANIFESTS["Deployment"]["spec"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    name, pause = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert name == "sleep"
    timeout = number(r"timeout_in_ms=(\d+)", " ".join(CONTAINER["args"]))
    assert timeout / 1000 < int(pause) < POD["spec"]["terminationGracePeriodSeconds"]


# Network policies


class Peer(NamedTuple):
    """A pod that opens a connection."""

    namespace: str
    labels: dict[str, str]


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Returns whether a Kubernetes selector selects an object with these labels. Only ``matchLabels`` is supported."""
    assert selector.keys() <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def admits(policy: dict[str, Any], peer: Peer, port: int) -> bool:
    """Returns whether a network policy allows connections from ``peer`` to ``port`` of the selected pods."""
    own = {"matchLabels": {"kubernetes.io/metadata.name": policy["metadata"].get("namespace", "translation")}}
    namespace = {"kubernetes.io/metadata.name": peer.namespace}
    assert "Ingress" in policy["spec"]["policyTypes"]
    for rule in policy["spec"]["ingress"]:
        sources = rule.get("from", [{"namespaceSelector": {}}])
        comes_from_there = any(
            matches(source.get("namespaceSelector", own), namespace)
            and matches(source.get("podSelector", {}), peer.labels)
            for source in sources
        )
        if comes_from_there and port in [each["port"] for each in rule.get("ports", [{"port": port}])]:
            return True
    return False


INGRESS_CONTROLLER = Peer("ingress-nginx", {"app.kubernetes.io/name": "ingress-nginx"})
PROMETHEUS = Peer("monitoring", {"app.kubernetes.io/name": "prometheus"})
NEIGHBOUR = Peer("translation", {"app": "web"})
STRANGER = Peer("default", {"app": "web"})
PEERS = (INGRESS_CONTROLLER, PROMETHEUS, Peer("translation", POD["metadata"]["labels"]), NEIGHBOUR, STRANGER)


def test_the_model_server_admits_rest_from_two_namespaces_and_opens_no_connection():
    policy = MANIFESTS["NetworkPolicy"]
    assert matches(policy["spec"]["podSelector"], POD["metadata"]["labels"])
    assert [peer for peer in PEERS if admits(policy, peer, 8501)] == [INGRESS_CONTROLLER, PROMETHEUS]
    assert not any(admits(policy, peer, 8500) for peer in PEERS)
    assert "Egress" in policy["spec"]["policyTypes"]
    assert not policy["spec"].get("egress")


# The page on Kubernetes


PAGE = {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "k8s" / "page.yaml").read_text())}


def test_the_page_has_the_host_and_the_certificate_of_the_model_server():
    page, server = PAGE["Ingress"]["spec"], MANIFESTS["Ingress"]["spec"]
    assert page["tls"] == server["tls"]
    assert [rule["host"] for rule in page["rules"]] == [rule["host"] for rule in server["rules"]]
    assert page["ingressClassName"] == server["ingressClassName"]
    assert {each["metadata"]["namespace"] for each in PAGE.values()} == {KUSTOMIZATION["namespace"]}


def test_the_page_s_pods_are_those_of_its_service_and_admit_the_ingress_controller_alone():
    pod = PAGE["Deployment"]["spec"]["template"]
    labels, (container,) = pod["metadata"]["labels"], pod["spec"]["containers"]
    assert matches({"matchLabels": PAGE["Service"]["spec"]["selector"]}, labels)
    assert matches(PAGE["NetworkPolicy"]["spec"]["podSelector"], labels)
    (port,) = container["ports"]
    assert [peer for peer in PEERS if admits(PAGE["NetworkPolicy"], peer, port["containerPort"])] == [
        INGRESS_CONTROLLER
    ]
    assert container["image"] == COMPOSE["nginx"]["image"]
    headers = re.findall(r"add_header (X-\S+|Referrer-Policy) (.*);", PAGE["ConfigMap"]["data"]["default.conf"])
    assert len(headers) == 3
    assert all(f"add_header {name} {value};" in NGINX for name, value in headers)


# systemd


UNIT = (DEPLOY / "systemd" / "nmt-serve.service").read_text()


def test_the_service_of_systemd_has_options_of_the_command_and_room_for_its_connections_and_last_requests():
    _, *arguments = shlex.split(re.search(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[1])
    options = cli.parse(arguments).options
    assert options.host == "127.0.0.1"
    assert number(r"LimitNOFILE=\d+:(\d+)", UNIT) >= options.limits.connections + OTHER_FILES
    assert number(r"TimeoutStopSec=(\d+)", UNIT) > options.shutdown_seconds


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_knows_every_setting_of_the_service(tmp_path):
    unit = tmp_path / "nmt-serve.service"
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT, flags=re.MULTILINE))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert unit.name not in done.stderr  # it also reports other units of this machine


@pytest.fixture(scope="module")
def training() -> dict[str, dict[str, Any]]:
    """Objects of the training job, by kind."""
    text = (ROOT / "docs" / "guides" / "training-job.yaml").read_text()
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def test_only_the_workers_of_a_training_job_reach_its_workers(training):
    policy, job = training["NetworkPolicy"], training["Job"]
    labels = job["spec"]["template"]["metadata"]["labels"]
    namespace = job["metadata"]["namespace"]
    assert policy["metadata"]["namespace"] == namespace
    assert matches(policy["spec"]["podSelector"], labels)
    assert matches({"matchLabels": training["Service"]["spec"]["selector"]}, labels)
    for port in (2222, 40_000):  # NCCL uses any port
        assert admits(policy, Peer(namespace, labels), port)
        assert not any(admits(policy, peer, port) for peer in (Peer("default", labels), *PEERS))


def test_the_training_job_starts_every_worker_with_all_addresses_and_a_command_that_parses(training, tmp_path):
    job = training["Job"]["spec"]
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


# The job that publishes a version


class Publishing:
    """Runs the command of the job with temporary folders."""

    def __init__(self, folder: Path) -> None:
        self.model, exported = folder / "models" / "spa-eng", folder / "export"
        self.model.mkdir(parents=True)
        (exported / "spa-eng" / "2" / "variables").mkdir(parents=True)
        (exported / "spa-eng" / "2" / "variables" / "variables.index").write_text("weights")
        job = yaml.safe_load((DEPLOY / "k8s" / "publish-version.yaml").read_text())
        (container,) = job["spec"]["template"]["spec"]["containers"]
        *shell, script = container["command"]
        script = script.replace("cd /models", f"cd {shlex.quote(str(folder / 'models'))}")
        self.command = [*shell, script.replace("/export", str(exported))]
        self.environment = {each["name"]: each["value"] for each in container["env"]} | {"PATH": "/usr/bin:/bin"}

    def __call__(self, **environment: str) -> int:
        return subprocess.run(self.command, env=self.environment | environment, capture_output=True).returncode


def test_the_publishing_job_makes_a_whole_version_and_removes_what_an_earlier_attempt_left(tmp_path):
    publish = Publishing(tmp_path)
    (publish.model / "partial-2").mkdir()
    (publish.model / "partial-2" / "junk").write_text("junk")
    assert publish() == 0
    assert [path.relative_to(publish.model).as_posix() for path in publish.model.rglob("*") if path.is_file()] == [
        "2/variables/variables.index"
    ]


def test_the_publishing_job_never_changes_a_version(tmp_path):
    publish = Publishing(tmp_path)
    (publish.model / "2").mkdir()
    assert publish() == 1
    assert list(publish.model.rglob("*")) == [publish.model / "2"]


def test_the_publishing_job_may_be_repeated(tmp_path):
    publish = Publishing(tmp_path)
    assert publish() == publish() == 0


def test_the_publishing_job_does_not_move_its_copy_into_a_version_that_appears_meanwhile(tmp_path):
    publish = Publishing(tmp_path)
    program = tmp_path / "bin" / "sync"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nmkdir {publish.model}/2 && touch {publish.model}/2/other\n")
    program.chmod(0o755)
    assert publish(PATH=f"{program.parent}:/usr/bin:/bin") != 0
    assert [path.name for path in (publish.model / "2").iterdir()] == ["other"]


def test_the_publishing_job_fails_and_leaves_nothing_if_its_image_lacks_the_version(tmp_path):
    publish = Publishing(tmp_path)
    assert publish(VERSION="3") != 0
    assert list(publish.model.iterdir()) == []


# Continuous integration


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_runs_commands_that_exist(path):
    workflow = yaml.safe_load(path.read_text())
    commands = "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])
    makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
    targets = set(re.findall(r"^([\w./-]+):(?!=)", makefile, re.MULTILINE))
    called = set(re.findall(r"\bmake ([\w./-]+)", commands))
    assert called
    assert path.name != "tests.yml" or {"audit", "lint", "test"} <= called
    assert called <= targets
    for module in set(re.findall(r"-m (serve\.\w+|nmt_keras[\w.]*)", commands)):
        subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, check=True, capture_output=True, timeout=60)
    for file in re.findall(r"\bserve/[\w./-]+\.(?:yaml|config)\b", commands):
        assert (ROOT / file).is_file()
