"""The node of examples/ros, built with the packages of Debian, between a master and a client."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.options import BindOptions, CompileOptions
from infuse.runtime.folder import WEIGHTS
from tests.native.binding_tools import done

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "tests" / "models" / "data" / "digits.onnx"
TOOLS = ("rosmaster", "cmake", "c++")
LACKING = [each for each in TOOLS if shutil.which(each) is None]
LACKING += [] if Path("/usr/include/std_msgs/Float32MultiArray.h").exists() else ["libstd-msgs-dev"]
LACKING += [] if Path("/usr/include/ros/ros.h").exists() else ["libroscpp-dev"]
pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.full,
    pytest.mark.skipif(bool(LACKING), reason=f"no {', '.join(LACKING)}: ROS is not tested"),
]


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_node_of_ros_runs_a_model(tmp_path: Path) -> None:
    graph = infuse.optimize(infuse.load(DIGITS))
    infuse.compile(graph, CompileOptions(threads=1), output=tmp_path / "model").close()
    infuse.bind(tmp_path / "model", tmp_path / "digits", BindOptions("cpp", "digits"))
    example = str(ROOT / "examples" / "ros")
    done(["cmake", "-S", example, "-B", "build", f"-DMODEL={tmp_path / 'digits'}"], tmp_path)
    done(["cmake", "--build", "build"], tmp_path)
    client = str(Path(__file__).with_name("bindings") / "ros_client.cpp")
    libraries = ("-lroscpp", "-lrosconsole", "-lroscpp_serialization", "-lrostime")
    done(["c++", "-std=c++17", client, *libraries, "-o", "client"], tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = {"ROS_MASTER_URI": f"http://127.0.0.1:{port}", "ROS_IP": "127.0.0.1"}
    environment = {**os.environ, **names, "ROS_HOME": str(tmp_path)}
    weights = tmp_path / "digits" / WEIGHTS
    node = [str(tmp_path / "build" / "node"), f"_weights:={weights}"]
    with ExitStack() as stack:
        stack.enter_context(running(["rosmaster", "--core", "-p", str(port)], environment))
        stack.enter_context(running(node, environment))
        text = done([str(tmp_path / "client")], tmp_path, ROS_HOME=str(tmp_path), **names)
    session = onnxruntime.InferenceSession(DIGITS)
    (expected,) = session.run(None, {"image": np.full((1, 1, 8, 8), 0.5, np.float32)})
    (line,) = (each for each in text.splitlines() if each.startswith("logits:"))
    scores = [float(number) for number in line.split()[1:]]
    np.testing.assert_allclose(scores, expected[0], rtol=1e-3, atol=1e-4)
