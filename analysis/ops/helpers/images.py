"""Helpers of image files, copied into the emitted module when used."""

from __future__ import annotations

import torch
from torch import Tensor


def decode_image(data: Tensor, mode: str = "RGB", reverse: bool = False) -> Tensor:
    """The pixels [height, width, channels] of an image file; needs Pillow.

    `reverse` turns the order of the channels. What is no image has no pixels.
    """
    import io

    import numpy
    from PIL import Image

    channels = len(mode)  # L or RGB
    try:
        image = Image.open(io.BytesIO(data.numpy(force=True).tobytes())).convert(mode)
    except OSError:
        return data.new_empty(0, 0, channels)
    pixels = torch.from_numpy(numpy.array(image)).to(data.device)
    pixels = pixels.reshape(image.height, image.width, channels)
    return pixels.flip(2) if reverse else pixels
