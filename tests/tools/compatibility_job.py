"""A client's job, in the client's environment: its result, and how long it takes.

    python compatibility_job.py JOB.py RESULT.json [timed]

JOB.py defines job(), which is called twice for its results and, if it is timed, until
no call was the least for a while. It may use `picture` and `sound`. Needs nothing but
Python.
"""

from __future__ import annotations

import json
import math
import random
import runpy
import struct
import sys
import time
import wave
import zlib
from pathlib import Path
from typing import Any

PATIENCE_S = 20
ENOUGH = 12  # calls in a row of which none took less time than one before


def picture(text: str = "Hello World 2024", size: tuple[int, int] = (640, 320)) -> str:
    """A file with a picture of words on shapes; needs Pillow."""
    from PIL import Image, ImageDraw, ImageFont

    drawn = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(drawn)
    pen.ellipse((20, size[1] // 2, 200, size[1] - 10), fill=(200, 60, 40))
    pen.rectangle((260, size[1] // 2, 420, size[1] - 30), fill=(30, 90, 160))
    pen.text((20, 20), text, fill="black", font=ImageFont.load_default(size=40))
    path = Path(f"picture_{zlib.crc32(text.encode())}_{size[0]}.png")
    drawn.save(path)
    return str(path.resolve())


def sound(seconds: float = 4.0, rate: int = 16000) -> list[float]:
    """Tones that come and go over noise, between -1 and 1."""
    noise = random.Random(0)
    return [
        0.4 * math.sin(2 * math.pi * 220 * i / rate) * (i // rate % 2)
        + 0.2 * math.sin(2 * math.pi * 1100 * i / rate) * (i // (rate // 3) % 2)
        + 0.02 * noise.gauss(0, 1)
        for i in range(int(seconds * rate))
    ]


def sound_file(seconds: float = 4.0, rate: int = 16000) -> str:
    """The same as a WAVE file."""
    path = Path(f"sound_{rate}.wav")
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        whole = (int(32767 * max(-1, min(1, x))) for x in sound(seconds, rate))
        file.writeframes(b"".join(struct.pack("<h", x) for x in whole))
    return str(path.resolve())


def plain(value: Any) -> Any:
    """The value in JSON's types."""
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if hasattr(value, "__dict__"):
        return plain(vars(value))
    return str(value)


def main() -> None:
    job, out, *timed = sys.argv[1:]
    tools = {"picture": picture, "sound": sound, "sound_file": sound_file}
    begun = time.perf_counter()
    run = runpy.run_path(job, tools)["job"]
    results = [plain(run())]
    times = [time.perf_counter() - begun]  # the first with all that has to be loaded
    results.append(plain(run()))
    end = time.perf_counter() + PATIENCE_S
    while timed and time.perf_counter() < end and min(times[-ENOUGH:]) <= min(times):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    Path(out).write_text(json.dumps({"results": results, "seconds": times}))


if __name__ == "__main__":
    main()
