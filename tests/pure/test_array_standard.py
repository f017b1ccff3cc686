"""What of the Array API standard 2024.12 traced programs have, by the lists of array_api_strict."""

import inspect
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.tracing.arrays import namespace
from infuse.tracing.arrays.array import Array
from tests.array_programs import TYPES, run

pytestmark = pytest.mark.row("C9")

OF_STRICT = {  # what array_api_strict has besides the standard
    *("ArrayAPIStrictFlags", "Device", "__version__", "get_array_api_strict_flags"),
    *("reset_array_api_strict_flags", "set_array_api_strict_flags"),
}
LATER = {"broadcast_shapes", "isin"}  # of 2025.12
FUNCTIONS = sorted({*strict.__all__} - OF_STRICT - LATER - {"fft", "linalg"})
PLACES = [
    *(("", name) for name in FUNCTIONS),
    *(("linalg", name) for name in sorted(strict.linalg.__all__)),
    *(("fft", name) for name in sorted(strict.fft.__all__)),
]
OF_ARRAYS = sorted(
    name
    for name in dir(strict.asarray(1))
    if name not in dir(object) and (not name.startswith("_") or name.startswith("__"))
)
REFUSED = {
    "from_dlpack": "while a program is traced, no array has memory to be read",
    "__dlpack__": "while a program is traced, no array has memory to be read",
    "__bool__": "only a run has elements: where, infuse.cond and infuse.loop stand for it",
    "__complex__": "only a run has elements",
    "__float__": "only a run has elements",
    "__index__": "only a run has elements",
    "__int__": "only a run has elements",
    "__array__": "only a run has elements",
}
NOT_OF_THE_STANDARD = {"__annotations__", "__buffer__", "__module__", "__slots__", "__weakref__"}


def _of(space: Any, place: str, name: str) -> Any:
    return getattr(getattr(space, place) if place else space, name)


def _functions() -> list[tuple[str, str]]:
    return [
        (place, name)
        for place, name in PLACES
        if inspect.isfunction(_of(strict, place, name)) or name == "from_dlpack"
    ]


def test_all_functions_but_one_are_there() -> None:
    functions = _functions()
    supported = [name for place, name in functions if callable(_of(namespace, place, name))]
    assert [name for _, name in functions if name in REFUSED] == ["from_dlpack"]
    assert len(supported) == len(functions)
    assert len(functions) == 171


@pytest.mark.parametrize(("place", "name"), _functions(), ids=lambda x: x or "xp")
def test_parameters_are_those_of_the_standard(place: str, name: str) -> None:
    theirs = inspect.signature(_of(strict, place, name)).parameters.values()
    ours = inspect.signature(_of(namespace, place, name)).parameters.values()
    assert [p.name for p in ours] == [p.name for p in theirs]
    for mine, right in zip(ours, theirs):
        if (name, mine.name) != ("expand_dims", "axis"):  # the next edition has it by position too
            assert mine.kind == right.kind
            if mine.name != "device" and name != "from_dlpack":  # strict's own for "not said"
                assert str(mine.default) == str(right.default)


def test_constants_and_types() -> None:
    for name in ("e", "inf", "pi", "newaxis"):
        assert getattr(namespace, name) == getattr(strict, name)
    assert np.isnan(namespace.nan)
    assert [getattr(namespace, name) for name in TYPES] == [np.dtype(name) for name in TYPES]
    assert strict.__array_api_version__ == namespace.__array_api_version__


@pytest.mark.parametrize("name", sorted({*OF_ARRAYS} - NOT_OF_THE_STANDARD))
def test_arrays_have_the_attributes_of_the_standard(name: str) -> None:
    assert hasattr(Array, name)


@pytest.mark.parametrize("name", sorted({*REFUSED} - {"from_dlpack"}))
def test_what_only_a_run_has_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match="only a run has"):
        infuse.trace(lambda x: getattr(x, name)(), [infuse.Spec("float32", (3,))])


def test_memory_of_others_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="from_dlpack would read"):
        infuse.trace(lambda x: namespace.from_dlpack(np.zeros(3)) + x, [np.zeros(3)])


def test_a_namespace_tells_what_it_has() -> None:
    info, theirs = namespace.__array_namespace_info__(), strict.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert {*info.capabilities()} == {*theirs.capabilities()}
    for name, dtype in theirs.default_dtypes().items():
        assert info.default_dtypes()[name] == dtype._np_dtype
    kinds = ("bool", "signed integer", "unsigned integer", "integral", "real floating")
    for kind in (None, *kinds, "complex floating", "numeric", ("bool", "real floating")):
        right = {name: dtype._np_dtype for name, dtype in theirs.dtypes(kind=kind).items()}
        assert info.dtypes(kind=kind) == right
    with pytest.raises(UnsupportedOperatorError, match="no kind of element types 'text'"):
        info.dtypes(kind="text")
    with pytest.raises(UnsupportedOperatorError, match="no device 'gpu'"):
        info.dtypes(device="gpu")


def test_functions_of_types() -> None:
    for name in TYPES:
        ours, theirs = getattr(namespace, name), getattr(strict, name)
        for kind in ("bool", "integral", "real floating", "complex floating", "numeric"):
            assert namespace.isdtype(ours, kind) == strict.isdtype(theirs, kind)
        for other in TYPES:
            assert namespace.can_cast(ours, getattr(namespace, other)) == np.can_cast(name, other)
            assert namespace.result_type(ours, getattr(namespace, other)) == np.result_type(
                np.dtype(name), np.dtype(other)
            )
    assert namespace.finfo(namespace.float32).eps == np.finfo(np.float32).eps
    assert namespace.iinfo(namespace.int8).min == -128


