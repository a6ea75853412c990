"""Subscribes, says so, reads as fast as events come and prints them at the end."""

import pathlib
import sys
import threading

import felix

addr, ca_file, token_file, tenant, namespace, stream = sys.argv[1:]
token = pathlib.Path(token_file).read_text().strip()
seen: list[bytes] = []
wanted = threading.Event()

with felix.Client(addr, tenant_id=tenant, token=token, ca_file=ca_file) as client:
    with client.subscribe(tenant, namespace, stream) as sub:

        def read():
            waited = 0
            while waited < 20 or not wanted.is_set():
                event = sub.next_event(timeout=1)
                if event is None:
                    waited += 1
                    continue
                waited = 0
                seen.append(event.payload)
                if wanted.is_set() and len(seen) >= total:
                    return

        total = 0
        print("ready", flush=True)
        reader = threading.Thread(target=read)
        reader.start()
        total = int(sys.stdin.readline())
        wanted.set()
        while reader.is_alive() and len(seen) < total:
            reader.join(timeout=0.1)
        for payload in seen[:total]:
            print(payload.hex())
        if reader.is_alive():
            sub.close()
            reader.join(timeout=5)
