"""What a browser makes of the page's viewer."""

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --virtual-time-budget=20000"
QUIET = "--disable-quic --disable-background-networking --disable-component-update --disable-sync"


def drawn(page: Path, profile: Path, script: str, end: str) -> str:
    """The viewer's HTML, up to `end`, after a browser ran the page and a script of the test."""
    shown = profile / "shown.html"
    profile.mkdir()
    html = page.read_text(encoding="utf-8")
    shown.write_text(html.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    command = [str(BROWSER), *FLAGS.split(), *QUIET.split(), f"--user-data-dir={profile}", "--enable-logging=stderr"]
    run = subprocess.run([*command, "--dump-dom", shown.as_uri()], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in run.stderr, run.stderr
    return run.stdout[run.stdout.index('<div class="viewer"') : run.stdout.index(end)]


def under_line(html: str, slot: int) -> str:
    """The text pieces that a lane's line marks."""
    pieces = re.findall(rf'<(?:span|b)[^>]*style="[^"]*--slot-{slot}[^"]*"[^>]*>([^<]*)<', html)
    return unescape("".join(pieces))
