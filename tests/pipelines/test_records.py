"""Records of JSON and CSV files, well formed or not: the rows that Spark reads."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from altneu.cli.pipelines import records
from altneu.cli.pipelines.files import stored_at
from altneu.cli.pipelines.running import Pipeline
from altneu.errors import AltneuError
from tests.pipelines.projects import Project

JSON = (
    "a INT, b STRING, d DATE, m MAP<STRING,INT>, l ARRAY<INT>, s STRUCT<x:INT,y:STRING>, dec DECIMAL(5,2), t TIMESTAMP"
)
CSV = "a INT, b STRING, d DOUBLE, t DATE, c STRING"
CORRUPT = ", _corrupt_record STRING"
JSON_LINES = (
    rb"""{"a":1,"b":"x","d":"2024-01-02","m":{"k":1},"l":[1,2],"s":{"x":1,"y":"q"},"dec":1.25,"t":"2024-01-01T00:00:00Z"}
{"a":"no","b":"y"}
{"a":3,"b":{"z": 1},"d":"nodate"}
{"a":4,
not json

BLANK
[{"a":5},{"a":6,"b":"arr"}]
[1]
5
null
"s"
{"a":99999999999,"b":"big"}
{"a":1.5,"b":1.50}
{"b":true,"a":7} trailing
{"a":8} {"a":9}
{"a":1,"l":[1,"x"],"b":"afterl"}
{"a":1,"s":{"x":"no","y":"ok"},"b":"afters"}
{"a":1,"m":{"k":"x","j":2},"b":"afterm"}
{"a":1,"dec":12345.678,"b":"d"}
{"a":1,"dec":1.255,"b":"d"}
{'a':1,'b':'single'}
{"a":NaN,"b":"n"}
{"a":1,"a":2}
{"A":1}
{"a":null,"b":null}
[]
[{"a":1},{"a":"no"}]
{"a":"5"}
{"a":1 /* c */}
{"t":"nope","b":"z"}
{"t":12,"b":"z"}
{}
{"l":{},"b":"z"}
{"s":[],"b":"z"}
{"b":[1, 2]}
{"d":""}
{"a":01}
{"c":5,"a":1}
{"s":"","a":1}
{"b": {"z": [1,  2 ]} , "s":{"y": 1.50}}
{'b':{ 'x':1}, "a":"no"}
[{"a":6},null]
[{"a":8},"x",{"a":9}]
[{"a":10},{"a"
 [{"a":14}]
{"a":1e2}
{"a":-0,"b":-0.0}
"""
    b'{"a":1,"b":"\xff"}\n{"a":2,"b":"c\td"}\n{"a":3}\r{"a":4}\r\n{"a":5,"b":"\\ud800"}\n\xef\xbb\xbf{"a":11}\n'
)
CSV_LINES = b"""1,x,1.5,2024-01-02,e
2,y
3,z,2,2024-01-01,q,extra
no,w,1,2024-01-01,q

BLANK
,,,,
"5","a, b",1e3,2024-01-01,"q"
6,"a""b",1,2024-01-01,q
7,"a\\"b",1,2024-01-01,q
 8 ,x,1,2024-01-01,q
9,"x" ,1,2024-01-01, q BLANK
10,"open,1,2024-01-01,q
11,x,nan,2024-01-01,q
12,x,NaN,2024-1-1,q
13,"",1,2024-01-01,""
#14,x,1,2024-01-01,q
1.5,x,1,2024-01-01,q
15,a"b"c,1,2024-01-01,q
0x10,x,1,2024-01-01,q
+16,x,.5,2024-01-01,q
17,"a"b,1,2024-01-01,q
18,x,"1",2024-01-01T00:00,q
19,\xff,1,2024-01-01,q\r20,x,1,2024-01-01,q\r
"""
CSV_LINES = CSV_LINES.replace(b"BLANK", b"  ")
JSON_LINES = JSON_LINES.replace(b"BLANK", b"  ")
FILES = {
    "good.json": b'{"a": 1}\n{"a": 2, "b": "x", "d": "2024-01-02", "t": "2024-01-02 10:00:00"}\n\n',
    "lines.json": JSON_LINES,
    "array.json": b'[\n{"a":1},\n {"a":2,"b":"x"}\n]\n',
    "object.json": b'{"a":1,\n"b":"two"}\n',
    "two.json": b'{"a":1}\n{"a":2}\n',
    "cut.json": b'{"a":1,\n',
    "mixed.json": b'[{"a":1},{"a":"no"},{"a":3}]',
    "blank.json": b"  \n ",
    "empty.json": b"",
    "mark.json": b'\xef\xbb\xbf{"a":11}\n{"a":12}\n',
    "lines.csv": CSV_LINES,
    "names.csv": b"\na,b,,a,B\n1,2,3,4,5\n1,2\n",
    "several.csv": b'x,y\n1,"two\nlines"\n\n   \n3,"a\r\nb"\n"no,4\n5,six\n',
    "windows.csv": b'x,y\r\n1,"two\r\nlines"\r\n2,"u\nv"\r\n3,q\nr\r\n4\r\n',
    "plain.csv": b"x,y\n1,2\n3,4\n",
    "quoted.csv": b'x,y\n1,"2, 3"\n"3",4\n5,NA\n',
}
AB, XY = "a INT, b STRING", "x INT, y STRING"
READS = [
    *[
        ("lines.json", JSON + corrupt, {"mode": mode} if mode else {})
        for corrupt in ("", CORRUPT)
        for mode in (None, "DROPMALFORMED")
    ],
    ("lines.json", "a INT, bad STRING", {"columnNameOfCorruptRecord": "bad"}),
    ("lines.json", "a INT, bad STRING", {"columnNameOfCorruptRecord": "BAD"}),
    *[(f, AB + CORRUPT, {"multiLine": "true"}) for f in FILES if f.endswith("json")],
    ("mixed.json", AB, {"multiLine": "true", "mode": "DROPMALFORMED"}),
    ("good.json", JSON + CORRUPT, {}),
    ("array.json", AB + CORRUPT, {}),
    ("two.json", "_corrupt_record STRING, a INT", {}),
    *[("lines.csv", CSV + c, {"mode": m} if m else {}) for c in ("", CORRUPT) for m in (None, "DROPMALFORMED")],
    ("lines.csv", None, {}),
    ("lines.csv", None, {"mode": "DROPMALFORMED"}),
    ("names.csv", None, {"header": "true"}),
    ("names.csv", None, {}),
    ("plain.csv", "y INT, x INT", {"header": "true"}),
    ("plain.csv", "y INT, _corrupt_record STRING, x INT", {"header": "true"}),
    ("plain.csv", "y TINYINT, x DECIMAL(3,1)", {"header": "false"}),
    ("quoted.csv", XY + CORRUPT, {"header": "true", "nullValue": "NA"}),
    ("quoted.csv", XY + CORRUPT, {"header": "true", "nullValue": "NA", "quote": "'"}),
    ("plain.csv", None, {"header": "true", "sep": "\t"}),
    *[
        (f, XY + CORRUPT, {"header": h, "multiLine": m})
        for f in ("several.csv", "windows.csv")
        for h in ("true", "false")
        for m in ("true", "false")
    ],
    ("windows.csv", XY, {"header": "true", "multiLine": "true", "mode": "DROPMALFORMED"}),
    ("windows.csv", None, {"multiLine": "true"}),
    ("several.csv", None, {"multiLine": "true"}),
    ("lines.csv", "a INT, b STRING, d DOUBLE, t TIMESTAMP, c STRING", {"timestampFormat": "yyyy-MM-dd"}),
]


def read(path, schema, options):
    """The columns and the rows that a pipeline reads."""
    said = SimpleNamespace(format=path.suffix[1:], paths=[str(path)], options=options, schema=schema or "")
    files = stored_at(said, "here")
    table = pa.concat_tables([files.read(file) for file in files.listed()] or [files.columns.empty_table()])
    return table.column_names, sorted(map(repr, map(tuple, (row.values() for row in table.to_pylist()))))


def of_spark(spark, path, schema, options):
    reader = spark.read.options(**options)
    frame = (reader.schema(schema) if schema else reader).format(path.suffix[1:]).load(str(path))
    whole = [F.make_valid_utf8(f.name).alias(f.name) if f.dataType == StringType() else f.name for f in frame.schema]
    rows = frame.select(whole).toArrow().to_pylist()
    return frame.columns, sorted(map(repr, map(tuple, (row.values() for row in rows))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("records")
    for name, data in FILES.items():
        (root / name).write_bytes(data)
    for name in ("1.json", "sub/2.json", "sub/deep/3.json", "_hidden/4.json"):
        path = root / "nested.json" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"a": {path.stem}}}\n')
    return root


@pytest.mark.parametrize(("name", "schema", "options"), READS)
def test_the_rows_that_spark_reads(spark, folder, name, schema, options):
    assert read(folder / name, schema, options) == of_spark(spark, folder / name, schema, options)


@pytest.mark.parametrize("recursive", ["true", "false"])
def test_folders_in_folders(spark, folder, recursive):
    options = {"recursiveFileLookup": recursive}
    mine = read(folder / "nested.json", "a INT", options)
    assert mine == of_spark(spark, folder / "nested.json", "a INT", options)
    assert len(mine[1]) == (3 if recursive == "true" else 1)


@pytest.mark.parametrize(("form", "data"), [("json", JSON_LINES), ("csv", CSV_LINES)])
def test_what_pyarrow_reads_is_the_same(tmp_path, monkeypatch, form, data):
    """Each line alone, by pyarrow where that does and by records."""
    schema, plain = JSON.replace("m MAP<STRING,INT>, ", "") if form == "json" else CSV, 0
    for number, line in enumerate(data.splitlines()):
        path = tmp_path / f"{number}.{form}"
        path.write_bytes(line + b"\n")
        quick = read(path, schema + CORRUPT, {})
        with monkeypatch.context() as patch:
            patch.setattr(records, f"_plain_{form}", lambda *_: None)
            assert read(path, schema + CORRUPT, {}) == quick, line
        columns = records.pa.schema([f for f in stored_columns(schema) if f.name != "_corrupt_record"])
        plain += getattr(records, f"_plain_{form}")(str(path), path.read_bytes(), columns, {}) is not None
    assert plain > 5


def stored_columns(schema):
    return stored_at(SimpleNamespace(format="json", paths=["/x"], options={}, schema=schema), "").columns


def test_mode_failfast(folder):
    for name, schema in (("lines.json", JSON), ("lines.csv", CSV)):
        with pytest.raises(AltneuError, match=r"\[MALFORMED_RECORD_IN_PARSING\] record 2 of .*FAILFAST"):
            read(folder / name, schema, {"mode": "failfast"})


def test_columns_that_there_are_not(folder):
    for name in ("lines.json", "lines.csv"):
        with pytest.raises(AltneuError, match="INVALID_CORRUPT_RECORD_TYPE"):
            read(folder / name, "a INT, _corrupt_record INT", {})
    with pytest.raises(AltneuError, match=r"array<int>.*not read from CSV.*\(here\)"):
        read(folder / "lines.csv", "a ARRAY<INT>", {})
    for options in ({"mode": "lax"}, {"multiLine": "yes"}, {"sep": "||"}):
        with pytest.raises(AltneuError, match=next(iter(options))):
            read(folder / "lines.csv", CSV, options)


def test_a_pipeline_goes_on_over_malformed_records(tmp_path):
    project = Project(tmp_path / "p")
    project.put_text("f/1.json", '{"x": 1, "y": "a"}\nnothing\n{"x": "b"}\n')
    project.put_text("f/in/2.json", '{"x": 9}\n')
    project.put_text("c/1.csv", "1,a\n2\n")
    project.write(
        "a.py",
        """
from pyspark import pipelines as dp
DATA = spark.conf.get('shop.data')

@dp.materialized_view
def every():
    return spark.read.schema("x INT, y STRING, _corrupt_record STRING").json(DATA + "/f")

@dp.table
def right():
    return spark.readStream.schema("x INT, y STRING").option("mode", "DROPMALFORMED").json(DATA + "/f")

@dp.table
def deep():
    return spark.readStream.schema("x INT").option("recursiveFileLookup", True).json(DATA + "/f")

@dp.materialized_view
def named():
    return spark.read.csv(DATA + "/c").select("_c1")
""",
    )
    Pipeline(str(project.spec)).run()
    assert project.table("every") == [("1", "a", "None"), ("None", "None", "nothing"), ("None", "None", '{"x": "b"}')]
    assert project.table("right") == [("1", "a")]
    assert project.table("deep") == [("1",), ("9",), ("None",), ("None",)]
    assert project.table("named") == [("None",), ("a",)]
