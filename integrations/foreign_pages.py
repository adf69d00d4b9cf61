"""Requests that a web page of somebody else has a browser on this machine send, also by a name that a stranger's DNS
server resolves to 127.0.0.1 (DNS rebinding). They cannot change the headers Host, Origin and Sec-Fetch-Site.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether a name or address, without a port, is this machine's own: localhost, 127.0.0.0/8 or ::1."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def foreign_page(headers: Iterable[tuple[str, str]], *, loopback: bool) -> str:
    """Why a request comes from a page that is not the server's own; empty if it does not, as without a browser.
    headers: names in lower case. loopback: whether the server listens on this machine only, so that other names in Host
    are rebound ones; any port is a tunnel's, and Origin has to have the same.
    """
    sent: dict[str, set[str]] = {"host": set(), "origin": set(), "sec-fetch-site": set()}
    for name, value in headers:
        if name in sent:
            sent[name].add(value.strip().lower())
    if len(sent["host"]) > 1:
        return "it names several hosts"
    host = next(iter(sent["host"]), "")
    if loopback and sent["host"] and not is_loopback(_name_of(host)):
        return f"the host {host!r:.80} is not localhost, 127.0.0.1 or ::1"
    for origin in sent["origin"] - {f"http://{host}", f"https://{host}"}:
        return f"it comes from the web page {origin!r:.80}"
    for site in sent["sec-fetch-site"] - {"none", "same-origin"}:
        return f"it comes from another web page (Sec-Fetch-Site: {site!r:.40})"
    return ""


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
