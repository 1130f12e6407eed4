"""``format.json``: which format a store has, and its id."""

from __future__ import annotations

import importlib.metadata
import json
import uuid
from typing import Any

from altneu.errors import StoreCorruptError, StoreVersionError
from altneu.store.files import parse_json
from altneu.store.folder import Folder

FORMAT = 2
READABLE = (2,)
FILE = "format.json"
_LARGEST = 65536


def software() -> str:
    """Version of this altneu."""
    try:
        return importlib.metadata.version("altneu")
    except importlib.metadata.PackageNotFoundError:
        return "unreleased"


def make_identity(folder: Folder) -> None:
    """Give a new store its id; of two who do so at once one finds the other's."""
    said = {"format": FORMAT, "altneu": software(), "id": uuid.uuid4().hex}
    folder.put(FILE, (json.dumps(said) + "\n").encode("ascii"), exclusive=True)


def read_identity(folder: Folder) -> tuple[int, str]:
    """A store's format and id.

    Raises:
        StoreVersionError: an altneu of another format wrote it.
        StoreCorruptError: the file is missing, or does not say what it should.
    """
    where = folder.where(FILE)
    if folder.sizes([FILE])[FILE] > _LARGEST:
        raise StoreCorruptError(f"{where} is far too large to say a format")
    found: Any = parse_json(folder.read(FILE), where)
    version = found.get("format") if isinstance(found, dict) else None
    if type(version) is not int or version < 1:
        raise StoreCorruptError(f"{where} says no format version")
    if version not in READABLE:
        raise StoreVersionError(
            f"{folder.where()} has format {version}, written by altneu {found.get('altneu', 'unknown')}; "
            f"this is altneu {software()}, which reads format {FORMAT}: install that altneu, or open another folder"
        )
    if not isinstance(found.get("id"), str) or not found["id"]:
        raise StoreCorruptError(f"{where} has no store id")
    return version, found["id"]
