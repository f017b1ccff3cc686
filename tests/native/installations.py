"""A wheel installed apart from this environment: beside nothing but what it depends on, and where
no compiler can be seen.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

# The last of them has what hides the others.
HIDDEN = ("/usr/lib/gcc", "/usr/lib/gcc-cross", "/usr/local/bin", "/usr/bin")


def dependencies(name: str) -> list[Distribution]:
    """The distribution of this name and all that it needs, without extras."""
    found: dict[str, Distribution] = {}
    open_names = [name]
    while open_names:
        each = distribution(open_names.pop())
        if each.name in found:
            continue
        found[each.name] = each
        needed = map(Requirement, each.requires or ())
        open_names += [r.name for r in needed if not r.marker or r.marker.evaluate({"extra": ""})]
    return list(found.values())


def size_of(distributions: Sequence[Distribution]) -> int:
    """The bytes of their files, without compiled Python."""
    paths = [
        each.locate_file(file)
        for each in distributions
        for file in each.files or ()
        if file.suffix != ".pyc"
    ]
    return sum(Path(str(path)).stat().st_size for path in paths)


def link(distributions: Sequence[Distribution], folder: Path) -> None:
    """Put their packages and modules, and nothing else of where they lie, into a new folder."""
    folder.mkdir()
    for each in distributions:
        for name in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            if not (folder / name).exists():
                (folder / name).symlink_to(str(each.locate_file(name)))


def install(wheel: Path, folder: Path, platform: str = "") -> None:
    """The files of a wheel, as pip unpacks it here, or would on a `platform`."""
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "-q"]
    options = ["--platform", platform, "--only-binary", ":all:"] if platform else []
    quiet = ["--disable-pip-version-check", "--no-compile"]
    target = ["--target", str(folder), str(wheel)]
    subprocess.run([*command, *options, *quiet, *target], check=True)


def without_compiler(command: Sequence[str]) -> list[str]:
    """The command line of a process that sees none of the system's programs, where this one may
    hide them.
    """
    folders = [folder for folder in HIDDEN if Path(folder).is_dir()]
    tools = [shutil.which(name) for name in ("unshare", "sh", "mount")]
    if None in tools or any(Path(command[0]).resolve().is_relative_to(f) for f in HIDDEN):
        return list(command)
    unshare, shell, mount = map(str, tools)
    hide = " && ".join(f"{mount} -t tmpfs none {folder}" for folder in folders)
    apart = [unshare, "--user", "--map-root-user", "--mount", shell, "-c"]
    if subprocess.run([*apart, hide], capture_output=True, check=False).returncode:
        return list(command)
    return [*apart, f'{hide} && exec "$@"', "sh", *command]


def run_installed(
    arguments: Sequence[str], paths: Sequence[Path], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Python with the packages of `paths` alone, no program on PATH, and its cache in `folder`."""
    python = str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))
    variables = {
        "PATH": str(folder / "none"),
        "HOME": str(folder),
        "INFUSE_CACHE": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        without_compiler([python, "-S", *arguments]),
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
