"""Keys of texts by ICU's collations, from the ICU that DuckDB has linked in, with the order of Spark's later one.

DuckDB gives ICU 66's sort keys, and Spark 4.3 compares by ICU 78. Over every character and many texts of several, what
differs is this: the quotation marks of typography are by now variants of the straight ones, which is put right here;
some characters had no place yet (they came after Unicode 13) or another one. A text with one of these has no key.

ICU compares texts of Latin letters by a shortcut of its own, which for ß is not what its sort keys say. Where case
alone is told apart (``_AI``) they even disagree on whether ß is ss: there ß has no key. Elsewhere they disagree on the
order of texts that differ by accents, and that of the keys is taken.

Source: Unicode Technical Standard #10 and ICU's user guide, "Collation" (sort keys; strength and case level).
Law:    tests/expressions/test_icu.py compares equality and order with Spark's, characters and texts, in every locale.
"""

from __future__ import annotations

import os
import threading
import unicodedata
import zlib
from typing import Any, NamedTuple

import pyarrow as pa

from altneu.errors import SetupError
from altneu.errors.extras import require
from altneu.expressions.icu_locales import COUNTRIES, LOCALES

_MOVED = """
    5f3-5f4 675-678 9f4-9f9 b72-b77 bf0-bf2 d58-d5e d70-d78 f82-f83 1086 1372-137c 1d89 1d98 1de3 1e9b 20a7-20a8
    2180-2182 2186-2188 2cfd 2eb0 2ec5 2ec8-2ec9 2ecb 2ed0 2ed3-2ed4 2ed9-2edc 2ee0 2ee2 2ee5-2ee6 2ee8 2eea 2eec
    2eee 2ef0 2ef3 312c 3ab3 3ac8 3b3a 4336-4341 44f1 451d 453c 4542 4544-4545 4560 457d 457f 4723-4729 4748
    478c-4790 4880-4882 497a-4986 49b6-49b8 4b6a 4bc3-4bc5 4c9d-4ca4 4d13-4d19 4dad-4dae 4f64 503b 50f7 52b3 537f
    53af 5645 56d8 5815 5954 595f 5f6a 5fa4 616d 641c 6452 6c77 6e81 715b 732b 7dd0 7e9f-7f35 836b 84e5 87d7 8801
    89c1-89c5 89c7-89d1 8ba0-8c36 8d1d-8d63 8d67 8f66-8f9a 9485-9576 957f 95e8-961b 968f 97e6-97ec 9819 9875-98a7
    98ce-98da 98de 9943 9963-9995 9a6c-9aa7 9c7c-9ce4 9e1f-9e74 9e7e 9ea6 9eb8-9eba 9efe 9f0b-9f0d 9f50-9f51 9f62
    9f7f-9f8c 9f99-9f9b 9f9f 9fcf 9fd4-9fd5 9fed 9ff4-9ffa a75a-a75b a784-a785 a7c2-a7c3 a830-a835 fa0e-fa0f fa11
    fa13-fa14 fa1f fa21 fa23-fa24 fa27-fa29 fa7f fa8e-fa8f fbdd fdfc 10110-10133 10140-10141 10144-10147 10149-1014e
    10150-10157 10160-10172 10174-10178 1018b 101fd 102ea-102fb 10322-10323 103d3-103d5 1085b-1085f 1087e-1087f
    108ad-108af 108fd-108ff 10917-10919 109bc-109bd 109c9-109cf 109d2-109ff 10a44-10a48 10a7e-10a7f 10a9e-10a9f
    10aed-10aef 10b5c-10b5f 10b7c-10b7f 10bad-10baf 10cfc-10cff 10e69-10e7e 10f22-10f26 10f52-10f54 10fc9-10fcb
    1105b-11065 111ea-111f4 1173a-1173b 118ea-118f2 11c63-11c6c 11fc0-11fd4 12432-12433 1245a-12468 16b5b-16b61
    16e8a-16e93 18d00-18d08 1d2ea-1d2f3 1d369-1d371 1ec7a-1eca2 1ecad-1ecaf 1ecb3-1ecb4 1ed0a-1ed2d 1ed37-1ed3d
    2087a 21014 21832 2227c 224b5 23230 232f0 236ef 23d92 244c7 24775 24822 24ae2 252d5 257cc 25a5a 26208-26221
    266b9 268d9 26967 26ec7 26f28 27350 27baa 27e51-27e57 280cb 28405-2840a 28c3e-28c56 28c96 28dff-28e0e 29066
    291ac 293fc-29400 29595-29597 2964c 29665-29670 297fe-2980f 2984f 299e6-29a10 29f79-29f7f 29f81-29f88
    29f8a-29f8c 29f8e 2a241-2a255 2a388-2a390 2a5f1 2a602 2a61a 2a68f-2a690 2a6b2 2ab63 2b119-2b139 2b1cd
    2b328-2b32d 2b359-2b37f 2b3a6-2b3ac 2b404-2b419 2b4e5-2b515 2b52c-2b539 2b584 2b591-2b596 2b5aa-2b5ba
    2b5bc-2b5bf 2b5c3-2b5c4 2b5c7-2b5cc 2b5de-2b5f5 2b61b-2b631 2b688-2b6ad 2b6da-2b706 2b70a 2b711-2b715 2b71f
    2b728-2b730 2b732-2b733 2b7c3-2b7c7 2b7de-2b7e2 2b7e4-2b7e6 2b7f2-2b802 2b805-2b80c 2b80f-2b812 2b816-2b818
    2b81a 2b81c 2b8d9-2b8da 2b8de 2bc2e 2bd61 2bf9d 2c04c 2c099 2c0b8 2c0d1 2c142 2c312 2c43e 2c4f8 2c613-2c64b
    2c774 2c7c3 2c83a 2c887-2c894 2c8d9-2c931 2c96c 2c973-2c97f 2ca01-2ca15 2cb27-2cb83 2cb98-2cbb9 2cc31-2cc38
    2cc53-2cc73 2cc75-2cc88 2cca5-2ccd4 2ccf3-2cd10 2cd80-2cdbb 2cdd5 2cdfb-2ce31 2ce35-2ce39 2ce45-2ce4e
    2ce63-2ce64 2ce73 2ce7a-2ce96 2ce9b-2ce9e 2cf04 2e260-2e26f 2e649-2e64b 2e773-2e77a 2e8f2-2e8f7 2e92b-2e938
    2e9f4-2e9f5 2ea30 2ea34-2ea36 2ea5b-2ea5e 2eaa1-2eaa5 2eb1b-2eb24 2eb61-2eb6a 2eb70 2eb83-2eb87 2ebc2 2ebc6
    2ebc8 2ebcb-2ebcc 2ebce 2ebd9 2f831-2f833 2f992 2f9c1 2fa18 3080c 30817-30818 30afc-30b41 30d15-30d1e
    30d4a-30d8f 30dde-30dee 30e6f-30ea4 30f55-30fca 30fd6 30fe5-31000 31083-3108c 310a0-310bb 310ca 310d4-310e0
    310f1-3110a 3113c-3116c 311cd-3121c 31247-312b5 312ba-312bd 312c4-312ee 312fe-31309 31317-31319 3131d-3131e
    31329-3133d 31341-31348
"""
"""Characters, in hexadecimal, that ICU 78 orders among the others otherwise than ICU 66."""

