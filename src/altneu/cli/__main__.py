"""``python -m altneu.cli``."""

from __future__ import annotations

from altneu.cli import main

main(prog_name="altneu")
