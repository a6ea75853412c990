"""Starts the real daemon for the published Python client.

Every test talks to `felixd --dev` in a process of its own; nothing here knows
the wire protocol, so what passes is what a Python user gets.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import felix
import pytest

FELIXD = os.environ.get("FELIXD", str(pathlib.Path(__file__).parents[2] / "bin" / "felixd"))
TENANT, NAMESPACE = "t1", "default"


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    """One felixd --dev and what it tells a user on its standard output."""

    def __init__(self, data_dir: pathlib.Path, port: int):
        self.data_dir, self.port = data_dir, port
        self.process: subprocess.Popen | None = None
        self.log_path = data_dir.parent / (data_dir.name + ".log")
        self.stdout_path = data_dir.parent / (data_dir.name + ".out")

    def start(self) -> "Daemon":
        self.process = subprocess.Popen(
            [FELIXD, "--dev", "--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self.port}"],
            stdout=self.stdout_path.open("ab"),
            stderr=self.log_path.open("ab"),
        )
        endpoint = self.data_dir / "endpoint.json"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"felixd ended with {self.process.returncode}:\n{self.log_path.read_text()}")
            if endpoint.exists() and json.loads(endpoint.read_text())["pid"] == self.process.pid:
                return self
            time.sleep(0.02)
        raise AssertionError(f"felixd was not ready in 30 s:\n{self.log_path.read_text()}")

    def stop(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=40)

    @property
    def endpoint(self) -> dict:
        return json.loads((self.data_dir / "endpoint.json").read_text())

    def connect(self, **over) -> felix.Client:
        e = self.endpoint
        args = dict(
            tenant_id=TENANT,
            token=pathlib.Path(e["token_file"]).read_text().strip(),
            ca_file=e["ca_file"],
        )
        args.update(over)
        return felix.Client(e["addr"], **args)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    d = Daemon(tmp_path_factory.mktemp("felix") / "data", free_udp_port()).start()
    yield d
    assert d.stop() == 0, d.log_path.read_text()


@pytest.fixture
def own_daemon(tmp_path):
    """A daemon that the test may kill and restart."""
    d = Daemon(tmp_path / "data", free_udp_port()).start()
    yield d
    d.stop()


@pytest.fixture
def client(daemon):
    with daemon.connect() as c:
        yield c


@pytest.fixture
def stream(request):
    """A stream name that no other test uses; the daemon makes it on first use."""
    return "s-" + request.node.name.replace("[", "-").replace("]", "")
