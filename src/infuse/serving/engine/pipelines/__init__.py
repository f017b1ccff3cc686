"""Pipelines: models and built-in steps as a graph of named values that runs inside the server.

`plan.py` checks the graph when it is loaded, `graph.py` runs it, `builtins.py` lists the steps that
need no model: reading images, audio and text, and turning scores and embeddings into answers.
"""

from infuse.serving.engine.pipelines.graph import PipelineRunner
from infuse.serving.engine.pipelines.plan import check_nesting

__all__ = ["PipelineRunner", "check_nesting"]
