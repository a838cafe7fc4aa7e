"""The view in a real browser."""

from __future__ import annotations

import itertools
import json
import re
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from autorubric.improvement.improvement_page import render_page
from autorubric.labels import read_history
from tests.offenders import offenders
from tests.view.viewing import RUBRIC, STORED, Viewer, item, judged, line, viewing, write_run
from tests_browser.conftest import PAGES, PAYLOADS, Tab, ballots, tab_of

CONTRAST = Path(__file__).with_name("contrast.js").read_text("utf-8")


def test_no_page_complains_or_asks_elsewhere(tab: Tab) -> None:
    with offenders() as case:
        for path in PAGES:
            with case(path):
                tab.complaints.clear()
                tab.open(path).page.wait_for_timeout(50)
                assert tab.complaints == []


def test_payloads_in_every_text_field_run_nothing(tab: Tab) -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 40
    with offenders() as case:
        for n, text in enumerate(PAYLOADS):
            with case(text):
                for path in (f"/r/1/items/{n}?focus=1", f"/r/1/items/{n}/calls?focus=1", f"/r/1/criteria/{n}"):
                    tab.open(path)
                    assert tab.complaints == []
                    assert text.replace("\n", " ") in tab.page.content() or tab.page.get_by_text(text[:30]).count()
        for path in ("/", "/r/1/", "/r/1/items", "/r/1/criteria", "/r/1/agreement", "/r/1/label"):
            with case(path):
                tab.open(path)
                assert tab.complaints == []
    tab.open("/r/1/items")
    tab.page.get_by_label("Search").fill(PAYLOADS[1])
    tab.page.get_by_role("button", name="Apply").click()
    expect(tab.page.get_by_label("Search")).to_have_value(PAYLOADS[1])
    assert tab.complaints == []


