"""The built documentation: links lead somewhere, the search finds, axe-core finds nothing, no code is cut.

`make docs` builds the pages. A browser is chromium with chromedriver (Debian: apt-get install chromium
chromium-driver); axe-core is looked for in node_modules (make axe), or where AXE_CORE says.
"""

import html
import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "docs" / "_build" / "html"
AXE = Path(os.environ.get("AXE_CORE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
PAGES = sorted(p for p in BUILT.rglob("*.html") if not {"_static", "_sources"} & set(p.parts))
SIZES = [(width, theme) for width in (1280, 390) for theme in ("light", "dark")]
#: What a stranger asks the search, and the page that answers: it must be among the first results.
QUESTIONS = {
    "install": "start",
    "coming from LinearSVC": "switch",
    "FAQ": "faq",
    "imbalanced": "faq",
    "convergence warning": "faq",
    "Windows": "faq",
    "threads": "faq",
    "memory": "scaling",
    "slow": "faq",
    "scale features": "faq",
    "citation": "faq",
    "missing values": "missing",
    "categories": "tables",
    "predict shell": "command",
    "exit code": "command",
    "save model": "faq",
    "deploy FastAPI": "ecosystem",
    "ONNX": "ecosystem",
    "probabilities": "faq",
    "choose rate": "plot_choose_rate",
    "quantiles": "choose",
    "multi-label": "faq",
    "hidden layer": "hidden",
    "partial_fit stream": "online",
    "larger than memory": "scaling",
    "reproducible": "faq",
    "offset intercept": "glossary",
}

if not PAGES:
    pytest.skip("needs the built documentation: make docs", allow_module_level=True)


def name(page):
    return page.relative_to(BUILT).as_posix()


def links(page):
    """Every link of a page to a page or a file of the documentation: file, and the place in it."""
    for target in re.findall(r'(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8")):
        target = html.unescape(target)
        if target and not re.match(r"\w+:|//", target):
            path, _, place = target.partition("#")
            path = unquote(path.partition("?")[0])
            yield (page.parent / path).resolve() if path else page, unquote(place)


def test_links_lead_somewhere():
    places = {page: set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8"))) for page in PAGES}
    checked, broken = 0, []
    for page in PAGES:
        for file, place in links(page):
            checked += 1
            if not file.exists() or (place and file in places and place not in places[file]):
                broken.append(f"{name(page)}: {file.name}#{place}")
    assert checked > 1000
    assert broken == []


def test_no_table_has_an_empty_header():
    empty = re.compile(r"<th[^>]*>(<p></p>)?</th>")
    assert [name(page) for page in PAGES if empty.search(page.read_text(encoding="utf-8"))] == []


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


def show(browser, address, width=1280, theme="light"):
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)


@pytest.mark.parametrize(("question", "answer"), QUESTIONS.items())
def test_the_search_finds(browser, question, answer):
    show(browser, f"{(BUILT / 'search.html').as_uri()}?q={quote(question)}")
    script = """const done = arguments[0], begin = Date.now();
        const look = () => {
            const text = document.querySelector('#search-results p.search-summary')?.textContent ?? '';
            if (/found|did not match/.test(text) || Date.now() - begin > 10000)
                done([...document.querySelectorAll('#search-results ul.search a')].map((a) => a.href));
            else setTimeout(look, 50);
        }; look();"""
    found = browser.execute_async_script(script)
    assert (
        answer
        in [address.partition("#")[0].rpartition("/")[2].removesuffix(".html") for address in found][:5]
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut(browser, width):
    cut = []
    for page in PAGES:
        show(browser, page.as_uri(), width)
        root = "document.documentElement"
        wide = browser.execute_script(f"return {root}.scrollWidth - {root}.clientWidth")
        blocks = (
            "return [...document.querySelectorAll('pre')].filter(e => e.scrollWidth > e.clientWidth).length"
        )
        if wide > 0 or (width == 1280 and browser.execute_script(blocks)):
            cut.append(name(page))
    assert cut == []


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: make axe")
@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_axe_core_finds_nothing(browser, width, theme):
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
    run = "axe.run({resultTypes: ['violations'], runOnly: arguments[0]}).then(arguments[1])"
    source = AXE.read_text(encoding="utf-8")
    found = []
    for page in PAGES:
        show(browser, page.as_uri(), width, theme)
        browser.execute_script(source)
        for fault in browser.execute_async_script(run, tags)["violations"]:
            found.append((name(page), fault["id"], fault["nodes"][0]["html"][:100]))
    assert found == []
