"""Find the folder of a store from the path that a user gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from altneu.errors import StoreError
from altneu.errors.extras import require
from altneu.store.folder import Folder, LocalFolder

if TYPE_CHECKING:
    import pyarrow.fs

Location: TypeAlias = "str | os.PathLike[str] | pyarrow.fs.FileSystem | Folder"

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure"}
_ADVICE = (
    'give the address instead, for example "s3://bucket/state" with storage_options={...}, which goes by fsspec '
    "(altneu[s3], altneu[gcs] or altneu[azure])"
)


def folder_of(location: Location, storage_options: Mapping[str, Any] = MappingProxyType({})) -> Folder:
    """The folder that a path, an address or a pyarrow file system names; nothing is touched.

    ``storage_options`` are the file system's own settings, as fsspec takes them.

    Raises:
        MissingExtraError: the packages of the object store are not installed.
        StoreError: an unknown protocol, or the file system has no way to put a file only if it is not there.

    >>> folder_of("/data/state")
    LocalFolder(path=PosixPath('/data/state'))
    >>> folder_of("memory://bucket/state", {"listings_expiry_time": 1}).where()
    'memory:///bucket/state'
    """
    if isinstance(location, Folder):
        return location
    if not isinstance(location, str | os.PathLike):
        return _of_arrow(location, storage_options)
    text = os.fspath(location)
    if not text:
        raise StoreError("the path of a folder must not be empty; '.' is the folder that the program runs in")
    protocol, separator, rest = text.partition("://")
    if separator and protocol not in ("file", "local"):
        return _of_address(protocol, text, storage_options)
    if storage_options:
        raise StoreError(f"{text} is a folder on a local disk, which has no storage_options")
    return LocalFolder(Path(rest if separator else text).absolute())


def _of_address(protocol: str, text: str, options: Mapping[str, Any]) -> Folder:
    if protocol in _EXTRAS:
        require(_EXTRAS[protocol], f"a store at {protocol}://")
    try:
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(text, **options)
    except (ImportError, ValueError) as error:
        advice = "" if protocol in _EXTRAS else "; install fsspec and the package that knows it"
        raise StoreError(f"a store at {protocol}:// cannot be opened: {error}{advice}") from error
    return _remote(filesystem, path)


def _of_arrow(location: Any, options: Mapping[str, Any]) -> Folder:
    from pyarrow import fs

    if not isinstance(location, fs.FileSystem):
        raise StoreError(
            f"the place of a store must be a path, an address or a pyarrow file system, got {location!r:.200}"
        )
    if options:
        raise StoreError("a pyarrow file system has its settings already, so leave storage_options out")
    path = ""
    while isinstance(location, fs.SubTreeFileSystem):
        path = f"{location.base_path.rstrip('/')}/{path}".rstrip("/")
        location = location.base_fs
    if isinstance(location, fs.LocalFileSystem):
        if not path:
            raise StoreError(
                "a file system alone does not name a folder: give SubTreeFileSystem(path, LocalFileSystem())"
            )
        return LocalFolder(Path(path).absolute())
    if isinstance(location, fs.PyFileSystem) and isinstance(location.handler, fs.FSSpecHandler):
        return _remote(location.handler.fs, path)
    raise StoreError(
        f"pyarrow's {type(location).__name__} cannot hold a store: it cannot put a file only if the file does not "
        f"exist yet, so two writers would overwrite each other; {_ADVICE}"
    )


def _remote(filesystem: Any, path: str) -> Folder:
    from altneu.store.remote import RemoteFolder

    stripped = str(filesystem._strip_protocol(path)).rstrip("/")  # fsspec's own name for it
    if not stripped.strip("/"):
        raise StoreError("an address needs a bucket, and preferably a prefix, after the protocol")
    return RemoteFolder(stripped, filesystem)
