"""NumPy's files in mapped memory: read without a copy, given back, and refused where they are
damaged.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from infuse.compression.scratch import ScratchArrays
from infuse.data.arrays import load_arrays
from infuse.data.dataset import in_turn
from infuse.errors import InputError
from infuse.mapped import MappedFile, give_back

pytestmark = [pytest.mark.row("Z1")]

PAGES = 1 << 21


def owner_of(array: np.ndarray) -> object:
    """Whose memory an array has."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner.obj if isinstance(owner, memoryview) else owner


def resident(file: Path) -> int:
    """Kilobytes of a mapped file that are in the memory of this process."""
    text = Path("/proc/self/smaps").read_text("utf-8")
    parts = re.findall(rf"{re.escape(str(file))}\n.*?^Rss: +(\d+) kB", text, re.M | re.S)
    return sum(map(int, parts))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_are_read_as_numpy_reads_them(save, tmp_path, rng) -> None:
    arrays = {
        "floats": rng.standard_normal((3, 5, 7)).astype(np.float32),
        "columns": np.asfortranarray(rng.standard_normal((6, 4))),
        "big_endian": np.arange(5, dtype=">i4"),
        "strided": rng.standard_normal((8, 8))[::2, 1::3],
        "texts": np.array(["a", "Ünï"]),
        "empty": np.zeros((0, 3), np.int64),
        "scalar": np.array(2.5),
        "folder/inner": np.array([True, False]),
        "large": rng.standard_normal((1 << 18,)).astype(np.float32),
    }
    save(tmp_path / "data.npz", **arrays)
    read = load_arrays(tmp_path / "data.npz")
    assert isinstance(read, dict)
    with np.load(tmp_path / "data.npz") as expected:
        assert list(read) == list(expected)
        for name, array in read.items():
            assert array.dtype == expected[name].dtype
            assert array.flags.f_contiguous == expected[name].flags.f_contiguous
            np.testing.assert_array_equal(array, expected[name], strict=True)
    is_mapped = isinstance(owner_of(read["large"]), MappedFile)
    assert is_mapped == (save is np.savez)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_every_version_of_the_format(version, tmp_path, rng) -> None:
    array = rng.standard_normal((4, 3))
    with (tmp_path / "array.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    np.testing.assert_array_equal(load_arrays(tmp_path / "array.npy"), array, strict=True)


def test_bad_files_are_refused(tmp_path) -> None:
    def bad(content: bytes | None) -> str:
        path = tmp_path / "bad.npz"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError) as error:
            load_arrays(path)
        assert error.value.where == str(path)
        return error.value.what

    np.savez(tmp_path / "good.npz", x=np.arange(1 << 10))
    good = (tmp_path / "good.npz").read_bytes()
    assert "cannot be opened" in bad(None)
    assert "no NumPy arrays" in bad(b"")
    assert "no NumPy arrays" in bad(b"junk that is not an array")
    assert "damaged" in bad(good[:-40])
    assert "has not its checksum" in bad(good[:1000] + b"?" + good[1001:])
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    assert "no NumPy arrays" in bad((tmp_path / "objects.npy").read_bytes())
    np.save(tmp_path / "short.npy", np.arange(1 << 10))
    assert "no NumPy arrays" in bad((tmp_path / "short.npy").read_bytes()[:-8])
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x.npy", b"text")
    assert "no NumPy arrays" in bad((tmp_path / "text.npz").read_bytes())


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells what is resident")
def test_runs_leave_the_memory_one_by_one(tmp_path, rng) -> None:
    """Each run has 2 MB of a file of 16 MB: no more than two are resident at any time."""
    data = rng.integers(0, 255, (8, PAGES), np.uint8)
    np.savez(tmp_path / "data.npz", x=data)
    read = load_arrays(tmp_path / "data.npz")
    assert isinstance(read, dict)
    most = 0
    for number, feeds in enumerate(in_turn({"x": part} for part in read["x"])):
        np.testing.assert_array_equal(feeds["x"], data[number])
        most = max(most, resident(tmp_path / "data.npz"))
    assert PAGES // 1024 <= most < 3 * PAGES // 1024
    assert resident(tmp_path / "data.npz") < PAGES // 1024
    np.testing.assert_array_equal(read["x"], data)  # it comes again


def test_nothing_happens_to_arrays_in_memory(rng) -> None:
    array = rng.standard_normal(1 << 16)
    copy = array.copy()
    give_back(array)
    give_back(array[::-3])
    np.testing.assert_array_equal(array, copy)


def test_stored_arrays_are_equal_and_share_files(monkeypatch, rng) -> None:
    monkeypatch.setattr("infuse.compression.scratch.SEGMENT", 1 << 20)
    scratch = ScratchArrays()
    arrays = [rng.standard_normal((count, 1 << 10)).astype(np.float32) for count in range(1, 90, 8)]
    arrays += [np.asfortranarray(arrays[-1]), np.arange(100_001, dtype=np.int8)]
    stored = [scratch.store(array) for array in arrays]
    del scratch
    for array, copy in zip(arrays, stored):
        np.testing.assert_array_equal(array, copy, strict=True)
    assert stored[0] is arrays[0]  # small
    assert isinstance(owner_of(stored[-1]), MappedFile)
    assert not stored[-1].flags.writeable
    reversed_part = stored[-1][::-2]
    give_back(reversed_part)
    np.testing.assert_array_equal(reversed_part, arrays[-1][::-2])