_MARKS = "\u1a75\u1a76\u1a77\u1a78\u1a79\u1a7a\u1a7b\u1a7c"
_DOUBLE, _SINGLE = "\u201c\u201d\u201e\u201f\u2e42\u301d\u301e\u301f", "\u2018\u2019\u201a\u201b"
_QUOTES = str.maketrans(
    {
        q: plain + mark
        for quotes, plain in ((_DOUBLE, '"'), (_SINGLE, "'"))
        for q, mark in zip(quotes, _MARKS, strict=False)
    }
)
"""To ICU 78 a quotation mark is a straight one that differs on the second level: to ICU 66 it is given with an accent.

No text has such an accent there of its own, as a mark on a quotation mark has no key.
"""
_QUOTED = frozenset("\"'\uff02\uff07" + _DOUBLE + _SINGLE)
_UNPLACED = {"zh": "\u56cd\u8e9b\u9c5a\U00024934", "th": "\u0e3a", "kl": _DOUBLE + _SINGLE}
"""Characters that ICU 78 has at another place in the texts of a language."""
_STRENGTHS = {
    "": "",
    "_CI": "@colStrength=secondary",
    "_AI": "@colStrength=primary;colCaseLevel=yes",
    "_CI_AI": "@colStrength=primary",
}
_PROBE = [
    *map(chr, (*range(0x20, 0x3000), *range(0x4E00, 0x5000))),
    *(chr(a) + chr(b) for a in range(ord("a"), ord("z") + 1) for b in range(ord("a"), ord("z") + 1)),
]


class Keys(NamedTuple):
    """The sort key of each text in hexadecimal, and the characters for which some texts have none."""

    keys: pa.Array
    faults: dict[int, str]


