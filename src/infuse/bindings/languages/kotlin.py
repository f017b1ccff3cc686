"""Kotlin: the classes of the package of Java, for the JVM and Android."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from infuse.bindings import native
from infuse.bindings.languages import java
from infuse.bindings.package import Language, Package
from infuse.bindings.readme import readme
from infuse.bindings.templates import filled, reserved
from infuse.runtime.folder import WEIGHTS

_WORDS: Final = reserved("kotlin")
_ABI: Final = {"aarch64": "arm64-v8a", "x86_64": "x86_64", "armv7l": "armeabi-v7a"}


def texts(package: Package) -> dict[str, str]:
    """The package of Java without its second way of calling, with examples of Kotlin."""
    files = {path: text for path, text in java.texts(package).items() if "/java22/" not in path}
    files.pop("example/Example.java")
    fields, named = java.fields_of(package)
    fields["ABI"] = _ABI.get(native.target_of(package).architecture, "")
    fields["READ"] = "\n".join(
        f"  inputs.{java.names_of(package.interface.inputs, 'input')[i]}"
        f"(Tensor.{java.kind_of(t.dtype).maker}(*shapes[{i}]))"
        for i, t in enumerate(package.interface.inputs)
        if not t.optional
    )
    fields["WRITE"] = "\n".join(
        f'      println("output {i}:" + outputs.`{name}`().shape().joinToString("") {{ " $it" }})'
        for i, name in enumerate(java.names_of(package.interface.outputs, "output"))
    )
    files["example/Example.kt"] = filled("kotlin/Example.kt", fields)
    files["README.md"] = readme(package.interface, "kotlin", named, fields)
    if _is_android(package):
        files["build.gradle.kts"] = filled("kotlin/build.gradle.kts", fields)
        files["src/main/AndroidManifest.xml"] = filled("kotlin/AndroidManifest.xml", fields)
        files[f"src/main/kotlin/{package.name}/Assets.kt"] = filled("kotlin/Assets.kt", fields)
        files["example/MainActivity.kt"] = filled("kotlin/MainActivity.kt", fields)
        files.pop("build.sh")
    return files


def _is_android(package: Package) -> bool:
    return native.target_of(package).system.name == "android"


def finish(package: Package, folder: Path) -> tuple[str, ...]:
    """The library, where Android or the JVM looks for it."""
    if not _is_android(package):
        return java.finish(package, folder)
    abi = _ABI[native.target_of(package).architecture]
    library = folder / "src/main/jniLibs" / abi / native.library_name(package)
    native.link(package, folder / java.NATIVE, folder / java.NATIVE / "libmodel.a", library)
    weights = folder / java.RESOURCES / package.name / WEIGHTS
    if weights.is_file():
        assets = folder / "src/main/assets" / f"{package.name}.bin"
        assets.parent.mkdir(parents=True)
        weights.rename(assets)
    return ("a module for Android's Gradle plugin, which was not built here",)


LANGUAGE: Final = Language(
    "kotlin",
    texts,
    headers=java.NATIVE,
    static=java.NATIVE,
    weights=f"{java.RESOURCES}/@NAME@",
    reserved=java.WORDS | _WORDS,
    finish=finish,
)
