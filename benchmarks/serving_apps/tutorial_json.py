"""ONNX Runtime behind FastAPI as tutorials write it: nested lists in, nested lists out."""

import os

import numpy as np
import onnxruntime
from fastapi import FastAPI
from pydantic import BaseModel

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(os.environ["THREADS"])
session = onnxruntime.InferenceSession(
    os.environ["MODEL"], options, providers=["CPUExecutionProvider"]
)
output = os.environ["OUTPUT"]
dtypes = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
inputs = {value.name: dtypes[value.type] for value in session.get_inputs()}
app = FastAPI()


class Request(BaseModel):
    """Nested lists by input name."""

    inputs: dict[str, list]


@app.get("/ready")
def ready() -> bool:
    """Whether it serves."""
    return True


@app.post("/predict")
def predict(request: Request) -> dict[str, list]:
    """The answer of the model."""
    feeds = {name: np.array(request.inputs[name], dtype) for name, dtype in inputs.items()}
    return {output: session.run([output], feeds)[0].tolist()}
