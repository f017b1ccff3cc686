"""Coded weights: what is stored comes back, in fewer bytes, and broken forms are refused."""

import itertools
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import infuse
from infuse import dtypes
from infuse.errors import ModelFileError, OptionError
from infuse.ir import Graph, constant
from infuse.ir.coding import rans, weights
from infuse.ir.coding.clusters import clustered
from infuse.ir.equality import equal, raw_bytes
from infuse.ir.file import load, load_bytes, save
from infuse.ir.flat.decode import decode
from infuse.ir.flat.encode import encode
from tests.pure.infuse_bytes import parts, repack, sample

pytestmark = pytest.mark.row("Z6")


def entropy(symbols: np.ndarray) -> float:
    """Bits of a symbol, by its definition."""
    share = np.bincount(symbols, minlength=256) / len(symbols)
    return float(-np.sum(share[share > 0] * np.log2(share[share > 0])))


def returned(array: np.ndarray) -> int:
    """The bytes of the coded form, after they were decoded."""
    form = weights.encoded(array)
    assert form is not None
    (content,) = weights.decoded([np.frombuffer(form, np.uint8)])
    assert np.array_equal(content, raw_bytes(array))
    return len(form)


# -- entropy coding --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.floats(0, 3), st.integers(1, 256), st.integers(0, 999))
def test_symbols_come_back(count: int, slope: float, kinds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    share = np.arange(1, kinds + 1) ** -slope
    symbols = rng.choice(kinds, count, p=share / share.sum()).astype(np.uint8)
    (decoded,) = rans.decoded([rans.encoded(symbols)])
    assert np.array_equal(decoded[:count], symbols)


def test_streams_of_any_length_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rans, "GROUP", 7)
    rng = np.random.default_rng(0)
    symbols = [rng.integers(0, 1 + 7 * i, 700 * i + 1).astype(np.uint8) for i in range(12)]
    for one, decoded in zip(symbols, rans.decoded([rans.encoded(one) for one in symbols])):
        assert np.array_equal(decoded[: len(one)], one)


@pytest.mark.parametrize("deviation", [1.0, 4.0, 20.0])
def test_a_stream_is_as_long_as_its_entropy(deviation: float) -> None:
    values = np.random.default_rng(0).normal(0, deviation, 400_000)
    symbols = np.clip(np.rint(values) + 128, 0, 255).astype(np.uint8)
    stream = rans.encoded(symbols)
    bits = 8 * sum(array.nbytes for array in (stream.states, stream.counts, stream.words))
    # A lane has 6 bytes beside its symbols, of which its first state has 2 bytes of content;
    # frequencies in 4096ths are a little off.
    overhead = 8 * 4 / rans.STEPS
    assert bits / len(symbols) <= 1.01 * entropy(symbols) + overhead
    assert bits / len(symbols) >= entropy(symbols)


def test_frequencies_are_those_of_the_counts() -> None:
    rng = np.random.default_rng(0)
    for kinds in (1, 2, 3, 17, 256):
        counts = np.zeros(256, np.int64)
        counts[rng.permutation(256)[:kinds]] = rng.integers(1, 10**6, kinds) ** 2
        frequencies = rans.frequencies_of(counts)
        assert frequencies.sum() == rans.TOTAL
        assert (frequencies[counts > 0] > 0).all()
        assert np.count_nonzero(frequencies) == max(2, kinds)


# -- forms of weights ------------------------------------------------------------------------------


def test_weights_of_every_type_come_back() -> None:
    rng = np.random.default_rng(0)
    for dtype in (d for d in dtypes.ALL if d.kind != "s"):
        few = rng.integers(0, 2, (40, 300)).astype(dtype.numpy)
        assert returned(few) < 0.4 * few.nbytes, dtype
        assert returned(few[::2].T) < 0.4 * few.nbytes, dtype
    narrow = rng.normal(0, 0.02, (64, 300)).astype(np.float32)
    assert returned(narrow) < 0.9 * narrow.nbytes
    special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-45] * 500, np.float32)
    assert returned(special) < 0.2 * special.nbytes


def test_what_saves_nothing_is_left_as_it_is() -> None:
    rng = np.random.default_rng(0)
    assert weights.encoded(rng.integers(0, 256, 100_000).astype(np.uint8)) is None
    assert weights.encoded(np.zeros(100, np.float32)) is None
    assert weights.encoded(np.zeros((0, 3), np.float32)) is None


def test_blocks_of_zeros_take_next_to_nothing() -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 256, (500, 160)).astype(np.uint8)
    full = len(weight.reshape(-1))
    weight[rng.random(500) < 0.8] = 0
    rest = np.count_nonzero(weight)
    assert returned(weight) < rest + full / 128 + 2000
    # Nothing decodes to more than LARGEST times its bytes.
    for dtype in (np.float32, np.float64, np.uint8):
        zeros = np.zeros(1_000_000, dtype)
        assert zeros.nbytes / weights.LARGEST < returned(zeros) < zeros.nbytes / 100


