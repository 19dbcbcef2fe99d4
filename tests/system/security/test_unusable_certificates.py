"""Files of an sslProfile that fail a process which starts while the router runs."""

import os
import signal
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.clients.secured import Credentials, attempt, urls_of
from tests.support.running import Configuration, RunningRouter, roles, until


def test_a_worker_that_starts_while_certificates_are_unusable_serves_the_others(tmp_path: Path) -> None:
    """Its listener with TLS waits for the files, because a renewal has replaced the key and not yet the certificate.

    A rolling restart would leave no worker that serves it.
    """
    authority = Authority(tmp_path)
    mine, renewed = authority.issue("mine", "/CN=localhost"), authority.issue("renewed", "/CN=localhost")
    profile = f"sslProfile {{\n name: p\n certFile: {mine.certificate}\n privateKeyFile: {mine.key}\n}}\n"
    secured = "listener {\n name: secured\n host: 127.0.0.1\n port: 0\n sslProfile: p\n requireSsl: yes\n}\n"
    expected = "how=SIGKILL|Rolling restart refused|listener secured is not served by this worker: .* is not the key"
    router = RunningRouter(tmp_path, Configuration("workers: 1", sections=profile + secured, expected=expected))
    try:
        plain, tls = urls_of(router.output)
        trusting = Credentials(str(authority.certificate))
        assert attempt(tls, trusting).opened
        mine.key.write_bytes(renewed.key.read_bytes())
        os.kill(router.process.pid, signal.SIGUSR1)
        until(lambda: "Rolling restart refused: sslProfile p: privateKeyFile: " in router.log, "the refusal")
        roles(router.process.pid)["worker 0"].kill()
        until(lambda: "listener secured is not served by this worker" in router.log, "the line")
        assert attempt(plain).opened
        mine.certificate.write_bytes(renewed.certificate.read_bytes())
        until(lambda: "listener secured is served by this worker: its certificates can be used" in router.log, "more")
        assert attempt(tls, trusting).opened
        assert router.log.count("worker 0 died") == 1
    finally:
        router.stop()
