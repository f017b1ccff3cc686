"""docs/metrics.md, and the files of examples/monitoring: they name metrics and labels that a server
has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infuse.serving.config import ServerConfig
from infuse.serving.control.reading import convert
from infuse.serving.control.telemetry.families import READINGS, TRITON, VERSION

pytestmark = pytest.mark.row("S6")
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "monitoring"
PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")
FAMILIES = {**TRITON, **VERSION, **READINGS}
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (\S+) \| (.+?) \| (.+) \|$", re.M)
OUTER = {"instance", "job"}  # labels that Prometheus adds


def series() -> dict[str, set[str]]:
    """The labels of every series of the page, by its name there."""
    result: dict[str, set[str]] = {}
    for name, family in FAMILIES.items():
        labels = set(family.labels)
        if family.kind == "histogram":
            result |= {f"{name}_{end}": labels for end in ("count", "sum")}
            result[f"{name}_bucket"] = labels | {"le"}
        else:
            result[f"{name}_total" if family.kind == "counter" else name] = labels
    return result


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    return content


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


def test_the_page_has_all_metrics_with_kinds_labels_and_meanings() -> None:
    found = {name: (kind, labels, help) for name, kind, _, labels, help in ROW.findall(PAGE)}
    expected = {}
    for name, family in FAMILIES.items():
        shown = f"{name}_total" if family.kind == "counter" else name
        labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
        kind = "counter" if family.kind == "unknown" else family.kind
        expected[shown] = (kind, labels, family.help)
    assert found == expected


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_expressions_name_what_a_server_has(where: str, expression: str) -> None:
    known = series()
    names = set(re.findall(r"\b(?:infuse|nv)_\w+", expression))
    assert names or "up{" in expression, where
    assert names <= known.keys()
    labels: set[str] = set().union(OUTER, *(known[name] for name in names))
    for inner in re.findall(r"\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*[=!]", inner)) <= labels
    for inner in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {label.strip() for label in inner.split(",")} <= labels
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)
    for name in names:  # rates are of what only grows, levels are of what does not
        family = next(
            FAMILIES[each]
            for each in (name, re.sub(r"_(total|bucket|count|sum)$", "", name))
            if each in FAMILIES
        )
        is_rate = re.search(rf"(rate|increase)\({name}\b", expression) is not None
        assert is_rate == (family.kind != "gauge"), name


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    content = dashboard()
    assert {"title", "uid", "schemaVersion", "templating", "panels"} <= content.keys()
    numbers = [panel["id"] for panel in content["panels"]]
    assert len(set(numbers)) == len(numbers)
    places = [tuple(panel["gridPos"][axis] for axis in "xy") for panel in content["panels"]]
    assert len(set(places)) == len(places)
    variables = {variable["name"] for variable in content["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(content["panels"])))
    assert {name for name in used if not name.startswith("__")} == variables
    for panel in content["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            inner = re.search(r"\bby \(([^)]*)\)", target["expr"])
            assert named <= {part.strip() for part in inner[1].split(",")} if inner else not named


def test_alerts_are_whole() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_prometheus_finds_the_container() -> None:
    content = yaml.safe_load((FOLDER / "prometheus.yaml").read_text("utf-8"))
    assert [(FOLDER / name).is_file() for name in content["rule_files"]] == [True]
    (job,) = content["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    settings = convert(
        ServerConfig,
        yaml.safe_load((ROOT / "examples/container/server.yaml").read_text("utf-8")),
        "server.yaml",
    )
    compose = yaml.safe_load((ROOT / "examples/container/compose.yaml").read_text("utf-8"))
    (name,) = compose["services"]
    assert job["static_configs"] == [{"targets": [f"{name}:{settings.admin.port}"]}]
    assert settings.admin.host == "0.0.0.0"
    assert "event" in READINGS["infuse_events"].labels
