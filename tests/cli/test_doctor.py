"""``altneu doctor``: what it finds, on machines that lack something too."""

from __future__ import annotations

import json
import os

import pytest

import altneu as an
from altneu.cli import checks, spark_checks
from altneu.store import LocalFolder, folder_of


def levels(found):
    return [(check.check, check.level) for check in found]


def test_quickly_with_a_store(call, store_path):
    done = call("doctor", "--quick", "--path", store_path)
    assert done.code == 0
    names = [line[6:22].strip() for line in done.lines if not line.startswith(" ")]
    assert names[:4] == ["Python", "packages", "Java", "cores"]
    assert {"memory", "temporary files", "time zone", "kernels", "store's place", "commits", "store"} <= set(names)
    assert "Spark" not in names
    assert any("whole (sizes compared): commit" in line and "4 views" in line for line in done.lines)


def test_as_json(call, store_path):
    answer = call("doctor", "--quick", "--path", store_path, "--json").objects
    assert all(list(check) == ["check", "level", "message", "remedy"] for check in answer)
    assert {check["level"] for check in answer} <= {"ok", "warn"}
    assert all(check["remedy"] for check in answer if check["level"] != "ok")


def test_a_job_of_one_row(spark):
    assert levels(spark_checks.job("local[1]", {})) == [("Spark", "ok"), ("settings", "ok")]


def test_what_would_stop_a_run_ends_with_1(call, store, monkeypatch):
    last = max((store / "log").iterdir())
    last.write_bytes(last.read_bytes()[:-1])
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    done = call("doctor", "--quick", "--path", store)
    assert done.code == 1
    failed = [line for line in done.lines if line.startswith("fail")]
    assert [line[6:22].strip() for line in failed] == ["PYSPARK_PYTHON", "store"]
    assert str(last) in failed[1]
    after = done.lines[done.lines.index(failed[1]) + 1]
    assert after.strip().startswith("→ put files back from a copy, or open it with recover=True")


@pytest.mark.parametrize("damage", [False, True])
def test_a_store_is_read_whole_unless_quickly(call, tmp_path, damage):
    path = tmp_path / "s"
    with an.Session(path=path) as session:
        session.sql("CREATE TABLE t (k BIGINT)")
        session.sql("INSERT INTO t SELECT x FROM generate_series(1, 20000) g(x)")
    if damage:
        segment = max((path / "segments").iterdir(), key=lambda file: file.stat().st_size)
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 1
        segment.write_bytes(data)
    from altneu.cli.doctor import _opened

    assert levels(_opened(LocalFolder(path), quick=True)) == [("store", "ok")]
    assert levels(_opened(LocalFolder(path), quick=False)) == [("store", "fail" if damage else "ok")]


def test_who_has_the_store_open_and_stores_to_come(call, orders, tmp_path):
    with an.Session(path=orders):
        done = call("doctor", "--quick", "--path", orders)
        assert f"process {os.getpid()} on" in done.out
    done = call("doctor", "--quick", "--path", tmp_path / "new" / "state")
    assert (done.code, "a session creates one" in done.out) == (0, True)
    (tmp_path / "file").write_text("x")
    done = call("doctor", "--quick", "--path", tmp_path / "file" / "state")
    assert (done.code, "is a file, but a store is a folder" in done.out) == (1, True)
    done = call("doctor", "--quick", "--path", "nosuch://bucket/state")
    assert (done.code, "a store at nosuch://" in done.out) == (1, True)


def test_places_on_object_stores(s3):
    place = folder_of("s3://tests/doctored", s3)
    assert levels(checks.place_of_store(place)) == [("store's place", "ok")]


def test_javas(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert levels(checks.java()) == [("Java", "ok"), ("JAVA_HOME", "warn")]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("altneu.runtime.spark.java.bundled_java", lambda: None)
    (actual,) = checks.java()
    assert (actual.level, "install Java 17 or 21" in actual.remedy) == ("fail", True)


def test_packages_that_are_missing_or_too_new(monkeypatch):
    wanted = ["click>=999", "no-such-package>=1", "rich>=1; extra == 'dev'", "numpy>=2"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: wanted)
    actual = list(checks.packages())
    assert levels(actual) == [("packages", "warn"), ("packages", "fail"), ("packages", "ok")]
    assert actual[0].remedy == "pip install 'click>=999'"
    assert actual[1].message == "no-such-package is missing"
    assert actual[2].message.startswith("numpy ")


def test_memory_of_a_container(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n")
    assert checks.memory(tmp_path) == (8_192_000_000, 6_144_000_000)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert checks.memory(tmp_path) == (8_192_000_000, 6_144_000_000)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1000000000\n")
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("400000000\n")
    assert checks.memory(tmp_path) == (1_000_000_000, 600_000_000)


@pytest.mark.parametrize(("zone", "level"), [("Europe/Paris", "ok"), ("", "ok"), ("Mars/Olympus", "warn")])
def test_time_zones(monkeypatch, zone, level):
    monkeypatch.setenv("TZ", zone)
    assert levels(checks.time_zone()) == [("time zone", level)]


@pytest.mark.parametrize(
    ("mounts", "level"),
    [
        ("/dev/vda / ext4 rw 0 0", "ok"),
        ("/dev/vda / ext4 rw 0 0\ntmpfs {here} tmpfs rw 0 0", "warn"),
        ("server:/x {here} nfs4 rw 0 0\n/dev/vda / ext4 rw 0 0", "warn"),
    ],
)
def test_file_systems(tmp_path, mounts, level):
    (tmp_path / "mounts").write_text(mounts.format(here=tmp_path))
    assert levels(checks._file_system(tmp_path, tmp_path / "mounts")) == [("file system", level)]


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever runs this may be root, who may write anywhere
    (actual,) = checks.place_of_store(LocalFolder(tmp_path / "state"))
    assert (actual.level, actual.message) == ("fail", f"{tmp_path} is not writable")
    assert levels(checks.temporary()) == [("temporary files", "fail")]


def test_settings_that_cost_speed(tmp_path):
    given = {"spark.python.worker.reuse": "false", "spark.executor.pyspark.memory": "600m"}
    costs = spark_checks.settings(spark_checks._expected() | given, "it")
    answer = [(check.level, check.message.split(":")[0]) for check in costs]
    assert answer == [("warn", "spark.python.worker.reuse=false"), ("warn", "spark.executor.pyspark.memory=600m")]
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.driver.memory  512m\nspark.app.name x\n")
    (actual,) = spark_checks.of_files({"SPARK_CONF_DIR": str(tmp_path)})
    assert actual.message.startswith("spark.driver.memory=512m")
    assert list(spark_checks.of_files({"SPARK_HOME": str(tmp_path)})) == []
    assert levels(spark_checks.settings({}, "a session of somebody's")).count(("settings", "warn")) > 3


def test_kernels_that_are_not_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr("altneu.compiled.kernels", dict)
    assert levels(checks.kernels()) == [("kernels", "ok")]


def test_what_is_not_understood(call):
    assert call("doctor", "--set", "retain=all").code == 2
    assert "a setting of Spark" in call("doctor", "--set", "retain=all").err


def test_remedies_are_words(call, store_path):
    """Every check that is not ok says what to do; of those that can be provoked without another machine."""
    actual = [*checks.python(), *checks.machine(), *checks.kernels(), *checks.temporary()]
    assert all(check.remedy for check in actual if check.level != "ok")
    assert json.loads(json.dumps([check.to_json() for check in actual]))
