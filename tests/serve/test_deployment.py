"""The deployment files: each parses as what reads it reads it, and they agree with one another and with the code."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import crossplane  # nginx's own grammar, without nginx
import pytest
import yaml
from google.protobuf import descriptor_pool, message_factory, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from tensorflow_serving.config import model_server_config_pb2

from nmt_keras import cli
from serve.client.translating import DEFAULT_BATCH_SIZE, DEFAULT_MODEL

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "serve" / "deploy"

# The fields of TensorFlow Serving's session_bundle_config.proto and monitoring_config.proto, which
# tensorflow-serving-api does not hold; a boxed value stands for google.protobuf.Int64Value.
OPTIONS = """
    name: "options.proto" syntax: "proto3"
    message_type { name: "Boxed" field { name: "value" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL } }
    message_type {
        name: "BatchingParameters"
        field { name: "max_batch_size" number: 1 type_name: "Boxed" label: LABEL_OPTIONAL }
        field { name: "batch_timeout_micros" number: 2 type_name: "Boxed" label: LABEL_OPTIONAL }
        field { name: "max_enqueued_batches" number: 3 type_name: "Boxed" label: LABEL_OPTIONAL }
        field { name: "num_batch_threads" number: 4 type_name: "Boxed" label: LABEL_OPTIONAL }
        field { name: "allowed_batch_sizes" number: 6 type: TYPE_INT64 label: LABEL_REPEATED }
        field { name: "pad_variable_length_inputs" number: 7 type: TYPE_BOOL label: LABEL_OPTIONAL }
    }
    message_type {
        name: "PrometheusConfig"
        field { name: "enable" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
        field { name: "path" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
    }
    message_type {
        name: "MonitoringConfig"
        field { name: "prometheus_config" number: 1 type_name: "PrometheusConfig" label: LABEL_OPTIONAL }
    }
"""


def options_message(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(OPTIONS, FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


def text_proto(path: str, message: Any) -> Any:
    return text_format.Parse((DEPLOY / path).read_text(), message)


def documents(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / path).read_text()))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return documents("compose.yaml")[0]["services"]


@pytest.fixture(scope="module")
def manifests() -> dict[str, dict[str, Any]]:
    """Every object that ``kubectl apply -k serve/deploy`` makes, by kind."""
    resources = documents("kustomization.yaml")[0]["resources"]
    return {document["kind"]: document for resource in resources for document in documents(resource)}


@pytest.fixture(scope="module")
def container(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (container,) = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


# TensorFlow Serving's own files


@pytest.mark.parametrize("path", ["models.config", "k8s/models.config"])
def test_the_model_config_names_the_model_that_clients_ask_for_by_default(path):
    (model,) = text_proto(path, model_server_config_pb2.ModelServerConfig()).model_config_list.config
    assert model.name == DEFAULT_MODEL
    assert model.base_path == f"/models/{DEFAULT_MODEL}"
    assert model.model_platform == "tensorflow"


def test_the_servers_batches_hold_the_largest_request_that_a_client_sends_by_default():
    batching = text_proto("batching.config", options_message("BatchingParameters"))
    assert batching.max_batch_size.value >= DEFAULT_BATCH_SIZE
    assert batching.num_batch_threads.value >= 1
    assert batching.max_enqueued_batches.value >= 1
    assert not batching.allowed_batch_sizes or batching.allowed_batch_sizes[-1] == batching.max_batch_size.value


def test_metrics_stand_where_prometheus_is_told_to_look(manifests):
    monitoring = text_proto("monitoring.config", options_message("MonitoringConfig")).prometheus_config
    assert monitoring.enable
    annotations = manifests["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == monitoring.path
    assert annotations["prometheus.io/port"] == "8501"


# Compose


def test_images_are_pinned_and_the_same_everywhere(compose, container):
    assert compose["serving"]["image"] == container["image"]
    for image in (compose["serving"]["image"], compose["nginx"]["image"]):
        assert re.fullmatch(r"[\w/-]+:\d+\.\d+\.\d+[\w-]*", image)


@pytest.mark.parametrize("service", ["serving", "nginx"])
def test_a_container_can_do_no_more_than_it_must(compose, service):
    found = compose[service]
    user = re.sub(r"\$\{\w+:-(.*)\}", r"\1", found["user"])
    assert user.split(":")[0] not in ("0", "root")
    assert found["read_only"]
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert all(volume.endswith(":ro") for volume in found["volumes"])
    assert found["healthcheck"]["test"][0] == "CMD"


def mounts(volumes: list[str]) -> dict[str, str]:
    """Path in the container to path beside compose.yaml, variables left at their defaults."""
    plain = [re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume) for volume in volumes]
    return {inside: outside for outside, inside, _ in (volume.split(":") for volume in plain)}


def test_every_file_that_a_container_is_told_to_read_is_mounted(compose):
    mounted = mounts(compose["serving"]["volumes"])
    told = [flag.split("=")[1] for flag in compose["serving"]["entrypoint"] if "_file=" in flag]
    assert len(told) == 3
    for path in told:
        assert (DEPLOY / mounted[path]).is_file()
    assert (DEPLOY / mounted["/models"]).resolve() == ROOT / "saved_models"
    assert (DEPLOY / mounts(compose["nginx"]["volumes"])["/etc/nginx/nginx.conf"]).is_file()


def test_ports_of_the_model_server_are_open_to_this_machine_alone(compose):
    assert all(port.startswith("127.0.0.1:") for port in compose["serving"]["ports"])


def health(compose: dict[str, Any], served: str, model: str) -> int:
    """The exit code of the health check, run here against a server on another port."""
    command = [part.replace("$$", "$") for part in compose["serving"]["healthcheck"]["test"][1:]]
    here = [part.replace("/8501", f"/{served.rsplit(':', 1)[1]}") for part in command]
    assert here != command
    return subprocess.run(here, env={"MODEL": model, "PATH": "/usr/bin:/bin"}, timeout=30).returncode


@pytest.mark.server
def test_the_health_check_passes_for_a_model_that_is_available_and_for_no_other(compose, served):
    assert health(compose, served, "spa-eng") == 0
    assert health(compose, served, "no-such") != 0


def test_the_health_check_fails_where_nobody_listens(compose):
    assert health(compose, "http://127.0.0.1:1", "spa-eng") != 0


# nginx


def walk(block: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every directive of a block and of the blocks inside it."""
    for directive in block:
        yield directive
        yield from walk(directive.get("block", []))


@pytest.fixture(scope="module")
def nginx() -> list[dict[str, Any]]:
    """Every directive of nginx.conf."""
    (parsed,) = crossplane.parse(str(DEPLOY / "nginx.conf"), single=True)["config"]
    return list(walk(parsed["parsed"]))


def locations(nginx: list[dict[str, Any]], directive: str) -> list[dict[str, Any]]:
    """The locations that hold a directive."""
    found = [each for each in nginx if each["directive"] == "location"]
    return [each for each in found if any(inner["directive"] == directive for inner in each["block"])]


# Memory: nginx's defaults for what nginx.conf leaves out, and what its source allocates on a 64-bit machine.

SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "ki": 2**10, "mi": 2**20, "gi": 2**30}
CONNECTION = 64 * 2**10
"""Bytes of a client's connection: TLS state, its 16 KiB output buffer, HTTP/2 state."""
GZIP = 264 * 2**10
"""Bytes that zlib takes to compress one response."""
PREREAD = 64 * 2**10
"""Bytes of an HTTP/2 request body that a client may send ahead."""
WORKER = 8 * 2**20
"""Bytes of an nginx process without connections."""


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([a-z]*)", text.lower()).groups()
    return int(number) * SIZES[unit]


def default(text: str) -> str:
    """A value of compose.yaml, variables left at their defaults."""
    return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", text)


def tmpfs(service: dict[str, Any]) -> float:
    """Bytes that a service of compose.yaml may keep in its tmpfs, which counts as its memory."""
    sizes = [re.search(r"size=(\w+)", mount) for mount in service["tmpfs"]]
    return sum(size(found[1]) if found else math.inf for found in sizes)


class Nginx:
    """The limits of nginx.conf; ``inf`` where there is none."""

    def __init__(self, directives: list[dict[str, Any]]) -> None:
        self.directives = directives
        workers = self.argument("worker_processes", "1")
        self.workers = math.inf if workers == "auto" else int(workers)
        self.connections = self.workers * int(self.argument("worker_connections", "512"))
        zones = {each["args"][1]: each["args"][0] for each in directives if each["directive"] == "limit_conn_zone"}
        limits = [each["args"] for each in directives if each["directive"] == "limit_conn"]
        keys = {zone.removeprefix("zone=").partition(":")[0]: key for zone, key in zones.items()}
        self.at_once = {keys[zone]: int(number) for zone, number in limits if zone != "page"}
        self.requests = self.at_once.get("$server_name", self.connections)
        pages = [int(number) for zone, number in limits if zone == "page"]
        self.pages = pages[0] if pages else self.connections
        self.body = size(self.argument("client_max_body_size", "1m"))

    def argument(self, directive: str, default: str) -> str:
        found = {each["args"][0] for each in self.directives if each["directive"] == directive}
        assert len(found) <= 1, directive
        return found.pop() if found else default

    def buffers(self, directive: str, default: str) -> int:
        (number, each) = next((d["args"] for d in self.directives if d["directive"] == directive), default.split())
        return int(number) * size(each)

    def on_disk(self) -> float:
        """Bytes of request bodies and responses in temporary files."""
        bodies = self.body if self.argument("proxy_request_buffering", "on") == "on" else 0
        responses = size(self.argument("proxy_max_temp_file_size", "1024m"))
        return self.requests * (bodies + (responses if self.argument("proxy_buffering", "on") == "on" else 0))

    def in_memory(self) -> float:
        """Bytes of processes, shared zones, connections and requests."""
        zones = [re.search(r"(?:zone=|shared:)\w+:(\w+)", " ".join(each["args"])) for each in self.directives]
        request = (
            max(PREREAD, size(self.argument("client_body_buffer_size", "16k")))
            + self.buffers("large_client_header_buffers", "4 8k")
            + size(self.argument("proxy_buffer_size", "8k"))
            + size(self.argument("grpc_buffer_size", "8k"))
            + GZIP
            + self.buffers("gzip_buffers", "16 8k")
        )
        return (
            (1 + self.workers) * WORKER
            + sum(size(zone[1]) for zone in zones if zone)
            + self.connections * CONNECTION
            + (self.requests + self.pages) * request
        )


def test_nginx_at_its_limits_stays_within_its_memory(compose, nginx):
    limits = Nginx(nginx)
    room = tmpfs(compose["nginx"])
    assert limits.on_disk() <= room
    assert limits.in_memory() + room <= size(compose["nginx"]["mem_limit"])


def test_the_bodies_that_nginx_lets_in_take_at_most_half_of_the_model_server_s_memory(compose, nginx):
    limits = Nginx(nginx)
    memory = size(default(compose["serving"]["mem_limit"]))
    assert limits.requests * limits.body <= memory / 2
    assert tmpfs(compose["serving"]) <= memory / 16


def test_every_location_limits_its_requests(nginx):
    """A limit for all locations would let requests that hold the API's slots take those of the page."""
    models = [*locations(nginx, "proxy_pass"), *locations(nginx, "grpc_pass")]
    zones = [[inner["args"][0] for inner in each["block"] if inner["directive"] == "limit_conn"] for each in models]
    assert zones == [["address", "total"]] * 2
    (page,) = locations(nginx, "try_files")
    assert [inner["args"][0] for inner in page["block"] if inner["directive"] == "limit_conn"] == ["page"]


def seconds(directive: str) -> int:
    (found,) = re.findall(rf"{directive} (\d+)s;", (DEPLOY / "nginx.conf").read_text())
    return int(found)


def test_nginx_waits_longer_than_the_model_server_does(compose):
    (timeout,) = [flag.split("=")[1] for flag in compose["serving"]["entrypoint"] if "timeout_in_ms" in flag]
    assert seconds("proxy_read_timeout") * 1000 > int(timeout)


def test_nginx_reads_the_page_and_the_certificate_where_they_are_mounted(compose):
    configuration = (DEPLOY / "nginx.conf").read_text()
    mounted = mounts(compose["nginx"]["volumes"])
    assert f"root {'/usr/share/nginx/html'};" in configuration
    assert mounted["/usr/share/nginx/html"] == "../web"
    assert "ssl_certificate tls/server.crt;" in configuration  # beside nginx.conf
    assert "/etc/nginx/tls" in mounted


def test_nginx_knows_every_directive_where_it_stands_and_takes_its_arguments():
    assert crossplane.parse(str(DEPLOY / "nginx.conf"), single=True, strict=True)["errors"] == []


# Kubernetes


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, though no cluster")
def test_kubectl_renders_what_the_files_describe(manifests):
    done = subprocess.run(["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rendered = {document["kind"]: document for document in yaml.safe_load_all(done.stdout)}
    assert rendered.keys() == manifests.keys() | {"ConfigMap"}
    namespaces = {document["metadata"].get("namespace") for kind, document in rendered.items() if kind != "Namespace"}
    assert namespaces == {rendered["Namespace"]["metadata"]["name"]}
    config = rendered["ConfigMap"]
    assert config["metadata"]["name"].startswith("serving-")  # and a hash of what it holds: a change is a rollout
    for name, text in config["data"].items():
        source = DEPLOY / "k8s" / name
        assert text == (source if source.exists() else DEPLOY / name).read_text()
    volumes = rendered["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert config["metadata"]["name"] in {volume.get("configMap", {}).get("name") for volume in volumes}


def test_pods_start_the_server_as_compose_does(compose, container):
    assert container["command"] + container["args"] == compose["serving"]["entrypoint"]


def test_the_config_map_holds_every_file_that_the_server_reads(container):
    (generated,) = documents("kustomization.yaml")[0]["configMapGenerator"]
    assert all((DEPLOY / path).is_file() for path in generated["files"])
    told = {Path(flag.split("=")[1]).name for flag in container["args"] if "_file=" in flag}
    assert {Path(path).name for path in generated["files"]} == told


def test_every_object_selects_the_pods_of_the_deployment(manifests):
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["Service"]["spec"]["selector"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "serving"


def test_the_ingress_passes_bodies_on_as_they_arrive_with_the_limit_of_nginx(manifests, nginx):
    annotations = manifests["Ingress"]["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-request-buffering"] == "off"
    assert size(annotations["nginx.ingress.kubernetes.io/proxy-body-size"]) == Nginx(nginx).body


# Network policies


class Peer(NamedTuple):
    """A pod that opens a connection."""

    labels: dict[str, str]
    namespace: str


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a Kubernetes selector, which may have ``matchLabels`` alone, selects something with these labels."""
    assert selector.keys() <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def admits(policy: dict[str, Any], peer: Peer, port: int) -> bool:
    """Whether a network policy lets ``peer`` open a connection to a port of the pods that the policy selects."""
    own = policy["metadata"].get("namespace", "translation")  # kustomize sets it where it is missing

    def comes_from(source: dict[str, Any]) -> bool:
        assert source.keys() <= {"podSelector", "namespaceSelector"}
        namespace = {"kubernetes.io/metadata.name": peer.namespace}
        in_namespace = (
            matches(source["namespaceSelector"], namespace) if "namespaceSelector" in source else peer.namespace == own
        )
        return in_namespace and matches(source.get("podSelector", {}), peer.labels)

    assert "Ingress" in policy["spec"]["policyTypes"]
    return any(
        (not rule.get("from") or any(map(comes_from, rule["from"])))
        and (not rule.get("ports") or port in [each["port"] for each in rule["ports"]])
        for rule in policy["spec"].get("ingress", [])
    )


INGRESS_CONTROLLER = Peer({"app.kubernetes.io/name": "ingress-nginx"}, "ingress-nginx")
PROMETHEUS = Peer({"app.kubernetes.io/name": "prometheus"}, "monitoring")
SERVING = Peer({"app.kubernetes.io/name": "serving"}, "translation")
NEIGHBOUR = Peer({"app": "web"}, "translation")
STRANGER = Peer({"app": "web"}, "default")
PEERS = (INGRESS_CONTROLLER, PROMETHEUS, SERVING, NEIGHBOUR, STRANGER)


def test_no_pod_reaches_the_model_server_s_grpc_port(manifests):
    policy = manifests["NetworkPolicy"]
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert matches(policy["spec"]["podSelector"], labels)
    assert not any(admits(policy, peer, 8500) for peer in PEERS)


def test_the_ingress_controller_and_prometheus_reach_the_rest_port_and_nobody_else(manifests):
    policy = manifests["NetworkPolicy"]
    assert admits(policy, INGRESS_CONTROLLER, 8501)
    assert admits(policy, PROMETHEUS, 8501)
    assert not any(admits(policy, peer, 8501) for peer in (SERVING, NEIGHBOUR, STRANGER))


def test_the_model_server_opens_no_connection(manifests):
    policy = manifests["NetworkPolicy"]["spec"]
    assert "Egress" in policy["policyTypes"]
    assert not policy.get("egress")


def test_a_rollout_never_leaves_fewer_pods_and_gives_requests_time_to_end(manifests, container):
    spec = manifests["Deployment"]["spec"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    name, pause = container["lifecycle"]["preStop"]["exec"]["command"]
    (timeout,) = [flag.split("=")[1] for flag in container["args"] if "timeout_in_ms" in flag]
    assert name == "sleep"
    assert int(timeout) / 1000 < int(pause) < spec["template"]["spec"]["terminationGracePeriodSeconds"]


@pytest.mark.server
def test_probes_ask_for_what_is_there_exactly_while_the_model_is_available(container, served):
    import httpx

    for probe in ("startupProbe", "readinessProbe"):
        path = container[probe]["httpGet"]["path"]
        assert httpx.get(served + path, trust_env=False).status_code == 200
        assert httpx.get(served + path.replace("spa-eng", "no-such"), trust_env=False).status_code == 404
    alive = httpx.get(served + container["livenessProbe"]["httpGet"]["path"], trust_env=False)
    assert alive.status_code == 200


@pytest.fixture
def publish(tmp_path: Path) -> tuple[list[str], dict[str, str], Path]:
    """The publishing job's command with folders of this test, its environment, and the folder of the models."""
    (job,) = documents("k8s/publish-version.yaml")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    models, exported = tmp_path / "models", tmp_path / "export"
    models.mkdir()
    (exported / "spa-eng" / "2" / "variables").mkdir(parents=True)
    (exported / "spa-eng" / "2" / "variables" / "variables.index").write_text("weights")
    *shell, script = container["command"]
    script = script.replace("cd /models", f"cd {shlex.quote(str(models))}").replace("/export", str(exported))
    environment = {each["name"]: each["value"] for each in container["env"]}
    return [*shell, script], environment | {"PATH": "/usr/bin:/bin"}, models


def test_the_publishing_job_makes_a_whole_version_and_leaves_nothing_beside_it(publish):
    command, environment, models = publish
    (models / "spa-eng" / "partial-2").mkdir(parents=True)  # what an earlier attempt left
    (models / "spa-eng" / "partial-2" / "junk").write_text("junk")
    subprocess.run(command, env=environment, check=True)
    assert [path.name for path in (models / "spa-eng").iterdir()] == ["2"]
    written = [path.relative_to(models).as_posix() for path in models.rglob("*") if path.is_file()]
    assert written == ["spa-eng/2/variables/variables.index"]


def test_the_publishing_job_never_touches_a_version_that_is_there(publish):
    command, environment, models = publish
    (models / "spa-eng" / "2").mkdir(parents=True)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert list((models / "spa-eng" / "2").iterdir()) == []


def test_the_publishing_job_fails_without_a_trace_when_the_version_is_missing(publish):
    command, environment, models = publish
    failed = subprocess.run(command, env=environment | {"VERSION": "3"}, capture_output=True)
    assert failed.returncode != 0
    assert [path.name for path in (models / "spa-eng").iterdir()] == []


# Continuous integration


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_runs_commands_that_exist(path):
    workflow = yaml.safe_load(path.read_text())
    commands = "\n".join(step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"])
    targets = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"\bmake ([\w-]+)", commands))
    assert called
    assert called <= targets
    for module in set(re.findall(r"-m (serve\.\w+|nmt_keras[\w.]*)", commands)):
        subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, check=True, capture_output=True, timeout=60)
    for file in re.findall(r"\bserve/[\w./-]+\.(?:yaml|config)\b", commands):
        assert (ROOT / file).is_file()


@pytest.fixture(scope="module")
def training() -> dict[str, dict[str, Any]]:
    """Every object of the training job, by kind."""
    text = (ROOT / "docs" / "guides" / "training-job.yaml").read_text()
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def test_only_the_workers_of_a_training_job_reach_its_workers(training):
    policy, job = training["NetworkPolicy"], training["Job"]
    labels = job["spec"]["template"]["metadata"]["labels"]
    namespace = job["metadata"]["namespace"]
    assert policy["metadata"]["namespace"] == namespace
    assert matches(policy["spec"]["podSelector"], labels)
    for port in (2222, 40_000):  # NCCL takes any port
        assert admits(policy, Peer(labels, namespace), port)
        assert not admits(policy, Peer(labels, "default"), port)
        assert not any(admits(policy, peer, port) for peer in PEERS)


def test_the_training_job_s_service_names_its_workers(training):
    labels = training["Job"]["spec"]["template"]["metadata"]["labels"]
    assert matches({"matchLabels": training["Service"]["spec"]["selector"]}, labels)


def test_the_training_job_tells_every_worker_of_all_and_trains_with_a_command_that_parses(training, tmp_path):
    job = training["Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (workers,) = (each["value"] for each in container["env"] if each["name"] == "WORKERS")
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(workers)
    told = tmp_path / "nmt"
    told.write_text('#!/bin/sh\nprintf "%s\\n" "$TF_CONFIG" | tr "\\n" " "\necho\nprintf "%s\\n" "$@"\n')
    told.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "WORKERS": workers, "JOB_COMPLETION_INDEX": "2"}
    done = subprocess.run(container["command"], env=environment, capture_output=True, text=True, check=True)
    config, *arguments = done.stdout.splitlines()
    assert json.loads(config) == {
        "cluster": {"worker": [f"training-{number}.training:2222" for number in range(4)]},
        "task": {"type": "worker", "index": 2},
    }
    command = cli.parse(arguments)
    assert command.data.name == "prepared"
    assert command.chosen().train.steps == 300_000