CREATED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("zeros", "ones", "empty"), ((2, 3),)),
    **{"full": ((2,), 1), "eye": (3,), "arange": (4,), "linspace": (0, 1, 3), "asarray": (1,)},
}


@pytest.mark.parametrize("name", [*CREATED, "zeros_like", "ones_like", "empty_like", "full_like"])
def test_devices_are_applied_or_refused(name: str) -> None:
    def function(device: str) -> Any:
        def made(x: Any) -> Any:
            more = (1,) if name == "full_like" else ()
            arguments = CREATED.get(name, (x, *more))
            return namespace.astype(getattr(namespace, name)(*arguments, device=device), x.dtype)

        return made

    infuse.trace(function("cpu"), [np.zeros(3)])
    with pytest.raises(UnsupportedOperatorError, match="no device 'gpu'"):
        infuse.trace(function("gpu"), [np.zeros(3)])


def test_copies_are_arrays_of_their_own() -> None:
    def function(copied: Any) -> Any:
        def made(xp: Any, x: Any) -> Any:
            y = copied(xp, x)
            y[0] = 9
            return x

        return made

    x = np.arange(3, dtype=np.int64)
    for copied in (
        lambda xp, x: xp.asarray(x, copy=True),
        lambda xp, x: xp.astype(x, xp.int64),
        *(lambda xp, x, name=name: getattr(xp, name)(x) for name in ("positive", "conj", "real")),
        *(lambda xp, x, name=name: getattr(xp, name)(x) for name in ("trunc", "floor", "round")),
        lambda xp, x: xp.clip(x),
        lambda xp, x: xp.sum(x, axis=()),
        lambda xp, x: xp.flip(x, axis=()),
        lambda xp, x: xp.roll(x, 0, axis=()),
        lambda xp, x: xp.fft.fftshift(x, axes=()),
    ):
        assert np.array_equal(run(function(copied), x)[0], x)
    same = function(lambda xp, x: xp.asarray(x))
    assert run(same, x)[0][0] == 9


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda xp, x: xp.asarray([1.0, 2.0], copy=False), "made anew"),
        (lambda xp, x: xp.asarray(x, dtype=xp.int8, copy=False), "made anew"),
        (lambda xp, x: xp.reshape(x, (2, 2), copy=False), "gives a new array"),
        (lambda xp, x: xp.nonzero(x[0, 0]), "without axes"),
        (lambda xp, x: xp.astype(x, xp.uint8) + 300, "cannot be uint8"),
        (lambda xp, x: x.__iadd__(1j), "cannot become complex64 in place"),
        (lambda xp, x: xp.astype(x, xp.int32).__iadd__(0.5), "cannot become float64 in place"),
        (lambda xp, x: x[0].__iadd__(x), "cannot get 2 in place"),
        (lambda xp, x: x.__setitem__(0, 1j), "cannot be float32"),
        (lambda xp, x: xp.fft.fft(x, norm="none"), "norm is 'none'"),
        (lambda xp, x: xp.fft.fftn(x, s=(2,), axes=(0, 1)), "1 sizes for"),
        (lambda xp, x: xp.fft.fft(x[:, :0]), "a transform of 0 elements"),
        (lambda xp, x: xp.fft.rfft(x * 1j), "rfft is of real numbers"),
        (lambda xp, x: xp.linalg.qr(x, mode="r"), "mode is 'r'"),
        (lambda xp, x: xp.linalg.inv(x[:1]), "1 × 2 is not square"),
        (lambda xp, x: xp.linalg.det(x[0]), "too few for a matrix"),
        (lambda xp, x: xp.linalg.matrix_norm(x, ord=3), "matrix norm 3"),
        (lambda xp, x: xp.max(x * 1j), "ReduceMax is not defined for complex numbers"),
        (lambda xp, x: xp.astype(x * 1j, xp.float32), "complex numbers cannot become"),
        (lambda xp, x: x * 1j < x, "Less is not defined for complex numbers"),
        (lambda xp, x: xp.hypot(x * 1j, x), "hypot is of real numbers"),
        (lambda xp, x: xp.sort(x * 1j), "TopK is not defined for complex numbers"),
    ],
)
def test_what_cannot_be_is_said(function: Any, what: str) -> None:
    with pytest.raises(InfuseError, match=what) as caught:
        infuse.trace(lambda x: function(namespace, x), [np.zeros((2, 2), np.float32)])
    assert "test_array_standard.py:" in str(caught.value)


def test_complex_inputs_and_results_are_refused() -> None:
    with pytest.raises(InfuseError, match="input 'x' is complex"):
        infuse.trace(lambda x: x, [np.zeros(3, np.complex64)])
    with pytest.raises(InfuseError, match="result 'output' of the traced function is complex"):
        infuse.trace(lambda x: x * 1j, [np.zeros(3)])


def test_named_results() -> None:
    def function(xp: Any, x: Any) -> Any:
        uniques = xp.unique_all(x[0])
        assert uniques._fields == ("values", "indices", "inverse_indices", "counts")
        assert xp.unique_counts(x[0])._fields == ("values", "counts")
        assert xp.unique_inverse(x[0])._fields == ("values", "inverse_indices")
        assert xp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
        assert xp.linalg.qr(x)._fields == ("Q", "R")
        assert xp.linalg.slogdet(x)._fields == ("sign", "logabsdet")
        assert xp.linalg.svd(x)._fields == ("U", "S", "Vh")
        return uniques.counts

    assert run(function, np.ones((3, 3)))[0].tolist() == [3]