class _Icu(threading.local):
    """A connection of this thread, and what it said of single characters."""

    def __init__(self) -> None:
        require("collations", "a collation of ICU")
        import duckdb

        self.connection: Any = duckdb.connect(
            config={"threads": 1, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        self.kinds: dict[str, str] = {}
        self.probed: set[str] = set()

    def raw(self, texts: list[str], name: str) -> pa.Array:
        """The keys that ICU gives, by the name of a locale with its keywords."""
        self.connection.register("texts", pa.table({"t": pa.array(texts, pa.string())}))
        query = f"SELECT icu_sort_key(t, '{name}') FROM texts"  # noqa: S608 -- a name of ours
        found = self.connection.execute(query).to_arrow_table()
        self.connection.unregister("texts")
        return found.column(0).combine_chunks()

    def probe(self, locale: str) -> None:
        """See once that the locale orders as it did when it was compared with Spark's.

        Raises:
            SetupError: DuckDB has another ICU by now.
        """
        if locale not in self.probed:
            if fingerprint(self.raw(_PROBE, icu_name(locale))) != LOCALES[locale]:
                raise SetupError(
                    f"the ICU of this DuckDB orders the texts of {locale} otherwise than the one that altneu knows: "
                    "install DuckDB 1.5 (pip install 'altneu[collations]')"
                )
            self.probed.add(locale)

    def kind(self, characters: set[str]) -> dict[str, str]:
        """Of each character "unknown", "mark" (it is compared on the second level or later alone) or "letter"."""
        new = sorted(characters - self.kinds.keys())
        if new:
            for c, key in zip(new, self.raw(new, "root").to_pylist(), strict=True):
                moved = c in _moved() or (key.startswith("FE") and unicodedata.category(c) != "Co")
                self.kinds[c] = "unknown" if moved else "mark" if key.startswith("01") else "letter"
        return self.kinds


_icus: dict[int, _Icu] = {}
"""By process: one that was forked has its own."""
_moved_characters: set[str] = set()


def _moved() -> set[str]:
    if not _moved_characters:
        for part in _MOVED.split():
            first, _, last = part.partition("-")
            _moved_characters.update(map(chr, range(int(first, 16), int(last or first, 16) + 1)))
    return _moved_characters


def _mine() -> _Icu:
    """The ICU of this thread and process."""
    process = os.getpid()
    if process not in _icus:
        _icus[process] = _Icu()
    return _icus[process]


_OTHER_NAMES = {"UNICODE": "root", "nb": "no", "nb_NOR": "no", "nn": "no"}  # ICU 66 has Norwegian under one name


def fingerprint(keys: pa.Array) -> str:
    """A short text that tells keys apart."""
    return f"{zlib.crc32(','.join(keys.to_pylist()).encode()):08x}"


def icu_name(locale: str) -> str:
    """ICU's name of a locale of Spark's.

    >>> icu_name("sr_Cyrl_BIH"), icu_name("UNICODE")
    ('sr-Cyrl-BA', 'root')
    """
    if locale in _OTHER_NAMES:
        return _OTHER_NAMES[locale]
    *parts, last = locale.split("_")
    return "-".join([*parts, COUNTRIES.get(last, last)])


def sort_keys(texts: pa.Array, locale: str, strength: str) -> Keys:
    """The sort keys of distinct texts, none of them null, by a locale and "", "_CI", "_AI" or "_CI_AI".

    Raises:
        MissingExtraError: DuckDB is not installed.
        SetupError: its ICU is another one.

    Cost:   linear in the characters.
    """
    icu = _mine()
    icu.probe(locale)
    words: list[str] = texts.to_pylist()
    faults: dict[int, str] = {}
    characters = {c for c in set().union(*words) if c >= "\x7f" or c < " "}
    kinds = icu.kind(characters)
    unplaced = _UNPLACED.get(locale.partition("_")[0], "") + ("ß" if strength == "_AI" else "")
    special = {c for c in characters if kinds[c] != "letter" or c in _QUOTED or c in unplaced}
    if special:
        for i, word in enumerate(words):
            if not special.isdisjoint(word):
                fault = next((c for c in unplaced if c in word), None) or _fault(word, kinds)
                if fault is None:
                    words[i] = word.translate(_QUOTES)
                else:
                    faults[i], words[i] = fault, ""
    keys = icu.raw(words, icu_name(locale) + _STRENGTHS[strength])
    return Keys(keys, faults)


def _fault(word: str, kinds: dict[str, str]) -> str | None:
    """The characters for which a text has no key."""
    last = ""
    for c in word:
        kind = kinds.get(c)
        if kind == "unknown" or (kind == "mark" and last in _QUOTED):
            return c if kind == "unknown" else last + c
        last = c
    return None
