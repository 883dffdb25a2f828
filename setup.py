"""Installs the folder ``serve`` as ``nmt_keras_serve``, because the name ``serve`` could clash with another package."""

from setuptools import find_packages, setup

SERVE = find_packages(include=["serve", "serve.*"])

setup(
    packages=[*find_packages(include=["nmt_keras", "nmt_keras.*"]), *(f"nmt_keras_{name}" for name in SERVE)],
    package_dir={"nmt_keras_serve": "serve"},
)
