# SPDX-License-Identifier: GPL-2.0
"""Sends profiles to a server with Pyroscope's ingest protocol.

POST /ingest?name=APPLICATION{LABEL=VALUE,...}&from=S&until=S&format=pprof, with a body of
multipart/form-data, with the files "profile" (pprof) and "sample_type_config" (JSON):
https://grafana.com/docs/pyroscope/latest/reference-server-api/
"""
import contextlib
import http.client
import json
import re
import secrets
import signal
import urllib.error
import urllib.parse
import urllib.request

from pvperf import text
from pvperf.report.event import unit

# The limits of the server's silence, and of the whole request, in s.
TIMEOUT_S, WHOLE_S = 30, 120


class Refused(Exception):
    """The server has not taken a profile; the text says why."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, so that only the administrator's server gets the token."""

    def redirect_request(self, *_):
        return None


def form(parts):
    """(content type, body) of {name: (file name, bytes)}."""
    boundary = secrets.token_hex(16)
    body = b""
    for name, (file_name, data) in parts.items():
        head = (f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; '
                f'filename="{file_name}"\r\nContent-Type: application/octet-stream\r\n\r\n')
        body += head.encode() + data + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    return f"multipart/form-data; boundary={boundary}", body


def label_value(word):
    return re.sub(r"[^A-Za-z0-9._-]", "_", word)


def address(url, name, labels, meta):
    inside = ",".join(f"{key}={label_value(value)}" for key, value in labels.items())
    return url + "/ingest?" + urllib.parse.urlencode({
        "name": f"{name}{{{inside}}}", "from": int(meta["began"]),
        "until": int(meta["began"] + meta["seconds"]) + 1, "format": "pprof",
        "sampleRate": round(meta["hz"]), "spyName": "pv-perf"})


def types_of(event):
    """The types of the profile's values."""
    return {"samples": {"units": "samples", "aggregation": "sum", "sampled": True},
            event: {"units": unit(event), "aggregation": "sum", "sampled": True}}


@contextlib.contextmanager
def within(seconds):
    """Raises TimeoutError if the block takes longer: a slow server may never be silent."""
    def late(*_):
        raise TimeoutError(f"no end within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def token_of(path):
    """The token in a file.  Messages must not contain the file's text: it may be secret."""
    with open(path, "rb") as f:
        token = f.read(1 << 16).strip()
    if not re.fullmatch(rb"[!-~]+", token):
        raise Refused(f"{path} has no token: a token is one word in one line")
    return token.decode()


def push(options, labels, meta, profile):
    """Sends a profile.  options: the section [push]; profile: bytes for pprof; meta: of the
    profile."""
    content_type, body = form({
        "profile": ("profile.pprof", profile),
        "sample_type_config": ("sample_type_config.json",
                               json.dumps(types_of(meta["event"])).encode())})
    request = urllib.request.Request(
        address(options.url, options.name, labels, meta), data=body, method="POST",
        headers={"Content-Type": content_type, "User-Agent": "pv-perf"})
    if options.tenant:
        request.add_header("X-Scope-OrgID", options.tenant)
    token = None
    try:
        if options.token_file:
            token = token_of(options.token_file)
            request.add_header("Authorization", f"Bearer {token}")
        with within(WHOLE_S):
            send(request, token)
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        raise Refused(text.line(why.encode("utf-8", "replace"))) from None


def send(request, token):
    """Sends a request.  A server's error may repeat the token, which no message may show."""
    try:
        opener = urllib.request.build_opener(NoRedirects)
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            answer.read(1 << 16)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(1 << 16)
        why = text.line((said.replace(token.encode(), b"***") if token else said)[:1000])
        raise Refused(f"status {error.code}: {why}") from None
