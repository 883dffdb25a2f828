# Trains, translates and exports: the image's command is `nmt`. To serve, use TensorFlow Serving's image: serve/deploy/compose.yaml.
#
#   docker build -t nmt .                                                   no GPU
#   docker build -t nmt:gpu --build-arg EXTRAS=gpu .                        CUDA from PyPI; the host has the driver
#   docker build -t nmt:gpu --build-arg EXTRAS=gpu --build-arg BASE=nvidia/cuda:12.9.1-base-ubuntu24.04 .
#   docker run --rm -v "$PWD:/work" nmt train --corpus sample               with --gpus all for nmt:gpu
#
# BASE is any Debian or Ubuntu image that has Python 3.11 to 3.13, or can install it with apt-get.
ARG BASE=python:3.12-slim-bookworm@sha256:54c85f3c47607a77f32adec749d3c81d1348bf25833671f512b26a9b6d778cb3

# hadolint ignore=DL3006
FROM ${BASE} AS python
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN command -v python3 > /dev/null || { \
        apt-get update \
        && apt-get install -y --no-install-recommends python3 python3-venv \
        && rm -rf /var/lib/apt/lists/*; }

FROM python AS build
# EXTRAS is empty or "gpu".
ARG EXTRAS=""
RUN python3 -m venv /opt/nmt
WORKDIR /source
# Packages come first, so that a change of the sources does not install TensorFlow again.
COPY requirements.txt ./
COPY requirements/gpu.txt requirements/
RUN /opt/nmt/bin/pip install --no-cache-dir --no-deps --require-hashes -r "requirements${EXTRAS:+/${EXTRAS}}.txt"
COPY pyproject.toml README.md LICENSE ./
COPY nmt_keras nmt_keras
COPY serve serve
RUN /opt/nmt/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python
COPY --from=build /opt/nmt /opt/nmt
ENV PATH=/opt/nmt/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN install -d -o 1000 -g 1000 /work
WORKDIR /work
USER 1000:1000
# `docker stop` sends SIGTERM: training writes a checkpoint and ends.
ENTRYPOINT ["nmt"]
CMD ["--help"]
