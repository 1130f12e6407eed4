"""EXPLAIN's page as a person uses it, in Chromium: nothing is fetched, a click tells, texts fit into their boxes."""

from __future__ import annotations

import pytest

import altneu as an
from tests.explain.picture_cases import EDGES, LOOPS, TRIANGLES
from tests.golden.explain_cases import PLANS

WAIT = 30_000


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """The page of everything, as a file."""
    with an.Session(shards=2) as session:
        every = EDGES.group_by().agg(m="collect_list(dst)")
        for name, view in {**PLANS, **LOOPS, "triangles": TRIANGLES, "all of them": every}.items():
            session.maintain(name, view)
        session.insert("flights", [("UA", "JFK", 70), ("UA", "EWR", -3), ("AA", "JFK", 0)])
        session.insert("edges", [(1, 2), (2, 3), (3, 1)])
        session.advance()
        file = tmp_path_factory.mktemp("plans") / "plans.html"
        file.write_text(session.explain("reach", form="html", analyze=True))
        every = file.with_name("every.html")
        from altneu.explain import page

        every.write_text(page(session.explained(), analyze=True))
        return file, every, session.explained("reach")


@pytest.fixture
def opened(browser, plans):
    """The page of one view, and what the browser had to say about it."""
    page = browser.new_page(viewport={"width": 1300, "height": 850})
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url != plans[0].as_uri() else None)
    page.goto(plans[0].as_uri())
    page.locator("#sheet[style*=scale]").wait_for(state="attached", timeout=WAIT)  # a function would need eval
    yield page
    page.close()
    assert said == []


def test_a_click_tells_all_of_an_operator(opened, plans):
    reduce = next(o for o in plans[2].operators if o.kind == "reduce")
    panel = opened.locator("#panel")
    assert not panel.is_visible()
    opened.locator(f'[data-operator="{reduce.id}"] .name').first.click()
    result = panel.inner_text()
    for text in (reduce.label, "|change| log n (incremental)", "src, dst", "reach", "rows in", "group by src, dst"):
        assert text in result
    assert opened.locator(".edge.chosen").count() == 3  # one in, two out
    opened.locator("#panel .go", has_text="group by").click()
    assert panel.locator("h2").inner_text() == "group by src, dst"
    assert "arrangement (src, dst, #slot)" in panel.inner_text()
    opened.keyboard.press("Escape")
    assert not panel.is_visible()


def test_the_wheel_scales_dragging_moves_and_a_button_shows_all(opened):
    def place():
        return opened.locator("#sheet svg").bounding_box()

    before = place()
    opened.mouse.move(600, 400)
    opened.mouse.wheel(0, -300)
    larger = place()
    assert larger["width"] > before["width"] * 1.05
    opened.mouse.down()
    opened.mouse.move(700, 460, steps=4)
    opened.mouse.up()
    moved = place()
    assert (round(moved["x"] - larger["x"]), round(moved["y"] - larger["y"])) == (100, 60)
    assert not opened.locator("#panel").is_visible()  # a drag is no click
    opened.click("#fit")
    for _ in range(100):  # it is drawn with the next frame
        stage, fitted = opened.locator("#stage").bounding_box(), place()
        if fitted["height"] <= stage["height"] + 1:
            break
        opened.wait_for_timeout(50)
    assert fitted["height"] <= stage["height"] + 1
    assert abs((fitted["x"] + fitted["width"] / 2) - (stage["x"] + stage["width"] / 2)) < 2


def test_finding_dims_the_others(opened):
    opened.fill("#find", "JOIN on dst")
    assert opened.locator("#found").inner_text() == "1 found"
    assert opened.locator("[data-operator]:not(.dim)").count() == 1
    opened.keyboard.press("Enter")
    assert opened.locator("#panel h2").inner_text().startswith("join on dst")


def test_it_is_accessible_from_the_keyboard(opened, plans):
    first = plans[2].operators[0]
    opened.locator(f'[data-operator="{first.id}"]').focus()
    opened.keyboard.press("Enter")
    assert opened.locator("#panel h2").inner_text() == first.label


def test_a_name_that_would_be_a_script_is_a_name(browser, tmp_path):
    name, page = "</script><!--<script>alert(1)//", browser.new_page()
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: said.append(str(error)))
    with an.Session() as session:
        session.maintain(name, PLANS["linear"])
        file = tmp_path / "plan.html"
        file.write_text(session.explain(name, form="html"))
    page.goto(file.as_uri())
    assert page.locator("h1").inner_text() == f"Plan of {name}"
    page.locator("[data-view]").focus()
    page.keyboard.press("Enter")
    assert page.locator("#panel h2").inner_text() == f"view {name}"
    page.close()
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_fit_into_their_boxes_and_are_legible(browser, plans, scheme):
    page = browser.new_page(color_scheme=scheme)
    page.goto(plans[1].as_uri())
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("[data-operator], [data-view]")].flatMap((group) => {
          const box = group.querySelector(".box:not([transform])").getBoundingClientRect();
          return [...group.querySelectorAll("text")].filter((text) => {
            const own = text.getBoundingClientRect();
            return own.left < box.left || own.right > box.right + 1 || own.bottom > box.bottom + 1;
          }).map((text) => text.textContent);
        })"""
    )
    assert too_wide == []
    apart = page.evaluate(
        """() => [...document.querySelectorAll("[data-operator]")].flatMap((group) => {
          const bound = group.querySelector(".bound"), kind = group.querySelector(".kind");
          if (!bound) return [];
          return bound.getBoundingClientRect().left > kind.getBoundingClientRect().right ? [] : [kind.textContent];
        })"""
    )
    assert apart == []
    pairs = [
        (".incremental .bound", ".incremental .box"),
        (".bounded .bound", ".bounded .box"),
        (".soft", ".view .box"),
    ]
    for text, behind in [
        *pairs,
        (".full .bound", ".full .box"),
        (".kind", ".keeps .box"),
        (".view .name", ".view .box"),
    ]:
        ratio = page.evaluate(
            CONTRAST, [f".altneu-plan {'.view ' if text == '.soft' else ''}{text}", f".altneu-plan {behind}"]
        )
        assert ratio >= 4.5, (text, behind)
    page.close()


CONTRAST = """([text, behind]) => {
  const light = (selector) => {
    const rgb = getComputedStyle(document.querySelector(selector)).fill.match(/[\\d.]+/g).slice(0, 3);
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [one, other] = [light(text), light(behind)].sort((a, b) => b - a);
  return (one + 0.05) / (other + 0.05);
}"""
