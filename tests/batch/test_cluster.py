"""A real Dask cluster on this machine: a scheduler and two workers on loopback, started here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from batches import ATTNCLI, results, run, write_problems

pytestmark = pytest.mark.cluster


@dataclass
class Cluster:
    """The address of the scheduler, and the processes of the workers."""

    address: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A scheduler and two workers of one thread."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    scheduler = start("dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    made = Cluster(address)
    try:
        for _ in range(2):
            made.workers.append(start("dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"))
        _wait_for_workers(address, 2)
        yield made
    finally:
        for process in (*made.workers, scheduler):
            process.kill()
            process.wait()


def _wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    for _ in range(60):
        try:
            with Client(address, timeout=2) as client:
                client.wait_for_workers(count, timeout=30)
                return
        except (OSError, TimeoutError):
            time.sleep(0.5)
    raise AssertionError("the cluster did not come up")


def test_the_cluster_gives_the_files_of_the_serial_run(cluster: Cluster, tmp_path: Path) -> None:
    """200 problems, byte for byte; a bad one and a wrong one are told as they are without a cluster."""
    np.save(tmp_path / "w.npy", np.random.default_rng(1).normal(size=(3, 3)))
    write_problems(tmp_path / "in", 200, bad=120)
    (tmp_path / "in" / "p030.yaml").write_text("X: [[1, 2, 3], [0, 1, 1]]\nW_Q: ../w.npy\nheads: 3\n")
    (tmp_path / "in" / "p031.yaml").write_text("Q: [[1, 0]]\nK: [[1, 0], [0, 1]]\nexpect: {weights: [[0.76, 0.24]]}\n")
    stages = Path(__file__).parents[2] / "samples" / "transformer" / "problem.yaml"
    (tmp_path / "in" / "p032.yaml").write_text(stages.read_text())
    one = run(tmp_path, "in", "-o", "one")
    two = run(tmp_path, "in", "-o", "two", "--dask", cluster.address)
    assert one.returncode == two.returncode == 2
    assert one.stderr == two.stderr
    assert one.stdout.splitlines()[-1] == two.stdout.splitlines()[-1] == "199 of 200 problems computed, 1 bad, 1 wrong"
    assert results(tmp_path / "one") == results(tmp_path / "two")
    assert len(results(tmp_path / "two")) == 199


def test_a_worker_that_is_killed_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(400, 32)))
    (tmp_path / "in").mkdir()
    for number in range(120):
        (tmp_path / "in" / f"p{number:03}.yaml").write_text(f"X: ../x.npy\nscale: {number + 1}/100\nsoftcap: 3\n")
    asked = ["in", "--format", "npz", "--show", "output"]
    command = [*ATTNCLI, "batch", *asked, "-o", "two", "--dask", cluster.address]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        for _ in range(3000):
            if (tmp_path / "two").exists() and len([*(tmp_path / "two").iterdir()]) >= 10:
                break
            time.sleep(0.01)
        cluster.workers[0].kill()
        out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert out.splitlines()[-1] == "120 of 120 problems computed, 0 bad, 0 wrong"
    assert run(tmp_path, *asked, "-o", "one").returncode == 0
    assert results(tmp_path / "one") == results(tmp_path / "two")


def test_ctrl_c_ends_it_and_the_cluster_stays(cluster: Cluster, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(500, 32)))
    (tmp_path / "in").mkdir()
    for number in range(400):
        (tmp_path / "in" / f"p{number:03}.yaml").write_text(f"X: ../x.npy\nscale: {number + 1}/100\nsoftcap: 3\n")
    command = [*ATTNCLI, "batch", "in", "-o", "out", "--format", "npz", "--dask", cluster.address]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        for _ in range(3000):
            if (tmp_path / "out").exists() and len([*(tmp_path / "out").iterdir()]) >= 10:
                break
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the same command with --resume goes on" in err
    assert "Traceback" not in err
    assert len([*(tmp_path / "out").iterdir()]) < 400  # at once, not when the work is done
    assert all(worker.poll() is None for worker in cluster.workers)


def test_a_scheduler_that_is_not_there(tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    done = run(tmp_path, "in", "-o", "out", "--dask", address)
    assert (done.returncode, done.stdout) == (2, "")
    told, _, reason = done.stderr.splitlines()[0].partition(f"{address}: ")
    assert told == "attncli: --dask: there is no Dask scheduler at "
    assert reason.endswith(" after 2 s")  # not Dask's own 30 s
    assert not (tmp_path / "out").exists()


def test_a_local_cluster(tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 20)
    done = run(tmp_path, "in", "-o", "out", "--dask", "local")
    assert done.returncode == 0, done.stderr
    assert len(results(tmp_path / "out")) == 20


@pytest.mark.parametrize("rules", [
    "W_Q: w.npy\nW_O: w.npy\nheads: 2\nmask: causal\n",
    "softcap: 2\nnormalizer: sparsemax\nmask: {window: [20, 5]}\n",
    "layout: columns\nmask: {keys: [" + ", ".join(["0"] * 3 + ["1"] * 147) + "]}\n",
])  # fmt: skip
def test_one_large_problem(rules: str, cluster: Cluster, tmp_path: Path) -> None:
    """Rows of queries from two workers, each in its place, are what one process gives at once."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(150, 8))
    np.save(tmp_path / "x.npy", x.T if "columns" in rules else x)
    np.save(tmp_path / "w.npy", rng.normal(size=(8, 8)))
    (tmp_path / "big.yaml").write_text(f"X: x.npy\n{rules}")
    command = [*ATTNCLI, "run", "big.yaml", "-o"]
    there = subprocess.run(
        [*command, "o.npy", "-o", "weights=w2.npy", "--dask", cluster.address],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (there.returncode, there.stdout) == (0, ""), there.stderr
    here = subprocess.run([*command, "all.npz"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert here.returncode == 0, here.stderr
    whole = np.load(tmp_path / "all.npz")
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), whole["output"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.load(tmp_path / "w2.npy"), whole["weights"], rtol=1e-12, atol=1e-14)
    assert not [*tmp_path.glob(".attncli-*")]


def test_what_a_cluster_does_not_do(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [3, 4]]\n")
    for arguments, told in {
        ("-o", "o.csv"): "each block goes to its place in a .npy file",
        (): "each block goes to its place in a .npy file",
        ("-o", "o.npy", "--show", "weights"): "--show needs the whole result here",
        ("-o", "K=o.npy"): "K is not split into rows of queries",
        ("-o", "capped=o.npy"): "capped is not split into rows of queries",
    }.items():
        done = subprocess.run(
            [*ATTNCLI, "run", "p.yaml", "--dask", "tcp://127.0.0.1:1", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["p.yaml"]


if os.name != "posix":
    pytestmark = [pytest.mark.cluster, pytest.mark.skip(reason="signals as POSIX has them")]
