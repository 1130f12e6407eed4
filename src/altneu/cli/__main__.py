"""``python -m altneu.cli``."""

from __future__ import annotations

from altneu.cli import main

if __name__ == "__main__":
    main(prog_name="altneu")
