"""Takes one hostile model from file to answer, as a process of its own: 0: a right answer, 1: an
error of ours.
"""

import resource
import sys

MEMORY = 2 << 30
SECONDS = 30


def main(path: str) -> int:
    """Load, optimize, compile and run the model, and hold small answers against the
    interpreter's.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    import numpy as np

    import infuse
    from infuse.ops.core.evaluate import evaluate

    try:
        graph = infuse.load(path)
        rng = np.random.default_rng(0)
        feeds = {}
        for value in graph.inputs:
            shape = [size if isinstance(size, int) else 2 for size in value.tensor.shape or ()]
            feeds[value.name] = rng.uniform(-1, 1, shape).astype(value.dtype.numpy)
        with infuse.compile(infuse.optimize(graph), infuse.CompileOptions(threads=1)) as model:
            answers = model.run(feeds)
        if sum(answer.size for answer in answers.values()) > 10**5:
            return 0
        try:
            expected = evaluate(graph, feeds)
        except infuse.InfuseError as error:
            print(f"the interpreter cannot: {error}", file=sys.stderr)
            return 0
        for name, answer in answers.items():
            np.testing.assert_allclose(answer, expected[name], rtol=1e-4, atol=1e-5)
    except infuse.InfuseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