def test_eight_bit_weights_of_a_bell_shape_shrink() -> None:
    values = np.random.default_rng(0).standard_t(4, 300_000)
    integers = np.clip(np.rint(values / np.abs(values).max() * 127), -127, 127).astype(np.int8)
    assert returned(integers) < integers.nbytes / 1.25


# -- clusters --------------------------------------------------------------------------------------


def best_error(values: np.ndarray, count: int) -> float:
    """The smallest sum of squared errors of `count` clusters, by dynamic programming."""
    ordered = np.sort(values.astype(np.float64))
    sums = np.concatenate([[0], np.cumsum(ordered)])
    squares = np.concatenate([[0], np.cumsum(ordered**2)])

    def error(first: np.ndarray, end: int) -> np.ndarray:
        means = (sums[end] - sums[first]) / (end - first)
        return squares[end] - squares[first] - means * (sums[end] - sums[first])

    best = np.array([0.0, *(error(np.arange(1), e)[0] for e in range(1, len(ordered) + 1))])
    for _ in range(count - 1):
        best = np.array(
            [0.0] + [(best[:end] + error(np.arange(end), end)).min() for end in range(1, len(best))]
        )
    return float(best[-1])


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("shape", ["normal", "laplace", "uniform", "lumps"])
def test_few_values_are_clustered_as_well_as_can_be(bits: int, shape: str) -> None:
    rng = np.random.default_rng(0)
    values = {
        "normal": rng.normal(size=400),
        "laplace": rng.laplace(size=400),
        "uniform": rng.uniform(size=400),
        "lumps": rng.normal(0, 0.02, 400) + rng.integers(0, 4, 400),
    }[shape]
    result = clustered(values, bits)
    assert len(np.unique(result)) <= 2**bits
    error, best = float(np.sum((values - result) ** 2)), best_error(values, 2**bits)
    assert error == pytest.approx(best, rel=1e-6)  # sums of 400 values in float64


def test_clusters_of_few_values_are_the_values() -> None:
    values = np.random.default_rng(0).choice([-1.5, 0.25, 7.0, 9.0], (30, 40))
    assert np.array_equal(clustered(values, 2), values)


def test_zeros_stay_zeros() -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(1, 0.1, (100, 100)).astype(np.float32)
    pruned = rng.random(weight.shape) < 0.5
    weight[pruned] = 0
    result = clustered(weight, 3)
    assert result.dtype == weight.dtype
    assert np.array_equal(result == 0, pruned)


def test_more_bits_lose_less() -> None:
    weight = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    errors = [float(np.square(clustered(weight, bits) - weight).mean()) for bits in range(2, 9)]
    assert all(second < first / 3 for first, second in itertools.pairwise(errors))
    # For a normal distribution, 2 to 4 bits at best: 0.1175, 0.03454, 0.009497 (Max, 1960).
    assert errors[:3] == pytest.approx([0.1175, 0.03454, 0.009497], rel=0.05)


def test_what_cannot_be_clustered_is_an_error() -> None:
    for bits in (1, 9):
        with pytest.raises(OptionError, match="2 to 8"):
            clustered(np.zeros(4), bits)
    with pytest.raises(OptionError, match="not finite"):
        clustered(np.array([1.0, np.nan]), 4)


# -- files -----------------------------------------------------------------------------------------


def network() -> Graph:
    rng = np.random.default_rng(0)
    graph = Graph("coded")
    weight = rng.normal(0, 0.05, (128, 96)).astype(np.float32)
    for name, array in {
        "float": weight,
        "again": weight.copy(),
        "half": weight.astype(np.float16),
        "eight": np.rint(weight * 200).astype(np.int8),
        "small": rng.normal(size=7).astype(np.float32),
        "noise": rng.integers(0, 256, 5000).astype(np.uint8),
        "nan": np.full((64, 64), np.nan, np.float32),
        "bias": rng.normal(size=2000).astype(np.float32),
        "empty": np.zeros((0, 4), np.float32),
    }.items():
        graph.add_output(constant(array, name), f"{name}_out")
    return graph


def test_a_coded_file_has_the_same_graph(tmp_path: Path) -> None:
    for graph in (network(), sample(), Graph()):
        infuse.save(graph, tmp_path / "plain.infuse")
        infuse.save(graph, tmp_path / "coded.infuse", coded=True)
        again = load(tmp_path / "coded.infuse")
        assert equal(graph, again) is None
        save(again, tmp_path / "again.infuse", coded=True)
        assert (tmp_path / "again.infuse").read_bytes() == (tmp_path / "coded.infuse").read_bytes()
    save(network(), tmp_path / "plain.infuse")
    save(network(), tmp_path / "coded.infuse", coded=True)
    plain, coded = ((tmp_path / f"{n}.infuse").stat().st_size for n in ("plain", "coded"))
    assert coded < 0.73 * plain  # both store the equal weights once


