"""Untrusted images: valid ones look as Pillow shows them; hostile ones are named and cost nothing."""

import io
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile, ImageOps

from setpredict.core.errors import UserError
from setpredict.data.io.decode import FILTER, PixelLimit, count_scans, decode_image, read_header
from tests.hostile_images import EPS, many_scans, noise, png, png_chunk, saved, webp_header

LIMIT = PixelLimit(4_000_000, "send a smaller one")
COLORS = noise(60, 40, channels=4)
OTHER = noise(60, 40, channels=4, seed=1)
VALID = {
    **{f"PNG {mode}": saved(COLORS.convert(mode), "PNG") for mode in ("1", "L", "LA", "P", "RGB", "RGBA")},
    "PNG P, transparent": saved(COLORS.convert("P"), "PNG", transparency=bytes(range(256))),
    "PNG RGB, transparent": saved(COLORS.convert("RGB"), "PNG", transparency=(1, 2, 3)),
    "PNG, animated": saved(COLORS, "PNG", save_all=True, append_images=[OTHER]),
    **{f"JPEG {mode}": saved(COLORS.convert(mode), "JPEG") for mode in ("L", "RGB", "CMYK")},
    "JPEG, progressive": saved(COLORS.convert("RGB"), "JPEG", progressive=True),
    "JPEG, two images": saved(COLORS.convert("RGB"), "MPO", save_all=True, append_images=[OTHER.convert("RGB")]),
    **{f"WebP {mode}": saved(COLORS.convert(mode), "WEBP") for mode in ("RGB", "RGBA")},
    "WebP, lossless": saved(COLORS, "WEBP", lossless=True),
    "WebP, animated": saved(COLORS, "WEBP", save_all=True, append_images=[OTHER]),
}


@pytest.mark.parametrize("name", VALID)
def test_valid_images_are_what_pillow_shows(name: str):
    content = VALID[name]
    with warnings.catch_warnings(), Image.open(io.BytesIO(content)) as image:
        warnings.simplefilter("ignore")  # Pillow's, about transparency
        expected = np.asarray(image.convert("RGB").resize((16, 16), FILTER))
    np.testing.assert_array_equal(np.asarray(decode_image(content, 16, LIMIT, "a")), expected)
    header = read_header(io.BytesIO(content), "a")
    assert (header.format, header.width, header.height) == (name.replace(",", "").split()[0], 60, 40)


def test_sixteen_bits_are_scaled_to_eight():
    values = np.linspace(0, 65535, 60 * 40).reshape(40, 60)
    content = saved(Image.fromarray(values.astype(np.uint16)), "PNG")
    found = np.asarray(decode_image(content, None, LIMIT, "a"))
    np.testing.assert_allclose(found, np.repeat(values[..., None] / 257, 3, axis=2), atol=0.6)


