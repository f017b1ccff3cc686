"""Reading images."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

import msgspec
import numpy as np

from infuse.errors import InfuseError, RequestError, TooLargeError
from infuse.runtime.session import Array
from infuse.serving.config import Positive
from infuse.serving.datatypes import BYTES, NUMPY
from infuse.serving.engine.pipelines.ports import Port
from infuse.serving.engine.pipelines.steps import Builtin, Options, Place, elements, of_each

if TYPE_CHECKING:
    from PIL.Image import Image

_ORIENTATION: Final = 0x0112  # the tag of EXIF
# Orientation → the transposition of Pillow that undoes it.
_UPRIGHT: Final[Mapping[int, str]] = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
_T = TypeVar("_T")
_Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]
# Scale and first row and column of what is left of the image in its picture.
_Placement = tuple[float, float, int, int]


class ImageOptions(Options, frozen=True):
    """How images are decoded, and brought to one size."""

    size: Positive | tuple[Positive, ...] | None = None
    """Size of the result, one number or height and width; without it, images keep theirs, which
    must be equal.
    """
    resize: Literal["crop", "stretch", "letterbox"] = "crop"
    """`crop`: the shorter side as long as `shortest`, the middle is cut out; `stretch`;
    `letterbox`: the rest is filled.
    """
    shortest: Positive | None = None
    """Length of the shorter side with `crop`; without it, just long enough."""
    interpolation: Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] = (
        "bilinear"
    )
    """How pixels are interpolated; antialiased where images get smaller."""
    colour: Literal["rgb", "bgr", "gray"] = "rgb"
    """Channels, in their order."""
    scale: float | None = None
    """Values are (v · scale − mean) / std; without it 1/255, and none for `UINT8`."""
    mean: float | tuple[float, ...] = 0.0
    """See `scale`: one number, or one for each channel."""
    std: float | tuple[float, ...] = 1.0
    """See `scale`: one number, or one for each channel."""
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    """Order of the axes."""
    dtype: Literal["FP32", "FP16", "UINT8"] = "FP32"
    """Element type of the result."""
    fill: _Byte = 0
    """Byte that `letterbox` fills the rest with."""
    orient: bool = True
    """Whether images are turned as their EXIF data say."""
    max_pixels: Positive = 64_000_000
    """Pixels that an image may have, before it is decoded."""


class DecodeImage(Builtin[ImageOptions]):
    """Images from the bytes of JPEG, PNG, WebP, BMP or GIF files.

    Inputs: `image`, BYTES [n] or [n, 1], a file per element. Outputs: `pixels`, [n, c, h, w] or [n,
    h, w, c] of the type `dtype`; `size`, INT64 [n, 2], height and width of each image as it came
    (turned upright); `placement`, FP32 [n, 4], by which its rows and columns were scaled and the
    row and column of `pixels` that its corner came to, so that what a model finds at (row, column)
    lies at (row - placement[2]) / placement[0] and (column - placement[3]) / placement[1] of the
    image. Options: `ImageOptions`.

    Of an animation the first picture is read; transparency is dropped; 16 bits a channel are cut to
    8. EXIF data that cannot be read count as none. Needs Pillow. RequestError for what is no image
    or is damaged, TooLargeError for one with more than `max_pixels`.
    """

    kind = ImageOptions

    def prepare(self, options: ImageOptions, place: Place) -> None:
        """Build the table that turns bytes into values."""
        self.options = options
        self._pillow = place.need("PIL.Image", "pillow")
        self._size = _height_and_width(options.size, place)
        if options.size is None and (options.resize != "crop" or options.shortest is not None):
            raise place.fail("`resize` and `shortest` need a `size`")
        if options.shortest is not None and (
            options.resize != "crop" or options.shortest < max(self._size or (0,))
        ):
            raise place.fail(
                "`shortest` belongs to `resize: crop`, and is at least as large as `size`"
            )
        self.channels = 1 if options.colour == "gray" else 3
        self._table = _table(options, self.channels, place)
        height, width = self._size or (-1, -1)
        nchw = options.layout == "NCHW"
        shape = (-1, self.channels, height, width) if nchw else (-1, height, width, self.channels)
        self.inputs = (Port("image", frozenset({BYTES})),)
        self.outputs = (
            Port("pixels", frozenset({options.dtype}), shape),
            Port("size", frozenset({"INT64"}), (-1, 2)),
            Port("placement", frozenset({"FP32"}), (-1, 4)),
        )

    def run(self, inputs: Mapping[str, Array], outputs: Collection[str]) -> dict[str, Array]:
        files = elements(inputs["image"], "image")
        pictures = of_each(files, "image", self._read)
        self._check_sizes([picture for picture, _, _ in pictures])
        return {
            "pixels": self._pixels([picture for picture, _, _ in pictures]),
            "size": np.asarray([size for _, size, _ in pictures], np.int64).reshape(-1, 2),
            "placement": np.asarray(
                [placement for _, _, placement in pictures], np.float32
            ).reshape(-1, 4),
        }

    def _check_sizes(self, pictures: list[Array]) -> None:
        for number, picture in enumerate(pictures):
            if picture.shape != pictures[0].shape:
                one, other = pictures[0].shape[:2], picture.shape[:2]
                raise RequestError(
                    f"images of one request must have one size: the first has {list(one)}, this "
                    f"one {list(other)}",
                    where=f"element {number} of input 'image'",
                    hint="give the step a `size`, or send them one by one",
                )

    def _pixels(self, pictures: list[Array]) -> Array:
        height, width = pictures[0].shape[:2] if pictures else self._size or (0, 0)
        nchw = self.options.layout == "NCHW"
        shape = (self.channels, height, width) if nchw else (height, width, self.channels)
        result = np.empty((len(pictures), *shape), NUMPY[self.options.dtype])
        planes = result if nchw else result.transpose(0, 3, 1, 2)
        order = (
            range(self.channels - 1, -1, -1)
            if self.options.colour == "bgr"
            else range(self.channels)
        )
        for number, picture in enumerate(pictures):
            for channel, source in enumerate(order):
                plane, place = picture[:, :, source], planes[number, channel]
                if self._table is None:
                    place[...] = plane
                else:
                    np.take(self._table[channel], plane, out=place, mode="clip")
        return result

    def _read(self, file: bytes) -> tuple[Array, tuple[int, int], _Placement]:
        """The pixels of one file, [h, w, c] of bytes; the size it came with; where it went."""
        image = self._guarded(lambda: self._open(file), len(file))
        pixels = image.width * image.height
        if pixels > self.options.max_pixels:
            raise TooLargeError(f"it has {pixels} pixels, {self.options.max_pixels} are allowed")
        return self._guarded(lambda: self._decoded(image), len(file))

    def _open(self, file: bytes) -> Image:
        image: Image = self._pillow.open(io.BytesIO(file), formats=_FORMATS)
        return image

    def _guarded(self, do: Callable[[], _T], length: int) -> _T:
        """`do`, with every failure of the decoder on hostile bytes as a RequestError."""
        pillow = self._pillow
        try:
            return do()
        except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
            raise TooLargeError(f"it has more than {self.options.max_pixels} pixels") from error
        except (InfuseError, MemoryError):
            raise
        except Exception as error:
            reason = (
                "it is none of the formats"
                if isinstance(error, pillow.UnidentifiedImageError)
                else str(error).strip()
            )
            raise RequestError(
                f"its {length} bytes are not an image that can be read ({reason})",
                hint=f"formats are {', '.join(_FORMATS)}",
            ) from error

    def _decoded(self, image: Image) -> tuple[Array, tuple[int, int], _Placement]:
        turned = _UPRIGHT.get(_orientation(image)) if self.options.orient else None
        image = _eight_bits(image, self._pillow)
        image = image.convert("L" if self.channels == 1 else "RGB")
        if turned is not None:
            image = image.transpose(self._pillow.Transpose[turned])
        size = (image.height, image.width)
        image, placement = self._resized(image)
        return np.asarray(image).reshape(image.height, image.width, self.channels), size, placement

    def _resized(self, image: Image) -> tuple[Image, _Placement]:
        if self._size is None:
            return image, (1.0, 1.0, 0, 0)
        height, width = self._size
        method = self._pillow.Resampling[self.options.interpolation.upper()]
        if self.options.resize == "stretch":
            rows, columns = height, width
        elif self.options.resize == "letterbox":
            factor = min(height / image.height, width / image.width)
            rows, columns = (
                max(1, round(image.height * factor)),
                max(1, round(image.width * factor)),
            )
        else:
            rows, columns = self._cover(image.height, image.width)
        self._check_stretch(rows, columns)
        scales = (rows / image.height, columns / image.width)
        if (columns, rows) != image.size:
            image = image.resize((columns, rows), method)
        # The corner of the image in the picture: inside it for a letterbox, outside for a crop.
        top, left = round((height - rows) / 2), round((width - columns) / 2)
        if (rows, columns) != (height, width):
            picture = self._pillow.new(
                image.mode, (width, height), (self.options.fill,) * self.channels
            )
            picture.paste(image, (left, top))
            image = picture
        return image, (*scales, top, left)

    def _cover(self, rows: int, columns: int) -> tuple[int, int]:
        """The size before the middle is cut out. The longer side is rounded down, as torchvision
        has it.
        """
        height, width = self._size or (rows, columns)
        shortest = self.options.shortest
        if shortest is not None:
            height = width = shortest
        if columns * height >= rows * width:
            return height, columns * height // rows
        return rows * width // columns, width

    def _check_stretch(self, rows: int, columns: int) -> None:
        """A line of pixels must not become a huge picture before it is cut."""
        if rows * columns > self.options.max_pixels:
            raise TooLargeError(
                f"made as large as asked for, it has {rows * columns} pixels; crop it first"
            )


def _height_and_width(size: int | tuple[int, ...] | None, place: Place) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int) else size
    if len(pair) != 2:
        raise place.fail(f"`size` is one number or (height, width), not {len(pair)} numbers")
    return pair[0], pair[1]


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF data are no reason to refuse the picture
        return 1


def _eight_bits(image: Image, pillow: ModuleType) -> Image:
    """Images with 16 bits of gray, which Pillow would clip, cut to 8."""
    if not image.mode.startswith("I"):
        return image
    gray = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
    cut: Image = pillow.fromarray(gray)
    return cut


def _table(options: ImageOptions, channels: int, place: Place) -> Array | None:
    """For every channel, the value of each byte; None when bytes stay as they are."""
    mean, std = (
        _per_channel(v, channels, n, place)
        for v, n in ((options.mean, "mean"), (options.std, "std"))
    )
    if options.dtype == "UINT8":
        if options.scale is not None or mean.any() or (std != 1).any():
            raise place.fail("`scale`, `mean` and `std` make no UINT8; choose FP32 or FP16")
        return None
    if not std.all():
        raise place.fail("`std` is zero")
    scale = 1 / 255 if options.scale is None else options.scale
    values = (np.arange(256) * scale - mean[:, None]) / std[:, None]
    if not np.isfinite(values).all():
        raise place.fail("`scale`, `mean` and `std` make no finite values")
    return values.astype(NUMPY[options.dtype])


def _per_channel(value: float | tuple[float, ...], channels: int, name: str, place: Place) -> Array:
    values = (value,) if isinstance(value, float) else value
    if len(values) not in (1, channels):
        raise place.fail(f"`{name}` has {len(values)} numbers for {channels} channels")
    return np.broadcast_to(np.asarray(values, np.float64), (channels,))
