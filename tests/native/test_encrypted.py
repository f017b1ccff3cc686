"""Compiled folders whose weights are encrypted, in Python and in C."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import infuse
from infuse.build.toolchain import ziglang
from infuse.cli.main import app
from infuse.errors import CompiledModelError, InfuseError, OptionError
from infuse.options import CompileOptions
from infuse.runtime import encrypted
from infuse.runtime.folder import DECRYPT, ENCRYPTED, METADATA, WEIGHTS
from tests.native.test_c_interface import fixed, two_symbols

pytest.importorskip("cryptography")
COMPILER = shutil.which("cc") or ""
KEY, OTHER = bytes(range(32)), bytes(32)
SECRET = np.arange(20, dtype=np.float32)
pytestmark = pytest.mark.row("R5")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has several chunks, the last of them shorter."""
    monkeypatch.setattr("infuse.build.encrypting.CHUNK", 48)


def made(folder: Path, **options: object) -> Path:
    infuse.compile(two_symbols(), CompileOptions(threads=1, **options), output=folder).close()  # type: ignore[arg-type]
    return folder


def answers(folder: Path, **options: object) -> list[np.ndarray]:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    with infuse.load_compiled(folder, 1, **options) as model:  # type: ignore[arg-type]
        results = model(x)
    return list(results)


@pytest.mark.usefixtures("small_chunks")
def test_weights_are_read_by_their_key_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = made(tmp_path / "model"), tmp_path / "key"
    plain = (folder / WEIGHTS).read_bytes()
    expected = answers(folder)
    infuse.encrypt(folder, KEY)
    assert not (folder / WEIGHTS).exists()
    assert len(plain) > 2 * 48
    content = (folder / ENCRYPTED).read_bytes()
    assert not any(plain[i : i + 16] in content for i in range(0, len(plain), 16) if plain[i])
    for result, right in zip(answers(folder, key=KEY), expected):
        np.testing.assert_array_equal(result, right)
    file.write_bytes(KEY)
    np.testing.assert_array_equal(answers(folder, key=file)[0], expected[0])
    with pytest.raises(CompiledModelError, match=r"are encrypted.*INFUSE_KEY"):
        answers(folder)
    monkeypatch.setenv(encrypted.KEY_VARIABLE, str(file))
    np.testing.assert_array_equal(answers(folder)[0], expected[0])
    with pytest.raises(CompiledModelError, match="the key is another one"):
        answers(folder, key=OTHER)
    with pytest.raises(OptionError, match="encrypted already"):
        infuse.encrypt(folder, OTHER)


def test_two_files_of_the_same_weights_have_nothing_in_common(tmp_path: Path) -> None:
    contents = []
    for name in "ab":
        infuse.encrypt(made(tmp_path / name), KEY)
        data = (tmp_path / name / ENCRYPTED).read_bytes()[encrypted.HEAD.size :]
        contents.append({data[i : i + 16] for i in range(0, len(data) - 15, 16)})
    assert len(contents[0]) > 8
    assert not contents[0] & contents[1]


def reseal(change: Callable[[bytearray], bytes]) -> Callable[[Path], None]:
    """Changes the file, and what the description says of it."""

    def apply(folder: Path) -> None:
        path = folder / ENCRYPTED
        path.write_bytes(change(bytearray(path.read_bytes())))
        metadata = json.loads((folder / METADATA).read_text())
        from infuse.runtime.folder import digest

        metadata["files"][ENCRYPTED] = {"bytes": path.stat().st_size, "sha256": digest(path)}
        (folder / METADATA).write_text(json.dumps(metadata))

    return apply


def flipped(place: int) -> Callable[[bytearray], bytes]:
    def change(data: bytearray) -> bytes:
        data[place] ^= 1
        return bytes(data)

    return change


def swapped(data: bytearray) -> bytes:
    """The first two chunks, each with its tag, in the other order."""
    start, each = encrypted.HEAD.size, 48 + encrypted.TAG
    first, second = data[start : start + each], data[start + each : start + 2 * each]
    return bytes(data[:start] + second + first + data[start + 2 * each :])


def shortened(data: bytearray) -> bytes:
    """The first chunk alone, with a head that says so."""
    head = [*encrypted.HEAD.unpack_from(data)]
    head[3] = 48
    return encrypted.HEAD.pack(*head) + bytes(data[64 : 64 + 48 + encrypted.TAG])


