"""Pages in a real browser: what it computes, for a width and a colour scheme, comes back as JSON."""

import html
import json
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="No Chromium on this machine: install Debian's package chromium."
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def run_browser(page, folder, *flags, dark=False):
    """Load a page, and return the finished process, with the page as it is then in its output."""
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    command = [BROWSER, *FLAGS, *scheme, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def printed(page):
    """Return a page as it is printed: with the rules for print, and without those for the screen."""
    page = page.replace("@media screen", "@media not all").replace("@page { margin: 14mm; }", "")
    return page.replace("@media print", "@media all")


def measured(pages, script, folder, *, dark=False):
    """Return what a script returns for each page.

    Parameters
    ----------
    pages : dict
        By a name, a page and the width of its window in pixels.
    script : str
        The body of a function of `document` and `window`; what it returns is JSON.
    folder : Path
    dark : bool

    Returns
    -------
    measured : dict
    """
    # Frames that hold the page as their source can be read by the script.
    look = "height: 900px; border: 0"
    frames = "".join(
        f'<iframe name="{name}" style="width: {width}px; {look}" srcdoc="{html.escape(page)}"></iframe>'
        for name, (page, width) in pages.items()
    )
    code = """
addEventListener("load", () => {
  const all = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const measure = new Function("document", "window", SCRIPT);
    all[frame.name] = measure(frame.contentDocument, frame.contentWindow);
  }
  const output = document.createElement("output");
  output.textContent = encodeURIComponent(JSON.stringify(all));
  document.body.replaceChildren(output);
});
""".replace("SCRIPT", json.dumps(script).replace("</", "<\\/"))
    harness = folder / "harness.html"
    harness.write_text(f'<!doctype html><meta charset="utf-8"><body>{frames}<script>{code}</script>')
    result = run_browser(harness, folder, "--virtual-time-budget=5000", "--dump-dom", dark=dark)
    return json.loads(unquote(re.search(r"<output>(.*?)</output>", result.stdout, re.DOTALL)[1]))
