"""The folder ``serve`` under the name that it has once it is installed, for a clone that is not installed."""

from pathlib import Path

__path__ = [str(Path(__file__).with_name("serve"))]
