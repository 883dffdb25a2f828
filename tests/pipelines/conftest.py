"""Runners with several processes for the Beam pipelines."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def dask(tmp_path, monkeypatch):
    """Starts a Dask cluster of two processes and yields Beam's options for it.

    One worker kills itself as ``kill_after`` (MODULE:FUNCTION,CALLS) describes; see ``killing``.
    """
    from dask.distributed import LocalCluster

    @contextmanager
    def start(kill_after: str):
        died = tmp_path / "died"
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("KILL_AFTER", f"{kill_after},{died}")
        cluster = LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",  # any free port: two test processes may have a cluster each
            local_directory=str(tmp_path),
            preload=[str(Path(__file__).with_name("killing.py"))],
        )
        with cluster:
            address = f"--dask_client_address={cluster.scheduler_address}"
            yield ["--runner=apache_beam.runners.dask.dask_runner.DaskRunner", address, "--dask_partition_size=1"]
        assert died.exists()

    return start
