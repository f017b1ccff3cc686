"""Work before and after a network in its own graph: from the pixels of a photo to scores, from
scores to boxes.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import infuse
from examples import detector, photos

SIZES = [(64, 64), (96, 144), (480, 640), (90, 61), (33, 200), (1, 7)]


@pytest.fixture(scope="module")
def photo_model() -> infuse.CompiledModel:
    return infuse.compile(infuse.optimize(photos.photo_classifier()))


@pytest.fixture(scope="module")
def detector_model() -> infuse.CompiledModel:
    return infuse.compile(infuse.optimize(detector.detector()))


def photo(height: int, width: int) -> np.ndarray:
    """A smooth image with noise in it."""
    rng = np.random.default_rng(height * 1000 + width)
    rows, columns = np.mgrid[:height, :width]
    waves = np.stack(
        [np.sin(rows / 9), np.cos(columns / 7), np.sin((rows + columns) / 11)], axis=-1
    )
    return np.clip(127 + 90 * waves + rng.normal(0, 25, waves.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_photos_are_prepared_as_with_pillow(
    photo_model: infuse.CompiledModel, size: tuple[int, int]
) -> None:
    image = photo(*size)
    results = photo_model.run({"image": image})
    levels = (results["pixels"] - photos.prepared(image)) * photos.DEVIATION[:, None, None] * 255
    # Pillow rounds after each of two passes, the graph once after both.
    assert np.abs(levels).max() < 1.01
    assert (np.abs(levels) < 0.01).mean() > 0.7
    assert results["scores"].shape == (1, photos.CLASSES)
    np.testing.assert_allclose(results["scores"].sum(), 1, rtol=1e-5)


@pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is the witness: make test installs it"
)
@pytest.mark.parametrize("size", [(64, 64), (96, 144), (480, 720), (256, 64)])
def test_photos_are_prepared_as_in_pytorch(
    photo_model: infuse.CompiledModel, size: tuple[int, int]
) -> None:
    import torch

    image = photo(*size)
    shape = [photos.SIDE * n // min(size) for n in size]
    x = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    small = torch.nn.functional.interpolate(x, shape, mode="bilinear", antialias=True)
    top, left = ((n - photos.CROP) // 2 for n in shape)
    middle = small[:, :, top : top + photos.CROP, left : left + photos.CROP] / 255
    mean, deviation = (
        torch.from_numpy(v).view(1, 3, 1, 1) for v in (photos.MEAN, photos.DEVIATION)
    )
    pixels = photo_model.run({"image": image})["pixels"]
    # The graph rounds to whole bytes, half of 1 away at most.
    limit = 0.51 / 255 / photos.DEVIATION.min()
    np.testing.assert_allclose(pixels, ((middle - mean) / deviation).numpy(), atol=limit)


@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="ONNX Runtime is the witness")
def test_what_is_exported_runs_elsewhere(photo_model: infuse.CompiledModel, tmp_path: Path) -> None:
    import onnxruntime

    infuse.save(photos.photo_classifier(), tmp_path / "photos.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "photos.onnx")
    for size in SIZES:
        image = photo(*size)
        expected = session.run(["scores", "pixels"], {"image": image})
        results = photo_model.run({"image": image})
        # Bytes may be rounded the other way.
        np.testing.assert_allclose(results["pixels"], expected[1], atol=0.02)
        np.testing.assert_allclose(results["scores"], expected[0], atol=0.01)


def test_photos_of_other_sizes_need_no_new_model(photo_model: infuse.CompiledModel) -> None:
    flat = [np.full((*size, 3), 128, np.uint8) for size in SIZES[1:5]]
    results = [photo_model.run({"image": image})["scores"] for image in flat]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-5)


@pytest.mark.parametrize(
    ("overlap", "least"), [(0.45, 0.3), (0.45, 0.6), (0.1, 0.3), (0.9, 0.5), (0.5, 2.0)]
)
@pytest.mark.parametrize("size", [(20, 20), (5, 9)])
def test_detections_agree_with_numpy(
    detector_model: infuse.CompiledModel, size: tuple[int, int], overlap: float, least: float
) -> None:
    rng = np.random.default_rng(sum(size))
    features = rng.standard_normal((1, detector.CHANNELS, *size), np.float32)
    feeds = {"features": features, "overlap": np.float32([overlap]), "least": np.float32([least])}
    results = list(detector_model.run(feeds).values())
    expected = detector.expected(features, overlap, least)
    assert len(expected[1]) > 0 or least > 1
    assert [x.shape for x in results] == [x.shape for x in expected]
    np.testing.assert_array_equal(results[2], expected[2])
    for one, other in zip(results[:2], expected[:2]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_nothing_is_left_to_the_interpreter(
    photo_model: infuse.CompiledModel, detector_model: infuse.CompiledModel
) -> None:
    assert not photo_model.host_steps
    assert not detector_model.host_steps
