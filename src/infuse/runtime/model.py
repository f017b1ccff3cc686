"""A compiled model, loaded from its folder and run from any number of threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infuse.errors import CompiledModelError, InfuseError, RuntimeFailure
from infuse.runtime.cpus import available_cpus, usable_threads
from infuse.runtime.encrypted import Key, weights_of
from infuse.runtime.folder import METADATA, check_cpu, read_metadata, verify
from infuse.runtime.interface import tier_of
from infuse.runtime.library import CompiledLibrary, Library
from infuse.runtime.program import ProgramLibrary
from infuse.runtime.session import Array, Session, Signature, unpack
from infuse.runtime.shapes import TensorSpec

_loaded: weakref.WeakSet[CompiledModel] = weakref.WeakSet()


class CompiledModel:
    """A compiled model. Safe to call from several threads at once: each call in progress has a
    context of its own.

    A context holds `threads` threads and the model's working memory; contexts are made on demand
    and reused.
    """

    def __init__(
        self, folder: Path, library: Library, metadata: Mapping[str, Any], threads: int
    ) -> None:
        self.folder = folder
        self.metadata = dict(metadata)
        self.threads = threads = usable_threads(threads)
        self._signature = Signature(library)
        self._idle = [Session(self._signature, threads)]
        self._closed = False
        _loaded.add(self)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        threads: int | None = None,
        *,
        key: Key | None = None,
    ) -> CompiledModel:
        """The model in `folder`, to be run with `threads` threads a call (default:
        `available_cpus()`); `key` decrypts its weights (`infuse.encrypt`).

        Raises CompiledModelError when the folder is broken, was built for another release of
        Infuse, or needs instructions that this processor does not have.
        """
        if threads is None:
            threads = available_cpus()
        path = Path(folder).resolve()
        metadata = read_metadata(path)
        verify(path, metadata)
        check_cpu(metadata, path)
        library = _library(path, metadata, weights_of(path, metadata, key))
        for name in ("weights_bytes", "weights_hash"):
            if (
                name in library.metadata
                and name in metadata
                and library.metadata[name] != metadata[name]
            ):
                raise CompiledModelError(
                    f"library and {METADATA} do not belong together: they differ in {name}",
                    where=str(path),
                    hint="compile the model again",
                )
        try:
            return cls(path, library, metadata, threads)
        except InfuseError as error:
            error.within(str(path))
            raise

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.metadata.get("name", ""))

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of every input."""
        return self._signature.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of every output."""
        return self._signature.outputs

    @property
    def tier(self) -> str:
        """What runs it: PREBUILT kernels, or COMPILED code."""
        return tier_of(self.metadata)

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers: another run gives other outputs."""
        return bool(self.metadata.get("random", False))

    @property
    def host_steps(self) -> list[str]:
        """What the interpreter runs of the model: nothing."""
        return []

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights, which all loads on this machine share."""
        return self._signature.library.weights_bytes

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory of one context, after the calls so far."""
        session = self._take()
        try:
            return session.arena_bytes
        finally:
            self._give_back(session)

    @property
    def arena_lower_bound(self) -> int:
        """The most bytes of intermediate tensors that were live at once, for the sizes of the last
        call.
        """
        session = self._take()
        try:
            return session.live_bytes
        finally:
            self._give_back(session)

    def run(self, inputs: Mapping[str, Any] | Array) -> dict[str, Array]:
        """The outputs by name, freshly allocated, for arrays by input name, or for an array where
        the model needs one.

        Raises InputError when names, types or shapes are not the model's, RuntimeFailure when the
        run fails.
        """
        session = self._take()
        try:
            return session.run(inputs)
        finally:
            self._give_back(session)

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for arrays in the order of `inputs`: a tuple, or the array itself when it is
        only one.
        """
        session = self._take()
        try:
            return unpack(session.execute(inputs))
        finally:
            self._give_back(session)

    def session(self, threads: int | None = None) -> Session:
        """A context of the caller's own, for one thread; saves looking for an idle one at each
        call.
        """
        if self._closed:
            raise self._closed_error()
        return Session(self._signature, self.threads if threads is None else threads)

    def give_back_weights(self) -> None:
        """Let the weights leave the memory of this process until a run reads them again, where they
        are mapped.
        """
        self._signature.library.give_back()

    def close(self) -> None:
        """Free all contexts that no call is using, and the others as their calls end. Closing twice
        does nothing.
        """
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"<CompiledModel {self.name!r}: ({takes}) → ({gives}), {self.threads} threads>"

    def _take(self) -> Session:
        try:
            return self._idle.pop()
        except IndexError:
            return self.session()

    def _give_back(self, session: Session) -> None:
        self._idle.append(session)
        if self._closed:
            self.close()

    def _closed_error(self) -> RuntimeFailure:
        return RuntimeFailure("the model is closed", where=str(self.folder), hint="load it again")

    def _forget_contexts(self) -> None:
        while self._idle:
            self._idle.pop().abandon()


def _library(folder: Path, metadata: Mapping[str, Any], weights: Array) -> Library:
    """What runs the model of a folder."""
    if "program" in metadata:
        return ProgramLibrary(folder, metadata, weights)
    return CompiledLibrary(folder, weights, str(metadata.get("prefix", "infuse")))


def _after_fork() -> None:
    """A child has the memory of its parent's contexts but none of their threads: it opens its
    own.
    """
    for model in list(_loaded):
        model._forget_contexts()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
