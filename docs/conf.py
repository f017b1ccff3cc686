"""The documentation site: `make docs` builds it, `docs/` holds its pages."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.cli import get_docs_for_click
from typer.main import get_command

import infuse
from infuse.cli.main import app

project = "Infuse"
version = release = infuse.__version__
copyright = "The authors of Infuse, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence", "fieldlist"]
html_theme = "furo"
html_title = "Infuse"
html_static_path: list[str] = []
autodoc_typehints = "signature"
default_role = "literal"
autodoc_member_order = "bysource"


class Commands(SphinxDirective):
    """Every command with its arguments and options, as `infuse COMMAND --help` has them."""

    def run(self) -> list[nodes.Node]:
        command = get_command(app)
        context = command.make_context("infuse", [], resilient_parsing=True)
        text = get_docs_for_click(obj=command, ctx=context, name="infuse")
        body = text.partition("**Usage**")[2]
        return self.parse_text_to_nodes(f"**Usage**{body}", allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives of this site known."""
    app.add_directive("infuse-commands", Commands)
    return {"parallel_read_safe": True}
