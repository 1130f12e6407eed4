"""The command ``altneu``, and ``python -m altneu``."""

from __future__ import annotations

import sys

from altneu.errors import MissingExtraError
from altneu.errors.extras import require


def main() -> None:
    """Run the command line; where its packages are missing, say how to install them."""
    try:
        require("cli", "the command line")
    except MissingExtraError as error:
        sys.exit(f"altneu: {error}")
    from altneu.cli import main as command_line

    command_line(prog_name="altneu")


if __name__ == "__main__":
    main()
