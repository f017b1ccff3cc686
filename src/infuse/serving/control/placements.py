"""Where models run, for people and for `GET /v2/placement`: cores, memory, workers, instances, what
would move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypedDict

from infuse.serving.control.version import Version
from infuse.serving.messages import JSON, JsonObject
from infuse.serving.workers.pool import WorkerDescription, WorkerPool
from infuse.serving.workers.process_executor import ProcessExecutor
from infuse.serving.workers.replicas import Replica


class PlacementDescription(TypedDict):
    """The placement as JSON has it. Loads are busy cores in the mean of the last half minute."""

    mode: str
    isolation: str
    cores: list[int]
    memory: JsonObject
    groups: Sequence[JsonObject]
    workers: list[WorkerDescription]
    lost_workers: int
    instances: Sequence[JsonObject]
    plan: JsonObject


def describe(pool: WorkerPool, versions: Iterable[Version]) -> PlacementDescription:
    """The whole placement."""
    instances = [entry for version in versions for entry in _instances(version)]
    return {
        "mode": pool.config.mode,
        "isolation": pool.config.isolation,
        "cores": list(pool.cores),
        "memory": {"limit_bytes": pool.budget.limit, "taken_bytes": pool.taken()},
        "groups": _groups(pool),
        "workers": pool.describe(),
        "lost_workers": pool.lost,
        "instances": instances,
        "plan": _plan(pool),
    }


def _instances(version: Version) -> list[dict[str, JSON]]:
    replicas = list(version.instances)
    rates = [_recent(replica)[0] for replica in replicas]
    total = sum(rates)
    throughput = version.statistics.recent().throughput
    return [
        {
            "model": version.name,
            "version": version.number,
            "replica": number,
            **_placed(replica),
            "milliseconds_by_rows": {
                str(rows): seconds * 1e3 for rows, seconds in version.times.items()
            },
            "runs_per_second": rate,
            "requests_per_second": throughput * rate / total if total else 0.0,
            "busy": _recent(replica)[1],
            "weights_bytes": version.weights_bytes,
            "tier": version.tier,
            "own_bytes": replica.own_bytes,
            "restarts": replica.restarts,
            "moves": replica.moves,
        }
        for number, (replica, rate) in enumerate(zip(replicas, rates), 1)
    ]


def _placed(replica: Replica) -> dict[str, JSON]:
    executor = replica.executor
    return {
        "group": replica.group.name if replica.group is not None else "",
        "worker": executor.worker.name if isinstance(executor, ProcessExecutor) else "",
        "threads": replica.need.threads,
        "state": replica.state,
        "reason": replica.reason,
    }


def _recent(replica: Replica) -> tuple[float, float]:
    return replica.executor.load.recent() if replica.executor is not None else (0.0, 0.0)


def _groups(pool: WorkerPool) -> list[dict[str, JSON]]:
    """Groups of cores with their load (that of replicas on all cores, by share, is part of it) and
    memory.
    """
    loads = pool.balancer.loads()
    memory = pool.memory()
    groups: list[dict[str, JSON]] = []
    for group, load in zip(pool.groups, loads):
        worker = group.worker
        groups.append(
            {
                "name": group.name,
                "cores": list(group.cores),
                "worker": worker.name if worker is not None else "",
                "load": load,
                "load_per_core": load / len(group.cores),
                "own_bytes": memory[worker.name].own
                if worker is not None and worker.name in memory
                else 0,
            }
        )
    return groups


def _plan(pool: WorkerPool) -> JsonObject:
    """What would be moved now, and why, or why nothing is."""
    plan = pool.balancer.plan()
    if plan is None:
        return {"moves": [], "reason": "each replica has a worker of its own"}
    replicas = {id(replica): replica for replica in pool.replicas}
    moves: list[JsonObject] = []
    for name in plan.moves:
        replica = replicas.get(name) if isinstance(name, int) else None
        if replica is not None and replica.group is not None:
            to = pool.groups[plan.places[name]].name
            moves.append({"instance": replica.need.name, "from": replica.group.name, "to": to})
    if moves:
        reason = f"the highest load per core falls from {plan.before:.2f} to {plan.after:.2f}"
    else:
        reason = (
            f"no other placement lowers the highest load per core, {plan.before:.2f}, by a fifth"
        )
    return {"moves": moves, "reason": reason, "load_per_core": plan.before, "after": plan.after}
