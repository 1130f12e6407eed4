"""``format.json``: which format a store has, and its id."""

from __future__ import annotations

import json
import uuid
from typing import Any

from altneu.errors import StoreCorruptError, StoreVersionError
from altneu.store.files import parse_json
from altneu.store.folder import Folder
from altneu.store.release import __version__

FORMAT = 3
READABLE = (2, 3)
FILE = "format.json"
_LARGEST = 65536


def software() -> str:
    """The version of altneu that runs."""
    return __version__


def make_identity(folder: Folder, known: str = "") -> None:
    """Write the id of a new store, or restore the id ``known`` of one that lost it; of two at once one wins."""
    folder.put(FILE, _encoded(known or uuid.uuid4().hex), exclusive=True)


def take_up(folder: Folder, identity: str) -> None:
    """Convert a store of an earlier format to the present one, after which earlier versions of altneu refuse it.

    A later format only adds to an earlier one, so no other file changes.
    """
    folder.put(FILE, _encoded(identity))
    folder.sync()


def _encoded(identity: str) -> bytes:
    return (json.dumps({"format": FORMAT, "altneu": software(), "id": identity}) + "\n").encode("ascii")


def read_identity(folder: Folder) -> tuple[int, str]:
    """A store's format and id.

    Raises:
        StoreVersionError: an altneu of another format wrote it.
        StoreCorruptError: the file is missing, or its contents are invalid.
    """
    where = folder.where(FILE)
    if folder.sizes([FILE])[FILE] > _LARGEST:
        raise StoreCorruptError(f"{where} is far too large for a format file")
    document: Any = parse_json(folder.read(FILE), where)
    version = document.get("format") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        raise StoreCorruptError(f"{where} has no format version")
    if version not in READABLE:
        raise StoreVersionError(
            f"{folder.where()} has format {version}, written by altneu {document.get('altneu', 'unknown')}; "
            f"this is altneu {software()}, which reads formats {READABLE[0]} to {FORMAT}: install that altneu, or open "
            "another folder"
        )
    if not isinstance(document.get("id"), str) or not document["id"]:
        raise StoreCorruptError(f"{where} has no store id")
    return version, document["id"]
