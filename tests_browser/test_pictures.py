"""The tool takes every picture of the guides, in its size."""

from __future__ import annotations

from pathlib import Path

from tools.pictures import PICTURES, take_all


def test_every_picture_is_taken_in_its_size(tmp_path: Path) -> None:
    take_all(tmp_path)
    for one in PICTURES:
        png = (tmp_path / f"{one.name}.png").read_bytes()
        # A PNG begins with eight bytes of signature, then length, "IHDR", width and height.
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (one.width, one.height)
