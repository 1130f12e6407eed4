"""Arguments that name columns find them whatever their case, as expressions and SQL do."""

import pytest

import altneu as an
from altneu.errors import PlanError, SchemaError, UnknownColumnError

LEFT = an.source("left_by_case", "Id long, Name string")
RIGHT = an.source("right_by_case", "id long, At long")


@pytest.mark.parametrize("on", ["ID", ["ID"], {"ID": "ID"}, "Id", "id"])
def test_a_join_finds_its_key_on_each_side_and_shows_it_once_by_its_name_on_the_left(on):
    assert LEFT.join(RIGHT, on).columns == ["Id", "Name", "At"]


def test_a_mapping_of_two_names_shows_both():
    assert LEFT.join(RIGHT, {"Id": "id"}).columns == ["Id", "Name", "id", "At"]
    assert LEFT.join(RIGHT, {"ID": "id"}).columns == ["Id", "Name", "id", "At"]


def test_rows_meet_by_such_a_key_in_every_verb_that_takes_one():
    with an.Session() as session:
        views = {
            name: session.maintain(name, made)
            for name, made in {
                "join": LEFT.join(RIGHT, "ID", how="full"),
                "core": LEFT.join_core(RIGHT, "ID", lambda k, a, b: [(k.Id, a.Name, b.At)], "a long, b string, c long"),
                "semi": LEFT.semijoin(RIGHT, "ID"),
                "anti": LEFT.antijoin(RIGHT, "ID"),
                "as of": LEFT.asof_join(RIGHT, "ID", left_time="ID", right_time="AT", mode="revising"),
                "latest": LEFT.latest(key="ID", order="NAME"),
                "top": LEFT.top_k(1, "name desc", per="ID"),
                "index": LEFT.arrange_by("ID"),
                "keyed": an.source("keyed_by_case", "Id long, v long", key="ID"),
            }.items()
        }
        session.insert("left_by_case", [(1, "a"), (2, "b")])
        session.insert("right_by_case", [(1, 0), (3, 6)])
        session.insert_or_update("keyed_by_case", [(1, 0)])
        session.insert_or_update("keyed_by_case", [(1, 5)])
        session.advance()
        found = {name: sorted(view.to_pylist()) for name, view in views.items()}
    assert found == {
        "join": [(1, "a", 0), (2, "b", None), (3, None, 6)],
        "core": [(1, "a", 0)],
        "semi": [(1, "a")],
        "anti": [(2, "b")],
        "as of": [(1, "a", 0)],
        "latest": [(1, "a"), (2, "b")],
        "top": [(1, "a"), (2, "b")],
        "index": [(1, "a"), (2, "b")],
        "keyed": [(1, 5)],
    }


def test_names_that_differ_by_case_alone_are_ambiguous_unless_one_is_exact():
    both = LEFT.join(an.source("other_by_case", "Id long, NAME string"), "Id")
    assert both.top_k(1, "Id", per="NAME").columns == ["Id", "Name", "NAME"]
    with pytest.raises(
        UnknownColumnError, match=r"no column 'name'; the columns are: Name, NAME; write one of them as it is"
    ):
        both.top_k(1, "Id", per="name")
    with pytest.raises(PlanError, match=r"on=.* names the column 'Id' twice"):
        LEFT.join(RIGHT, ["Id", "ID"])


def test_the_keys_of_dictionaries_are_data_and_exact():
    with an.Session() as session:
        session.maintain("v", LEFT)
        with pytest.raises(SchemaError, match=r"row 0 .* has 'ID', which is not a column.*did you mean 'Id'"):
            session.insert("left_by_case", [{"ID": 1, "Name": "a"}])
        with pytest.raises(PlanError, match=r"no view 'V'.*did you mean 'v'"):
            session.view("V")


@pytest.mark.parametrize("given", [5, None, b"Id", an.col("Id"), ["Id", None], [an.col("Id")]])
def test_what_is_no_name_is_refused_with_what_to_do(given):
    calls = [
        lambda: LEFT.join(RIGHT, given),
        lambda: LEFT.semijoin(RIGHT, given),
        lambda: LEFT.asof_join(RIGHT, given, mode="locked"),
        lambda: LEFT.latest(given, "Name"),
        lambda: LEFT.top_k(1, "Name", per=given),
    ]
    if not isinstance(given, list):
        calls.append(lambda: LEFT.join(RIGHT, {"Id": given}))
        calls.append(lambda: LEFT.arrange_by(given))
    for call in calls:
        with pytest.raises(PlanError, match=r"a column must be given by its name.*got .*; select an expression"):
            call()
    with pytest.raises(PlanError, match="a column must be given by its name"):
        LEFT.asof_join(RIGHT, time=5, mode="revising")
    with pytest.raises(PlanError, match=r"mode=\['locked'\] is not an as-of join"):
        LEFT.asof_join(RIGHT, "Id", mode=["locked"])
    with pytest.raises(PlanError, match="an expression is a text"):
        LEFT.top_k(1, 5)
