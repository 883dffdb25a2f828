"""Makes ``serve`` importable as ``nmt_keras_serve``, its installed name, in a clone that is not installed."""

from pathlib import Path

__path__ = [str(Path(__file__).with_name("serve"))]
