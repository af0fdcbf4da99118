#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A server that accepts only requests of Pyroscope's ingest protocol.

The server writes its port to the file "port". It writes each accepted profile to
NUMBER.pb.gz and the request's parameters to NUMBER.json. The file "refused" has refused
requests with the reason. If the file "answer" exists, the server answers with the status
in the file, with its second word as Location, and repeats the token. If "answer" has the word
"nonsense", the answer is not HTTP; for "drops" the answer is one byte every 0.1 s, without an
end.
"""
import contextlib
import email.parser
import email.policy
import gzip
import http.server
import json
import os
import re
import time
import urllib.parse

PARAMETERS = {"name", "from", "until", "format", "sampleRate", "spyName", "units",
              "aggregationType"}
TYPE_KEYS = {"units": str, "display-name": str, "aggregation": str, "cumulative": bool,
             "sampled": bool}
LABEL = r"[A-Za-z_][A-Za-z0-9_.]*=[A-Za-z0-9._-]+"
NAME = re.compile(r"[A-Za-z0-9._-]+\{(?:%s(?:,%s)*)?\}" % (LABEL, LABEL))


def fields(data):
    """[(number, value)] of a message in protobuf: numbers, and bytes."""
    def varint(at):
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n, at

    found, at = [], 0
    while at < len(data):
        key, at = varint(at)
        assert key & 7 in (0, 2), f"wire type {key & 7}"
        value, at = varint(at)
        if key & 7 == 2:
            assert at + value <= len(data), "a message is cut"
            value, at = data[at:at + value], at + value
        found.append((key >> 3, value))
    return found


def sample_types(profile):
    """The profile's [(type, unit)]; each sample must have as many values."""
    found = fields(gzip.decompress(profile))
    strings = [value.decode() for number, value in found if number == 6]
    types = [[strings[n] for _, n in fields(value)] for number, value in found if number == 1]
    samples = [dict(fields(value)) for number, value in found if number == 2]
    assert samples, "no samples"
    for sample in samples:
        # Packed varints: each ends with a byte below 128.
        assert sum(byte < 128 for byte in sample[2]) == len(types), "number of values"
    return types


def parts_of(content_type, body):
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(
        b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    assert message.is_multipart() and not message.defects, "no multipart/form-data"
    found = {}
    for part in message.iter_parts():
        assert part.get_content_disposition() == "form-data" and part.get_filename(), \
            "a part is no file"
        found[part.get_param("name", header="content-disposition")] = \
            part.get_payload(decode=True)
    return found


def check(path, headers, body):
    """The request's parameters and profile; raises AssertionError, ValueError or KeyError
    for a malformed request."""
    parts = urllib.parse.urlsplit(path)
    assert parts.path == "/ingest", "path"
    query = dict(urllib.parse.parse_qsl(parts.query, strict_parsing=True))
    assert set(query) <= PARAMETERS, "parameters"
    assert NAME.fullmatch(query["name"]), "name"
    assert 10**9 < int(query["from"]) < int(query["until"]) < 10**10, "from and until"
    assert query["format"] == "pprof" and int(query["sampleRate"]) > 0, "format"
    assert headers["Content-Type"].startswith("multipart/form-data; boundary="), "type"
    found = parts_of(headers["Content-Type"], body)
    assert set(found) <= {"profile", "prev_profile", "sample_type_config"}, "files"
    types = sample_types(found["profile"])
    config = json.loads(found["sample_type_config"])
    assert set(config) == {name for name, _ in types}, "sample types"
    for entry in config.values():
        assert all(isinstance(v, TYPE_KEYS[k]) for k, v in entry.items()), "sample type"
        assert entry.get("aggregation") in (None, "sum", "average"), "aggregation"
    return query, found["profile"]


class Handler(http.server.BaseHTTPRequestHandler):
    taken = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        with open("refused", "a") as f:
            f.write(f"GET {self.path}\n")
        self.send_error(405)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if os.path.exists("answer"):
            with open("answer") as f:
                words = f.read().split()
            if words[0] == "nonsense":
                self.wfile.write(b"\x1b[2J nonsense\r\n\r\n")
                return
            if words[0] == "drops":
                with contextlib.suppress(OSError):
                    while True:
                        self.wfile.write(b"H")
                        time.sleep(0.1)
                return
            self.send_response(int(words[0]))
            if words[1:]:
                self.send_header("Location", words[1])
            self.end_headers()
            self.wfile.write(f"not from you, {self.headers['Authorization']}".encode())
            return
        try:
            query, profile = check(self.path, self.headers, body)
        except (AssertionError, ValueError, KeyError, TypeError, IndexError) as error:
            with open("refused", "a") as f:
                f.write(f"{self.path}: {type(error).__name__}: {error}\n")
            self.send_error(400, str(error))
            return
        with open(f"{Handler.taken}.pb.gz", "wb") as f:
            f.write(profile)
        with open(f"{Handler.taken}.json", "w") as f:
            json.dump({**query, "tenant": self.headers["X-Scope-OrgID"],
                       "authorization": self.headers["Authorization"]}, f)
        Handler.taken += 1
        self.send_response(200)
        self.end_headers()


if __name__ == "__main__":
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        with open("port.new", "w") as f:
            f.write(str(server.server_port))
        os.rename("port.new", "port")
        server.serve_forever()
