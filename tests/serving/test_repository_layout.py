"""Which files are which version of which model, and what cannot be one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from infuse.errors import RepositoryError
from infuse.serving.config import Limits, Security, ServerConfig
from infuse.serving.control.repository import ModelFiles, Repository, check_name

pytestmark = pytest.mark.row("S2")


def write(root: Path, files: Mapping[str, str]) -> None:
    """Files by their paths; a path that ends in "/" is an empty folder."""
    for path, content in files.items():
        target = root / path
        (target if path.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            target.write_text(content, "utf-8")


def scan(root: Path, **fields: object) -> Mapping[str, ModelFiles]:
    repository = Repository(
        ServerConfig(repository=str(root), cache=root.parent / "cache", **fields)
    )  # type: ignore[arg-type]
    try:
        return asyncio.run(repository.scan())
    finally:
        repository.close()


# files → version: main file, or a part of its problem
LAYOUTS = {
    "triton": ({"m/1/model.onnx": "a", "m/3/model.onnx": "b"}, {1: "model.onnx", 3: "model.onnx"}),
    "infuse": ({"m/2/model.infuse": "a"}, {2: "model.infuse"}),
    "onnx_before_infuse": ({"m/1/model.infuse": "a", "m/1/model.onnx": "b"}, {1: "model.onnx"}),
    "another_name": ({"m/1/resnet.onnx": "a", "m/1/README.md": "r"}, {1: "resnet.onnx"}),
    "several": ({"m/1/a.onnx": "a", "m/1/b.onnx": "b"}, {1: "!several models (a.onnx, b.onnx)"}),
    "chosen": (
        {"m/1/a.onnx": "a", "m/1/b.onnx": "b", "m/config.yaml": "file: b.onnx"},
        {1: "b.onnx"},
    ),
    "chosen_missing": (
        {"m/1/a.onnx": "a", "m/config.yaml": "file: b.onnx"},
        {1: "!there is no 'b.onnx'"},
    ),
    "chosen_outside": (
        {"m/1/a.onnx": "a", "m/config.yaml": "file: ../../x"},
        {1: "!there is no '../../x'"},
    ),
    "external_data": (
        {"m/1/model.onnx": "a", "m/1/model.onnx.data": "w", "m/1/w/0.bin": "w"},
        {1: "model.onnx"},
    ),
    "leading_zero": (
        {"m/01/model.onnx": "a", "m/0/model.onnx": "a", "m/1/model.onnx": "b"},
        {1: "model.onnx"},
    ),
    "text_folder": (
        {"m/v1/model.onnx": "a", "m/2/model.onnx": "b", "m/2.tmp/model.onnx": "c"},
        {2: "model.onnx"},
    ),
    "foreign_digits": ({"m/\u0663/model.onnx": "a", "m/2/model.onnx": "b"}, {2: "model.onnx"}),
    "hidden": (
        {"m/1/model.onnx": "a", "m/.2/model.onnx": "b", ".git/x": "c", "m/1/.x": "d"},
        {1: "model.onnx"},
    ),
    "in_the_folder": ({"m/model.onnx": "a"}, {1: "model.onnx"}),
    "any_in_the_folder": ({"m/net.infuse": "a", "m/labels.txt": "b"}, {1: "net.infuse"}),
    "in_the_root": ({"m.onnx": "a", "m.onnx.data": "w"}, {1: "m.onnx"}),
    "root_with_config": ({"m.infuse": "a", "m.yaml": "tune: true"}, {1: "m.infuse"}),
    "empty_version": (
        {"m/1/model.onnx": "a", "m/2/": ""},
        {1: "model.onnx", 2: "!it holds no model"},
    ),
    "compiled": ({"m/1/metadata.json": "{}", "m/1/model.so": "x"}, {1: "!native code"}),
    "compiled_stages": ({"m/1/stages.json": "{}"}, {1: "!native code"}),
    "compiled_inside": (
        {"m/1/net/metadata.json": "{}", "m/1/net/saved_model.pb": "x"},
        {1: "!native code"},
    ),
    "torch": ({"m/1/net.pt2": "a", "m/1/labels.txt": "b"}, {1: "net.pt2"}),
    "standard_first": ({"m/1/model.tflite": "a", "m/1/other.keras": "b"}, {1: "model.tflite"}),
    "onnx_first": ({"m/1/model.onnx": "a", "m/1/model.pt": "b"}, {1: "model.onnx"}),
    "trees": ({"m/1/model.json": "a"}, {1: "model.json"}),
    "tflite_in_the_root": ({"m.tflite": "a"}, {1: "m.tflite"}),
    "saved_model": (
        {"m/1/saved_model.pb": "a", "m/1/variables/variables.index": "b", "m/1/model.json": "c"},
        {1: ""},
    ),
    "saved_model_inside": (
        {"m/1/model.savedmodel/saved_model.pb": "a", "m/1/notes.txt": "b"},
        {1: "model.savedmodel"},
    ),
    "declared_folder": (
        {"m/1/a/saved_model.pb": "a", "m/1/b.onnx": "b", "m/config.yaml": "file: a"},
        {1: "a"},
    ),
    "several_formats": ({"m/1/a.keras": "a", "m/1/b.onnx": "b"}, {1: "!several models"}),
    "hugging_face": (
        {"m/1/config.json": "a", "m/1/model.safetensors": "b", "m/1/tokenizer.json": "c"},
        {1: ""},
    ),
    "hugging_face_without_weights": ({"m/1/config.json": "a"}, {1: "!it holds no model"}),
    "paddle": ({"m/1/inference.pdmodel": "a", "m/1/inference.pdiparams": "b"}, {1: ""}),
    "pickle": ({"m/1/forest.joblib": "a"}, {1: "!infuse.save(infuse.load(estimator)"}),
    "pipeline": ({"m/config.yaml": "pipeline: {inputs: [], outputs: [], steps: []}"}, {1: ""}),
    "pipeline_versions": (
        {"m/config.yaml": "pipeline: {inputs: [], outputs: [], steps: []}", "m/3/": "", "m/4/": ""},
        {3: "", 4: ""},
    ),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_versions_and_their_main_files(case: str, tmp_path: Path) -> None:
    files, expected = LAYOUTS[case]
    root = tmp_path / "models"
    write(root, files)
    model = scan(root)["m"]
    assert not model.problem
    assert model.versions.keys() == expected.keys()
    for number, main in expected.items():
        version = model.versions[number]
        if main.startswith("!"):
            assert main[1:] in version.problem
        else:
            assert (version.main, version.problem) == (main, "")


BROKEN = {
    "empty_folder": ({"m/": ""}, "it has no version"),
    "no_number": ({"m/v1/model.onnx": "a"}, "it has no version"),
    "unknown_field": ({"m/1/model.onnx": "a", "m/config.yaml": "nonsense: 1"}, "nonsense"),
    "no_yaml": ({"m/1/model.onnx": "a", "m/config.yaml": "a: ]"}, "not YAML"),
    "no_table": ({"m/1/model.onnx": "a", "m/config.yaml": "- 1"}, "not a table"),
    "no_pbtxt": ({"m/1/model.onnx": "a", "m/config.pbtxt": "name:"}, "text format"),
    "two_configs": (
        {"m/1/model.onnx": "a", "m/config.pbtxt": "", "m/config.yaml": ""},
        "config.pbtxt and config.yaml",
    ),
    "other_name": (
        {"m/1/model.onnx": "a", "m/config.yaml": "name: other"},
        "for the model 'other'",
    ),
    "unprintable": ({"m\u0007/1/model.onnx": "a"}, "cannot be printed"),
    "backslash": ({"m\\n/1/model.onnx": "a"}, "path separator"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_model_has_a_problem_and_the_others_none(case: str, tmp_path: Path) -> None:
    files, problem = BROKEN[case]
    root = tmp_path / "models"
    write(root, {**files, "good/1/model.onnx": "a"})
    found = scan(root)
    (broken,) = found.keys() - {"good"}
    assert problem in found[broken].problem
    assert not found["good"].problem
    assert found["good"].versions[1].main == "model.onnx"


def test_a_config_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "models", {"m/1/model.onnx": "a"})
    (tmp_path / "models/m/config.yaml").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in scan(tmp_path / "models")["m"].problem


def test_what_is_passed_over_is_noted(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(
        root,
        {
            "m/1/model.onnx": "a",
            "m/007/model.onnx": "b",
            "m/model.onnx": "c",
            "m.onnx": "d",
            "n.txt": "e",
        },
    )
    found = scan(root)
    assert found.keys() == {"m"}
    notes = " ".join(found["m"].notes)
    assert "'007'" in notes
    assert "beside the version folders" in notes
    assert "m.onnx is passed over" in notes


def test_files_of_the_model_are_kept_apart_from_its_versions(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(
        root,
        {"m/1/model.onnx": "a", "m/tokenizer.json": "t", "m/warm/x.npz": "n", "m/config.yaml": ""},
    )
    model = scan(root)["m"]
    assert [file.name for file in model.files] == ["tokenizer.json", "warm/x.npz"]
    assert [file.name for file in model.versions[1].files] == ["model.onnx"]


def test_external_data_belongs_to_the_version(tmp_path: Path) -> None:
    files, _ = LAYOUTS["external_data"]
    write(tmp_path / "models", files)
    version = scan(tmp_path / "models")["m"].versions[1]
    assert {file.name for file in version.files} == {"model.onnx", "model.onnx.data", "w/0.bin"}
    assert version.bytes == 3


def test_the_servers_defaults_stand_for_fields_that_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(root, {"m/1/model.onnx": "a", "m/config.yaml": "batching: {max_size: 3}"})
    config = scan(root, model_defaults={"tune": True, "batching": {"max_size": 9, "max_queue": 7}})[
        "m"
    ].config
    assert (config.tune, config.batching.max_size, config.batching.max_queue) == (True, 3, 7)


def test_fingerprints_follow_files_and_configuration(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(root, {"m/1/model.onnx": "a", "m/2/model.onnx": "a", "m/config.yaml": "tune: true"})
    before = scan(root)["m"]
    assert scan(root)["m"] == before
    write(root, {"m/2/model.onnx": "ab"})
    after = scan(root)["m"]
    assert after.versions[1] == before.versions[1]
    assert after.versions[2].fingerprint != before.versions[2].fingerprint
    assert after.fingerprint == before.fingerprint
    write(root, {"m/config.yaml": "tune: false"})
    changed = scan(root)["m"]
    assert changed.fingerprint != before.fingerprint
    assert not changed.config.tune


def test_compiled_models_are_taken_from_trusted_folders_only(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(root, {"m/1/metadata.json": "{}", "n/1/net/stages.json": "{}"})
    refused = scan(root, security=Security(compiled_folders=(tmp_path / "mod",)))["m"].versions[1]
    assert "security.compiled_folders" in refused.problem
    found = scan(root, security=Security(compiled_folders=(tmp_path,)))
    assert [(model.versions[1].main, model.versions[1].problem) for model in found.values()] == [
        ("", ""),
        ("net", ""),
    ]
    assert all(model.versions[1].compiled for model in found.values())


def test_a_model_that_is_too_large_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "models", {"m/1/model.onnx": "a" * 10, "m/2/model.onnx": "a" * 11})
    versions = scan(tmp_path / "models", limits=Limits(model_bytes=10))["m"].versions
    assert not versions[1].problem
    assert "11 bytes" in versions[2].problem


@pytest.mark.parametrize(
    "name", ["", "..", ".hidden", "a/b", "a\\b", "a\nb", "a\0b", "x" * 256, "é" * 128]
)
def test_names_that_no_model_can_have(name: str) -> None:
    with pytest.raises(RepositoryError):
        check_name(name)


def test_names_that_a_model_can_have() -> None:
    for name in ("resnet50", "a b", "x" * 255, "模型", "v1.2-rc_3"):
        check_name(name)


def test_links_stay_in_the_repository(tmp_path: Path) -> None:
    root, outside = tmp_path / "models", tmp_path / "models-secret"
    write(
        root,
        {
            "real/1/model.onnx": "a",
            "file/1/": "",
            "version/1/model.onnx": "a",
            "loop/1/model.onnx": "a",
        },
    )
    write(outside, {"1/model.onnx": "s"})
    (root / "alias").symlink_to("real")
    (root / "out").symlink_to(outside)
    (root / "file/1/model.onnx").symlink_to(outside / "1/model.onnx")
    (root / "version/2").symlink_to(outside / "1")
    (root / "loop/1/again").symlink_to(root / "loop")
    (root / "dangling").symlink_to("nowhere")
    found = scan(root)
    assert found["alias"].versions[1].main == "model.onnx"
    assert "leaves the repository" in found["out"].problem
    assert "leaves the repository" in found["file"].versions[1].problem
    assert not found["version"].versions[1].problem
    assert "no end" in found["loop"].versions[1].problem
    assert "cannot be read" in found["dangling"].problem
    assert not any("secret" in file.path for model in found.values() for file in model.files)


def test_a_version_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(root, {"m/1/model.onnx": "a"})
    (tmp_path / "2").mkdir()
    (root / "m/2").symlink_to(tmp_path / "2")
    found = scan(root)["m"]
    assert found.versions[1].problem == ""
    assert "leaves the repository" in found.versions[2].problem


def test_pipes_and_sockets_are_no_models(tmp_path: Path) -> None:
    root = tmp_path / "models"
    write(root, {"m/1/": ""})
    os.mkfifo(root / "m/1/model.onnx")
    assert "neither a file nor a folder" in scan(root)["m"].versions[1].problem
