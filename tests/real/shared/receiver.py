# SPDX-License-Identifier: MIT
"""An HTTP server that keeps what is posted to it, and answers as a test says."""
import http.server
import os
import threading


class Receiver:
    """A receiver on 127.0.0.1. REPLIES are (status, headers, body), one for each request; the last one repeats. An
    Exception as a reply closes the connection; a function gets the path and the body, and returns the reply. A function
    as the body gets the stream to write it to, and its end closes the connection."""

    def __init__(self, *replies, tls=None):
        self.replies, self.requests = list(replies) or [(200, {}, b"")], []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.requests.append((self.path, dict(self.headers), body))
                reply = server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]
                if callable(reply):
                    reply = reply(self.path, body)
                if isinstance(reply, Exception):
                    self.close_connection = True
                    return
                status, headers, text = reply
                self.send_response(status)
                if not callable(text):
                    headers = {"Content-Length": len(text), **headers}
                for name, value in headers.items():
                    self.send_header(name, str(value))
                self.end_headers()
                if not callable(text):
                    self.wfile.write(text)
                    return
                text(self.wfile)
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None  # a client that does not trust the certificate
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, protocol="", scheme="http", host="127.0.0.1"):
        return f"{protocol}{scheme}://{host}:{self.port}"


def environment(**more):
    """This process' environment without what `sonde push` reads, and with MORE."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OTEL_", "SONDE_PUSH", "SSL_CERT")) and "proxy" not in name.lower()}
    return {**kept, **more}