def test_no_page_scrolls_sideways_at_320_pixels_or_at_200_per_cent(chromium: Browser, view: Viewer) -> None:
    check_widths(chromium, view, PAGES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_a_contrast_of_at_least_four_and_a_half(chromium: Browser, view: Viewer, scheme: Any) -> None:
    check_contrast(chromium, view, PAGES, scheme)


def test_focus_moves_in_the_order_of_the_page_and_everything_has_a_name(tab: Tab) -> None:
    check_focus(tab, PAGES)


def test_pages_of_labelling_are_as_legible_and_as_easy_to_reach_as_the_others(
    chromium: Browser, tmp_path: Path
) -> None:
    verdicts = [judged(one, "MET", ballots(1)) for one in RUBRIC]
    folder = write_run(tmp_path / "run", [item(n) for n in range(30)], [line(n, 0.5, verdicts) for n in range(30)])
    label = f"/r/0/label?annotator={'a' * 60}"
    paths = (label, "/r/0/label", "/r/0/label/adjudicate", "/r/0/label/adjudicate?annotator=dora")
    with viewing(folder) as view:
        view.indexed().post("/r/0/label/open", {"policy": "random", "size": 5})
        for name, verdict in (("ana", "MET"), ("ben", "UNMET")):
            body = {"annotator": name, "index": 1, "place": 0, "verdict": verdict, "note": "long " * 50}
            assert view.post("/r/0/label/label", body).status == 200
        pages = (*paths, "/r/0/label/figures", "/r/0/items")  # the last one is hidden meanwhile
        check_widths(chromium, view, pages)
        for scheme in ("light", "dark"):
            check_contrast(chromium, view, pages, scheme)
        with tab_of(chromium, view) as tab:
            check_focus(tab, pages)
            assert tab.complaints == []
            expect(tab.open(label).page.locator("#labels")).to_be_visible()
            expect(tab.page.locator("#label-done")).not_to_be_visible()
            expect(tab.open(paths[-1]).page.locator("h1")).to_contain_text("differ: 1")
            tab.page.get_by_text("Query", exact=True).click()
            expect(tab.page.get_by_text("Explain the tides.")).to_be_visible()
            tab.page.get_by_role("button", name="MET", exact=True).click()
            expect(tab.page.get_by_text("There are no pairs on which annotators differ.")).to_be_visible()


def test_a_queue_without_a_pair_shows_no_empty_panel(chromium: Browser, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [item(0)], [line(0, 0.5, [judged(one, "MET") for one in RUBRIC])])
    with viewing(folder) as view, tab_of(chromium, view.indexed()) as tab:
        view.post("/r/0/label/open", {"policy": "random"})
        tab.open("/r/0/label?annotator=ana")
        for n in range(2):
            expect(tab.page.locator("#label-progress")).to_contain_text(f"{n} labelled")
            tab.page.locator("#labels .choices button").first.focus()
            tab.page.keyboard.press("Enter")
            if not n:  # the next Tab leads to the choices of the next pair
                expect(tab.page.locator("#requirement")).to_be_focused()
        expect(tab.page.locator("#label-done")).to_be_visible()
        expect(tab.page.locator("#labels")).not_to_be_visible()


def check_widths(chromium: Browser, view: Viewer, paths: Sequence[str]) -> None:
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    with offenders() as case:
        # 640 pixels at 200 % are 320 CSS pixels, at twice the device pixels.
        for size, scale in ((320, 1.0), (640, 1.0), (320, 2.0), (780, 1.0)):
            with tab_of(chromium, view, viewport={"width": size, "height": 800}, device_scale_factor=scale) as tab:
                for path in paths:
                    with case(f"{size} px, ×{scale:g}: {path}"):
                        tab.open(path)
                        assert tab.page.evaluate(wide) <= 0


def check_contrast(chromium: Browser, view: Viewer, paths: Sequence[str], scheme: Any) -> None:
    with offenders() as case, tab_of(chromium, view, color_scheme=scheme) as tab:
        for path in paths:
            with case(f"{scheme}: {path}"):
                tab.open(path)
                assert tab.page.evaluate(CONTRAST) == []


def check_focus(tab: Tab, paths: Sequence[str]) -> None:
    look = (
        "() => { const e = document.activeElement;"
        " return [e.tagName, e.className, e.getBoundingClientRect().top + scrollY]; }"
    )
    with offenders() as case:
        for path in paths:
            with case(path):
                tab.open(path)
                tab.page.keyboard.press("Tab")
                assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
                names = tab.page.locator("main a, main button, main input, main select, main textarea, nav a")
                for place in range(names.count()):
                    one = names.nth(place)
                    if one.is_visible():
                        snapshot = one.aria_snapshot()
                        assert re.search(r'"[^"]+"|: .|checkbox|spinbutton|combobox|searchbox', snapshot), snapshot
                tops: list[float] = []
                for _ in range(12):
                    tab.page.keyboard.press("Tab")
                    tag, kind, top = tab.page.evaluate(look)
                    if tag == "BODY" or kind == "skip":
                        break  # around the page
                    tops.append(top)
                columns = "/items/" in path or "label?" in path  # the second column starts at the top again
                assert columns or all(b >= a - 80 for a, b in itertools.pairwise(tops)), tops
                headings = tab.page.locator("h1")
                assert headings.count() == 1


def test_reload_and_back_keep_the_filter(tab: Tab) -> None:
    tab.open("/r/0/items")
    tab.page.get_by_label("judges disagree").check()
    tab.page.get_by_label("Sort").select_option("worst")
    tab.page.get_by_role("button", name="Apply").click()
    expect(tab.page.get_by_text(f"{sum(n % 3 == 0 or n % 7 == 6 for n in range(120))} items")).to_be_visible()
    rows = tab.page.locator("[data-row]").all_inner_texts()
    tab.page.reload()
    assert tab.page.locator("[data-row]").all_inner_texts() == rows
    tab.page.locator("[data-row]").first.click()
    expect(tab.page.get_by_role("heading", level=1)).to_contain_text(rows[0])
    tab.page.go_back()
    expect(tab.page.get_by_label("judges disagree")).to_be_checked()
    assert tab.page.locator("[data-row]").all_inner_texts() == rows


def test_keys_walk_through_items_and_are_silent_where_people_type(tab: Tab) -> None:
    tab.open("/r/0/items")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("k")
    assert tab.page.evaluate("document.activeElement.textContent") == "e0"
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/items/0*")
    tab.page.keyboard.press("j")
    tab.page.wait_for_url("**/items/1*")
    tab.page.keyboard.press("u")
    tab.page.wait_for_url("**/items?*")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("jkn?")
    expect(tab.page.get_by_label("Search")).to_have_value("jkn?")
    expect(tab.page.locator("#help")).not_to_be_visible()
    tab.page.get_by_label("Search").blur()
    for key in ("Control+n", "Alt+n", "Meta+n"):
        tab.page.keyboard.press(key)
    assert "after=" not in tab.page.url
    tab.page.keyboard.press("?")
    expect(tab.page.locator("#help")).to_be_visible()
    tab.page.get_by_label("Single-key shortcuts are on").uncheck()
    tab.page.get_by_role("button", name="Close").click()
    tab.page.keyboard.press("n")
    assert "after=" not in tab.page.url
    tab.page.reload()
    tab.page.keyboard.press("n")
    assert "after=" not in tab.page.url
    assert tab.complaints == []


def test_twenty_pairs_are_labelled_by_keys_alone(chromium: Browser, tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run",
        [item(n, submission=f"Essay {n}. The moon pulls the water.") for n in range(30)],
        [
            line(
                n,
                0.5,
                [judged(RUBRIC[0], "MET" if n % 2 else "UNMET", ballots(n)), judged(RUBRIC[1], "MET", ballots(n))],
            )
            for n in range(30)
        ],
    )
    with viewing(folder) as view, tab_of(chromium, view.indexed()) as tab:
        keyboard = tab.page.keyboard
        tab.open("/r/0/label").page.get_by_label("Your name").focus()
        keyboard.type("ana")
        keyboard.press("Enter")
        expect(tab.page.locator("#labels")).to_be_visible()
        pressed = []
        for n in range(20):
            shown = tab.page.locator("#label-progress")
            expect(shown).to_contain_text(f"{n} labelled")
            key = "123"[n % 3]
            pressed.append({"1": "MET", "2": "UNMET", "3": "CANNOT_ASSESS"}[key])
            if n == 4:
                keyboard.press("n")
                keyboard.type("1 is a figure, and no label")
                keyboard.press("Escape")
            if n == 5:
                tab.page.locator("#submission").evaluate("e => getSelection().selectAllChildren(e)")
                keyboard.press("q")
                expect(tab.page.get_by_text("Quote: “Essay")).to_be_visible()
            for silent in ("Control+1", "Alt+2", "Meta+3", "4", "x"):
                keyboard.press(silent)
            keyboard.press(key)
        expect(tab.page.locator("#label-progress")).to_contain_text("20 labelled")
        for key, skipped in (("s", 1), ("u", 0)):
            keyboard.press(key)
            expect(tab.page.locator("#label-progress")).to_contain_text(f"{skipped} skipped")
        expect(tab.page.locator("#label-saved")).to_have_text("The last label or skip is undone.")
        keyboard.press("u")
        expect(tab.page.locator("#label-progress")).to_contain_text("19 labelled")
        labels = [event for event in read_history(folder).events if event.kind == "label"]
        assert [event.verdict for event in labels] == pressed
        assert labels[4].note == "1 is a figure, and no label"
        assert labels[5].quote.startswith("Essay ")
        keyboard.press("1")
        expect(tab.page.locator("#label-progress")).to_contain_text("20 labelled")
        keyboard.press("n")
        keyboard.type("kept")
        keyboard.press("Escape")
        keyboard.press("1")
        expect(tab.page.locator("#label-progress")).to_contain_text("21 labelled")
        keyboard.press("h")
        expect(tab.page.locator("#note")).to_have_value("kept")
        expect(tab.page.locator("#labels [aria-pressed=true]")).to_contain_text("met")
        saved = tab.page.locator("#label-saved").inner_text()
        keyboard.press("2")
        expect(tab.page.locator("#label-saved")).not_to_have_text(saved)
        last = [event for event in read_history(folder).events if event.kind == "label"][-1]
        assert (last.verdict, last.note) == ("UNMET", "kept")
        assert all(event.seconds is not None and event.seconds > 0 for event in labels)
        assert tab.complaints == []


def test_a_half_written_note_and_a_quote_outlive_a_reload_and_an_undo(chromium: Browser, tmp_path: Path) -> None:
    verdicts = [judged(one, "MET") for one in RUBRIC]
    folder = write_run(tmp_path / "run", [item(n) for n in range(9)], [line(n, 0.5, verdicts) for n in range(9)])
    with viewing(folder) as view, tab_of(chromium, view.indexed()) as tab:
        view.post("/r/0/label/open", {"policy": "random"})
        note, quote = tab.page.locator("#note"), tab.page.locator("[data-part=quote]")
        keyboard = tab.open("/r/0/label?annotator=ana").page.keyboard
        expect(tab.page.locator("#labels")).to_be_visible()
        tab.page.locator("#submission").evaluate("e => getSelection().selectAllChildren(e)")
        keyboard.press("q")
        keyboard.press("n")
        keyboard.type("half a")
        tab.page.reload()
        expect(note).to_have_value("half a")
        expect(quote).to_contain_text("Essay")
        label_by_key(tab, "1")
        expect(note).to_have_value("")
        expect(quote).to_be_empty()
        keyboard.press("u")
        expect(note).to_have_value("half a")
        expect(quote).to_contain_text("Essay")
        tab.open("/r/0/label?annotator=ben")  # a note is its annotator's
        expect(tab.page.locator("#labels")).to_be_visible()
        expect(note).to_have_value("")
        assert tab.complaints == []


def test_the_chart_of_an_improvement_is_as_dark_as_its_page(chromium: Browser, tmp_path: Path) -> None:
    record = json.loads((STORED / "improve" / "run" / "improvement.json").read_text())
    path = tmp_path / "report.html"
    path.write_text(render_page(record))
    context = chromium.new_context(color_scheme="dark", viewport={"width": 360, "height": 800})
    page = context.new_page()
    page.goto(path.as_uri())
    colour = "([part, name]) => getComputedStyle(document.querySelector(part))[name]"
    paper = page.evaluate(colour, [".chart .paper", "fill"])
    assert paper == page.evaluate(colour, ["body", "backgroundColor"]) != "rgb(255, 255, 255)"
    assert page.evaluate(CONTRAST) == []
    context.close()


def test_of_two_views_one_labels_and_the_other_says_who_labels(chromium: Browser, tmp_path: Path) -> None:
    verdicts = [judged(RUBRIC[0], "MET"), judged(RUBRIC[1], "UNMET")]
    folder = write_run(tmp_path / "run", [item(n) for n in range(9)], [line(n, 0.5, verdicts) for n in range(9)])
    with viewing(folder) as one, viewing(folder) as two, tab_of(chromium, one) as ana, tab_of(chromium, two) as bo:
        one.indexed(), two.indexed()
        bo.open("/r/0/label").page.get_by_label("Your name").fill("bo")  # before the other view begins
        ana.open("/r/0/label").page.get_by_label("Your name").fill("ana")
        ana.page.keyboard.press("Enter")
        expect(ana.page.locator("#labels")).to_be_visible()
        label_by_key(ana, "1")
        bo.page.keyboard.press("Enter")
        expect(bo.page.locator("#label-problem")).to_contain_text(f"process {one.process.pid}")
        bo.open("/r/0/label")
        expect(bo.page.get_by_text("is labelling this run")).to_contain_text(f"process {one.process.pid}")
        for tab in (ana, bo):
            expect(tab.open("/r/0/items").page.locator("h1")).to_have_text("Hidden while labelling")
        one.post("/r/0/label/close", {})
        expect(ana.open("/r/0/items").page.locator("table")).to_contain_text("essay 8")
        bo.open("/r/0/label").page.get_by_label("Your name").fill("bo")
        bo.page.keyboard.press("Enter")
        expect(bo.page.locator("#labels")).to_be_visible()
        assert ana.complaints == bo.complaints == []


def test_a_label_that_is_not_saved_is_shown_as_such(chromium: Browser, tmp_path: Path) -> None:
    both = [judged(one, "MET") for one in RUBRIC]
    folder = write_run(tmp_path / "run", [item(0), item(1)], [line(n, 0.5, both) for n in range(2)])
    with viewing(folder) as view, tab_of(chromium, view.indexed()) as tab:
        view.post("/r/0/label/open", {"policy": "random"})
        tab.open("/r/0/label?annotator=ana")
        expect(tab.page.locator("#labels")).to_be_visible()
        tab.page.route(
            "**/label/label", lambda route: route.fulfill(status=507, json={"problem": "the disk is full"})
        )
        tab.page.keyboard.press("1")
        expect(tab.page.locator("#label-problem")).to_contain_text("Not saved: the disk is full")
        expect(tab.page.locator("#label-progress")).to_contain_text("0 labelled")
        tab.page.unroute("**/label/label")
        tab.page.keyboard.press("1")
        expect(tab.page.locator("#label-progress")).to_contain_text("1 labelled")
        expect(tab.page.locator("#label-problem")).not_to_be_visible()


def test_a_live_page_counts_without_a_reload(chromium: Browser, tmp_path: Path) -> None:
    lines = [line(n, 1.0, [judged(RUBRIC[0], "MET")]) for n in range(3)]
    folder = write_run(tmp_path / "run", [item(n) for n in range(3)], lines[:1])
    with viewing(folder) as view, tab_of(chromium, view.indexed()) as tab:
        tab.open("/r/0/live")
        done = tab.page.locator("#live dd").first
        expect(done).to_have_text("1of 3")
        with (folder / "items.jsonl").open("a") as file:
            file.write("".join(one + "\n" for one in lines[1:]))
        expect(done).to_have_text("3of 3", timeout=10_000)
        assert tab.complaints == []


def test_of_300_labels_by_keys_none_that_was_shown_as_saved_is_lost_over_20_kills(
    chromium: Browser, tmp_path: Path
) -> None:
    verdicts = [judged(RUBRIC[0], "MET"), judged(RUBRIC[1], "UNMET")]
    folder = write_run(tmp_path / "run", [item(n) for n in range(200)], [line(n, 0.5, verdicts) for n in range(200)])
    saved: dict[int, str] = {}  # what the page said was saved: the event and the verdict
    with ExitStack() as ended:
        for kill in range(21):
            view = ended.enter_context(viewing(folder)).indexed()
            # A child that the killed process had just forked holds the lock until it runs its own program.
            opening, until = {"policy": "random", "size": 100}, time.monotonic() + 10
            while (status := view.post("/r/0/label/open", opening).status) == 409 and time.monotonic() < until:
                time.sleep(0.05)
            assert status == 200
            with tab_of(chromium, view) as tab:
                tab.open("/r/0/label?annotator=ana")
                expect(tab.page.locator("#labels")).to_be_visible()
                while len(saved) < min(15 * (kill + 1), 300):
                    saved[label_by_key(tab, "12"[len(saved) % 2])] = ("MET", "UNMET")[len(saved) % 2]
                if kill < 20:
                    # One more key: the kill comes while it is on its way.
                    tab.page.keyboard.press("3")
                    view.process.send_signal(signal.SIGKILL)
                    view.process.wait()
    kept = {event.id: event.verdict for event in read_history(folder).events if event.kind == "label"}
    assert len(saved) == 300
    assert {number: kept.get(number) for number in saved} == saved
    # Besides them there may be what was under way, and nothing else.
    assert {verdict for number, verdict in kept.items() if number not in saved} <= {"CANNOT_ASSESS"}


def label_by_key(tab: Tab, key: str) -> int:
    """Press a key; the number of the event that the page says is saved."""
    before = tab.page.locator("#label-saved").inner_text()
    tab.page.keyboard.press(key)
    tab.page.wait_for_function("told => document.querySelector('#label-saved').textContent !== told", arg=before)
    return int(tab.page.locator("#label-saved").inner_text().split()[-1].rstrip("."))
