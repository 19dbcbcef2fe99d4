"""A real S3 server in this process, which can stop obeying in the middle, as for a client that is killed there."""

import logging
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

CHANGING = ("PUT", "POST", "DELETE")
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip


class Store:
    """The server, which counts ``changes``, requests that change something.

    After ``left`` more of them it refuses them; None: it refuses none.
    """

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self.left: int | None = None
        self.changes = 0
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in CHANGING:
            if self.left is not None:
                if self.left <= 0:
                    start("403 Forbidden", [("Content-Length", "0")])
                    return []
                self.left -= 1
            self.changes += 1
        return self._app(environ, start)

    def url(self, path: str) -> str:
        """The URL of a directory for the pipeline."""
        where = f"endpoint_override=127.0.0.1:{self._server.server_port}&scheme=http&region=us-east-1"
        return f"s3a://{path}?{where}&allow_bucket_creation=true"

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
