"""The published Python client against felixd --dev, unmodified."""

import pathlib
import re
import signal
import subprocess
import sys
import time

import felix
import pytest

from conftest import NAMESPACE, TENANT

FRAME_LIMIT = 16 * 1024 * 1024


def publish(client, stream, payload, **kw):
    return client.publish(TENANT, NAMESPACE, stream, payload, **kw)


def subscribe(client, stream, **kw):
    return client.subscribe(TENANT, NAMESPACE, stream, **kw)


def take(sub, n, timeout=20):
    out = []
    for _ in range(n):
        event = sub.next_event(timeout=timeout)
        assert event is not None, f"only {len(out)} of {n} events arrived"
        out.append(event)
    return out


# --- connecting -----------------------------------------------------------


def test_three_lines_are_all_a_user_needs(daemon):
    """Address, CA file and token file as printed are enough to connect."""
    text = daemon.stdout_path.read_text()
    addr = re.search(r"\b127\.0\.0\.1:\d+\b", text).group(0)
    ca = re.search(r"\S+\.pem\b", text).group(0)
    token = next(w for w in text.split() if w.startswith("/") and pathlib.Path(w).name == "token")
    with felix.Client(addr, tenant_id=TENANT, token=pathlib.Path(token).read_text().strip(), ca_file=ca) as c:
        c.cache_put(TENANT, NAMESPACE, "c", "three-lines", b"1")
        assert c.cache_get(TENANT, NAMESPACE, "c", "three-lines") == b"1"


@pytest.mark.parametrize("alpn", [False, True])
def test_connects_with_and_without_alpn(daemon, stream, alpn):
    with daemon.connect(offer_alpn=alpn) as c, subscribe(c, stream) as sub:
        publish(c, stream, b"hello")
        assert take(sub, 1)[0].payload == b"hello"


def test_wrong_token_is_refused_and_named(daemon):
    with pytest.raises(felix.AuthError):
        with daemon.connect(token="not-a-token") as c:
            publish(c, "s", b"x")


def test_wrong_tenant_is_refused_and_named(daemon):
    with pytest.raises(felix.AuthError):
        with daemon.connect(tenant_id="t2") as c:
            c.publish("t2", NAMESPACE, "s", b"x")


def test_failed_handshakes_do_not_end_the_listener(daemon, tmp_path, client, stream):
    """F33: clients that do not trust the certificate come and go; others notice nothing."""
    other_ca = tmp_path / "other.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=other",
         "-keyout", str(tmp_path / "k.pem"), "-out", str(other_ca)],
        check=True, capture_output=True,
    )
    for _ in range(5):
        with pytest.raises(felix.FelixError):
            with daemon.connect(ca_file=str(other_ca)) as c:
                publish(c, stream, b"x")
    with subscribe(client, stream) as sub:
        publish(client, stream, b"still here")
        assert take(sub, 1)[0].payload == b"still here"


# --- publishing -----------------------------------------------------------


@pytest.mark.parametrize("ack", ["none", "per_message", "per_batch"])
def test_publish_with_every_ack_mode(client, stream, ack):
    with subscribe(client, stream) as sub:
        for i in range(50):
            publish(client, stream, b"m%d" % i, ack=ack)
        assert [e.payload for e in take(sub, 50)] == [b"m%d" % i for i in range(50)]


@pytest.mark.parametrize("ack", ["none", "per_message", "per_batch"])
def test_publish_with_a_key(client, stream, ack):
    with subscribe(client, stream) as sub:
        publish(client, stream, b"keyed", key=b"customer-7", ack=ack)
        publish(client, stream, b"empty key", key=b"", ack=ack)
        assert [e.payload for e in take(sub, 2)] == [b"keyed", b"empty key"]


def test_publish_empty_payload(client, stream):
    with subscribe(client, stream) as sub:
        publish(client, stream, b"")
        assert take(sub, 1)[0].payload == b""


