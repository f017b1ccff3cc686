"""The report page in a browser: zooming, dragging, keys, details, colours and themes."""

import pytest

from infuse.analysis import Comparison
from tests.browser.chromium import Page
from tests.browser.report_page import browser, choose, page, pixels

__all__ = ["browser", "page"]
pytestmark = pytest.mark.row("G38")


def test_the_wheel_zooms_about_the_pointer_and_dragging_moves(
    page: tuple[Page, Comparison],
) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    shown, _ = page
    canvas = shown.find("#pane-before canvas")
    first = shown.side("before")["view"]
    origin = ScrollOrigin.from_element(canvas, 60, 40)
    ActionChains(shown.browser).scroll_from_origin(origin, 0, -400).perform()
    second = shown.side("before")["view"]
    assert second["zoom"] > 1.5 * first["zoom"]
    x, y = canvas.size["width"] / 2 + 60, canvas.size["height"] / 2 + 40
    for axis, at in (("x", x), ("y", y)):
        under = [view[axis] + at / view["zoom"] for view in (first, second)]
        assert under[0] == pytest.approx(under[1], abs=1.5)
    ActionChains(shown.browser).drag_and_drop_by_offset(canvas, 50, -30).perform()
    third = shown.side("before")["view"]
    assert third["x"] == pytest.approx(second["x"] - 50 / second["zoom"])
    assert third["y"] == pytest.approx(second["y"] + 30 / second["zoom"])
    assert shown.side("after")["view"]["zoom"] != third["zoom"]


def test_a_node_tells_its_type_attributes_and_history(page: tuple[Page, Comparison]) -> None:
    from selenium.webdriver import ActionChains

    shown, comparison = page
    conv = next(i for i, n in enumerate(comparison.before.nodes) if n.kind == "Conv")
    left, top, width, height = shown.run("return infuseReport.boxes('before')")[conv]
    view, canvas = shown.side("before")["view"], shown.find("#pane-before canvas")
    x = (left + width / 2 - view["x"]) * view["zoom"] - canvas.size["width"] / 2
    y = (top + height / 2 - view["y"]) * view["zoom"] - canvas.size["height"] / 2
    ActionChains(shown.browser).move_to_element_with_offset(canvas, int(x), int(y)).perform()
    tip = shown.find("#tip").text
    assert "Conv" in tip
    assert "float32[1, 6, 10, 10]" in tip
    ActionChains(shown.browser).click().perform()
    assert shown.side("before")["selected"] == conv
    assert shown.side("after")["echo"] == [comparison.before.nodes[conv].id]
    assert "float32[6, 3, 3, 3]" in shown.find("#detail").text
    gelu = next(i for i, n in enumerate(comparison.after.nodes) if n.kind == "Gelu")
    choose(shown, "gelu")
    assert shown.side("after")["selected"] == gelu
    fused = next(
        i for i, s in enumerate(comparison.steps) if comparison.after.nodes[gelu].id in s.created
    )
    assert sorted(shown.side("before")["echo"]) == comparison.consumed(fused)
    history = [chip for chip in shown.all("#detail .chip") if "FuseErfGelu" in chip.text]
    history[0].click()
    assert comparison.steps[shown.state["rewrite"]].rule == "FuseErfGelu"


def test_keys_step_search_zoom_and_clear(page: tuple[Page, Comparison]) -> None:
    from selenium.webdriver import ActionChains, Keys

    shown, comparison = page

    def press(*keys: str) -> None:
        ActionChains(shown.browser).send_keys(*keys).perform()

    press("j", "j")
    assert shown.state["rewrite"] == 1
    press("k")
    assert shown.state["rewrite"] == 0
    press(Keys.ESCAPE)
    assert shown.state["rewrite"] == -1
    zoom = shown.side("before")["view"]["zoom"]
    press("+")
    assert shown.side("before")["view"]["zoom"] > zoom
    press("f")
    shown.settle()
    assert shown.side("before")["view"]["zoom"] < 1.3 * zoom
    theme = "return document.documentElement.dataset.theme"
    was = shown.run(theme)
    press("t")
    assert {was, shown.run(theme)} == {"dark", "light"}
    press("/")
    press("Sigmoid")
    found = [text.split("\n") for text in shown.texts("#found [role=option]")]
    assert found[0][0] == "Sigmoid"
    press(Keys.ENTER)
    node = comparison.before.nodes[shown.side("before")["selected"]]
    assert node.kind == "Sigmoid"
    press(Keys.ESCAPE)
    press("?")
    assert "next and previous rewrite" in shown.find("#keys").text
    assert shown.said() == []


def test_colours_tell_families_changes_and_costs(page: tuple[Page, Comparison]) -> None:
    from selenium.webdriver import ActionChains

    shown, _ = page
    seen = []
    for _ in range(4):
        shown.settle()
        seen.append(
            {
                color: pixels(shown, "after", color)
                for color in ("family-product", "created-fill", "hot")
            }
        )
        ActionChains(shown.browser).send_keys("c").perform()
    family, change, flops, memory = seen
    assert family["family-product"] > 50 > family["created-fill"]
    assert change["created-fill"] > 50
    assert change["family-product"] == 0
    assert flops["hot"] > 50
    assert memory["hot"] > 50
    shown.settle()
    assert pixels(shown, "after", "family-product") == family["family-product"]


def test_both_themes_can_be_read(page: tuple[Page, Comparison]) -> None:
    shown, _ = page
    pairs = [
        ("text", "page"),
        ("muted", "raised"),
        ("ink", "family-product"),
        ("ink", "family-movement"),
        ("ink", "removed-fill"),
    ]
    pairs += [("ink", "created-fill"), ("ink", "hot")]
    for theme in ("light", "dark"):
        shown.run("document.documentElement.dataset.theme = arguments[0]", theme)
        colors = {
            name: shown.run(
                "return getComputedStyle(document.documentElement)"
                ".getPropertyValue(`--${arguments[0]}`).trim()",
                name,
            )
            for pair in pairs
            for name in pair
        }
        for front, back in pairs:
            assert contrast(colors[front], colors[back]) >= 4.3, (theme, front, back)


def contrast(front: str, back: str) -> float:
    """The contrast of two colours as WCAG 2 defines it."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))

    bright, dark = sorted((luminance(front), luminance(back)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
