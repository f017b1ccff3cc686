"""Statistics and metrics under many callers: does a counter ever fall, or a page of them fail?

`python -m benchmarks.serving_counters [--minutes 10] [--callers 24]`

Callers ask over HTTP and gRPC without a pause, some for what the model refuses, some with a
deadline that has no time. Meanwhile ModelStatistics is called over gRPC and HTTP, and the page of
metrics is read, each again and again: every number of them that counts (all of ModelStatistics, the
counters and the buckets, sums and counts of histograms on the page) is compared with the one
before. Exit status 1 where one fell, was negative, or a page was no page.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import tritonclient.grpc as triton
from google.protobuf.json_format import MessageToDict
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from benchmarks.serving_process import HOST, Ports, infuse_server
from tests.serving.models import adder

_PAUSE: Final = 0.02
"""Seconds between two looks at one page."""
Numbers = dict[str, float]


def _over_http(ports: Ports) -> Iterator[str]:
    """What becomes of requests, one after the other."""
    connection = http.client.HTTPConnection(HOST, ports.http, timeout=60)
    for turn in itertools.count():
        rows = turn % 4 + 1
        width = 3 if turn % 50 == 49 else 4  # the model has four columns
        tensor = {"name": "x", "shape": [rows, width], "datatype": "FP32"}
        body: dict[str, Any] = {"inputs": [{**tensor, "data": [1.0] * (rows * width)}]}
        if turn % 20 == 19:
            body["parameters"] = {"timeout": 1}
        connection.request("POST", "/v2/models/adder/infer", json.dumps(body))
        answer = connection.getresponse()
        answer.read()
        yield str(answer.status)


def _over_grpc(ports: Ports) -> Iterator[str]:
    client = triton.InferenceServerClient(f"{HOST}:{ports.grpc}")
    for turn in itertools.count():
        rows = turn % 4 + 1
        tensor = triton.InferInput("x", [rows, 4], "FP32")
        tensor.set_data_from_numpy(np.ones((rows, 4), np.float32))
        try:
            client.infer("adder", [tensor], timeout=1 if turn % 20 == 19 else None)
        except InferenceServerException as error:
            yield str(error.status())
        else:
            yield "OK"


def _flat(value: Any, name: str) -> Iterator[tuple[str, float]]:
    """All numbers of a JSON value, by their places; statistics of batches by the batch's size."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            size = item.get("batch_size", place) if isinstance(item, Mapping) else place
            yield from _flat(item, f"{name}[{size}]")
    elif not isinstance(value, bool):
        try:
            yield name, float(value)
        except (TypeError, ValueError):
            return  # a text


def _rpc_statistics(ports: Ports) -> Callable[[], Numbers]:
    client = triton.InferenceServerClient(f"{HOST}:{ports.grpc}")

    def look() -> Numbers:
        given = client.get_inference_statistics("adder")
        return dict(_flat(MessageToDict(given, preserving_proto_field_name=True), "grpc"))

    return look


def _page(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != http.client.OK:
            raise ValueError(f"{path}: {answer.status} {text[:200]!r}")
        return text
    finally:
        connection.close()


def _http_statistics(ports: Ports) -> Callable[[], Numbers]:
    return lambda: dict(_flat(json.loads(_page(ports.http, "/v2/models/adder/stats")), "http"))


def _metrics(ports: Ports) -> Callable[[], Numbers]:
    def look() -> Numbers:
        families = text_string_to_metric_families(_page(ports.other, "/metrics").decode())
        return {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for family in families
            if family.type in ("counter", "histogram")
            for sample in family.samples
            if not sample.name.endswith("_created")
        }

    return look


class Watch:
    """Numbers that may never fall, from look to look."""

    def __init__(self, look: Callable[[], Numbers]) -> None:
        self._look, self._before = look, Numbers()
        self.looks, self.numbers = 0, 0
        self.wrong: list[str] = []

    def until(self, end: float) -> None:
        """Look until the time is over."""
        while time.monotonic() < end:
            try:
                now = self._look()
            except Exception as error:
                self.wrong.append(repr(error))
                continue
            for name, value in now.items():
                if value < self._before.get(name, 0.0):
                    self.wrong.append(f"{name}: {self._before.get(name, 0.0)} → {value}")
            missing = self._before.keys() - now.keys()
            self.wrong += [f"{name} is gone" for name in missing]
            self._before, self.looks, self.numbers = now, self.looks + 1, len(now)
            time.sleep(_PAUSE)


def main() -> int:
    """Ask and look, print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--callers", type=int, default=24)
    options = parser.parse_args()
    answers: Counter[str] = Counter()
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adder.onnx")
        path.write_bytes(adder(1.0))
        with infuse_server({"adder": path}) as ports:
            end = time.monotonic() + options.minutes * 60
            looks = {
                "ModelStatistics": _rpc_statistics,
                "/v2/models/adder/stats": _http_statistics,
                "/metrics": _metrics,
            }
            watches = {name: Watch(look(ports)) for name, look in looks.items()}

            def ask(number: int) -> None:
                own: Counter[str] = Counter()
                for status in (_over_grpc if number % 2 else _over_http)(ports):
                    own[status] += 1
                    if time.monotonic() > end:
                        break
                with lock:
                    answers.update(own)

            threads = [threading.Thread(target=ask, args=(n,)) for n in range(options.callers)]
            threads += [threading.Thread(target=w.until, args=(end,)) for w in watches.values()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    print(", ".join(f"{status}: {count}" for status, count in sorted(answers.items())))
    for name, watch in watches.items():
        print(f"{name}: {watch.looks} looks at {watch.numbers} numbers, {len(watch.wrong)} wrong")
        for text in watch.wrong[:10]:
            print(f"  {text}")
    return int(any(watch.wrong or not watch.looks for watch in watches.values()))


if __name__ == "__main__":
    sys.exit(main())
