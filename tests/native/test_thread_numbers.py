"""How many threads a model gets: of control groups, affinity, the environment and the caller."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import infuse
from infuse.errors import OptionError
from infuse.runtime import CompiledModel, available_cpus, cpus
from tests.native.adder_fixtures import cache, folder, own_cache

__all__ = ["cache", "folder", "own_cache"]


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/cpu.max": "900000 100000",
                "sys/fs/cgroup/a/cpu.max": "300000 100000",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/docker/x\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "4:cpuacct,cpu:/docker/x\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "nonsense\n0\n\n", "sys/fs/cgroup/cpu.max": "1 0\n"}, None),
    ],
)
def test_quota_of_control_groups(files: dict[str, str], quota: int | None, tmp_path: Path) -> None:
    assert cpus.cgroup_quota(write(tmp_path, files)) == quota


def test_affinity_and_quota_both_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(
        tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "300000 100000\n"}
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert cpus.cpu_limit(root) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5})
    assert cpus.cpu_limit(root) == 1


def test_more_threads_than_a_context_has_are_told(folder: Path) -> None:
    limit = cpus.MOST_THREADS
    header = (Path(infuse.__file__).parent / "kernels" / "threads.hpp").read_text("utf-8")
    assert f"MOST_THREADS = {limit};" in header
    with pytest.warns(RuntimeWarning, match=f"at most {limit} threads, not {limit + 1}"):
        model = CompiledModel.load(folder, threads=limit + 1)
    with model:
        assert model.threads == limit


def test_number_of_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_cpus() == cpus.cpu_limit()
    monkeypatch.setenv("INFUSE_NUM_THREADS", "5")
    assert CompiledModel.load(folder).threads == 5
    assert CompiledModel.load(folder, threads=3).threads == 3
    for text in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("INFUSE_NUM_THREADS", text)
        with pytest.raises(OptionError, match=f"INFUSE_NUM_THREADS is '{text}'"):
            CompiledModel.load(folder)
    for number in (0, -2):
        with pytest.raises(OptionError, match=f"{number} is not a valid number of threads"):
            CompiledModel.load(folder, threads=number)
        with pytest.raises(OptionError, match=f"{number} is not a valid number of threads"):
            CompiledModel.load(folder, threads=1).session(threads=number)
