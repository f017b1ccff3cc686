"""ONNX Runtime behind FastAPI as a careful user writes it: bytes in and out, the model in a thread
of its own.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request, Response

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(os.environ["THREADS"])
session = onnxruntime.InferenceSession(
    os.environ["MODEL"], options, providers=["CPUExecutionProvider"]
)
output = os.environ["OUTPUT"]
dtypes = {"tensor(float)": np.dtype(np.float32), "tensor(int64)": np.dtype(np.int64)}
inputs = {value.name: dtypes[value.type] for value in session.get_inputs()}
pool = ThreadPoolExecutor(int(os.environ["AT_ONCE"]))
app = FastAPI()


def run(body: bytes, shape: tuple[int, ...]) -> bytes:
    """The output for the elements of all inputs, one after the other."""
    feeds, start = {}, 0
    for name, dtype in inputs.items():
        feeds[name] = np.frombuffer(body, dtype, int(np.prod(shape)), start).reshape(shape)
        start += feeds[name].nbytes
    return session.run([output], feeds)[0].tobytes()


@app.get("/ready")
async def ready() -> bool:
    """Whether it serves."""
    return True


@app.post("/predict")
async def predict(request: Request) -> Response:
    """The answer of the model."""
    shape = tuple(map(int, request.headers["x-shape"].split(",")))
    body = await request.body()
    answer = await asyncio.get_running_loop().run_in_executor(pool, run, body, shape)
    return Response(answer, media_type="application/octet-stream")
