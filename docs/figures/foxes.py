"""Takes docs/foxes-cells.png and docs/foxes-forest.svg: what the commands of docs/foxes.md write.

python docs/figures/foxes.py     (needs Pillow)
"""

import io
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from PIL import Image  # noqa: E402

import pages  # noqa: E402

PICTURES = {"foxes/cells.png": "foxes-cells.png", "foxes-forest.svg": "foxes-forest.svg"}

if __name__ == "__main__":
    for block, _ in pages.run(ROOT / "docs" / "foxes.md"):
        if "tacit compare" not in block.code:
            continue
        for source, name in PICTURES.items():
            content = Path(source).read_bytes()
            if name.endswith(".png"):
                drawn, small = Image.open(io.BytesIO(content)).convert("RGB"), io.BytesIO()
                drawn.quantize(64).save(small, "png", optimize=True)
                content = small.getvalue()
            (ROOT / "docs" / name).write_bytes(content)
        break
