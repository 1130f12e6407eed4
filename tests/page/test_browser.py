"""The page in a real browser: every part clicked through, and what happens seen as it happens."""

from __future__ import annotations

import re
import time

import pyarrow as pa
import pytest
from playwright.sync_api import expect

import altneu as an
from tests.page.conftest import SCRIPT


@pytest.fixture
def tab(browser, page):
    """A tab with the page in it, in which nothing may fail: no script, no request, no policy."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    result = context.new_page()
    result.set_default_timeout(60_000)  # of a machine that is busy with other work too
    wrong: list[str] = []
    result.on("pageerror", lambda error: wrong.append(str(error)))
    result.on("console", lambda message: message.type == "error" and wrong.append(message.text))
    result.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    asked: list[str] = []
    result.on("request", lambda request: asked.append(request.url))
    result.goto(page.url)
    result.expected = []
    yield result
    context.close()
    assert [text for text in wrong if not any(part in text for part in result.expected)] == []
    assert [url for url in asked if not url.startswith((page.url, "data:"))] == []


def test_every_part_opens_by_a_click(tab):
    expect(tab.locator("#live")).to_have_text("live")
    expect(tab.locator("#clock")).to_have_text("closed up to 0")
    expect(tab.locator("#last-steps tbody tr")).to_have_count(1)
    expect(tab.locator(".chart canvas")).to_have_count(3)
    parts = {"Graph": "[data-operator]", "Views": ".list a", "Sources": ".source", "Query": "textarea"}
    for name, shown in parts.items():
        tab.get_by_role("navigation").get_by_role("link", name=name).first.click()
        expect(tab.locator(shown).first).to_be_visible()
    tab.get_by_role("link", name="Steps").click()
    expect(tab.get_by_role("heading", name="Time per step")).to_be_visible()


def test_a_step_is_seen_when_it_ends(tab, session):
    session.insert("orders", [("tea", 4, 1), ("tea", 5, 1)])
    session.advance(to=8)
    expect(tab.locator("#clock")).to_have_text("closed up to 7")
    first = tab.locator("#last-steps tbody tr").first
    expect(first.locator("td").first).to_have_text("2")
    expect(first).to_contain_text("1 to 7")
    expect(first.get_by_role("link", name="total")).to_be_visible()


def test_a_change_appears_in_the_rows_and_in_the_changes_of_a_view(tab, session):
    tab.get_by_role("navigation").get_by_role("link", name="Views").click()
    tab.locator(".list a", has_text="total").click()
    expect(tab.locator("main tbody tr")).to_have_count(4)
    expect(tab.locator("main tbody tr").nth(3)).to_have_text("tea31why?")
    session.insert("orders", [("tea", 40, 1), ("rye", 2, 1)])
    session.advance()
    expect(tab.locator("main tbody tr")).to_have_count(5)
    expect(tab.locator("main tbody tr", has_text="tea")).to_contain_text("43")
    tab.get_by_role("link", name="Changes").click()
    expect(tab.locator("main tbody")).to_have_count(1)
    session.retract("orders", [("rye", 2, 1)])
    session.advance()
    expect(tab.locator("main tbody")).to_have_count(2)
    gone = tab.locator("main tbody").first.locator("tr.goes")
    expect(gone).to_have_count(1)
    assert gone.locator("td").all_inner_texts() == ["−", "2", "rye", "2", "1"]


def test_texts_in_rows_are_texts(tab, session):
    tab.goto(tab.url.partition("#")[0] + "#/views/orders/rows")
    expect(tab.locator("main td", has_text=SCRIPT)).to_be_visible()
    assert tab.locator("main img").count() == tab.locator("main script").count() == 0
    name = f"{SCRIPT} & 'more'"
    session.maintain(name, session.collections["orders"].select("item"))
    session.advance()
    expect(tab.locator(".list a", has_text="onerror")).to_be_visible()
    tab.locator(".list a", has_text="onerror").click()
    expect(tab.locator("main h2")).to_have_text(name)
    tab.get_by_role("navigation").get_by_role("link", name="Graph").click()
    expect(tab.locator("[data-view]", has_text="onerror")).to_be_visible()
    assert tab.locator("main img").count() == 0


def test_rows_are_filtered_ordered_and_paged_on_the_server(tab, session):
    session.insert("orders", [(f"item {i:03}", i, 1) for i in range(300)])
    session.advance()
    tab.goto(tab.url.partition("#")[0] + "#/views/orders/rows")
    expect(tab.locator(".told")).to_have_text("1–50 of 304")
    tab.get_by_role("button", name="price", exact=True).click()
    expect(tab.locator('th[aria-sort="ascending"]')).to_contain_text("price")
    tab.get_by_role("button", name="price", exact=True).click()
    expect(tab.locator('th[aria-sort="descending"]')).to_contain_text("price")
    expect(tab.locator("main tbody tr").first).to_contain_text("item 299")
    tab.get_by_role("button", name="Next page").click()
    expect(tab.locator(".told")).to_have_text("51–100 of 304")
    tab.get_by_role("button", name="Last page").click()
    expect(tab.locator(".told")).to_have_text("301–304 of 304")
    expect(tab.get_by_role("button", name="Next page")).to_be_disabled()
    tab.get_by_role("searchbox").fill("item 29")
    expect(tab.locator(".told")).to_have_text("1–10 of 10 found in 304")
    tab.get_by_role("searchbox").fill("no such thing")
    expect(tab.locator(".nothing")).to_contain_text("No row has")


def test_a_view_of_a_million_rows_opens_and_is_paged(tab, session):
    table = pa.table({"k": pa.array(range(1_000_000)), "name": pa.array(["some name"] * 1_000_000)})
    session.maintain("big", an.source("n", "k long, name string"))
    session.insert("n", table)
    session.advance()
    before = time.perf_counter()
    tab.goto(tab.url.partition("#")[0] + "#/views/big/rows")
    expect(tab.locator(".told")).to_have_text("1–50 of 1,000,000")
    opened = time.perf_counter() - before
    tab.get_by_role("button", name="Last page").click()
    expect(tab.locator(".told")).to_have_text("999,951–1,000,000 of 1,000,000")
    tab.get_by_role("button", name="k", exact=True).click()
    expect(tab.locator("main tbody tr").first.locator("td").first).to_have_text("0")
    assert opened < 8


def test_the_box_answers_select_and_explain_and_refuses_what_writes(tab, session):
    tab.get_by_role("navigation").get_by_role("link", name="Query").click()
    box = tab.get_by_label("Statement")
    box.fill("SELECT item, sum(price) AS p FROM orders WHERE qty > 0 GROUP BY item ORDER BY p DESC")
    tab.get_by_role("button", name="Run").click()
    expect(tab.locator(".result tbody tr")).to_have_count(3)
    expect(tab.locator(".result tbody tr").first).to_have_text(f"{SCRIPT}7")
    expect(tab.locator(".told")).to_contain_text("3 rows in")
    box.fill("EXPLAIN SELECT item, count(*) FROM orders GROUP BY item")
    box.press("Control+Enter")
    expect(tab.locator(".result pre.plan")).to_contain_text("count(*)")
    tab.expected = ["403", "400"]
    box.fill("DELETE FROM orders")
    box.press("Control+Enter")
    expect(tab.get_by_role("alert").filter(has_text="read-only")).to_be_visible()
    box.fill("SELECT nope FROM orders")
    box.press("Control+Enter")
    expect(tab.locator(".result")).to_contain_text("no column 'nope'")
    assert session.lower == 1


def test_a_long_result_says_that_it_is_cut(tab, session):
    session.insert("orders", [(f"item {i}", i, 1) for i in range(1_500)])
    session.advance()
    tab.get_by_role("navigation").get_by_role("link", name="Query").click()
    tab.get_by_role("button", name="SELECT * FROM orders LIMIT 20").click()
    tab.get_by_label("Statement").fill("SELECT * FROM orders")
    tab.get_by_role("button", name="Run").click()
    expect(tab.locator("#cut")).to_contain_text("The first 1,000 of 1,504 rows")


def test_errors_are_shown_where_they_are_and_go_with_their_cause(tab, session):
    expect(tab.locator("#tabs .badge.bad")).to_have_text("1 !")
    tab.get_by_role("navigation").get_by_role("link", name="Views").click()
    tab.locator(".list a", has_text="each").click()
    tab.locator(".subtabs a", has_text="Errors").click()
    expect(tab.locator("main tbody tr", has_text="DIVIDE_BY_ZERO")).to_have_count(1)
    session.retract("orders", [("salt", 1, 0)])
    session.advance()
    expect(tab.locator(".nothing")).to_have_text("No errors.")
    expect(tab.locator("#tabs .badge.bad")).to_have_count(0)


def test_the_graph_shows_rows_as_they_flow_and_what_an_operator_did(tab, session):
    tab.get_by_role("navigation").get_by_role("link", name="Graph").click()
    expect(tab.locator("[data-view]")).to_have_count(3)
    source = tab.locator("[data-operator].source")
    expect(source).to_contain_text("4 in, 4 out")
    session.insert("orders", [("tea", 4, 1), ("rye", 4, 1)])
    session.advance()
    expect(source).to_contain_text("6 in, 6 out")
    expect(source.locator(".flow")).to_have_text("↓ 2")
    expect(tab.locator(".flows").first).to_be_attached()
    source.click()
    expect(tab.locator(".panel")).to_contain_text("source orders")
    expect(tab.locator(".panel")).to_contain_text("6 rows in")
    tab.get_by_label("Views shown").select_option("total")
    expect(tab.locator("[data-view]")).to_have_count(1)
    tab.locator("[data-view]").click()
    expect(tab.locator("main h2")).to_have_text("total")


def test_why_a_row_is_there(tab):
    tab.goto(tab.url.partition("#")[0] + "#/views/total/rows")
    tab.locator("main tbody tr", has_text="jam").get_by_role("button", name="Why").click()
    answer = tab.get_by_role("dialog")
    expect(answer).to_contain_text("source orders")
    expect(answer.locator("tbody tr")).to_contain_text("jam")
    expect(answer).to_contain_text("By way of")
    tab.keyboard.press("Escape")
    expect(answer).to_have_count(0)


def test_what_runs_is_seen_while_it_runs(tab, session):
    with session._engine.past.watch("closing times 3 to 4"):
        expect(tab.locator("#doing")).to_contain_text(re.compile(r"closing times 3 to 4, \d"))
    expect(tab.locator("#doing")).to_be_hidden()


def test_a_page_that_is_closed_says_so(tab, page):
    expect(tab.locator("#live")).to_have_text("live")
    tab.expected = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING"]
    page.close()
    expect(tab.locator("#live")).to_have_text("no answer")


def test_everything_is_reached_by_the_keyboard(tab):
    expect(tab.locator("#last-steps")).to_be_visible()
    seen = []
    for _ in range(9):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate("document.activeElement.textContent.trim() || document.activeElement.ariaLabel"))
    assert seen[0] == "To the content"
    assert {"altneu", "Steps", "Graph", "Sources", "Query"} <= set(seen)
    tab.goto(tab.url.partition("#")[0] + "#/graph")
    tab.locator("[data-operator]").first.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator(".panel.open")).to_be_visible()


PARTS = ["steps", "graph", "views/orders/rows", "views/orders/changes", "views/each/errors", "sources", "query"]


def test_nothing_is_wider_than_a_telephone(tab):
    tab.set_viewport_size({"width": 360, "height": 740})
    for part in PARTS:
        tab.goto(tab.url.partition("#")[0] + f"#/{part}")
        expect(tab.locator("main section:visible").first).to_be_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 360, part


def test_the_colours_can_be_chosen_and_stay(tab):
    def dark():
        return tab.evaluate("getComputedStyle(document.body).backgroundColor")

    button = tab.locator("#theme")
    light = dark()
    button.click()
    button.click()
    assert dark() != light
    tab.reload()
    assert dark() != light