def test_decoded_weights_are_read_only_and_others_stay_in_the_file(tmp_path: Path) -> None:
    save(network(), tmp_path / "a.infuse", coded=True)
    data = (tmp_path / "a.infuse").read_bytes()
    values = {value.name: value.const for value in load_bytes(data, "memory").outputs}
    whole = np.frombuffer(data, np.uint8)
    assert np.shares_memory(values["noise"], whole)
    assert np.shares_memory(values["small"], whole)
    assert not np.shares_memory(values["float"], whole)
    assert values["float"] is values["again"]
    assert not any(array.flags.writeable for array in values.values() if array is not None)


def test_clustered_weights_have_few_values(tmp_path: Path) -> None:
    infuse.save(network(), tmp_path / "a.infuse", coded=True, cluster_bits=4)
    original = {value.name: value.const for value in network().outputs}
    for value in load(tmp_path / "a.infuse").outputs:
        before, after = original[value.name], value.const
        assert before is not None
        assert after is not None
        if value.name in ("float", "again", "half"):
            assert len(np.unique(after.view(f"u{after.itemsize}"))) <= 16
            assert np.array_equal(after, clustered(before, 4))
        else:
            assert np.array_equal(raw_bytes(before), raw_bytes(after))


def test_options_that_say_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.infuse"
    for target, options, what in (
        (tmp_path / "a.onnx", {"coded": True}, "only .infuse"),
        (tmp_path / "b.onnx", {"cluster_bits": 4}, "only .infuse"),
        (path, {"cluster_bits": 4}, "clusters are for coded files"),
        (path, {"coded": True, "cluster_bits": 1}, "clustered to 1 bits"),
    ):
        with pytest.raises(OptionError, match=what):
            infuse.save(network(), target, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# -- broken and hostile forms ----------------------------------------------------------------------


def refused(form: bytes, what: str = r"\w") -> None:
    with pytest.raises(ModelFileError, match=what):
        weights.decoded([np.frombuffer(form, np.uint8)])


def forms() -> list[bytes]:
    """A form with clusters, one with planes, one with blocks."""
    rng = np.random.default_rng(0)
    weight = rng.normal(0, 0.05, (40, 50)).astype(np.float32)
    blocks = rng.integers(0, 9, (100, 64)).astype(np.uint8)
    blocks[10:] = 0
    made = [weights.encoded(array) for array in (clustered(weight, 3), weight, blocks)]
    return [form for form in made if form is not None]


@pytest.mark.parametrize("number", range(3))
def test_cut_and_longer_forms_are_refused(number: int) -> None:
    form = forms()[number]
    for length in range(0, len(form), max(1, len(form) // 300)):
        refused(form[:length], "cut off")
    refused(form + b"\0", "longer than its parts")


@pytest.mark.parametrize("number", range(3))
def test_changed_bytes_are_refused_or_change_elements(number: int) -> None:
    form, rng = forms()[number], random.Random(number)
    refusals = 0
    for _ in range(150):
        changed = bytearray(form)
        changed[rng.randrange(len(form))] ^= 1 << rng.randrange(8)
        try:
            (content,) = weights.decoded([np.frombuffer(changed, np.uint8)])
        except ModelFileError:
            refusals += 1
        else:
            assert content.nbytes <= weights.LARGEST * len(form)
    assert refusals > 7  # nearly every bit of a stream; three planes of the second form are raw


def test_forms_that_lie_are_refused() -> None:
    clusters, planes, blocks = forms()
    for count in (2**63, 2**40, 0):
        for form in (clusters, planes, blocks):
            refused(form[:8] + struct.pack("<Q", count) + form[16:])
    for width in (0, 3, 16, 65535):
        refused(struct.pack("<HH", 0, width) + planes[4:], "header")
    refused(struct.pack("<HH", 257, 4) + planes[4:], "header")
    refused(struct.pack("<HHI", 0, 4, 1) + planes[8:], "header")
    refused(planes[:16] + b"\7" + planes[17:], "has the form 7")
    refused(clusters[:48] + b"\1".ljust(8, b"\0") + bytes(32 + 4 * 6), "contradict")


def test_a_cluster_that_is_not_there_is_refused() -> None:
    head = struct.pack("<HHIQ", 2, 4, 0, 3) + bytes(8) + bytes(8)
    assert weights.decoded([np.frombuffer(head + bytes([0, 1, 1]), np.uint8)])[0].nbytes == 12
    refused(head + bytes([0, 1, 2]), "in no cluster")


@pytest.mark.parametrize("marks", [[99], [0, 0], [1, 0]])
def test_marks_of_coded_weights_are_checked(tmp_path: Path, marks: list[int]) -> None:
    save(network(), tmp_path / "a.infuse", coded=True)
    table, content = parts((tmp_path / "a.infuse").read_bytes())
    net = decode(table)
    changed: Any = net._replace(coded=marks)
    with pytest.raises(ModelFileError):
        load_bytes(repack(encode(changed), content), "memory")


def test_a_form_of_another_length_than_its_type_is_refused(tmp_path: Path) -> None:
    save(network(), tmp_path / "a.infuse", coded=True)
    table, content = parts((tmp_path / "a.infuse").read_bytes())
    net = decode(table)
    with pytest.raises(ModelFileError, match="bytes"):
        load_bytes(repack(encode(net._replace(coded=())), content), "memory")
