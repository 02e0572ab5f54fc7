"""The page as a browser shows it: one in `make test`, the others in `make acceptance`."""

from types import SimpleNamespace

import pytest

from support.chromium import chromium
from support.tiers import rows

DRAWN = "[...document.querySelectorAll('.live')].every(place => place.dataset.ready)"
DOMAIN = "document.querySelector('[data-zoom]').view.scale('x').domain().map(Number)"
INKED = """place => {
    const canvas = place.querySelector('canvas');
    const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let inked = 0;
    for (let i = 3; i < dots.length; i += 4) inked += dots[i] > 0;
    return inked / (canvas.width * canvas.height);
}"""
PHONE, DESKTOP = (390, 844), (1280, 900)


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def opened(browser, report):
    """A page, with everything that it says and asks for."""
    made = []

    def open_(size=DESKTOP, scheme="light", **options):
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **options
        )
        made.append(context)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(report.html.as_uri())
        return SimpleNamespace(page=page, said=said, asked=asked)

    yield open_
    for context in made:
        context.close()


def draw(page):
    """Charts are drawn when they come into sight."""
    for place in page.locator("figure:has(.live)").all():
        place.scroll_into_view_if_needed()
    page.wait_for_function(DRAWN)


SHOWN = [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")]


@pytest.mark.parametrize(("size", "scheme"), rows(SHOWN, SHOWN[:1]))
def test_charts_draw_without_messages_or_requests(opened, report, size, scheme):
    shown = opened(size, scheme)
    draw(shown.page)
    places = shown.page.locator(".live").all()
    # The timeline, figures, tail, ratios, and each path.
    assert len(places) == 7
    for place in places:
        assert 0.005 < place.evaluate(INKED) < 0.98
        assert not place.locator("xpath=following-sibling::div[@class='still']").is_visible()
    assert shown.said == []
    assert set(shown.asked) <= {report.html.as_uri(), "data:,"}
    # Tables scroll in their own boxes; the page itself never does sideways.
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.acceptance
def test_letters_have_the_colour_of_the_page(opened):
    for scheme, light in (("light", False), ("dark", True)):
        shown = opened(DESKTOP, scheme)
        draw(shown.page)
        colours = shown.page.evaluate(
            """[getComputedStyle(document.querySelector('#tail .broad svg text')).fill,
                getComputedStyle(document.body).color]"""
        )
        assert colours[0] == colours[1]
        assert (int(colours[1].split("(")[1].split(",")[0]) > 128) == light
        brightest = shown.page.evaluate(
            """() => { const canvas = document.querySelector('[data-zoom] canvas');
            const beside = 60 * devicePixelRatio;
            const dots = canvas.getContext('2d').getImageData(0, 0, beside, canvas.height).data;
            let sum = 0, n = 0;
            // Labels beside the axis are the only ink there.
            for (let i = 0; i < dots.length; i += 4) if (dots[i + 3] > 200) { sum += dots[i]; n += 1; }
            return sum / n; }"""
        )
        assert (brightest > 128) == light


@pytest.mark.acceptance
def test_zooming_changes_what_is_seen_and_goes_back(opened):
    shown = opened()
    draw(shown.page)
    page = shown.page
    first, last = page.evaluate(DOMAIN)
    canvas = page.locator("[data-zoom] canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    page.mouse.move(*middle)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"{DOMAIN}[0] > {first}")
    near, far = page.evaluate(DOMAIN)
    assert first < near < far < last

    page.mouse.down()
    page.mouse.move(middle[0] + 100, middle[1], steps=5)
    page.mouse.up()
    page.wait_for_function(f"{DOMAIN}[0] < {near}")
    moved = page.evaluate(DOMAIN)
    assert moved[1] - moved[0] == pytest.approx(far - near, rel=0.01)

    page.mouse.dblclick(*middle)
    page.wait_for_function(f"{DOMAIN}[0] === {first} && {DOMAIN}[1] === {last}")
    assert shown.said == []


@pytest.mark.acceptance
def test_buttons_zoom_without_a_wheel(opened):
    shown = opened(PHONE, is_mobile=True, has_touch=True)
    draw(shown.page)
    page = shown.page
    first, last = page.evaluate(DOMAIN)
    page.locator("[data-how=in]").first.tap()
    page.wait_for_function(f"{DOMAIN}[0] > {first}")
    near, far = page.evaluate(DOMAIN)
    assert far - near == pytest.approx((last - first) / 2, rel=0.01)
    page.locator("[data-how=all]").first.tap()
    page.wait_for_function(f"{DOMAIN}[0] === {first} && {DOMAIN}[1] === {last}")


@pytest.mark.acceptance
def test_brush_zooms_every_path(opened):
    shown = opened()
    draw(shown.page)
    page = shown.page
    first, last = page.evaluate(DOMAIN)
    canvas = page.locator("[data-brush] canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    # Within the second of three rows, below its name.
    y = box["y"] + box["height"] * 0.47
    page.mouse.move(box["x"] + box["width"] * 0.4, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=8)
    page.mouse.up()
    page.wait_for_function(f"{DOMAIN}[0] > {first} && {DOMAIN}[1] < {last}")
    domains = page.evaluate(
        "[...document.querySelectorAll('[data-zoom]')].map(p => p.view.scale('x').domain().map(Number))"
    )
    assert len(domains) == 3
    for near, far in domains:
        assert (near, far) == pytest.approx(domains[0], rel=1e-9)
        assert (far - near) / (last - first) == pytest.approx(0.2, abs=0.03)
    page.mouse.click(box["x"] + box["width"] * 0.8, y)
    page.wait_for_function(f"{DOMAIN}[0] === {first} && {DOMAIN}[1] === {last}")
    assert shown.said == []


@pytest.mark.acceptance
def test_tooltip_shows_figures_under_the_pointer(opened):
    shown = opened()
    draw(shown.page)
    page = shown.page
    canvas = page.locator("[data-zoom] canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for step in range(40):
        page.mouse.move(box["x"] + box["width"] * 0.3 + step, box["y"] + box["height"] * 0.8)
        if page.locator("#vg-tooltip-element.visible").count():
            break
    tip = page.locator("#vg-tooltip-element").inner_text()
    assert "p50" in tip
    assert "ms" in tip or "µs" in tip


@pytest.mark.acceptance
@pytest.mark.parametrize("size", [PHONE, (1280, 800)])
def test_first_screen_tells_the_first_incident(opened, report, size):
    """Without scrolling: the verdict, and of the first incident what, when, to whom, the cost, the change."""
    shown = opened(size)
    entry = shown.page.locator("article.incident").first
    for part in (shown.page.locator("#verdict"), entry.locator("h3"), entry.locator("dl")):
        box = part.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= size[1]
    words = entry.inner_text()
    for head in ("What", "To whom", "Cost"):
        assert head in words
    assert report.analysis.incidents


@pytest.mark.acceptance
def test_phone_shows_only_key_columns(opened):
    heads = "[...document.querySelectorAll('#summary thead th')]"
    heads += ".filter(e => e.offsetParent).map(e => e.innerText)"
    assert opened(PHONE).page.evaluate(heads) == ["scenario", "samples", "p50", "p99"]
    assert len(opened(DESKTOP).page.evaluate(heads)) == 10


@pytest.mark.acceptance
def test_phone_shows_p50_and_p99_whole(opened):
    """At 390 px the interval of p50 was cut, and p99 lay beyond the edge."""
    page = opened(PHONE).page
    ends = page.evaluate(
        """[...document.querySelectorAll('#summary table')[0].querySelectorAll('th, td')]
        .filter(e => e.offsetParent).map(e => e.getBoundingClientRect()).map(box => [box.left, box.right])"""
    )
    assert len(ends) == 4 * 4
    assert all(0 <= left < right <= PHONE[0] for left, right in ends), ends
    # Nor is anything wider than its cell.
    assert page.evaluate(
        """[...document.querySelectorAll('#summary td, #summary th')].filter(e => e.offsetParent)
        .every(e => e.scrollWidth <= e.clientWidth + 1)"""
    )


@pytest.mark.acceptance
def test_keyboard_picks_a_stretch_of_every_path(opened):
    shown = opened()
    draw(shown.page)
    page = shown.page
    first, last = page.evaluate(DOMAIN)

    def press(how):
        page.locator(f"[data-brush] [data-how={how}]").focus()
        page.keyboard.press("Enter")

    press("in")
    page.wait_for_function(f"{DOMAIN}[0] > {first} && {DOMAIN}[1] < {last}")
    near, far = page.evaluate(DOMAIN)
    assert far - near == pytest.approx((last - first) / 2, rel=0.01)
    assert " to " in page.locator("[data-brush] output").inner_text()
    press("later")
    page.wait_for_function(f"{DOMAIN}[0] > {near}")
    press("later")
    page.wait_for_function(f"{DOMAIN}[1] > {far} + ({last} - {first}) / 5")
    domains = page.evaluate(
        "[...document.querySelectorAll('[data-zoom]')].map(p => p.view.scale('x').domain().map(Number))"
    )
    assert domains == [domains[0]] * 3
    press("all")
    page.wait_for_function(f"{DOMAIN}[0] === {first} && {DOMAIN}[1] === {last}")
    page.locator("[data-zoom] [data-how=in]").first.focus()
    page.keyboard.press("Space")
    page.wait_for_function(f"{DOMAIN}[0] > {first}")
    assert shown.said == []


@pytest.mark.acceptance
def test_a_wide_screen_is_used(opened):
    shown = opened((1500, 900))
    box = shown.page.locator("#timeline").bounding_box()
    assert box["width"] > 1400


@pytest.mark.acceptance
def test_without_script_the_pictures_stand_still(opened):
    shown = opened(java_script_enabled=False)
    for name in ("timeline", "time-1", "tail", "figures"):
        assert shown.page.locator(f"#{name} .broad svg").is_visible()
    assert not shown.page.locator(".live").first.is_visible()


@pytest.mark.acceptance
def test_print_shows_still_pictures_in_black(opened):
    shown = opened(scheme="dark")
    draw(shown.page)
    printed = shown.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") > 1
    shown.page.emulate_media(media="print")
    assert shown.page.locator("#time-1 .broad svg").is_visible()
    assert not shown.page.locator(".live").first.is_visible()
    assert shown.page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"


@pytest.mark.acceptance
@pytest.mark.parametrize("script", [True, False])
def test_print_has_what_is_folded(opened, script):
    shown = opened(java_script_enabled=script)
    page = shown.page
    folded = page.locator("details:not([open])").count()
    assert folded
    heights = "[...document.querySelectorAll('details > :not(summary)')]"
    heights += ".map(e => e.getBoundingClientRect().height)"
    page.emulate_media(media="print")
    if script:
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
    assert min(page.evaluate(heights)) > 0
    if script:
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.locator("details:not([open])").count() == folded


@pytest.mark.acceptance
def test_a_phone_gets_pictures_of_its_width(opened):
    shown = opened(PHONE)
    assert shown.page.locator("#tail .narrow svg").is_visible()
    assert not shown.page.locator("#tail .broad").is_visible()
    letters = (
        "[...document.querySelectorAll('#tail .narrow svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(h for h in shown.page.evaluate(letters) if h) > 8
