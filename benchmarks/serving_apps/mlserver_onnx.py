"""ONNX Runtime in MLServer, which brings no runtime for it: the class that its settings name."""

from __future__ import annotations

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OnnxModel(MLModel):
    """`parameters`: `uri` of the model, `threads` of a run, `output` that is answered."""

    async def load(self) -> bool:
        """Open the model."""
        extra = self.settings.parameters.extra
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = extra["threads"]
        uri = self.settings.parameters.uri
        self.session = onnxruntime.InferenceSession(
            uri, options, providers=["CPUExecutionProvider"]
        )
        self.output = extra["output"]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The answer of the model."""
        feeds = {tensor.name: NumpyCodec.decode_input(tensor) for tensor in payload.inputs}
        (found,) = self.session.run([self.output], feeds)
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(self.output, found)]
        )
