"""Prepares Google Colab for a notebook: the package, its requirements, runs on Google Drive, and TensorFlow Serving."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
DRIVE = Path("/content/drive")
SERVING_PACKAGES = "https://storage.googleapis.com/tensorflow-serving-apt"


def install() -> None:
    """Installs the package and its requirements. A supported, preinstalled TensorFlow is kept.

    The folder of the clone, which comes first on ``sys.path``, has nmt_keras, but not nmt_keras_serve.
    """
    has_gpu = shutil.which("nvidia-smi") is not None
    wanted = requirements(dependencies(), _installed("tensorflow"), has_gpu)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted, str(ROOT)], check=True)


def requirements(declared: Sequence[str], tensorflow: str | None, has_gpu: bool) -> list[str]:
    """Returns the requirements to install.

    If a supported TensorFlow is installed, its exact version is required, so that pip keeps it and installs the
    matching tensorflow-text. Any other version is replaced. If there is a GPU, the new TensorFlow includes CUDA.

    Args:
        declared: Requirements of the package.
        tensorflow: Installed version of TensorFlow; None if it is not installed.
        has_gpu: If True, the machine has a GPU.
    """
    found = []
    for line in declared:
        requirement = Requirement(line)
        if requirement.name == "tensorflow":
            if tensorflow is not None and requirement.specifier.contains(tensorflow):
                line = f"tensorflow=={tensorflow}"
            elif has_gpu:
                line = f"tensorflow[and-cuda]{requirement.specifier}"
        found.append(line)
    return found


def keep_runs_on_drive() -> None:
    """Mounts Google Drive and replaces ``runs`` by a link to nmt_keras/runs there, so that checkpoints are kept.

    If Drive cannot be mounted or the user declines, prints a warning. Runs then stay on the machine.
    """
    from google.colab import drive, errors

    try:
        drive.mount(str(DRIVE))
    except (ValueError, errors.Error) as error:  # the mount failed, or the user declined the dialogue
        print(
            f"WARNING: Google Drive is not mounted ({error}). Runs are lost when this machine is disconnected, and "
            "training starts again from the beginning. To keep runs, run this cell again and allow access to Drive."
        )
        return
    move_and_link(ROOT / "runs", DRIVE / "MyDrive" / "nmt_keras" / "runs")


def move_and_link(folder: Path, home: Path) -> None:
    """Moves the content of ``folder`` to ``home``, except names that exist there, and makes ``folder`` a link to it."""
    home.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        return
    if folder.exists():
        for child in folder.iterdir():
            if not (home / child.name).exists():
                shutil.move(child, home / child.name)
        shutil.rmtree(folder)
    folder.symlink_to(home, target_is_directory=True)


def install_tensorflow_serving() -> None:
    """Installs ``tensorflow_model_server`` from TensorFlow's Debian packages, if it is missing.

    Raises:
        OSError, CalledProcessError: the packages cannot be reached, or their signing key has expired.
    """
    if shutil.which("tensorflow_model_server"):
        return
    key = Path("/etc/apt/keyrings/tensorflow-serving.asc")
    source = Path("/etc/apt/sources.list.d/tensorflow-serving.list")
    key.parent.mkdir(parents=True, exist_ok=True)
    with urlopen(f"{SERVING_PACKAGES}/tensorflow-serving.release.pub.gpg", timeout=30) as answer:
        key.write_bytes(answer.read())
    source.write_text(f"deb [arch=amd64 signed-by={key}] {SERVING_PACKAGES} stable tensorflow-model-server\n")
    subprocess.run(["apt-get", "-qq", "update"], check=True)
    subprocess.run(["apt-get", "-qq", "install", "--yes", "tensorflow-model-server"], check=True)


def dependencies() -> list[str]:
    """Returns the dependencies of the package that pyproject.toml lists."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["dependencies"]


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
