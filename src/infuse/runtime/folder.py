"""The folder of a compiled model: which files it has, and how one knows that they are whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from infuse.errors import CompiledModelError, OptionError
from infuse.runtime.checked import has_content
from infuse.runtime.cpus import all_features, architecture, cpu_features, withheld_features
from infuse.runtime.levels import CPU_VARIABLE, VECTOR_BITS

ABI: Final = 3
LIBRARY: Final = "model.so"
LIBRARIES: Final = (LIBRARY, "model.dll", "model.dylib", "model.wasm")
"""What the library of a model is called, by the system that it is for."""
STATIC: Final = "libmodel.a"
PROGRAM: Final = "program.bin"
"""What a model has in place of a library that prebuilt kernels run."""
FUNCTIONS: Final = "functions.so"
"""What a program calls that these lack."""
WEIGHTS: Final = "weights.bin"
ENCRYPTED: Final = "weights.enc"
"""The same, encrypted."""
DECRYPT: Final = "decrypt.h"
"""What decrypts it in programs of C."""
EMBEDDED: Final = "weights.cpp"
"""The source that makes weights a part of the library."""
HEADER: Final = "model.h"
MODEL_FILE: Final = "model.program"
"""A program with its weights, which a library that runs programs reads."""
BUNDLED: Final = "infuse.h"
"""The header of a library that runs several models."""
SOURCE: Final = "model.cpp"
METADATA: Final = "metadata.json"
STAGES: Final = "stages.json"
FOREIGN: Final = ("config.json", "saved_model.pb")
"""Files that folders of other formats have: Hugging Face's, TensorFlow's SavedModel."""
CHECK_VARIABLE: Final = "INFUSE_CHECK"

_REBUILD: Final = "compile the model again"


def full_check() -> bool:
    """Whether `$INFUSE_CHECK` asks for every check that exists, also the slow ones."""
    return os.environ.get(CHECK_VARIABLE, "0") not in ("", "0")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    checksum = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            checksum.update(chunk)
    return checksum.hexdigest()


def describe_files(
    folder: Path, weights_sha256: str, library: str = LIBRARY
) -> dict[str, dict[str, Any]]:
    """The `files` table of `metadata.json`: what `verify` will compare with."""
    weights = folder / WEIGHTS
    code = [path for name in (library, PROGRAM, FUNCTIONS) if (path := folder / name).is_file()]
    return {
        **{each.name: {"bytes": each.stat().st_size, "sha256": digest(each)} for each in code},
        WEIGHTS: {"bytes": weights.stat().st_size, "sha256": weights_sha256},
    }


def weights_name(metadata: Mapping[str, Any]) -> str:
    """The file with the weights of a model."""
    return ENCRYPTED if metadata.get("encrypted") else WEIGHTS


def _code_names(metadata: Mapping[str, Any]) -> list[str]:
    """The files with what a model does, as its metadata says."""
    if "program" not in metadata:
        return [next((name for name in (*LIBRARIES, STATIC) if name in metadata["files"]), LIBRARY)]
    return [PROGRAM, FUNCTIONS] if has_functions(metadata) else [PROGRAM]


def has_functions(metadata: Mapping[str, Any]) -> bool:
    """Whether a program calls functions of its own."""
    program = metadata["program"]
    return isinstance(program, dict) and "functions" in program


def file_sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file in a folder, by path."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.stat().st_size for file in files}


def read_metadata(folder: Path) -> dict[str, Any]:
    """The content of `metadata.json`; CompiledModelError when the folder is no compiled model of
    this release.
    """
    path = folder / METADATA
    try:
        metadata = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        what = "is not a compiled model" if folder.is_dir() else "does not exist"
        raise CompiledModelError(
            f"the folder {what}", where=str(folder), hint="infuse.compile makes one"
        ) from None
    except (OSError, ValueError) as error:
        raise CompiledModelError(
            f"it cannot be read: {error}", where=str(path), hint=_REBUILD
        ) from error
    if not isinstance(metadata, dict):
        raise CompiledModelError("it is not a JSON object", where=str(path), hint=_REBUILD)
    check_abi(metadata, path)
    return metadata


def check_abi(metadata: Mapping[str, Any], where: Path) -> None:
    """CompiledModelError unless `metadata` declares the binary interface that this release
    speaks.
    """
    abi = metadata.get("abi")
    if abi != ABI:
        raise CompiledModelError(
            f"its binary interface has number {abi!r}, and this release of Infuse speaks {ABI}",
            where=str(where),
            hint=f"{_REBUILD} with this release",
        )


def verify(folder: Path, metadata: Mapping[str, Any], *, full: bool | None = None) -> None:
    """CompiledModelError unless library (or program) and weights are the files that `metadata`
    describes.

    Sizes and the library's hash are always compared. The weights' hash is, too, but a file that was
    found whole once is not read again while it stays the same file (`checked`), unless `full`
    (default: `$INFUSE_CHECK`) says so.
    """
    if metadata.get("single"):
        raise CompiledModelError(
            "it is one file of C, which programs have in them and nothing runs here",
            where=str(folder),
            hint="compile the model without --single and --profile bare",
        )
    files = metadata.get("files")
    if not isinstance(files, dict):
        raise CompiledModelError(
            "the table of files is missing", where=str(folder / METADATA), hint=_REBUILD
        )
    weights = weights_name(metadata)
    names = (*_code_names(metadata), weights)
    for name in names:
        entry, path = files.get(name), folder / name
        if not isinstance(entry, dict):
            raise CompiledModelError(
                f"{name} is not described", where=str(folder / METADATA), hint=_REBUILD
            )
        if not path.is_file():
            raise CompiledModelError("the file is missing", where=str(path), hint=_REBUILD)
        size = path.stat().st_size
        if size != entry.get("bytes"):
            raise CompiledModelError(
                f"the file has {size} bytes instead of {entry.get('bytes')}",
                where=str(path),
                hint=_REBUILD,
            )
    again = full_check() if full is None else full
    for name in names:
        try:
            whole = has_content(
                folder / name, str(files[name].get("sha256")), again=again or name != weights
            )
        except OSError as error:
            raise CompiledModelError(
                f"it cannot be read: {error}", where=str(folder / name), hint=_REBUILD
            ) from error
        if not whole:
            raise CompiledModelError(
                "the content is not what was compiled", where=str(folder / name), hint=_REBUILD
            )


def may_refuse(metadata: Mapping[str, Any]) -> bool:
    """Whether code opens no context where the system does not let a process use what it is made
    for: tile registers, or vectors of a stated length.
    """
    return bool(metadata.get("tiles") or metadata.get("vector_bits"))


def check_cpu(metadata: Mapping[str, Any], where: Path) -> None:
    """CompiledModelError when the model was built for another system, or for instructions that this
    processor does not have.
    """
    hint = "run it there, or compile it for this machine"
    if "system" in metadata:
        raise CompiledModelError(
            f"the model was built for {metadata['system']}, and this system is another",
            where=str(where),
            hint=hint,
        )
    if metadata.get("machine", architecture()) != architecture():
        raise CompiledModelError(
            f"the model was built for {metadata['machine']}, and this machine is {architecture()}",
            where=str(where),
            hint=hint,
        )
    missing = (
        sorted(set(metadata.get("cpu_features", ())) - cpu_features()) if cpu_features() else []
    )
    if withheld := sorted(withheld_features().intersection(missing)):
        raise CompiledModelError(
            f"the model was built for the target {metadata.get('target')!r}, and the system does "
            f"not let this process use {', '.join(withheld)} of the processor",
            where=str(where),
            hint="start it without threads that have a small alternate stack for signals, let the "
            "virtual machine have them, or compile for a target without them, such as "
            '"x86-64-v4"',
        )
    if lengths := sorted(VECTOR_BITS.keys() & missing) if "sve" in cpu_features() else []:
        raise CompiledModelError(
            f"the model was built for vectors (SVE) of {VECTOR_BITS[lengths[0]]} bits, and those "
            "of this process have another length",
            where=str(where),
            hint="compile it for this machine, or for the target aarch64, which runs on all",
        )
    if missing:
        hides = all_features().issuperset(missing)
        hidden = f"{CPU_VARIABLE} hides" if hides else "this processor has no"
        raise CompiledModelError(
            f"the model was built for the target {metadata.get('target')!r}, and {hidden} "
            f"{', '.join(missing)}",
            where=str(where),
            hint="compile it for this machine, or for a target that all your machines share, such "
            'as "x86-64-v3"',
        )


def is_compiled(path: str | os.PathLike[str] | bytes) -> bool:
    """Whether a path is to be taken for a compiled model: a folder without the mark of a format
    that is read.
    """
    folder = Path(os.fsdecode(path))
    return folder.is_dir() and not any((folder / name).is_file() for name in FOREIGN)


def check_replaceable(output: Path) -> None:
    """OptionError unless `output` is free, an empty folder, or a compiled model."""
    described = (output / METADATA).is_file()
    names = (PROGRAM, *LIBRARIES, "model.c")
    code = any((output / name).is_file() for name in names)
    compiled = (described and code) or (output / STAGES).is_file()
    if output.exists() and not compiled and (not output.is_dir() or any(output.iterdir())):
        what = "a folder with other things in it" if output.is_dir() else "a file"
        raise OptionError(
            f"the output is {what}", where=str(output), hint="name a folder that does not exist yet"
        )


def publish(output: Path, write: Callable[[Path], None]) -> Path:
    """The folder `output` with what `write` puts in it; it appears whole or not at all, and an
    older one is replaced.

    OptionError when it cannot be written.
    """
    output = output.absolute()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    except OSError as error:
        raise OptionError(
            f"the output cannot be written: {error.strerror}", where=str(output)
        ) from error
    new, old = staging / "new", staging / "old"
    try:
        new.mkdir()
        write(new)
        if output.exists():
            output.rename(old)
        new.rename(output)
    except OSError as error:
        raise OptionError(f"the output cannot be written: {error}", where=str(output)) from error
    finally:
        if old.exists() and not output.exists():
            old.rename(output)
        shutil.rmtree(staging, ignore_errors=True)
    return output
