"""What comes while a process leaves goes to the one that takes its place."""

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from e2e.serve.running import in_thread
from rhapsode.edge.fleet import POLL_S
from unit.edge.test_edge import LIMITS, Servers, edge_before


def test_a_socket_that_is_caught_while_its_process_leaves_goes_to_the_one_that_takes_its_place(
    tmp_path: Path,
) -> None:
    servers = Servers({})

    class Leaving(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            servers.urls = {"next": replica.url}
            time.sleep(2 * POLL_S)  # until the edge has heard it
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with (
        in_thread("dummy", tmp_path, limits=LIMITS) as replica,
        HTTPServer(("127.0.0.1", 0), Leaving) as leaving,
    ):
        thread = threading.Thread(target=leaving.handle_request)
        thread.start()
        servers.urls = {"leaving": f"http://127.0.0.1:{leaving.server_port}"}
        with edge_before(servers) as edge:
            assert edge.converse("abcd", 2, response_format="pcm", sample_rate=16_000)
        thread.join()