CHANGES = {
    "a byte of a chunk": (flipped(70), "the key is another one, or the file was changed"),
    "a byte of a tag": (flipped(-1), "the key is another one, or the file was changed"),
    "the salt": (flipped(30), "the key is another one, or the file was changed"),
    "zeros of the head": (flipped(60), "the key is another one, or the file was changed"),
    "chunks in another order": (swapped, "the key is another one, or the file was changed"),
    "fewer chunks": (shortened, "the key is another one, or the file was changed"),
    "cut off": (lambda data: bytes(data[:-1]), "do not end there"),
    "nothing but a part of the head": (lambda data: bytes(data[:40]), "not a file of encrypted"),
    "another version": (flipped(8), "its version is 0"),
    "no chunks": (lambda data: bytes(data[:12] + bytes(4) + data[16:]), "its version is 1"),
    "another file": (flipped(0), "not a file of encrypted"),
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", CHANGES)
def test_changed_files_are_refused(name: str, tmp_path: Path) -> None:
    change, message = CHANGES[name]
    folder = made(tmp_path / "model")
    infuse.encrypt(folder, KEY)
    reseal(change)(folder)
    with pytest.raises(CompiledModelError, match=message):
        answers(folder, key=KEY)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.skipif(
    not COMPILER or not Path("/usr/include/openssl/evp.h").exists(),
    reason="needs a C compiler and OpenSSL's headers (apt install libssl-dev)",
)
def test_a_program_in_c_reads_them(tmp_path: Path) -> None:
    folder, key = made(tmp_path / "model"), tmp_path / "key"
    infuse.encrypt(folder, KEY)
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE"]
    command = [COMPILER, *flags, "example.c", "model.so", "-lcrypto", f"-Wl,-rpath,{folder}"]
    subprocess.run([*command, "-o", "example"], cwd=folder, check=True)

    def run(content: bytes) -> subprocess.CompletedProcess[str]:
        key.write_bytes(content)
        environment = {**os.environ, encrypted.KEY_VARIABLE: str(key)}
        return subprocess.run(
            ["./example", "3", "5"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert run(KEY).stdout.startswith("outputs[0]: 3 5 5\n")
    for content in (OTHER, b"", KEY[:31]):
        refused = run(content)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "cannot be read" in refused.stderr
    done = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert DECRYPT in done.stdout
    assert WEIGHTS not in done.stdout


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (b"short", "a key has 32 bytes, and this one 5"),
        ("no such file", "the key cannot be read"),
        (bytes(33), "a key has 32 bytes, and this one 33"),
    ],
)
def test_keys_that_are_none(key: bytes | str, message: str, tmp_path: Path) -> None:
    folder = made(tmp_path / "model")
    with pytest.raises(OptionError, match=message):
        infuse.encrypt(folder, key)
    assert answers(folder)


def test_what_has_no_file_of_weights_is_not_encrypted(tmp_path: Path) -> None:
    folder = made(tmp_path / "model", embed=True)
    with pytest.raises(OptionError, match="are a part of its code"):
        infuse.encrypt(folder, KEY)
    with pytest.raises(OptionError, match="the weights are not encrypted"):
        infuse.load_compiled(folder, key=KEY)
    with pytest.raises(InfuseError, match="does not exist"):
        infuse.encrypt(tmp_path / "nothing", KEY)


def test_a_model_for_another_machine_is_encrypted_too(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    infuse.compile(fixed(), CompileOptions(target="c"), output=folder).close()
    infuse.encrypt(folder, KEY)
    x = np.ones((3, 4), np.float32)
    with infuse.load_compiled(folder, 1, key=KEY) as model:
        assert model.weights_bytes > 0
        assert model(x).shape == (3, 5)


def test_a_page_has_no_key(tmp_path: Path) -> None:
    if ziglang() is None:
        pytest.skip("needs ziglang (pip install ziglang)")
    folder = tmp_path / "model"
    infuse.compile(fixed(), CompileOptions(target="wasm32"), output=folder).close()
    with pytest.raises(OptionError, match="weights of pages are not encrypted"):
        infuse.encrypt(folder, KEY)


@pytest.mark.parametrize(
    "flags", [("--target", "wasm32"), ("--single",), ("--embed",), ("--target", "cortex-m4")]
)
def test_a_command_that_cannot_encrypt_leaves_nothing(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    if "--target" in flags and ziglang() is None:
        pytest.skip("needs ziglang (pip install ziglang)")
    infuse.save(fixed(), tmp_path / "model.infuse")
    (tmp_path / "key").write_bytes(KEY)
    words = ["compile", str(tmp_path / "model.infuse"), "-o", str(tmp_path / "made"), *flags]
    done = CliRunner().invoke(app, [*words, "--encrypt", str(tmp_path / "key")])
    assert isinstance(done.exception, OptionError)
    assert {file.name for file in tmp_path.iterdir()} == {"model.infuse", "key"}


def test_the_command_encrypts(tmp_path: Path) -> None:
    infuse.save(fixed(), tmp_path / "model.infuse")
    (tmp_path / "key").write_bytes(KEY)
    folder = tmp_path / "new" / "made"
    words = ["compile", str(tmp_path / "model.infuse"), "-o", str(folder)]
    for _ in range(2):
        done = CliRunner().invoke(app, [*words, "--encrypt", str(tmp_path / "key"), "--json"])
        assert done.exit_code == 0, done.output
        assert ENCRYPTED in json.loads(done.stdout)["files"]
    assert [file.name for file in folder.parent.iterdir()] == ["made"]
    with infuse.load_compiled(folder, 1, key=KEY) as model:
        assert model(np.ones((3, 4), np.float32)).shape == (3, 5)
