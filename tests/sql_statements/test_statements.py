"""Tables, views and queries, statement after statement, in a session of this process."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import (
    AltneuError,
    HistoryGoneError,
    InputError,
    NotYetKnownError,
    PlanError,
    ReadError,
    SchemaError,
    StatementError,
    UnboundedCostError,
    ViewHasErrorsError,
)
from tests.sql_statements.cases import ORDERS, rows


@pytest.fixture
def session():
    with an.Session(retain="all") as session:
        yield session


@pytest.fixture
def orders(session):
    session.sql(ORDERS)
    return session


# rows come and go -----------------------------------------------------------------------------------------------------


def test_each_statement_that_writes_is_a_step(orders):
    assert orders.lower == 1
    assert rows(orders, "SELECT * FROM totals ORDER BY item") == [("jam", 5), ("tea", 7)]
    assert orders.lower == 1  # a query takes none where nothing waits
    assert str(orders.sql("INSERT INTO orders (price, item) SELECT total, item FROM totals WHERE item = 'jam'")) == (
        "Result(INSERT 1)"
    )
    assert rows(orders, "SELECT total FROM totals WHERE item = 'jam'") == [(10,)]
    assert str(orders.sql("DELETE FROM orders WHERE price > 4")) == "Result(DELETE 2)"
    assert rows(orders, "TABLE totals") == [("tea", 7)]
    assert str(orders.sql("UPDATE orders SET price = price * 10, item = upper(item) WHERE price = 4")) == (
        "Result(UPDATE 1)"
    )
    assert rows(orders, "SELECT * FROM totals ORDER BY 2") == [("tea", 3), ("TEA", 40)]
    assert str(orders.sql("DELETE FROM orders")) == "Result(DELETE 2)"
    assert rows(orders, "SELECT * FROM totals") == []
    assert orders.lower == 5


@pytest.mark.parametrize(
    ("query", "first"),
    [("SELECT * FROM counted", (0,)), ("SELECT n + 1 FROM counted", (1,)), ("SELECT a FROM constant", (5,))],
)
def test_a_view_of_no_row_is_read_before_anything_was_inserted(session, query, first):
    session.sql("""
        CREATE TABLE t (k INT);
        CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM t;
        CREATE MATERIALIZED VIEW constant AS SELECT 5 AS a
    """)
    assert rows(session, query) == [first]
    assert session.lower == 1
    assert rows(session, query) == [first]
    assert session.lower == 1


def test_rows_that_are_there_twice_are_deleted_and_updated_twice(session):
    session.sql("CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (1), (2)")
    session.sql("UPDATE t SET k = 3 WHERE k = 1")
    assert sorted(rows(session, "SELECT k FROM t")) == [(2,), (3,), (3,)]
    session.sql("DELETE FROM t WHERE k = 3")
    assert rows(session, "SELECT k FROM t") == [(2,)]


def test_a_transaction_is_one_step_or_none(orders):
    before = orders.lower
    orders.sql("BEGIN; INSERT INTO orders VALUES ('oil', 1); INSERT INTO orders VALUES ('oil', 2)")
    assert rows(orders, "SELECT * FROM totals WHERE item = 'oil'") == []  # queries see what is committed
    orders.sql("ROLLBACK")
    assert (orders.lower, rows(orders, "SELECT * FROM totals WHERE item = 'oil'")) == (before, [])
    orders.sql("START TRANSACTION; DELETE FROM orders WHERE item = 'tea'; INSERT INTO orders VALUES ('oil', 1); COMMIT")
    assert (orders.lower, rows(orders, "SELECT * FROM totals ORDER BY item")) == (before + 1, [("jam", 5), ("oil", 1)])
    for text, told in [
        ("COMMIT", "there was no BEGIN"),
        ("BEGIN; BEGIN", "is open already"),
        ("ROLLBACK; BEGIN; CREATE VIEW x AS SELECT 1", "inside a transaction"),
        ("ROLLBACK; BEGIN; DROP TABLE orders CASCADE", "inside a transaction"),
    ]:
        with pytest.raises(StatementError, match=told):
            orders.sql(text)


def test_a_query_sees_what_the_program_inserted(orders):
    orders.insert("orders", [("milk", 9)])
    assert rows(orders, "SELECT total FROM totals WHERE item = 'milk'") == [(9,)]


def test_time_is_advanced_and_read_at(orders):
    assert "before 5" in str(orders.sql("ADVANCE TO 5"))
    orders.sql("DELETE FROM orders WHERE item = 'tea'; ADVANCE")
    assert orders.lower == 7
    assert rows(orders, "SELECT * FROM totals ORDER BY item AS OF 4") == [("jam", 5), ("tea", 7)]
    assert rows(orders, "SELECT count(*) FROM totals AS OF 5") == [(1,)]
    with pytest.raises(NotYetKnownError, match="at=7"):
        orders.sql("SELECT * FROM totals AS OF 7")
    assert orders.sql("ADVANCE TO 3").message == "ADVANCE: times before 7 are closed already"
    assert orders.lower == 7


def test_what_is_not_kept_cannot_be_read():
    with an.Session() as session:
        session.sql(ORDERS)
        session.sql("ADVANCE TO 5")
        with pytest.raises(HistoryGoneError, match="the query"):
            session.sql("SELECT * FROM totals AS OF 2")


def test_two_times():
    with an.Session(retain="all") as session:
        session.sql("CREATE SOURCE delays (carrier STRING, minutes BIGINT) TIME (NULL AS known, day) KEEP")
        session.sql("CREATE MATERIALIZED VIEW late AS SELECT carrier, sum(minutes) AS m FROM delays GROUP BY carrier")
        session.insert("delays", [("UA", 20)], time=1)
        session.sql("ADVANCE")
        session.insert("delays", [("UA", 5)], time=3)
        session.retract("delays", [("UA", 20)], time=1)
        session.sql("ADVANCE")
        assert [rows(session, f"SELECT * FROM late AS OF {at}") for at in ("(0, 1)", "(1, 2)", "(NULL, 3)", "1")] == [
            [("UA", 20)],
            [],
            [("UA", 5)],
            [("UA", 5)],
        ]


# queries --------------------------------------------------------------------------------------------------------------


def test_rows_are_in_the_order_that_is_asked_for(session):
    session.sql("CREATE TABLE t (a INT, b DOUBLE, c STRING)")
    session.sql("INSERT INTO t VALUES (1, 2.5D, 'x'), (2, NULL, 'y'), (3, double('NaN'), NULL), (NULL, -1D, 'ab')")
    assert rows(session, "SELECT a FROM t ORDER BY b") == [(2,), (None,), (1,), (3,)]
    assert rows(session, "SELECT a FROM t ORDER BY b DESC") == [(3,), (1,), (None,), (2,)]
    assert rows(session, "SELECT a FROM t ORDER BY b DESC NULLS FIRST LIMIT 2") == [(2,), (3,)]
    assert rows(session, "SELECT a, c AS d FROM t ORDER BY d NULLS LAST, 1") == [
        (None, "ab"),
        (1, "x"),
        (2, "y"),
        (3, None),
    ]
    assert rows(session, "SELECT a AS b FROM t ORDER BY b DESC LIMIT 2 OFFSET 1") == [(2,), (1,)]
    assert rows(session, "SELECT c FROM t ORDER BY length(c) DESC, a + 1 DESC") == [("ab",), ("y",), ("x",), (None,)]
    assert rows(session, "SELECT count(*) AS n, a > 1 AS big FROM t GROUP BY a > 1 ORDER BY max(c), n") == [
        (1, None),
        (1, False),
        (2, True),
    ]
    assert rows(session, "SELECT a FROM t WHERE a = 1 UNION ALL SELECT 7 ORDER BY a DESC") == [(7,), (1,)]
    assert rows(session, "SELECT DISTINCT a > 1 AS b FROM t ORDER BY b") == [(None,), (False,), (True,)]
    assert session.sql("SELECT a FROM t ORDER BY c").columns == ["a"]
    for text in ("SELECT a FROM t ORDER BY 2", "SELECT DISTINCT a FROM t ORDER BY c", "SELECT a FROM t LIMIT a"):
        with pytest.raises((StatementError, PlanError), match=r"ORDER BY|LIMIT|'c'"):
            session.sql(text)


def test_a_result(orders):
    result = orders.sql("SELECT * FROM totals ORDER BY item")
    assert (len(result), result.columns, result.has_rows) == (2, ["item", "total"], True)
    assert [row.item for row in result] == ["jam", "tea"]
    assert result.to_arrow().to_pydict() == {"item": ["jam", "tea"], "total": [5, 7]}
    assert repr(result) == "Result(item string NOT NULL, total bigint)\n('jam', 5)\n('tea', 7)"
    with pytest.raises(ReadError, match="no Spark"):
        result.df()
    done = orders.sql("INSERT INTO orders VALUES ('x', 1)")
    assert (len(done), done.has_rows, done.message) == (0, False, "INSERT 1")
    with pytest.raises(ReadError, match="returns no rows: INSERT 1"):
        done.to_arrow()
    assert "no statement" in repr(orders.sql(" -- nothing"))


def test_a_query_leaves_nothing_behind(orders):
    def kept():
        table = orders._engine.table
        return dict(table.live), dict(table.stored), dict(table.layouts), orders.store.number

    before, views = kept(), orders.views
    assert rows(orders, "SELECT item, count(*) AS n FROM orders GROUP BY item ORDER BY n") == [("jam", 1), ("tea", 2)]
    with pytest.raises(ViewHasErrorsError, match="DIVIDE_BY_ZERO"):
        orders.sql("SELECT 1 div (price - 3) FROM orders")
    assert (kept(), orders.views) == (before, views)


def test_a_query_before_the_first_step(session):
    assert rows(session, "SELECT 1 + 1 AS two, 'x' AS x") == [(2, "x")]
    assert rows(session, "VALUES (2), (1) ORDER BY 1") == [(1,), (2,)]
    session.sql("CREATE TABLE t (k INT)")
    assert rows(session, "SELECT count(*) FROM t") == [(0,)]
    assert session.lower == 0


def test_what_no_view_keeps_cannot_be_queried(session):
    session.sql("CREATE SOURCE s (k INT, v INT); CREATE MATERIALIZED VIEW ks AS SELECT k FROM s")
    session.sql("INSERT INTO s VALUES (1, 2)")
    assert rows(session, "SELECT * FROM ks") == [(1,)]
    with pytest.raises(AltneuError, match="keep"):
        session.sql("SELECT v FROM s")
    with pytest.raises(StatementError, match="does not keep its rows"):
        session.sql("DELETE FROM s")


# views ----------------------------------------------------------------------------------------------------------------


def test_spans_of_time_in_statements(session):
    """WINDOW is a word of the grammar, and ``window(`` of a GROUP BY a function, in statements as in queries."""
    session.sql("CREATE TABLE seen (at TIMESTAMP)")
    session.sql("INSERT INTO seen VALUES (TIMESTAMP'2024-01-01 00:01'), (TIMESTAMP'2024-01-01 00:12')")
    session.sql("CREATE MATERIALIZED VIEW spans AS SELECT count(*) AS n FROM seen GROUP BY window(at, '10 minutes')")
    assert rows(session, "SELECT * FROM spans") == [(1,), (1,)]
    assert rows(session, "SELECT count(*) AS n FROM seen GROUP BY window(at, '1 hour')") == [(2,)]
    assert rows(session, "SELECT sum(1) OVER w AS n FROM seen WINDOW w AS (PARTITION BY 1)") == [(2,), (2,)]


def test_views_upon_views(orders):
    orders.sql("CREATE VIEW dear (thing, costs) AS SELECT * FROM totals WHERE total > 5")
    orders.sql("CREATE MATERIALIZED VIEW Dearest AS SELECT max(costs) AS most FROM DEAR")
    assert rows(orders, "SELECT * FROM dearest") == [(7,)]
    orders.sql("INSERT INTO orders VALUES ('jam', 90)")
    assert rows(orders, "SELECT thing FROM dear ORDER BY 1") == [("jam",), ("tea",)]
    assert rows(orders, "SELECT * FROM dearest") == [(95,)]
    assert orders.views == ["orders", "totals", "Dearest"]  # a view that is not materialized is a name


def test_what_python_maintains_has_its_name(orders):
    python = an.source("clicks", "who string, n long")
    orders.maintain("Per Person", python.group_by("who").agg(n="sum(n)"))
    orders.insert("clicks", [("ada", 2), ("ada", 3)])
    assert rows(orders, "SELECT n FROM `per person`") == [(5,)]
    orders.sql("CREATE MATERIALIZED VIEW doubled AS SELECT who, n * 2 AS n FROM `Per Person`")
    orders.insert("clicks", [("ada", 1)])
    assert rows(orders, "SELECT * FROM doubled") == [("ada", 12)]
    assert ("Per Person", 3) in rows(orders, "SHOW MATERIALIZED VIEWS")
    with pytest.raises(StatementError, match="that the program defines"):
        orders.sql("CREATE VIEW `Per Person` AS SELECT 1")
    with pytest.raises(StatementError, match="that a program defines, not a statement"):
        orders.sql("SHOW CREATE VIEW `Per Person`")


def test_options_of_a_view(orders):
    with pytest.raises(UnboundedCostError):
        orders.sql("CREATE MATERIALIZED VIEW m WITH (STRICT) AS SELECT collect_list(price) FROM orders")
    orders.sql("CREATE MATERIALIZED VIEW m WITH (STRICT, JOINS = binary) AS SELECT item FROM orders")
    with pytest.raises(PlanError, match="joins must be"):
        orders.sql("CREATE MATERIALIZED VIEW n WITH (JOINS = 'fast') AS SELECT item FROM orders")
    assert orders.views == ["orders", "totals", "m"]
    assert [row[0] for row in rows(orders, "SHOW MATERIALIZED VIEWS")] == ["totals", "m"]


def test_a_view_without_contents(orders):
    orders.sql("CREATE MATERIALIZED VIEW dear WITH (CONTENTS = FALSE) AS SELECT * FROM totals WHERE total > 5")
    orders.sql("CREATE VIEW named AS SELECT item FROM dear")
    orders.sql("CREATE MATERIALIZED VIEW upon AS SELECT count(*) AS n FROM dear")
    changes = orders.sql("SUBSCRIBE dear")
    orders.sql("INSERT INTO orders VALUES ('oil', 9)")
    assert changes.to_pylist() == [(1, 1, "oil", 9)]
    assert rows(orders, "SELECT * FROM upon") == [(2,)]  # it has contents of its own
    for query in (
        "SELECT * FROM dear",
        "SELECT 1 FROM totals WHERE item IN (SELECT item FROM Dear)",
        "SELECT * FROM named",
        "SELECT * FROM dear AS OF 0",
        "INSERT INTO orders SELECT * FROM dear",
        "DELETE FROM orders WHERE item IN (SELECT item FROM dear)",
    ):
        with pytest.raises(StatementError, match=r"'dear' has no contents .*SUBSCRIBE and CREATE SINK"):
            orders.sql(query)
    with pytest.raises(ReadError, match="contents=False"):
        orders.sql("SUBSCRIBE dear WITH (SNAPSHOT)")
    with pytest.raises(PlanError, match="contents must be True or False, got 'no'"):
        orders.sql("CREATE MATERIALIZED VIEW other WITH (CONTENTS = no) AS SELECT 1 AS one")
    assert "state: nothing of (item, total) but" in str(rows(orders, "EXPLAIN VIEW dear"))
    orders.sql("DROP VIEW named; DROP MATERIALIZED VIEW upon")
    orders.sql("CREATE OR REPLACE MATERIALIZED VIEW dear AS SELECT * FROM totals WHERE total > 5")
    assert rows(orders, "SELECT * FROM dear ORDER BY item") == [("oil", 9), ("tea", 7)]
    orders.sql("CREATE OR REPLACE MATERIALIZED VIEW dear WITH (CONTENTS = FALSE) AS SELECT item FROM totals")
    orders.sql("INSERT INTO orders VALUES ('salt', 1)")
    assert orders.view("dear").changes().to_pylist() == [{"item": "salt", "time": orders.lower - 1, "diff": 1}]


def test_a_query_that_is_subscribed_to_without_a_snapshot_keeps_no_contents():
    with an.Session() as session:
        session.sql(ORDERS)
        changes = session.sql("SUBSCRIBE (SELECT item FROM orders) WITH (SNAPSHOT = false)")
        (name,) = [name for name in session.views if name.startswith("#")]
        assert session.view(name).changes_only
        session.sql("INSERT INTO orders VALUES ('oil', 9)")
        assert changes.to_pylist() == [(1, 1, "oil")]


def test_a_program_that_fails_says_where(orders):
    with pytest.raises(PlanError, match="nope") as raised:
        orders.sql("SELECT 1;\n\nSELECT *\nFROM nope")
    assert raised.value.__notes__ == ["altneu: line 3: SELECT * FROM nope"]


# what is shown --------------------------------------------------------------------------------------------------------


def test_what_there_is(orders):
    orders.sql("CREATE VIEW dear AS SELECT * FROM totals WHERE total > 5; CREATE INDEX by_item ON totals (item)")
    orders.sql("CREATE SOURCE s (k INT) DIFF -1")
    assert rows(orders, "SHOW TABLES") == [("orders", "ready")]
    assert rows(orders, "SHOW VIEWS LIKE 'D%'") == [("dear", "ready")]
    assert rows(orders, "SHOW VIEWS LIKE '_'") == []
    assert rows(orders, "SHOW MATERIALIZED VIEWS") == [("totals", 2)]
    assert rows(orders, "SHOW INDEXES") == [("by_item", "totals", "item")]
    assert rows(orders, "SHOW SOURCES") == [("s", "INSERT", "none", "no", "ready")]
    assert rows(orders, "SHOW SINKS") == []
    assert rows(orders, "SHOW COLUMNS FROM Orders") == [("item", False, "string"), ("price", True, "bigint")]
    ((name, text),) = rows(orders, "SHOW CREATE TABLE orders")
    assert (name, text) == ("orders", "CREATE TABLE orders (item STRING NOT NULL, price BIGINT)")
    with pytest.raises(StatementError, match="there is no 'x'"):
        orders.sql("SHOW COLUMNS FROM x")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SELECT prise FROM orders", "price"),
        ("INSERT INTO orders (itme, price) VALUES ('a', 1)", "item"),
        ("INSERT INTO order VALUES ('a', 1)", "orders"),
        ("UPDATE orders SET prise = 1", "price"),
        ("DELETE FROM ordres", "orders"),
        ("MERGE INTO ordres USING totals t ON true WHEN MATCHED THEN DELETE", "orders"),
        (
            "MERGE INTO orders o USING totals t ON o.item = t.item WHEN MATCHED THEN UPDATE SET prise = 1",
            "price",
        ),
        ("DROP MATERIALIZED VIEW Total", "totals"),
        ("DESCRIBE total", "totals"),
        ("DESCRIBE orders prise", "price"),
        ("SHOW COLUMNS IN total", "totals"),
        ("CREATE INDEX i ON ordres (item)", "orders"),
        ("CREATE INDEX i ON orders (itme)", "item"),
        ("SUBSCRIBE total", "totals"),
        ("EXPLAIN VIEW total", "totals"),
        ("ALTER TABLE orders DROP COLUMN prise", "price"),
        ("COMMENT ON COLUMN orders.prise IS 'x'", "price"),
    ],
)
def test_statements_say_which_name_may_have_been_meant(orders, text, meant):
    with pytest.raises(AltneuError, match=rf"; did you mean '{meant}'\?$"):
        orders.sql(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT CAST(price AS itn) FROM orders", r"^line 1, column 22: there is no type 'itn' \(did you mean int\?\)"),
        (
            "SELECT price,\n  price::decimla(3, 1) FROM orders",
            r"^line 2, column 10: .*'decimla' \(did you mean decimal\?",
        ),
        ("SELECT CAST(array(1) AS array<strin>)", r"column 31: there is no type 'strin' \(did you mean string\?\)"),
        ("SELECT TRY_CAST(1 AS foo)", r"column 22: there is no type 'foo' \(boolean, .*, bigint, .*\)"),
        ("CREATE TABLE t (a itn)", r"near 'itn': there is no type 'itn' \(did you mean int\?\)$"),
        ("ALTER TABLE orders ADD COLUMN b strng", r"near 'strng': there is no type 'strng' \(did you mean string\?\)$"),
        ("SELECT from_json('{}', 'a itn')", r"there is no type 'itn' \(did you mean int\?\)"),
        ("SELECT item price orders", r"unexpected|Invalid expression|line 1, column 19: (?!there is no type)"),
    ],
)
def test_a_misspelt_type_is_told_of_as_one(orders, text, told):
    with pytest.raises(AltneuError, match=told):
        orders.sql(text)


def test_so_do_the_verbs_of_a_session(orders):
    for ask in (orders.view, orders.drop, orders.explain):
        with pytest.raises(PlanError, match=r"; did you mean 'totals'\?$"):
            ask("total")
    with pytest.raises(InputError, match=r"; did you mean 'orders'\?$"):
        orders.insert("ordres", [("a", 1)])
    with pytest.raises(SchemaError, match=r"'prise', which is not a column; .*; did you mean 'price'\? To leave out"):
        orders.insert("orders", [{"item": "a", "prise": 1}])
    with pytest.raises(PlanError, match=r"did you mean 'orders'\? A source that no view reads yet"):
        orders.frame("ordres")


def test_plans_are_explained(orders):
    assert "\n".join(row.plan for row in orders.sql("EXPLAIN VIEW totals")) == orders.explain("totals")
    orders.sql("CREATE VIEW dear AS SELECT * FROM totals WHERE total > 5")
    for text in ("EXPLAIN PLAN FOR SELECT * FROM totals WHERE total > 5", "EXPLAIN VIEW dear"):
        answer = [row.plan for row in orders.sql(text)]
        assert answer[0] == "view the query"
        assert any("total > 5" in line or "`#0` > 5" in line for line in answer)
        assert answer[-1] == "arrangements: 2 there already, 1 to build"
    with pytest.raises(PlanError, match="no view 'x'"):
        orders.sql("EXPLAIN VIEW x")


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        (
            "INSERT INTO totals VALUES ('a', 1)",
            StatementError,
            "is a MATERIALIZED VIEW; the statement needs a TABLE or SOURCE",
        ),
        ("INSERT INTO nope VALUES (1)", StatementError, "there is no 'nope'"),
        (
            "SELECT * FROM parquet.`/data/a.parquet`",
            PlanError,
            "line 1, column 25.*CREATE SOURCE name FROM FILE '/data/a.parquet' FORMAT PARQUET KEEP.*spark.read.format",
        ),
        ("CREATE VIEW v AS SELECT * FROM delta.`/d`", PlanError, "CREATE SOURCE name FROM DELTA '/d' KEEP"),
        ("INSERT INTO orders VALUES (1)", StatementError, "needs 2 columns"),
        ("INSERT INTO orders (item, x) VALUES ('a', 1)", StatementError, "no column 'x'"),
        ("INSERT INTO orders (item, ITEM) VALUES ('a', 'b')", StatementError, "is named twice"),
        ("INSERT INTO orders VALUES ('a', 'b')", StatementError, "price.* is bigint.* returns string; CAST it"),
        ("INSERT INTO orders VALUES (NULL, 1)", SchemaError, "NOT NULL"),
        ("UPDATE orders SET price = 1, PRICE = 2", StatementError, "sets column 'price' twice"),
        ("UPDATE orders SET x = 1", StatementError, "no column 'x'"),
        ("INSERT INTO orders VALUES ('a', 1 div 0)", PlanError, "Division by zero"),
        ("INSERT INTO orders SELECT item, price div (price - 3) FROM orders", ViewHasErrorsError, "DIVIDE_BY_ZERO"),
        ("CREATE VIEW v (a) AS SELECT 1, 2", StatementError, "names 1 columns, and its query has 2"),
        ("CREATE VIEW totals AS SELECT 1", StatementError, "DROP MATERIALIZED VIEW totals"),
        ("CREATE INDEX i ON nope (a)", StatementError, "cannot index 'nope'"),
        ("CREATE INDEX i ON totals (nope)", PlanError, "no column 'nope'; the columns are: item, total"),
        ("DROP VIEW totals", StatementError, "'totals' is a MATERIALIZED VIEW; the statement needs a VIEW"),
        ("DROP TABLE orders", StatementError, "while it is read by MATERIALIZED VIEW totals.*CASCADE"),
        ("DROP TABLE nope", StatementError, "there is no 'nope'"),
        ("SELECT * FROM nope", PlanError, "nope"),
        ("SUBSCRIBE nope", StatementError, "there is no view 'nope'; the maintained views are: orders, totals"),
        ("SUBSCRIBE totals AS OF 5 UP TO 3", ReadError, "up_to=3 is before as_of=5"),
        ("SUBSCRIBE totals ENVELOPE UPSERT (KEY (x))", PlanError, "no column 'x'"),
        ("CREATE SINK s FROM orders INTO JDBC 'jdbc:x' TABLE t", StatementError, "no Spark"),
        ("CREATE SOURCE s FROM TABLE x", StatementError, "no Spark"),
        (
            "CREATE SOURCE s (a INT) FROM STREAM FORMAT rate",
            StatementError,
            "is a stream, but this session has no Spark",
        ),
        ("CREATE SOURCE s", StatementError, "needs columns"),
        ("CREATE SOURCE s FROM FILE '/nowhere' FORMAT CSV OPTIONS (header true)", StatementError, "no file '/nowhere'"),
        ("CREATE SOURCE s ENVELOPE DEBEZIUM", StatementError, "needs the columns that its documents have"),
        ("REFRESH orders", StatementError, "the statement needs a SOURCE"),
        ("FOLLOW", StatementError, "there is no stream to follow"),
        (
            "CREATE TABLE t (a INT PRIMARY KEY)",
            SchemaError,
            r"'PRIMARY KEY' in the schema .* an.source\(..., key=...\)",
        ),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", SchemaError, "columns have no keys in a schema"),
        (
            "INSERT INTO orders VALUES ('x', 1) ON CONFLICT DO NOTHING",
            StatementError,
            "a table has no key.*ENVELOPE UPSERT",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_of_it_stays(orders, text, error, told):
    before = orders.lower, orders.views, sorted(rows(orders, "TABLE orders"))
    with pytest.raises(error, match=told):
        orders.sql(text)
    assert before == (orders.lower, orders.views, sorted(rows(orders, "TABLE orders")))


def test_statements_say_what_a_view_of_python_is_and_where_its_rows_come_from(orders):
    numbers = an.source("Numbers", "n long")
    orders.maintain("Evens", numbers.filter("n % 2 = 0"))
    said = r"'Evens' is a view that was made in Python; session.insert changes the rows of what it reads: Numbers; "
    for text in ("INSERT INTO evens VALUES (1)", "DELETE FROM Evens", "UPDATE evens SET n = 1"):
        with pytest.raises(StatementError, match=rf"{said}the statement needs a TABLE or SOURCE; there are: orders"):
            orders.sql(text)
    with pytest.raises(StatementError, match=r"source 'Numbers' was declared in Python.*session.insert\('Numbers'"):
        orders.sql("INSERT INTO numbers VALUES (1)")
    with pytest.raises(
        StatementError, match=r"'v' is a VIEW; the statement needs a TABLE or SOURCE; there are: orders"
    ):
        orders.sql("CREATE VIEW v AS SELECT * FROM orders; INSERT INTO v VALUES ('tea', 1)")


def test_errors_show_no_column_of_the_plan(orders):
    orders.sql("CREATE MATERIALIZED VIEW constants AS SELECT 1 / 0 AS x")
    orders.sql("INSERT INTO orders VALUES ('tea', 1)")
    said = r"DIVIDE_BY_ZERO: Division by zero in `1 / 0`\nThey go away"
    for text in ("SELECT * FROM constants", "SELECT 1 / 0"):
        with pytest.raises(ViewHasErrorsError, match=said):
            orders.sql(text)
    assert orders.view("constants").errors().column("row").to_pylist() == ["{}"]
    said = r'in `1 / \(count\(\*\) - count\(\*\)\)` \(row {"item": ".*", "count\(\*\) - count\(\*\)": 0}\)'
    with pytest.raises(ViewHasErrorsError, match=said):
        orders.sql("SELECT item, 1 / (SELECT count(*) - count(*) FROM orders) AS x FROM orders")
    orders.sql("CREATE TABLE odd (`^x` INT); INSERT INTO odd VALUES (0)")
    with pytest.raises(ViewHasErrorsError, match=r'\(row {"\^x": 0}\)'):
        orders.sql("SELECT 1 / `^x` AS y FROM odd")