def test_publish_8_mb(client, stream):
    payload = bytes(range(256)) * (8_000_000 // 256)
    with subscribe(client, stream) as sub:
        publish(client, stream, payload)
        assert take(sub, 1)[0].payload == payload


def test_publish_over_the_limit_says_why(client, stream):
    """F35: the error names the limit instead of a bare 'stopped by peer'."""
    with pytest.raises(felix.FelixError) as refused:
        publish(client, stream, b"x" * 20_000_000)
    assert str(FRAME_LIMIT) in str(refused.value), str(refused.value)
    # Nobody else is affected, and neither is this client's next publish.
    with subscribe(client, stream) as sub:
        publish(client, stream, b"after")
        assert take(sub, 1)[0].payload == b"after"


def test_20000_publishes_to_a_live_reader_lose_nothing(daemon, client, stream):
    """F34 with the default settings of both sides.

    The reader is a process of its own. In one process the two threads take
    turns at the interpreter lock, and the client's own queue of 256 events
    overflows while the reader waits for its turn, which no broker can see.
    """
    total = 20_000
    with Reader(daemon, stream) as reader:
        for i in range(total):
            publish(client, stream, b"%d" % i)
        seen = reader.take(total)
    assert len(seen) == total, f"{len(seen)} of {total} arrived"
    assert seen == [b"%d" % i for i in range(total)]


class Reader:
    """A subscriber in a process of its own, ready when the block is entered."""

    def __init__(self, daemon, stream):
        e = daemon.endpoint
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("reader.py")),
             e["addr"], e["ca_file"], e["token_file"], TENANT, NAMESPACE, stream],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def __enter__(self):
        assert self.process.stdout.readline() == "ready\n"
        return self

    def take(self, n):
        """Up to n payloads: fewer when the reader waited 20 s for the next one."""
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.close()
        return [bytes.fromhex(line) for line in self.process.stdout.read().split()]

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


# --- subscribing ----------------------------------------------------------


def test_subscribe_latest_sees_only_what_follows(client, stream):
    publish(client, stream, b"before")
    with subscribe(client, stream, start="latest") as sub:
        publish(client, stream, b"after")
        assert take(sub, 1)[0].payload == b"after"


def test_subscribe_earliest_and_offset(client, stream):
    for i in range(10):
        publish(client, stream, b"%d" % i)
    with subscribe(client, stream, start="earliest") as sub:
        events = take(sub, 10)
        assert [e.payload for e in events] == [b"%d" % i for i in range(10)]
        assert [e.offset for e in events] == list(range(10))
    with subscribe(client, stream, start=7) as sub:
        assert [e.payload for e in take(sub, 3)] == [b"7", b"8", b"9"]
        publish(client, stream, b"live")
        assert take(sub, 1)[0].payload == b"live"


def test_subscribe_past_the_end(client, stream):
    publish(client, stream, b"only one")
    with pytest.raises(felix.CursorError):
        subscribe(client, stream, start=1000)


def test_unknown_stream_and_namespace(daemon):
    with daemon.connect() as c:
        with pytest.raises(felix.NotFoundError):
            c.publish(TENANT, "no-such-namespace", "s", b"x")
        with pytest.raises(felix.NotFoundError):
            c.subscribe(TENANT, "no-such-namespace", "s")


# --- cache ----------------------------------------------------------------


def test_cache_put_get_and_miss(client):
    client.cache_put(TENANT, NAMESPACE, "c", "k", b"v")
    assert client.cache_get(TENANT, NAMESPACE, "c", "k") == b"v"
    client.cache_put(TENANT, NAMESPACE, "c", "empty", b"")
    assert client.cache_get(TENANT, NAMESPACE, "c", "empty") == b""
    assert client.cache_get(TENANT, NAMESPACE, "c", "missing") is None


def test_cache_ttl(client):
    client.cache_put(TENANT, NAMESPACE, "c", "short", b"v", ttl=0.3)
    assert client.cache_get(TENANT, NAMESPACE, "c", "short") == b"v"
    deadline = time.monotonic() + 5
    while client.cache_get(TENANT, NAMESPACE, "c", "short") is not None:
        assert time.monotonic() < deadline, "the entry outlived its TTL by seconds"
        time.sleep(0.05)


def test_unknown_cache(client):
    with pytest.raises(felix.NotFoundError):
        client.cache_get(TENANT, "no-such-namespace", "c", "k")


# --- restarts -------------------------------------------------------------


def retried(call, within):
    """The first success of call within so many seconds, and how long it took."""
    start = time.monotonic()
    while True:
        try:
            call()
            return time.monotonic() - start
        except felix.FelixError:
            if time.monotonic() - start > within:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_restart_under_a_connected_client(own_daemon, how):
    """F36: same certificate, same reset key: the client is back without a new file."""
    ca_before = pathlib.Path(own_daemon.endpoint["ca_file"]).read_bytes()
    with own_daemon.connect() as c:
        publish(c, "restart", b"before")
        own_daemon.stop(how)
        own_daemon.start()
        assert pathlib.Path(own_daemon.endpoint["ca_file"]).read_bytes() == ca_before
        took = retried(lambda: publish(c, "restart", b"after"), within=10)
        assert took < 5, f"{took:.1f} s until the client was back"
        with subscribe(c, "restart", start="earliest") as sub:
            assert take(sub, 1)[0].payload == b"after"