@pytest.mark.parametrize("orientation", range(1, 10))
def test_photos_are_upright(orientation: int):
    """As Pillow's own `exif_transpose` has them; 9 is no orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = saved(COLORS.convert("RGB"), "JPEG", exif=exif)
    with Image.open(io.BytesIO(content)) as image:
        expected = ImageOps.exif_transpose(image).convert("RGB")
    found = decode_image(content, None, LIMIT, "a")
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert read_header(io.BytesIO(content), "a").upright == expected.size


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_broken_metadata_leave_the_pixels_as_they_are():
    content = saved(COLORS.convert("RGB"), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert decode_image(content, None, LIMIT, "a").size == (60, 40)


TWICE = png(4, 4).replace(png(4, 4)[8:33], png(4, 4)[8:33] + png(9, 9)[8:33])
INVALID: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "a.png is not a PNG, JPEG or WebP image: it is empty"),
    "text": (b"not a picture", "a.png is not a PNG, JPEG or WebP image: it begins with b'not a pi'"),
    "EPS": (EPS, "a.png is not a PNG, JPEG or WebP image: it begins with b'%!PS-Ado'"),
    "GIF": (saved(COLORS.convert("P"), "GIF"), "it begins with b'GIF8"),
    "TIFF": (saved(COLORS, "TIFF"), "it begins with b'II"),
    "BMP": (saved(COLORS.convert("RGB"), "BMP"), "it begins with b'BM"),
    "PNG, too large": (png(13_000, 13_000), r"a.png is 13000×13000 \(169,000,000 pixels\); at most 4,000,000 pixels"),
    "PNG, one row too many": (png(2000, 2001), "at most 4,000,000 pixels are decoded: send a smaller one"),
    "JPEG, too large": (saved(Image.new("L", (2001, 2000)), "JPEG"), r"a.png is 2001×2000 \(4,002,000 pixels\)"),
    "WebP, too large": (webp_header(16_000, 16_000), r"a.png is 16000×16000 \(256,000,000 pixels\)"),
    "WebP, no image": (webp_header(10, 10), "a.png is not a valid WebP image: "),
    "WebP, other": (b"RIFF\4\0\0\0WEBPABCD", "a.png is not a valid WebP image: its first chunk is b'ABCD'"),
    "PNG, no pixels": (png(0, 5), "a.png is not a valid PNG image: its size is 0×5"),
    "PNG, no header": (png(5, 5)[:8] + png_chunk(b"IDAT", b""), "is not a valid PNG image: its header is missing"),
    "PNG, start only": (png(5, 5)[:20], "a.png is not a valid PNG image: its header is incomplete"),
    "PNG, two sizes": (TWICE, "a.png is not a valid PNG image: it has two sizes, 4×4 and 9×9"),
    "PNG, no data": (png(5, 5), "a.png is not a valid PNG image: "),
    "JPEG, start only": (b"\xff\xd8\xff", "a.png is not a valid JPEG image: its header is incomplete"),
    "JPEG, half a header": (b"\xff\xd8\xff\xe0\0", "a.png is not a valid JPEG image: its header is incomplete"),
    "JPEG, scans": (many_scans(32, 3000), "a.png is a JPEG of 3,000 scans; at most 64 are decoded: save it as a plain"),
    **{f"{name}, cut": (content[:-400], "a.png is not a valid ") for name, content in VALID.items()
       if "animated" not in name and "two" not in name},
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_images_are_named_and_say_why(name: str):
    content, message = INVALID[name]
    with pytest.raises(UserError, match=message) as error:
        decode_image(content, 16, LIMIT, "a.png")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["PNG, too large", "PNG, one row too many", "JPEG, too large", "WebP, too large",
                                  "JPEG, scans", "EPS"])  # fmt: skip
def test_nothing_is_decoded_beyond_a_limit(name: str, monkeypatch: pytest.MonkeyPatch):
    def decode(*_):
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", decode)
    monkeypatch.setattr("PIL._webp.WebPAnimDecoder", decode)  # allocates the image
    with pytest.raises(UserError):
        decode_image(INVALID[name][0], 16, LIMIT, "a.png")


def compressed_text(kind: bytes) -> bytes:
    """50 MB of text in 50 kB."""
    import zlib

    head = b"key\0\1\0\0\0" if kind == b"iTXt" else b"key\0\0"
    return png_chunk(kind, head + zlib.compress(bytes(50_000_000), 9))


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt", b"iCCP"])
def test_the_metadata_of_a_png_is_not_unpacked(kind: bytes, monkeypatch: pytest.MonkeyPatch):
    content = VALID["PNG RGB"]
    bomb = content[:33] + compressed_text(kind) * 3 + content[33:-12] + compressed_text(kind) + content[-12:]
    expected = np.asarray(decode_image(content, 16, LIMIT, "a"))

    def unpack(*_):
        raise AssertionError("unpacked")

    monkeypatch.setattr("PIL.PngImagePlugin._safe_zlib_decompress", unpack)
    np.testing.assert_array_equal(np.asarray(decode_image(bomb, 16, LIMIT, "a")), expected)


def test_scans_are_counted_as_a_decoder_counts_them():
    assert count_scans(VALID["JPEG RGB"]) == 1
    assert count_scans(VALID["JPEG, progressive"]) == 10
    assert count_scans(VALID["JPEG, two images"]) == 1  # the second image is not decoded
    thumbnail = b"\xff\xe1" + (2 + 4000).to_bytes(2, "big") + b"\xff\xda" * 2000
    content = VALID["JPEG, progressive"]
    assert count_scans(content[:2] + thumbnail + content[2:] + b"\xff\xda" * 500) == 10
    assert count_scans(content[:-2] + b"\xff" * 9 + b"\xd7\xff\x00" + content[content.rindex(b"\xff\xda") :]) == 11


def test_the_usual_number_of_scans_is_no_error():
    decode_image(many_scans(32, 64), 16, LIMIT, "a")
    with pytest.raises(UserError, match="65 scans"):
        decode_image(many_scans(32, 65), 16, LIMIT, "a")


def damaged(draw: Callable) -> bytes:
    content = bytearray(draw(st.sampled_from(list(VALID.values()))))
    for _ in range(draw(st.integers(1, 8))):
        content[draw(st.integers(0, min(len(content) - 1, 400)))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(1, len(content)))])


@given(st.composite(damaged)())
def test_a_damaged_image_is_decoded_or_named_without_an_address(content: bytes):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = decode_image(content, 8, LIMIT, "a.png")
    except UserError as e:
        text = str(e)
        assert text.startswith("a.png ")
        assert "object at" not in text
        assert "0x" not in text
        assert not text.endswith(": ")
    else:
        assert (image.size, image.mode) == ((8, 8), "RGB")
